"""Whether stated rates are the real rates: false alarms, intervals, the sequential test, and windows that are off while `ok`.

    python -m benchmarks.reliability.stated_rates ../shared/golden STUDY resnet44 plain-cnn > benchmarks/reliability/stated_rates.md

`../shared/golden` holds recorded logits of a CIFAR-10 ResNet-20; STUDY is the folder that `benchmarks.accuracy.collect_study`
wrote, one file per network. Whatever is fitted uses validation samples only. Half a minute per network.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.measure import table_head, table_row
from benchmarks.reliability.recorded_networks import RecordedNetwork, recorded_networks
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.drift.estimators import NEGATIVE_ENTROPY
from driftcal.drift.reference import DriftReference
from driftcal.metrics import evaluate, expected_calibration_error
from driftcal.monitor.alarm_rule import OK, clean_range
from driftcal.monitor.fixed_point import UNIT, to_fixed_point
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.sequential_test import N_BETS, log_bets, log_evidence
from driftcal.monitor.window_sums import WindowSums, sums_of_labels

#: An estimate that is further from the window's accuracy than this is off.
OFF = 0.1
#: Samples of a window, and of a set of labels.
WINDOW_SIZES, N_LABELS = (100, 500), 300
RATES, N_VALIDATION_SETS, N_VALIDATION, N_WINDOWS = (0.01, 0.001), 60, 1000, 5000
ALPHA, TOLERANCE, N_RUNS, N_READINGS = 0.05, 0.02, 100, 20


@dataclass(frozen=True)
class Deployed:
    """A network with temperature scaling and a drift reference, both of the validation half."""

    network: RecordedNetwork

    @cached_property
    def calibrator(self) -> TemperatureScaling:
        return TemperatureScaling().fit(self.network.levels[0], self.network.validation_labels)

    @cached_property
    def reference(self) -> DriftReference:
        levels, labels = list(self.network.levels), self.network.validation_labels
        return DriftReference.of(levels, labels, self.calibrator, temperature=self.calibrator.temperature_)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Calibrated probabilities of all clean samples."""
        return self.calibrator.predict_proba(self.network.clean.logits)

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels of all clean samples."""
        return self.network.clean.labels

    @cached_property
    def correct(self) -> np.ndarray:
        """Whether each clean sample is predicted correctly."""
        return self.probabilities.argmax(axis=1) == self.labels


def false_alarms(network: RecordedNetwork, window_size: int) -> dict[float, tuple[float, int]]:
    """By rate: the mean share of clean windows outside the range of clean windows, and how many validation sets exceed the rate.

    Validation sets and windows are draws of all clean samples.
    """
    logits, labels = network.clean.logits, network.clean.labels
    windows = np.random.default_rng(8).integers(len(labels), size=(N_WINDOWS, window_size))
    shares: dict[float, list[float]] = {rate: [] for rate in RATES}
    for draw in range(N_VALIDATION_SETS):
        drawn = np.random.default_rng([8, draw]).integers(len(labels), size=N_VALIDATION)
        calibrator = TemperatureScaling().fit(logits[drawn], labels[drawn])
        reference = DriftReference.of([logits[drawn]], labels[drawn], calibrator, temperature=calibrator.temperature_)
        values = reference.statistics(logits, calibrator.predict_proba(logits))[:, NEGATIVE_ENTROPY]
        means = values[windows].mean(axis=1)
        for rate in RATES:
            low, high = clean_range(reference, window_size, rate)
            shares[rate].append(float(np.mean((means < low) | (means > high))))
    return {rate: (float(np.mean(found)), sum(share > rate for share in found)) for rate, found in shares.items()}


def label_intervals(deployed: Deployed) -> tuple[float, float]:
    """Coverage of the monitor's 95 % intervals of accuracy and ECE: draws of labels of clean samples."""
    rng, confidence = np.random.default_rng(9), to_fixed_point(deployed.probabilities.max(axis=1))
    accuracy = deployed.correct.mean()
    ece = expected_calibration_error(deployed.labels, deployed.probabilities, n_bins=15)
    covered = []
    for _ in range(300):
        drawn = rng.integers(len(deployed.correct), size=N_LABELS)
        sums = sums_of_labels(
            confidence[drawn], deployed.correct[drawn], deployed.network.n_classes, tolerance=TOLERANCE
        )
        metrics = LabelMetrics.of(WindowSums(sums))
        assert metrics is not None
        (low, high), (ece_low, ece_high) = metrics.accuracy_interval, metrics.ece_interval
        covered.append((low <= accuracy <= high, ece_low <= ece <= ece_high))
    return tuple(np.mean(covered, axis=0).tolist())  # type: ignore[return-value]


def evaluation_intervals(deployed: Deployed) -> dict[str, float]:
    """Coverage of the 95 % bootstrap intervals of `metrics.evaluate`: draws of 1,000 clean samples."""
    labels, p = deployed.labels, deployed.probabilities
    truth = evaluate(labels, p, score_type="probabilities")
    rng, names = np.random.default_rng(10), ("accuracy", "nll", "brier", "ece")
    covered = []
    for draw in range(100):
        drawn = rng.integers(len(labels), size=1000)
        found = evaluate(
            labels[drawn], p[drawn], score_type="probabilities", intervals=True, n_resamples=300, random_state=draw
        )
        covered.append([getattr(truth, name) in found.intervals[name] for name in names])
    return dict(zip(names, np.mean(covered, axis=0).tolist(), strict=True))


def rejections(probabilities: np.ndarray, labels: np.ndarray, bias: float | None = None) -> tuple[float, float]:
    """The share of runs in which calibration is rejected at any of 20 readings of 100 labels, and the median number of labels.

    With a `bias`, a prediction with confidence p is correct with probability p + bias; otherwise labels are the real ones.
    """
    confidence = to_fixed_point(probabilities.max(axis=1)) / UNIT
    real = probabilities.argmax(axis=1) == labels
    needed = []
    for run in range(N_RUNS):
        rng, bets = np.random.default_rng([11, run]), []
        for reading in range(N_READINGS):
            drawn = rng.integers(len(real), size=100)
            p = confidence[drawn]
            correct = real[drawn] if bias is None else rng.random(100) < np.clip(p + bias, 0, 1)
            bets.append(log_bets(p, correct.astype(np.int64), TOLERANCE))
            if log_evidence(range(reading + 1), bets, np.zeros(N_BETS, np.int64), 0) >= -math.log(ALPHA):
                needed.append(100 * (reading + 1))
                break
    return len(needed) / N_RUNS, float(np.median(needed)) if needed else math.nan


def power(deployed: Deployed) -> tuple[float, float]:
    """`rejections` in the affine condition whose over-confidence is the smallest one of at least 0.1."""
    gaps = []
    for condition in deployed.network.suites["affine"]:
        p = deployed.calibrator.predict_proba(condition.logits)
        gaps.append((p.max(axis=1).mean() - (p.argmax(axis=1) == condition.labels).mean(), p, condition.labels))
    _, p, labels = min((entry for entry in gaps if entry[0] >= OFF), key=lambda entry: entry[0])
    return rejections(p, labels)


def windows_of(deployed: Deployed, suite: str, window_size: int) -> Iterator[tuple[str, float, bool, float]]:
    """(state, estimated accuracy, whether the interval holds the true accuracy, true accuracy) of every window of a suite."""
    for condition in deployed.network.suites[suite]:
        monitor = Monitor(deployed.calibrator, drift_reference=deployed.reference, window_size=window_size)
        order = np.random.default_rng(12).permutation(len(condition.labels))
        monitor.update(condition.logits[order])
        correct = (condition.logits.argmax(axis=1) == condition.labels)[order]
        for window in monitor.windows():
            part = correct[int(window.begin) : int(window.end)]
            if len(part) == window_size:
                low, high = window.accuracy_interval
                yield window.state, window.accuracy, low <= part.mean() <= high, float(part.mean())


def print_rates(networks: list[Deployed]) -> None:
    """Rates that do not need a shift."""
    names = [deployed.network.name for deployed in networks]
    print("## Clean samples\n")
    print(table_head(["rate", "stated", *names]))
    for size in WINDOW_SIZES:
        alarms = [false_alarms(deployed.network, size) for deployed in networks]
        for rate in RATES:
            title = f"false alarms, windows of {size}"
            cells = [f"{100 * alarm[rate][0]:.3f} %" for alarm in alarms]
            print(table_row([title, f"at most {100 * rate:g} %", *cells]))
            title = f"validation sets of {N_VALIDATION:,} with more"
            print(table_row([title, "at most 1 %", *(f"{alarm[rate][1]} of {N_VALIDATION_SETS}" for alarm in alarms)]))
    coverages = [label_intervals(deployed) for deployed in networks]
    for i, name in enumerate(("accuracy", "ECE")):
        cells = [f"{100 * coverage[i]:.1f} %" for coverage in coverages]
        print(table_row([f"monitor: interval of {name} from {N_LABELS} labels", "95 %", *cells]))
    evaluations = [evaluation_intervals(deployed) for deployed in networks]
    for name in evaluations[0]:
        cells = [f"{100 * evaluation[name]:.1f} %" for evaluation in evaluations]
        print(table_row([f"`evaluate`: interval of {name}, 1,000 samples", "95 %", *cells]))
    for label, bias in (("calibrated", 0.0), ("off by the tolerance of 0.02", -TOLERANCE)):
        cells = [f"{100 * rejections(deployed.probabilities, deployed.labels, bias)[0]:.1f} %" for deployed in networks]
        print(table_row([f"sequential test rejects, {label}, read 20 times", "at most 5 %", *cells]))
    cells = [f"{100 * rejections(deployed.probabilities, deployed.labels)[0]:.1f} %" for deployed in networks]
    print(table_row(["the same with real labels of clean samples", "–", *cells]))
    powers = [power(deployed) for deployed in networks]
    cells = [f"{100 * share:.1f} % (median {n:.0f} labels)" for share, n in powers]
    print(table_row([f"it rejects, over-confident by {OFF} or more", "–", *cells]))
    print(
        f"\nFalse alarms: {N_VALIDATION_SETS} validation sets and {N_WINDOWS:,} windows, drawn from all clean samples. "
        f"Sequential test: {N_RUNS} runs of {100 * N_READINGS:,} labels, alpha {ALPHA}.\n"
    )


def print_windows(networks: list[Deployed]) -> None:
    """Windows under shift whose estimate is off while the state is `ok`."""
    print(f"## Windows that are off by more than {OFF} while the state is `ok`\n")
    head = [
        "network",
        "suite",
        "window",
        "windows",
        "`ok`",
        "`ok` and off",
        "of `ok` windows",
        "mean abs. error",
        "interval covers",
    ]
    print(table_head(head))
    for deployed in networks:
        for suite in deployed.network.suites:
            for size in WINDOW_SIZES:
                windows = list(windows_of(deployed, suite, size))
                if not windows:  # fewer samples than a window
                    continue
                states, estimates, covered, accuracies = map(np.array, zip(*windows, strict=True))
                error = np.abs(estimates - accuracies)
                ok = states == OK
                off = ok & (error > OFF)
                cells = [deployed.network.name, suite, size, f"{len(error):,}", f"{100 * ok.mean():.1f} %"]
                cells += [f"{100 * off.mean():.2f} %", f"{100 * off.sum() / max(1, ok.sum()):.2f} %"]
                print(table_row([*cells, f"{error.mean():.3f}", f"{100 * covered.mean():.1f} %"]))
    print(
        "\nTrue accuracy is that of the window's own samples: in a window of 100 it varies by ±0.06 although nothing has changed. "
        "The natural shift also changes the class mix."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", type=Path)
    parser.add_argument("study", type=Path)
    parser.add_argument("networks", nargs="*", help="names of networks of the study")
    arguments = parser.parse_args()
    networks = [
        Deployed(network) for network in recorded_networks(arguments.golden, arguments.study, arguments.networks)
    ]
    print("# Stated rates and measured rates\n")
    print(
        "`python -m benchmarks.reliability.stated_rates ../shared/golden STUDY resnet44 plain-cnn > benchmarks/reliability/stated_rates.md`\n"
    )
    estimators = ", ".join(f"{deployed.network.name}: `{deployed.reference.estimator}`" for deployed in networks)
    print(
        f"Temperature scaling of each network's clean validation half; accuracy estimators chosen by `tune`: {estimators}.\n"
    )
    print_rates(networks)
    print_windows(networks)


if __name__ == "__main__":
    main()
