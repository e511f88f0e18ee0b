"""The default for single samples beside TS on the test conditions: differences with paired intervals, Brier score, NLL.

    python -m benchmarks.accuracy.sample_default benchmarks/data resnet20 resnet44 plain-cnn plain-cnn-10-epochs vgg19-bn

The choice was frozen in sample_choice.md. Each seed assigns other parts of the validation images to the simulated shifts.
Writes sample_default.md beside this file; its findings stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.accuracy.study_data import StudyData
from benchmarks.accuracy.windowed_methods import Fitted, Method, methods
from benchmarks.accuracy.windowed_study import figures
from benchmarks.measure import table_head, table_row, write_page
from driftcal.pipeline.tuning.candidates import Selection
from driftcal.pipeline.tuning.tune_calibrators import tune_calibrators

PAGE = Path(__file__).with_suffix(".md")
SUITES = ("in domain", "affine", "corruptions", "natural", "simple")
SEEDS = (0, 1, 2)


def compare(data: StudyData) -> tuple[list[str], list[str]]:
    """The rows of a network: ECE with intervals of the difference to TS, and proper scores."""
    ts, ts_replicates = figures(data, methods()["ts"], [100], [0])
    errors = [table_row([data.network, "TS", *(f"{ts[suite]:.3f}" for suite in SUITES)])]
    scores = [table_row([data.network, "TS", *_proper_scores(ts)])]
    for seed in SEEDS:
        tuned = tune_calibrators(None, Selection(), *data.for_tune(seed=seed))
        method = Method("default", lambda data, size, seed, calibrator=tuned.calibrator: Fitted(calibrator))
        row, replicates = figures(data, method, [100], [0])
        cells = []
        for suite in SUITES:
            low, high = np.quantile(replicates[suite] - ts_replicates[suite], [0.025, 0.975])
            cells.append(f"{row[suite]:.3f} ({low:+.3f} to {high:+.3f})")
        name = f"seed {seed}: {tuned.method.upper()}{'' if tuned.clean_weight is None else f' {tuned.clean_weight:g}'}"
        errors.append(table_row(["", name, *cells]))
        scores.append(table_row(["", name, *_proper_scores(row)]))
    return errors, scores


def _proper_scores(row: dict[str, float]) -> list[str]:
    return [f"{row[f'{suite} brier']:.3f}, {row[f'{suite} nll']:.3f}" for suite in SUITES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+")
    options = parser.parse_args()
    rows = [compare(StudyData.load(options.folder / f"{network}.npz")) for network in options.networks]
    parts = [
        "# The default for single samples beside TS\n",
        f"`python -m benchmarks.accuracy.sample_default benchmarks/data {' '.join(options.networks)}`\n",
        "ECE with 15 bins; affine, corruptions and simple changes: mean over the shifts, each pooled over its levels, as in "
        "windowed_study.md. In brackets: 95 % interval of the difference to TS, a paired bootstrap over images. After the method: the "
        "clean weight. The network is the same for every seed.\n",
        table_head(["network", "calibrator", *SUITES]),
        *(line for errors, _ in rows for line in errors),
        "",
        table_head(["network", "Brier score, NLL", *SUITES]),
        *(line for _, scores in rows for line in scores),
    ]
    write_page(PAGE, "\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
