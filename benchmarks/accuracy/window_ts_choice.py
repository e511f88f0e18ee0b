"""What `window-ts` gives on simulated shifts that were left out of its fit, and how many images it needs; validation data only.

    python -m benchmarks.accuracy.window_ts_choice benchmarks/data resnet20 > benchmarks/accuracy/window_ts_choice.md

It is fitted on half of the validation images without a fourth of the families of shifts, and tested on the other half under
these families, in windows of 100. Test conditions are not read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.accuracy.study_data import StudyData
from benchmarks.measure import table_head, table_row
from driftcal.calibrators.windowed.window_ts import WindowedTemperatureScaling
from driftcal.metrics import expected_calibration_error

WINDOW, N_FOLDS = 100, 4
#: Images per condition, of half of the validation images.
IMAGES = (250, 100, 50, 25)


def left_out(data: StudyData, n_images: int) -> list[tuple[str, float, float, float]]:
    """Family, ECE of TS, ECE of window-ts, error of the estimated accuracy: one entry per condition that was left out."""
    labels, clean = data.labels("val"), data.logits("val/clean")
    order = np.random.default_rng(0).permutation(len(labels))
    fitted_on, held_out = order[: len(order) // 2], order[len(order) // 2 :]
    conditions = [
        (data.families[shift], logits)
        for shift, by_level in data.conditions("val").items()
        for logits in by_level.values()
        if data.families[shift] != "mixture"
    ]
    families = list(dict.fromkeys(family for family, _ in conditions))
    rows = []
    for fold in range(N_FOLDS):
        test = set(families[fold::N_FOLDS])
        train = [(family, logits) for family, logits in conditions if family not in test]
        n_parts = max(1, len(fitted_on) // n_images)
        parts = [fitted_on[k % n_parts * n_images :][:n_images] for k in range(len(train))]
        indices = np.concatenate([fitted_on, *parts])
        calibrator = WindowedTemperatureScaling().fit(
            np.concatenate([clean[fitted_on], *(z[part] for (_, z), part in zip(train, parts, strict=True))]),
            labels[indices],
            levels=np.repeat(np.arange(1 + len(train)), [len(fitted_on), *map(len, parts)]),
            families=["clean", *(family for family, _ in train)],
        )
        tested = [(family, logits) for family, logits in conditions if family in test]
        for family, logits in [*tested, *([("clean", clean)] if fold == 0 else [])]:
            z, y = logits[held_out], labels[held_out]
            error = calibrator.estimate_accuracy(z).accuracy - float(np.mean(z.argmax(axis=1) == y))
            rows.append(
                (
                    family,
                    expected_calibration_error(y, calibrator.predict_proba(z)),
                    expected_calibration_error(y, calibrator.windowed(WINDOW).predict_proba(z)),
                    error,
                )
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("network")
    options = parser.parse_args()
    data = StudyData.load(options.folder / f"{options.network}.npz")
    all_rows = {n: left_out(data, n) for n in IMAGES}
    print(f"# window-ts on simulated shifts that were left out: {options.network}\n")
    print(
        f"`python -m benchmarks.accuracy.window_ts_choice benchmarks/data {options.network}`; mean ECE of single conditions"
    )
    n_test = len(data.labels("val")) // 2
    print(
        f"(15 bins, windows of 100) on {n_test} validation images; fitted on the others. No test condition is read.\n"
    )
    print(
        "Frozen with these figures: eleven features and their products, penalties 1e-5 to 1 by families left out, windows of"
    )
    print(
        "10, 25, 100 and 500 samples, half of them with natural class shares, a fourth of the shifted ones with clean samples,"
    )
    print(
        "half the weight at 100 samples; log T half-way at 5 samples and at one standard deviation outside the training range.\n"
    )
    print("## Families left out\n")
    print(table_head(["family", "TS", "window-ts", "worst window-ts minus TS", "mean error of the accuracy"]))
    rows = all_rows[IMAGES[0]]
    for family in dict.fromkeys(row[0] for row in rows):
        print(table_row([family, *_figures([row for row in rows if row[0] == family])]))
    print("\n## Images per condition\n")
    print(
        table_head(
            ["images", "TS", "window-ts", "worst window-ts minus TS", "mean error of the accuracy", "clean: window-ts"]
        )
    )
    for n, rows in all_rows.items():
        clean = next(row for row in rows if row[0] == "clean")
        print(table_row([str(n), *_figures([row for row in rows if row[0] != "clean"]), f"{clean[2]:.3f}"]))


def _figures(rows: list[tuple[str, float, float, float]]) -> list[str]:
    ts, windowed, errors = (np.array(column) for column in list(zip(*rows, strict=True))[1:])
    return [
        f"{ts.mean():.3f}",
        f"{windowed.mean():.3f}",
        f"{(windowed - ts).max():+.3f}",
        f"{np.abs(errors).mean():.3f}",
    ]


if __name__ == "__main__":
    main()
