"""Whether stated rates are the real rates: false alarms, intervals, the sequential test, and windows that are off while `ok`.

    python -m benchmarks.reliability.stated_rates ../shared/golden benchmarks/data resnet20 resnet44 plain-cnn plain-cnn-10-epochs \
        > benchmarks/reliability/stated_rates.md

`../shared/golden` holds recorded logits of a CIFAR-10 ResNet-20 under levels of noise, `benchmarks/data` those of
`benchmarks.accuracy.collect_study`, one file per network. Whatever is fitted uses validation samples only. A minute per network.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure import table_head, table_row
from benchmarks.reliability.deployed_network import Deployed
from benchmarks.reliability.recorded_networks import RecordedNetwork, recorded_networks
from driftcal.metrics import evaluate, expected_calibration_error
from driftcal.monitor.alarm_rule import ALARMS, CLASS_MIX, NO_CHANGE, OK, OUT, SHIFTED, UNKNOWN, window_state
from driftcal.monitor.fixed_point import UNIT, to_fixed_point
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.sequential_test import N_BETS, log_bets, log_evidence
from driftcal.monitor.window_estimate import estimate_window
from driftcal.monitor.window_sums import WindowSums, sums_of_labels, sums_of_samples

#: An estimate that is further from the window's accuracy than this is off.
OFF = 0.1
#: Samples of a window, and of a set of labels.
WINDOW_SIZES, N_LABELS = (100, 500), 300
RATES, N_VALIDATION_SETS, N_WINDOWS, N_MIXES = (0.01, 0.001), 8, 1000, 200
ALPHA, TOLERANCE, N_RUNS, N_READINGS = 0.05, 0.02, 100, 20


@dataclass(frozen=True)
class FalseAlarms:
    """The mean share of clean windows with an alarm, those of two other states, and the validation sets with more alarms than stated."""

    alarms: float
    no_change: float
    cannot_tell: float
    exceeding: int


def false_alarms(network: RecordedNetwork, window_size: int) -> dict[float, FalseAlarms]:
    """By stated rate: states of clean windows, over several validation sets: halves of the validation samples."""
    logits = network.clean.logits.astype(np.float64)
    windows = np.random.default_rng(8).integers(len(logits), size=(N_WINDOWS, window_size))
    shares: dict[float, list[tuple[float, ...]]] = {rate: [] for rate in RATES}
    n_validation = len(network.validation_labels)
    for draw in range(N_VALIDATION_SETS):
        chosen = np.sort(np.random.default_rng([8, draw]).permutation(n_validation)[: n_validation // 2])
        monitored = Deployed(network, chosen).monitored
        samples, layout = monitored.measure(logits), monitored.layout
        found: dict[float, list[str]] = {rate: [] for rate in RATES}
        for window in windows:
            sums = WindowSums(sums_of_samples(samples.part(window), layout, low_confidence=0.5), layout)
            estimate = estimate_window(monitored, sums, None)
            for rate in RATES:
                found[rate].append(window_state(monitored.drift_reference, sums, estimate, false_alarm_rate=rate)[0])
        for rate, states in found.items():
            counted = (ALARMS, (NO_CHANGE,), (UNKNOWN,))
            shares[rate].append(tuple(np.mean([state in group for state in states]) for group in counted))
    return {
        rate: FalseAlarms(*np.mean(rows, axis=0).tolist(), sum(row[0] > rate for row in rows))
        for rate, rows in shares.items()
    }


def label_intervals(deployed: Deployed) -> tuple[float, float]:
    """Coverage of the monitor's 95 % intervals of accuracy and ECE: draws of labels of clean samples."""
    rng, confidence = np.random.default_rng(9), to_fixed_point(deployed.probabilities.max(axis=1))
    accuracy = deployed.correct.mean()
    ece = expected_calibration_error(deployed.labels, deployed.probabilities, n_bins=15)
    covered = []
    for _ in range(300):
        drawn = rng.integers(len(deployed.correct), size=N_LABELS)
        sums = sums_of_labels(
            confidence[drawn], deployed.correct[drawn], deployed.monitored.layout, tolerance=TOLERANCE
        )
        metrics = LabelMetrics.of(WindowSums(sums, deployed.monitored.layout))
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


@dataclass(frozen=True)
class Window:
    """A window's state, estimated accuracy with its interval, and true accuracy."""

    state: str
    estimate: float
    low: float
    high: float
    accuracy: float


def windows_of(deployed: Deployed, logits: np.ndarray, labels: np.ndarray, window_size: int) -> Iterator[Window]:
    """Every full window of samples in this order."""
    monitor = Monitor(deployed.monitored, window_size=window_size)
    monitor.update(logits.astype(np.float64))
    correct = logits.argmax(axis=1) == labels
    for window in monitor.windows():
        part = correct[int(window.begin) : int(window.end)]
        if len(part) == window_size:
            yield Window(window.state, window.accuracy, *window.accuracy_interval, float(part.mean()))


def windows_by_suite(deployed: Deployed, window_size: int) -> dict[str, list[Window]]:
    """Suite -> windows: clean ones, clean ones under changed class shares, and those of the shifts."""
    rng, clean = np.random.default_rng(12), deployed.network.clean
    found: dict[str, list[Window]] = {}
    for name, concentration in (("clean", None), ("Dirichlet(1)", 1.0), ("Dirichlet(0.3)", 0.3)):
        drawn = []
        for _ in range(N_MIXES):
            shares = (
                None if concentration is None else rng.dirichlet(np.full(deployed.network.n_classes, concentration))
            )
            weights = None if shares is None else shares[clean.labels] / shares[clean.labels].sum()
            drawn.append(rng.choice(len(clean.labels), window_size, p=weights))
        positions = np.concatenate(drawn)
        found[name] = list(windows_of(deployed, clean.logits[positions], clean.labels[positions], window_size))
    for suite, conditions in deployed.network.suites.items():
        found[suite] = []
        for condition in conditions:
            order = np.random.default_rng(12).permutation(len(condition.labels))
            found[suite] += windows_of(deployed, condition.logits[order], condition.labels[order], window_size)
    return {suite: windows for suite, windows in found.items() if windows}


def print_rates(networks: list[Deployed]) -> None:
    """Rates that do not need a shift."""
    names = [deployed.network.name for deployed in networks]
    print("## Clean samples\n")
    print(table_head(["rate", "stated", *names]))
    for size in WINDOW_SIZES:
        alarms = [false_alarms(deployed.network, size) for deployed in networks]
        for rate in RATES:
            title = f"false alarms, windows of {size}"
            cells = [f"{100 * alarm[rate].alarms:.3f} %" for alarm in alarms]
            print(table_row([title, f"at most {100 * rate:g} %", *cells]))
            cells = [f"{alarm[rate].exceeding} of {N_VALIDATION_SETS}" for alarm in alarms]
            print(table_row(["validation sets with more", "at most 1 %", *cells]))
        for state, name in ((NO_CHANGE, "no_change"), (UNKNOWN, "cannot_tell")):
            cells = [f"{100 * getattr(alarm[RATES[-1]], name):.3f} %" for alarm in alarms]
            print(table_row([f"`{state}`, windows of {size}", "–", *cells]))
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
        f"\nFalse alarms: {N_VALIDATION_SETS} validation sets, each half of the validation samples; {N_WINDOWS:,} windows of clean "
        "samples for each. An alarm is any state but `ok`, `no change seen` and `cannot tell`. "
        f"Sequential test: {N_RUNS} runs of {100 * N_READINGS:,} labels, alpha {ALPHA}.\n"
    )


def print_windows(networks: list[Deployed]) -> None:
    """States of windows, and windows whose estimate is off while the state is `ok`."""
    print("## States, and windows that are off while the state is `ok`\n")
    states = (OK, NO_CHANGE, CLASS_MIX, SHIFTED, OUT, UNKNOWN)
    print(
        table_head(
            ["network", "suite", "window", "windows", *states, f"off by more than {OFF}", "`ok` and off", "of `ok` windows",
             "mean abs. error", "interval covers", "median half-width"]
        )
    )  # fmt: skip
    for deployed in networks:
        for size in WINDOW_SIZES:
            for suite, windows in windows_by_suite(deployed, size).items():
                error = np.array([abs(window.estimate - window.accuracy) for window in windows])
                covered = [window.low <= window.accuracy <= window.high for window in windows]
                width = np.median([window.high - window.low for window in windows]) / 2
                ok, off = np.array([window.state == OK for window in windows]), error > OFF
                shares = [np.mean([window.state == state for window in windows]) for state in states]
                cells = [f"{100 * share:.1f} %" for share in (*shares, off.mean(), (ok & off).mean())]
                cells += [f"{100 * (ok & off).sum() / max(1, ok.sum()):.1f} %", f"{error.mean():.3f}"]
                cells += [f"{100 * np.mean(covered):.1f} %", f"{width:.3f}"]
                print(table_row([deployed.network.name, suite, size, f"{len(windows):,}", *cells]), flush=True)
    print(
        "\nTrue accuracy is that of the window's own samples: in a window of 100 it varies by ±0.06 although nothing has changed. "
        "The natural shift also changes the class mix. Dirichlet: clean windows under class shares drawn from that distribution. "
        "A network whose conditions have fewer samples than a window has no row."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", type=Path)
    parser.add_argument("study", type=Path)
    parser.add_argument("networks", nargs="*", help="names of networks of the study")
    arguments = parser.parse_args()
    networks = [
        Deployed.of_all(network) for network in recorded_networks(arguments.golden, arguments.study, arguments.networks)
    ]
    print("# Stated rates and measured rates\n")
    print(
        f"`python -m benchmarks.reliability.stated_rates ../shared/golden benchmarks/data {' '.join(arguments.networks)} > "
        "benchmarks/reliability/stated_rates.md`\n"
    )
    estimators = ", ".join(
        f"{deployed.network.name}: `{deployed.monitored.default_estimator}`" for deployed in networks
    )
    print(
        f"Temperature scaling of each network's clean validation half; default estimators of the monitor: {estimators}.\n"
    )
    print_rates(networks)
    print_windows(networks)


if __name__ == "__main__":
    main()
