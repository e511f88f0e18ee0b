"""Why window-ts misses aims on a network: each shift's accuracy, its estimate, and how far the temperature follows it.

    python -m benchmarks.accuracy.window_ts_errors benchmarks/data plain-cnn plain-cnn-10-epochs vgg19-bn

Nothing is chosen with these figures. Writes window_ts_errors.md beside this file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean
from unittest import mock

import numpy as np

from benchmarks.accuracy.accuracy_baselines import ESTIMATORS, CleanSamples
from benchmarks.accuracy.study_data import StudyData
from benchmarks.accuracy.windowed_methods import Fitted, fit_on_simulated
from benchmarks.accuracy.windowed_study import Cases, in_blocks, summarise
from benchmarks.measure import table_head, table_row, write_page
from driftcal.calibrators.windowed import window_ts
from driftcal.metrics import expected_calibration_error

PAGE = Path(__file__).with_suffix(".md")
SIZE, N_BINS, SEEDS = 100, 15, (0, 1, 2)
SUITES = ("in domain", "affine", "affine worst", "corruptions", "corruptions worst", "natural", "simple")
STREAMS = ("Dirichlet(1)", "Dirichlet(0.3)")
_COLUMNS = (
    "accuracy", "estimate", "nuclear norm", "largest class", "confidence, TS", "window-ts", "ECE, TS", "window-ts",
)  # fmt: skip


def shifts(data: StudyData) -> list[str]:
    """A row of each shift: means over the windows of all its levels, and the ECE pooled over them."""
    calibrator = fit_on_simulated("window-ts", data)
    nuclear = ESTIMATORS["nuclear"](CleanSamples(data), SIZE, 0)
    windowed, per_sample = Fitted(calibrator), Fitted(calibrator.per_sample())
    listed = {"clean": ([data.logits("clean")], data.labels("clean"))}
    listed["natural"] = ([data.logits("natural")], data.labels("natural"))
    for suite in ("affine", "corruptions", "simple"):
        for name, levels in data.conditions(f"test/{suite}").items():
            listed[name] = (list(levels.values()), data.labels("test"))
    rows = []
    for name, (conditions, labels) in listed.items():
        order = np.random.default_rng(0).permutation(len(labels))
        shuffled, y = [logits[order] for logits in conditions], labels[order]
        windows = [z[start : start + SIZE] for z in shuffled for start in range(0, len(z) - SIZE + 1, SIZE)]
        estimates = [calibrator.estimate_accuracy(window).accuracy for window in windows]
        p, p_ts = (np.concatenate([in_blocks(f, z, SIZE) for z in shuffled]) for f in (windowed, per_sample))
        truth = np.tile(y, len(shuffled))
        figures = [
            np.mean(np.concatenate(shuffled).argmax(axis=1) == truth),
            fmean(estimates),
            fmean(nuclear(window) for window in windows),
            np.bincount(np.concatenate(shuffled).argmax(axis=1)).max() / len(truth),
            p_ts.max(axis=1).mean(),
            p.max(axis=1).mean(),
            *(expected_calibration_error(truth, each, n_bins=N_BINS) for each in (p_ts, p)),
        ]
        rows.append(table_row([data.network, name, *(f"{figure:.3f}" for figure in figures)]))
    return rows


def evidence(data: StudyData) -> list[str]:
    """Figures of the study with the rule that waits for evidence, and without it."""
    calibrator, rows = Fitted(fit_on_simulated("window-ts", data)), []
    for name, distance in (("with", window_ts.HALF_DISTANCE), ("without", 1e-6)):
        found: list[dict[str, float]] = []
        with mock.patch.object(window_ts, "HALF_DISTANCE", distance):
            for seed in SEEDS:
                cases = Cases(data, seed)
                streams = cases.streams(calibrator, SIZE, windowed=True)
                figures = summarise(cases.evaluate(calibrator, SIZE))
                found.append(figures | {stream: sums.ece for stream, sums in streams.items()})
        means = [fmean(figures[column] for figures in found) for column in (*SUITES, *STREAMS)]
        rows.append(table_row([data.network, name, *(f"{mean:.3f}" for mean in means)]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+")
    options = parser.parse_args()
    networks = [StudyData.load(options.folder / f"{network}.npz") for network in options.networks]
    parts = [
        "# Why window-ts misses aims on a network\n",
        f"`python -m benchmarks.accuracy.window_ts_errors {options.folder} {' '.join(options.networks)}`\n",
        f"Windows of {SIZE}, ECE with {N_BINS} bins. Accuracy, estimate and confidence are means over a shift's levels without the clean "
        "one, and the ECE is pooled over them. `nuclear norm` is another estimate of the accuracy, `largest class` the share of the class "
        "that is predicted most. Nothing was chosen with these figures.\n",
        table_head(["network", "shift", *_COLUMNS]),
        *(row for data in networks for row in shifts(data)),
        "\n## The rule that waits for evidence\n",
        "`window-ts` moves log T half-way where the estimate is one standard error from the accuracy on clean samples. Without the rule "
        "it follows every window. Means over three orders of the images, as in windowed_study.md.\n",
        table_head(["network", "rule", *SUITES, *STREAMS]),
        *(row for data in networks for row in evidence(data)),
    ]
    write_page(PAGE, "\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
