"""States of windows on a network that the rule of the states was not tried on: that of the demo, on Fashion-MNIST.

    python -m benchmarks.reliability.demo_network > benchmarks/reliability/demo_network.md

1,000 validation images, 500 test images under every affine shift and corruption. Five minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import driftcal
from benchmarks.measure import table_head, table_row
from benchmarks.reliability.recorded_networks import Condition, RecordedNetwork
from benchmarks.reliability.stated_rates import print_windows
from driftcal.data.bundled import FASHION_NETWORK
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.monitored_calibrator import MonitoredCalibrator, open_calibrator
from driftcal.shifts import SUITES

N_VALIDATION, N_TEST = 1000, 500


@dataclass(frozen=True)
class TunedNetwork:
    """A network and what a monitor opens after `tune`."""

    network: RecordedNetwork
    monitored: MonitoredCalibrator


def tuned_network() -> TunedNetwork:
    """The network of the demo, tuned on validation images; logits of test images under every shift."""
    validation, test = driftcal.open_source("fashion-mnist").split(N_VALIDATION, 1000, random_state=0)[:2]
    tuned = driftcal.tune(driftcal.open_model(FASHION_NETWORK), validation, method="window-ts")
    images, labels = test.inputs(), test.labels
    chosen = np.arange(N_TEST)
    suites = {
        name: [
            Condition(tuned.logits(shift(images[:N_TEST], level, seed=0, indices=chosen)), labels[:N_TEST])
            for shift, level in SUITES[name]
            if level
        ]
        for name in ("affine", "cifar10-c")
    }
    clean = Condition(tuned.logits(images), labels)
    network = RecordedNetwork("demo", np.zeros((1, 1, 10)), validation.labels, clean, suites)
    return TunedNetwork(network, open_calibrator(tuned, None, None))


def print_estimators(tuned: TunedNetwork) -> None:
    """Mean absolute error of every estimator of the monitor, one window of all test images for each condition."""
    errors: dict[str, dict[str, list[float]]] = {}
    for suite, conditions in tuned.network.suites.items():
        for condition in conditions:
            monitor = Monitor(tuned.monitored, window_size=N_TEST)
            monitor.update(condition.logits)
            accuracy = np.mean(condition.logits.argmax(axis=1) == condition.labels)
            for name, estimate in monitor.windows()[0].estimates.items():
                errors.setdefault(name, {}).setdefault(suite, []).append(abs(estimate - accuracy))
    print("## Mean absolute error of the estimators, windows of 500\n")
    print(table_head(["estimator", *tuned.network.suites]))
    for name, by_suite in sorted(errors.items(), key=lambda item: np.mean(item[1]["affine"])):
        print(table_row([name, *(f"{np.mean(values):.3f}" for values in by_suite.values())]))


def main() -> None:
    print("# States on a network that nothing was chosen on\n")
    print("`python -m benchmarks.reliability.demo_network > benchmarks/reliability/demo_network.md`\n")
    tuned = tuned_network()
    accuracy = np.mean(tuned.network.clean.logits.argmax(axis=1) == tuned.network.clean.labels)
    print(
        f"The network of the demo on Fashion-MNIST, clean accuracy {accuracy:.3f}, {N_VALIDATION:,} validation images.\n"
    )
    print_windows([tuned])
    print_estimators(tuned)


if __name__ == "__main__":
    main()
