"""Errors of label-free accuracy estimates of a monitor: CIFAR-10 ResNet-20, nine affine shifts, ten levels.

    python -m benchmarks.accuracy.accuracy_estimates ../shared/golden benchmarks/data/resnet20.npz \
        > benchmarks/accuracy/accuracy_estimates.md

The folder holds recorded logits (`cifar10_resnet20.npz`): 5,000 validation images at ten levels of Gaussian noise, and 5,000
test images under 90 conditions. The file holds logits of the same network on the first 600 validation images under simulated
shifts; `window-ts` is fitted on them. Windows are 500 samples in the order of the file. Whatever is fitted or chosen uses the
validation images only.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.accuracy.recorded_logits import RecordedLogits
from benchmarks.accuracy.study_data import StudyData
from benchmarks.accuracy.windowed_methods import fit_on_simulated
from benchmarks.measure import table_head, table_row
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.drift.estimators import ESTIMATOR_NAMES
from driftcal.drift.reference import DriftReference
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.monitored_calibrator import MonitoredCalibrator

METHODS = ("ts", "ets", "ir", "irm")
#: The method whose monitor is measured with every estimator.
MONITORED = "irm"
WINDOW_SIZE = 500


@dataclass(frozen=True, order=True)
class Estimate:
    """A line of the table; `on_validation` holds the errors on clean, perturbed and reweighted validation images."""

    mean_absolute_error: float
    bias: float
    worst_condition: float
    label: str
    on_validation: tuple[float, ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("study", type=Path)
    arguments = parser.parse_args()
    recorded = RecordedLogits.load(arguments.folder)
    window_ts = fit_on_simulated("window-ts", StudyData.load(arguments.study))
    conditions = [logits for levels in recorded.shifts.values() for logits in levels]
    accuracy = np.array(
        [(z.argmax(axis=1) == recorded.test_labels).reshape(-1, WINDOW_SIZE).mean(axis=1) for z in conditions]
    )
    estimates = []
    for method in METHODS:
        calibrator = driftcal.make_calibrator(method).fit(*recorded.tuning_samples(perturbed=True))
        temperature = TemperatureScaling().fit(recorded.levels[0], recorded.validation_labels).temperature_
        reference = DriftReference.of(
            list(recorded.levels), recorded.validation_labels, calibrator, temperature=temperature
        )
        windows = []  # by condition
        for logits in conditions:
            monitored = MonitoredCalibrator(calibrator, reference, tuple("0123456789"), window_ts)
            monitor = Monitor(monitored, window_size=WINDOW_SIZE)
            monitor.update(logits)
            windows.append(monitor.windows())
        for name in ESTIMATOR_NAMES if method == MONITORED else ("confidence",):
            difference = np.array([[w.estimates[name] for w in row] for row in windows]) - accuracy
            errors = reference.errors.get(name, {})
            estimates.append(
                Estimate(
                    np.abs(difference).mean(), difference.mean(), np.abs(difference).mean(axis=1).max(),
                    f"mean confidence of {method.upper()}-P" if name == "confidence" else name,
                    tuple(errors[kind] for kind in ("clean", "perturbed", "reweighted") if kind in errors),
                )
            )  # fmt: skip
        if method == MONITORED:
            monitored_windows, default = [w for row in windows for w in row], monitored.default_estimator
    print_page(estimates, monitored_windows, accuracy.ravel(), default)


def print_page(estimates: list[Estimate], windows: list, accuracy: np.ndarray, default: str) -> None:
    print("# Accuracy without labels\n")
    print(
        "`python -m benchmarks.accuracy.accuracy_estimates ../shared/golden benchmarks/data/resnet20.npz > "
        "benchmarks/accuracy/accuracy_estimates.md`\n"
    )
    print(
        f"CIFAR-10 ResNet-20, {len(windows) * WINDOW_SIZE // 5000} conditions of the affine suite, windows of {WINDOW_SIZE} of "
        f"5,000 test samples ({len(windows)} windows), fitted on ten levels of Gaussian noise over 5,000 other images. "
        "`atc` is average thresholded confidence on the entropy (Garg et al. 2022), `doc` the difference of confidences "
        "(Guillory et al. 2021). `window-ts` is fitted on simulated shifts of the first 600 validation images; it is the default, by the "
        "rule in estimator_study.md. The last three columns are errors on the validation images. They choose among the other "
        "estimators: of those whose error on clean samples is at most 0.02, the one whose largest error is lowest. "
        "That rule and the estimator `atc-level-mean` were chosen while looking at these shifts (see docs/monitor.md), so its "
        "numbers are not an independent test.\n"
    )
    print(table_head(["estimator", "mean abs. error", "bias", "worst condition", "clean", "perturbed", "reweighted"]))
    for e in sorted(estimates):
        name = f"**{e.label}** (default)" if e.label == default else e.label
        errors = [f"{error:.3f}" for error in (e.worst_condition, *e.on_validation)]
        errors += ["–"] * (4 - len(errors))
        print(table_row([name, f"{e.mean_absolute_error:.4f}", f"{e.bias:+.4f}", *errors]))
    low, high = np.array([w.accuracy_interval for w in windows]).T
    covered = np.mean((low <= accuracy) & (accuracy <= high))
    print(
        f"\nThe interval covers the true accuracy of {covered:.1%} of the windows; its mean width is {np.mean(high - low):.3f}.\n"
    )
    print(table_head(["state", "windows", "mean true accuracy", "5 %", "95 %"]))
    states = np.array([w.state for w in windows])
    by_state = {state: accuracy[states == state] for state in dict.fromkeys(states.tolist())}
    for state, values in sorted(by_state.items(), key=lambda item: -np.mean(item[1])):
        quantiles = np.quantile(values, [0.05, 0.95])
        print(table_row([state, len(values), *(f"{value:.3f}" for value in (values.mean(), *quantiles))]))


if __name__ == "__main__":
    main()
