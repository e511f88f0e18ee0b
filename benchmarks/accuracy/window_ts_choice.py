"""What `window-ts` gives on simulated shifts that were left out of its fit; validation data only.

    python -m benchmarks.accuracy.window_ts_choice benchmarks/data resnet20 resnet44 plain-cnn

It is fitted on half of the validation images without a fourth of the families of shifts, and tested on the other half under
these families, in windows of 100; also on clean windows, with the classes of the data and with class shares drawn from
Dirichlet distributions. ECE has 15 bins; test conditions are not read. Writes window_ts_choice.md beside this file; its findings
stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy.study_data import StudyData
from benchmarks.measure import table_head, table_row, write_page
from driftcal.calibrators.windowed import window_ts
from driftcal.calibrators.windowed.window_ts import WindowedTemperatureScaling
from driftcal.metrics import expected_calibration_error

WINDOW, N_FOLDS, N_SPLITS = 100, 4, 2
#: Images per condition, of half of the validation images.
IMAGES = (250, 100, 50, 25)
#: Values of `HALF_DISTANCE`; with the first one every window is followed.
DISTANCES = (1e-6, 0.75, 1.0)
#: Concentrations of the Dirichlet distributions, and windows drawn from each.
CONCENTRATIONS, N_DRAWS = (1.0, 0.3), 20
#: Name of a suite of windows -> ECE of TS and of window-ts, one pair per condition.
Errors = dict[str, list[tuple[float, float]]]


def fits(data: StudyData, n_images: int, split: int) -> list[tuple[WindowedTemperatureScaling, set[str], np.ndarray]]:
    """For every fold the calibrator, the families that it has not seen, and the images that it has not seen."""
    labels, clean = data.labels("val"), data.logits("val/clean")
    order = np.random.default_rng(split).permutation(len(labels))
    fitted_on, held_out = order[: len(order) // 2], order[len(order) // 2 :]
    families = list(dict.fromkeys(family for family, _ in conditions(data)))
    fitted = []
    for fold in range(N_FOLDS):
        left_out = set(families[fold::N_FOLDS])
        train = [(family, logits) for family, logits in conditions(data) if family not in left_out]
        n_parts = max(1, len(fitted_on) // n_images)
        parts = [fitted_on[k % n_parts * n_images :][:n_images] for k in range(len(train))]
        indices = np.concatenate([fitted_on, *parts])
        calibrator = WindowedTemperatureScaling().fit(
            np.concatenate([clean[fitted_on], *(z[part] for (_, z), part in zip(train, parts, strict=True))]),
            labels[indices],
            levels=np.repeat(np.arange(1 + len(train)), [len(fitted_on), *map(len, parts)]),
            families=["clean", *(family for family, _ in train)],
        )
        fitted.append((calibrator, left_out, held_out))
    return fitted


def conditions(data: StudyData) -> list[tuple[str, np.ndarray]]:
    """Family and logits of every simulated shift and level."""
    return [
        (data.families[shift], logits)
        for shift, by_level in data.conditions("val").items()
        for logits in by_level.values()
        if data.families[shift] != "mixture"
    ]


def errors(data: StudyData, calibrators: Sequence[tuple[WindowedTemperatureScaling, set[str], np.ndarray]]) -> Errors:
    """The errors on the left-out families, each under its name, on clean windows and under other class shares."""
    all_errors: Errors = {"clean": [], "Dirichlet": []}
    labels, clean = data.labels("val"), data.logits("val/clean")
    for calibrator, families, held_out in calibrators:
        y = labels[held_out]
        for family, logits in conditions(data):
            if family in families:
                all_errors.setdefault(family, []).append(pair(calibrator, logits[held_out], y))
        all_errors["clean"].append(pair(calibrator, clean[held_out], y))
        for concentration in CONCENTRATIONS:
            rng = np.random.default_rng(int(10 * concentration))
            shares = [rng.dirichlet(np.full(clean.shape[1], concentration))[y] for _ in range(N_DRAWS)]
            windows = np.concatenate([rng.choice(len(y), WINDOW, p=share / share.sum()) for share in shares])
            all_errors["Dirichlet"].append(pair(calibrator, clean[held_out][windows], y[windows]))
    return all_errors


def pair(calibrator: WindowedTemperatureScaling, logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The ECE of TS and of window-ts."""
    by_form: list[Callable[[np.ndarray], np.ndarray]] = [
        calibrator.predict_proba,
        calibrator.windowed(WINDOW).predict_proba,
    ]
    ts, windowed = (expected_calibration_error(labels, predict(logits)) for predict in by_form)
    return ts, windowed


def row(all_errors: Errors) -> list[str]:
    """TS and window-ts on clean windows, under other class shares, under shift, and the worst difference."""
    shifted = np.array(
        [pair for name, pairs in all_errors.items() if name not in ("clean", "Dirichlet") for pair in pairs]
    )
    means = [np.mean(pairs, axis=0) for pairs in (all_errors["clean"], all_errors["Dirichlet"], shifted)]
    return [*(f"{value:.3f}" for mean in means for value in mean), f"{(shifted[:, 1] - shifted[:, 0]).max():+.3f}"]


COLUMNS = ["clean: TS", "window-ts", "Dirichlet: TS", "window-ts", "shift: TS", "window-ts", "worst window-ts minus TS"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+")
    options = parser.parse_args()
    data = [StudyData.load(options.folder / f"{network}.npz") for network in options.networks]
    families, images, distances = [], [], []
    for network in data:
        for n in IMAGES:
            merged = _merged([errors(network, fits(network, n, split)) for split in range(N_SPLITS)])
            images.append(table_row([network.network, str(n), *row(merged)]))
            if n == IMAGES[0]:
                for family, pairs in merged.items():
                    ts, windowed = np.array(pairs).T
                    cells = f"{ts.mean():.3f}", f"{windowed.mean():.3f}", f"{(windowed - ts).max():+.3f}"
                    families.append(table_row([network.network, family, *cells]))
        calibrators = [fits(network, 100, split) for split in range(N_SPLITS)]
        for distance in DISTANCES:
            window_ts.HALF_DISTANCE = distance
            merged = _merged([errors(network, of_split) for of_split in calibrators])
            distances.append(table_row([network.network, f"{distance:.2g}", *row(merged)]))
        window_ts.HALF_DISTANCE = DISTANCES[-1]
    command_and_method = __doc__.split("\n", 1)[1].strip("\n")
    sections = [
        f"# window-ts on simulated shifts that were left out\n\n{command_and_method}",
        "\n".join(
            [
                "## Families left out\n",
                table_head(["network", "family", "TS", "window-ts", "worst window-ts minus TS"], 2),
                *families,
            ]
        ),
        "\n".join(["## Images per condition\n", table_head(["network", "images", *COLUMNS], 1), *images]),
        "\n".join(
            [
                "## Standard errors from clean at which log T moves half-way\n",
                table_head(["network", "errors", *COLUMNS], 1),
                *distances,
            ]
        ),
    ]
    write_page(Path(__file__).with_suffix(".md"), "\n\n".join(sections) + "\n")


def _merged(parts: Sequence[Errors]) -> Errors:
    return {name: [pair for part in parts for pair in part[name]] for name in parts[0]}


if __name__ == "__main__":
    main()
