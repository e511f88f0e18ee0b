"""How well a monitor knows the accuracy of windows without labels: CIFAR-10 ResNet-20, nine affine shifts, ten levels.

    python -m benchmarks.accuracy.accuracy_estimates ../shared/golden > benchmarks/accuracy/accuracy_estimates.md

The folder holds recorded logits (`cifar10_resnet20.npz`): a Gaussian ladder on 5,000 validation images, and 5,000 other
images under 90 conditions. Windows are 500 rows in the order of the file. Everything that is fitted or chosen sees the
ladder only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import driftcal
from driftcal.calibrators.scaling.temperature import clean_temperature
from driftcal.drift.estimators import ESTIMATORS
from driftcal.drift.reference import DriftReference
from driftcal.monitor.monitor import Monitor

METHODS = ("ts", "ets", "ir", "irm")
ROWS = 500


def windows(monitor: Monitor, logits: np.ndarray) -> list:
    """The reports of consecutive windows of one condition."""
    fresh = Monitor(monitor.calibrator, drift_reference=monitor.drift_reference, window_size=ROWS)
    fresh.update(logits)
    return fresh.windows()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    stored = np.load(parser.parse_args().folder / "cifar10_resnet20.npz")
    ladder, val, test = stored["ladder_logits"].astype(np.float64), stored["val_labels"], stored["test_labels"]
    conditions = [
        (name, level, logits.astype(np.float64))
        for name in stored.files
        if name.startswith("test_") and name != "test_labels"
        for level, logits in enumerate(stored[name])
    ]
    truth = np.array([(z.argmax(axis=1) == test).reshape(-1, ROWS).mean(axis=1) for _, _, z in conditions])
    pooled, repeated = ladder.reshape(-1, ladder.shape[-1]), np.tile(val, len(ladder))
    lines, chosen = [], None
    for method in METHODS:
        calibrator = driftcal.make_calibrator(method).fit(pooled, repeated)
        drift_reference = DriftReference.of(
            list(ladder), val, calibrator, temperature=clean_temperature(ladder[0], val)
        )
        monitor = Monitor(calibrator, drift_reference=drift_reference, window_size=ROWS)
        seen = [windows(monitor, z) for _, _, z in conditions]
        for name in ESTIMATORS if method == "irm" else ("confidence",):
            found = np.array([[w.estimates[name] for w in row] for row in seen])
            label = f"mean confidence of {method.upper()}-P" if name == "confidence" else name
            errors = drift_reference.errors[name]
            lines.append(
                (
                    np.abs(found - truth).mean(), (found - truth).mean(), np.abs(found - truth).mean(axis=1).max(),
                    errors["clean"], errors["perturbed"], errors["reweighted"], label,
                )
            )  # fmt: skip
        if method == "irm":
            chosen = drift_reference.estimator
            inside = np.mean(
                [
                    [w.accuracy_interval[0] <= t <= w.accuracy_interval[1] for w, t in zip(row, true, strict=True)]
                    for row, true in zip(seen, truth, strict=True)
                ]
            )
            width = np.mean([[w.accuracy_interval[1] - w.accuracy_interval[0] for w in row] for row in seen])
            states = {}
            for row, true in zip(seen, truth, strict=True):
                for w, t in zip(row, true, strict=True):
                    states.setdefault(w.state, []).append(t)
    print("# Accuracy without labels\n")
    print(
        "`python -m benchmarks.accuracy.accuracy_estimates ../shared/golden > benchmarks/accuracy/accuracy_estimates.md`\n"
    )
    print(
        f"CIFAR-10 ResNet-20, {len(conditions)} conditions of the affine suite, windows of {ROWS} of 5,000 test rows "
        f"({truth.size} windows), fitted on a Gaussian ladder of {len(ladder)} levels over 5,000 other images. "
        "`atc` is average thresholded confidence on the entropy (Garg et al. 2022), `doc` the difference of confidences "
        "(Guillory et al. 2021). The columns on the ladder are what the default is chosen by: the least maximum, of those that are off by at most 0.02 on clean rows. "
        "The rule and the estimator `atc-level-mean` were chosen while looking at these shifts (see docs/monitor.md): a figure of development.\n"
    )
    print("| estimator | mean abs. error | bias | worst condition | clean | perturbed | reweighted |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for error, bias, worst, clean, perturbed, reweighted, label in sorted(lines):
        name = f"**{label}** (default)" if label == chosen else label
        print(
            f"| {name} | {error:.4f} | {bias:+.4f} | {worst:.3f} | {clean:.3f} | {perturbed:.3f} | {reweighted:.3f} |"
        )
    print(f"\nThe interval covers the true accuracy of {inside:.1%} of the windows; its mean width is {width:.3f}.\n")
    print("| state | windows | their true accuracy, mean | 5 % | 95 % |")
    print("|---|---:|---:|---:|---:|")
    for state, values in sorted(states.items(), key=lambda item: -np.mean(item[1])):
        low, high = np.quantile(values, [0.05, 0.95])
        print(f"| {state} | {len(values)} | {np.mean(values):.3f} | {low:.3f} | {high:.3f} |")


if __name__ == "__main__":
    main()
