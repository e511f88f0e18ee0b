"""A month of traffic with known data drift: how soon a monitor raises an alarm, and how many alarms are false.

    python -m benchmarks.accuracy.monitored_month ../shared/golden benchmarks/data/resnet20.npz --page month.html \
        > benchmarks/accuracy/monitored_month.md

Samples are drawn with replacement from recorded logits of 5,000 CIFAR-10 test images (ResNet-20), 500 an hour: ten clean
days, ten days in which a rotation grows slowly, two days of strong zoom that starts suddenly, eight clean days. The monitor
is fitted on ten levels of Gaussian noise over 5,000 other images, its `window-ts` on simulated shifts of the first 600 of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.accuracy.recorded_logits import RecordedLogits
from benchmarks.accuracy.study_data import StudyData
from benchmarks.accuracy.windowed_methods import fit_on_simulated
from benchmarks.measure import table_head, table_row
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.drift.reference import DriftReference
from driftcal.monitor.alarm_rule import (
    LABELS,
    N_TESTS,
    OK,
    STATES,
    UNKNOWN,
    clean_range,
    detectable_drop,
    largest_clean_distance,
)
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.monitored_calibrator import MonitoredCalibrator
from driftcal.report.timeline import write_timeline

PER_HOUR, HOURS = 500, 720
SLOW_START, SUDDEN_START, RECOVERY = 240, 480, 528  # hours
SLOW_SHIFT, SUDDEN_SHIFT, LAST_LEVEL = "rot_right", "xyzoom", 5
CLEAN_MONTHS, MONTHS = 1000, 200
LABELLED_SHARE = 0.1
FALSE_ALARM_RATE = 0.001
START_TIME = 1_790_812_800  # 2026-10-01
CLASS_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def level_at(hour: np.ndarray | int) -> np.ndarray | float:
    """The level of the slow rotation."""
    return LAST_LEVEL * (hour - SLOW_START) / (SUDDEN_START - SLOW_START)


def draw_hour(hour: int, rng: np.random.Generator, n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """(condition, image) of each sample of an hour; conditions are clean, rotations of level 1 and up, and zoom."""
    images = rng.integers(n_images, size=PER_HOUR)
    if hour < SLOW_START or hour >= RECOVERY:
        return np.zeros(PER_HOUR, np.int64), images
    if hour >= SUDDEN_START:
        return np.full(PER_HOUR, LAST_LEVEL + 1), images
    level = level_at(hour)
    return np.floor(level).astype(np.int64) + (rng.random(PER_HOUR) < level % 1), images


@dataclass(frozen=True, eq=False)
class Traffic:
    """Recorded samples by (condition, image): logits, normalised negative entropy, predictions; and their labels."""

    logits: np.ndarray
    negative_entropy: np.ndarray
    predicted: np.ndarray
    labels: np.ndarray
    reference: DriftReference

    @cached_property
    def correct(self) -> np.ndarray:
        """Whether each prediction is correct."""
        return self.predicted == self.labels

    @cached_property
    def clean_range(self) -> tuple[float, float]:
        """Where the mean normalised negative entropy of clean windows lies."""
        return clean_range(self.reference, PER_HOUR, FALSE_ALARM_RATE / N_TESTS)

    @cached_property
    def largest_distance(self) -> float:
        """How far the class mix of clean windows is from that of the validation samples at most."""
        return largest_clean_distance(self.reference, PER_HOUR, FALSE_ALARM_RATE / N_TESTS)

    def is_alarm(self, drawn: tuple[np.ndarray, np.ndarray]) -> bool:
        """Whether the monitor's rule raises an alarm on a window of these samples."""
        low, high = self.clean_range
        shares = np.bincount(self.predicted[drawn], minlength=len(self.reference.class_shares)) / PER_HOUR
        distance = np.linalg.norm(shares - self.reference.class_shares)
        return not low <= self.negative_entropy[drawn].mean() <= high or bool(distance > self.largest_distance)

    def accuracy_at(self, hour: int) -> float:
        """The expected accuracy while the rotation grows."""
        return float(np.interp(level_at(hour), np.arange(LAST_LEVEL + 1), self.correct.mean(axis=1)[:-1]))


@dataclass(frozen=True, eq=False)
class Delays:
    """What 200 simulated months show: hours from a detectable loss to the alarm, alarms in time, and accuracy lost."""

    crossing: int
    hours: list[int]
    sudden_in_time: list[bool]
    recovered_in_time: list[bool]
    accuracy_lost: list[float]


def count_false_alarms(traffic: Traffic) -> np.ndarray:
    """False alarms in each of many clean months."""
    n_images, clean = len(traffic.labels), np.zeros(PER_HOUR, np.int64)
    counts = []
    for month in range(CLEAN_MONTHS):
        images = np.random.default_rng([1, month]).integers(n_images, size=(HOURS, PER_HOUR))
        counts.append(sum(traffic.is_alarm((clean, drawn)) for drawn in images))
    return np.array(counts)


def measure_delays(traffic: Traffic, clean_mean: float, detectable: float) -> Delays:
    """Simulate months around the hour at which the loss of negative entropy becomes detectable."""
    by_level = traffic.negative_entropy.mean(axis=1)[:-1]
    expected = np.interp(level_at(np.arange(SLOW_START, SUDDEN_START)), np.arange(LAST_LEVEL + 1), by_level)
    crossing = SLOW_START + int(np.argmax(expected <= clean_mean - detectable))
    delays = Delays(crossing, [], [], [], [])
    for month in range(MONTHS):
        rng = np.random.default_rng([2, month])
        hours = [*range(crossing - 48, crossing + 24), SUDDEN_START, RECOVERY]
        alarms = {hour: traffic.is_alarm(draw_hour(hour, rng, len(traffic.labels))) for hour in hours}
        first = next(hour for hour in sorted(alarms) if alarms[hour])
        delays.accuracy_lost.append(float(traffic.correct[0].mean()) - traffic.accuracy_at(first))
        delays.hours.append(next(hour for hour in range(crossing, SUDDEN_START) if alarms[hour]) - crossing)
        delays.sudden_in_time.append(alarms[SUDDEN_START])
        delays.recovered_in_time.append(not alarms[RECOVERY])
    return delays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("study", type=Path)
    parser.add_argument("--page", type=Path, help="write the timeline of one month to this file")
    arguments = parser.parse_args()
    recorded = RecordedLogits.load(arguments.folder)
    clean_samples = recorded.tuning_samples(perturbed=False)
    calibrator = driftcal.make_calibrator("ts").fit(*clean_samples)
    reference = DriftReference.of(
        list(recorded.levels),
        recorded.validation_labels,
        calibrator,
        temperature=TemperatureScaling().fit(*clean_samples).temperature_,
    )
    logits = np.stack([*recorded.shifts[SLOW_SHIFT][: LAST_LEVEL + 1], recorded.shifts[SUDDEN_SHIFT][9]])
    traffic = Traffic(
        logits,
        np.stack([reference.statistics(z, calibrator.predict_proba(z))[:, 2] for z in logits]),
        logits.argmax(axis=2),
        recorded.test_labels,
        reference,
    )

    window_ts = fit_on_simulated("window-ts", StudyData.load(arguments.study))
    monitored = MonitoredCalibrator(calibrator, reference, tuple(CLASS_NAMES), window_ts)
    monitor = Monitor(monitored, window_size=3600)
    rng = np.random.default_rng(0)
    alarms, accuracy, rejected_at = [], [], None
    for hour in range(HOURS):
        condition, image = drawn = draw_hour(hour, rng, len(traffic.labels))
        labelled = rng.random(PER_HOUR) < LABELLED_SHARE
        labels = [int(y) if known else None for y, known in zip(traffic.labels[image], labelled, strict=True)]
        monitor.update(traffic.logits[drawn], times=START_TIME + 3600 * hour, y=labels)
        alarms.append(traffic.is_alarm(drawn))
        accuracy.append(traffic.correct[condition, image].mean())
        if rejected_at is None and hour % 6 == 0 and monitor.summary().calibration == "rejected":
            rejected_at = hour
    windows = monitor.windows()
    for window, alarm in zip(windows, alarms, strict=True):
        assert window.state in (LABELS, UNKNOWN) or alarm == (window.state != OK), (
            "simulations must follow the monitor's rule"
        )
    if arguments.page is not None:
        write_timeline(monitor, arguments.page, title="A simulated month: CIFAR-10, ResNet-20")

    detectable = detectable_drop(reference, PER_HOUR, FALSE_ALARM_RATE)
    false_alarms = count_false_alarms(traffic)
    delays = measure_delays(traffic, reference.means[0][2], detectable)
    print("# A simulated month\n")
    print(
        "`python -m benchmarks.accuracy.monitored_month ../shared/golden benchmarks/data/resnet20.npz --page month.html > "
        "benchmarks/accuracy/monitored_month.md`\n"
    )
    print(
        f"CIFAR-10 ResNet-20, {PER_HOUR} samples an hour for 30 days, TS tuned on clean samples, estimator `{monitored.default_estimator}`, "
        f"false_alarm_rate = {FALSE_ALARM_RATE:g}.\n"
    )
    print(table_head(["", "stated", "measured"]))
    clean_accuracy = traffic.correct[0].mean()
    for cells in (
        (f"clean windows not called ok, {CLEAN_MONTHS:,} clean months", "at most 0.1 %",
         f"{false_alarms.sum() / (CLEAN_MONTHS * HOURS):.4%}"),
        ("clean months without a false alarm", "", f"{np.mean(false_alarms == 0):.1%}"),
        (f"slow drift: hours from a detectable loss of negative entropy ({detectable:.3f}) to the alarm, 95 % of {MONTHS} months",
         "at most 0", f"{np.quantile(delays.hours, 0.95):.0f}"),
        ("the same, longest", "", max(delays.hours)),
        (f"true accuracy at that time (clean: {clean_accuracy:.3f})", "", f"{traffic.accuracy_at(delays.crossing):.3f}"),
        ("accuracy lost at the first alarm, mean", "", f"{np.mean(delays.accuracy_lost):.3f}"),
        ("sudden drift: alarm within its first hour", "at least 95 %", f"{np.mean(delays.sudden_in_time):.1%}"),
        ("recovery: ok within its first hour", "at least 99.9 %", f"{np.mean(delays.recovered_in_time):.1%}"),
    ):  # fmt: skip
        print(table_row(cells))
    print("\nOne month (seed 0) through `Monitor`, window by window:\n")
    print(table_head(["", "hours", *STATES, "true accuracy", "estimated", "mean abs. error"]))
    phases = {
        "clean": (0, SLOW_START), "slow drift": (SLOW_START, SUDDEN_START), "sudden": (SUDDEN_START, RECOVERY),
        "clean again": (RECOVERY, HOURS),
    }  # fmt: skip
    for name, (start, stop) in phases.items():
        estimated, true = np.array([w.accuracy for w in windows[start:stop]]), np.array(accuracy[start:stop])
        counts = [sum(w.state == state for w in windows[start:stop]) for state in STATES]
        means = (true.mean(), estimated.mean(), np.abs(estimated - true).mean())
        print(table_row([name, stop - start, *counts, *(f"{mean:.3f}" for mean in means)]))
    summary = monitor.summary()
    first = (
        ""
        if rejected_at is None
        else f", first {rejected_at - SLOW_START} hours into the slow drift, checked every 6 hours"
    )
    print(
        f"\nLabels of {LABELLED_SHARE:.0%} of the samples: accuracy {summary.labelled.accuracy:.3f}, ECE {summary.labelled.ece:.3f}; "
        f"calibration {summary.calibration} (alpha 0.01){first}."
    )


if __name__ == "__main__":
    main()
