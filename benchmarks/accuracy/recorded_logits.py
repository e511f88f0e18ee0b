"""Mean ECE of every calibrator from recorded logits of a CIFAR-10 ResNet-20, beside reference figures.

    python -m benchmarks.accuracy.recorded_logits ../shared/golden

The folder holds the logits (`cifar10_resnet20.npz`) and what the published code computes from them (`.json`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import driftcal
from driftcal.calibrators import PAPER_CALIBRATORS
from driftcal.metrics import Statistics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    stored = np.load(folder / "cifar10_resnet20.npz")
    reference = json.loads((folder / "cifar10_resnet20.json").read_text())["results"]
    ladder, val, test = stored["ladder_logits"].astype(np.float64), stored["val_labels"], stored["test_labels"]
    shifts = {
        name: stored[name].astype(np.float64)
        for name in stored.files
        if name.startswith("test_") and name != "test_labels"
    }

    def errors(name: str, perturbed: bool, t_max: float | None) -> tuple[float, float]:
        """Mean of the micro-averaged ECE-10 over the nine shifts, and the ECE-10 in domain."""
        capped = {"t_max": t_max} if "t_max" in driftcal.make_calibrator(name).get_params() else {}
        rows = (ladder.reshape(-1, 10), np.tile(val, 10)) if perturbed else (ladder[0], val)
        calibrator = driftcal.make_calibrator(name, **capped).fit(*rows)

        def ece(logits: np.ndarray) -> float:
            labels = np.tile(test, len(logits) // len(test))
            return Statistics.of(labels, calibrator.predict_proba(logits), score_type="probabilities", n_bins=10).ece

        return float(np.mean([ece(z.reshape(-1, 10)) for z in shifts.values()])), ece(next(iter(shifts.values()))[0])

    print("| | mean ECE, T ≤ 5 | reference | in domain, T ≤ 5 | reference | mean ECE, exact | in domain, exact |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    worst = 0.0
    for perturbed in (False, True):
        for name in PAPER_CALIBRATORS:
            if name == "base" and perturbed:
                continue
            label = ("Base" if name == "base" else name.upper()) + ("-P" if perturbed else "")
            capped, exact = errors(name, perturbed, 5.0), errors(name, perturbed, None)
            known = reference.get(label)
            wanted = (known["mean_ece10"], known["in_domain_ece10"]) if known else None
            if wanted:
                worst = max(worst, *(abs(a - b) for a, b in zip(capped, wanted, strict=True)))
            cells = [
                f"{capped[0]:.3f}",
                f"{wanted[0]:.3f}" if wanted else "–",
                f"{capped[1]:.3f}",
                f"{wanted[1]:.3f}" if wanted else "–",
            ]
            print(f"| {label} | {' | '.join(cells)} | {exact[0]:.3f} | {exact[1]:.3f} |")
    print(f"\nLargest difference to the reference: {worst:.5f}")


if __name__ == "__main__":
    main()
