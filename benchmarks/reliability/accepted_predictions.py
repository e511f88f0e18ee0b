"""The accuracy of accepted predictions under shift, as the monitor estimates it without labels.

    python -m benchmarks.reliability.accepted_predictions ../shared/golden benchmarks/data resnet20 resnet44 plain-cnn \
        > benchmarks/reliability/accepted_predictions.md

The same networks as in `stated_rates`. The first one has no windowed form. A minute per network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.measure import table_head, table_row
from benchmarks.reliability.deployed_network import COVERAGE, Deployed
from benchmarks.reliability.recorded_networks import recorded_networks
from driftcal.monitor.monitor import Monitor


def print_accepted(networks: list[Deployed], window_size: int = 100) -> None:
    """Accepted predictions of shifted windows: their share, estimated accuracy and true accuracy."""
    print(f"# Accepted predictions, windows of {window_size}\n")
    columns = [
        "network",
        "suite",
        "accepted",
        "true accuracy",
        "estimated",
        "mean confidence",
        "error of the estimate",
        "of the confidence",
    ]
    print(table_head(columns))  # fmt: skip
    for deployed in networks:
        for suite, conditions in deployed.network.suites.items():
            rows = []
            for condition in conditions:
                monitor = Monitor(deployed.monitored, window_size=window_size)
                monitor.update(condition.logits.astype(np.float64))
                p = deployed.calibrator.predict_proba(condition.logits)
                confidence, correct = p.max(axis=1), p.argmax(axis=1) == condition.labels
                for window in monitor.windows():
                    part = slice(int(window.begin), int(window.end))
                    accepted = confidence[part] >= deployed.monitored.threshold.confidence
                    if window.n_samples == window_size and accepted.any():
                        truth, stated = correct[part][accepted].mean(), confidence[part][accepted].mean()
                        estimate = window.accepted_accuracy
                        rows.append(
                            (accepted.mean(), truth, estimate, stated, abs(estimate - truth), abs(stated - truth))
                        )
            print(table_row([deployed.network.name, suite, *(f"{mean:.3f}" for mean in np.mean(rows, axis=0))]))
    print(
        f"\nThe threshold accepts {100 * COVERAGE:.0f} % of the clean validation samples. Errors are mean absolute errors."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", type=Path)
    parser.add_argument("study", type=Path)
    parser.add_argument("networks", nargs="*", help="names of networks of the study")
    options = parser.parse_args()
    networks = recorded_networks(options.golden, options.study, options.networks)
    print_accepted([Deployed.of_all(network) for network in networks])


if __name__ == "__main__":
    main()
