"""Mean ECE of the paper's calibrators from recorded logits of a CIFAR-10 ResNet-20, beside the published code's numbers.

    python -m benchmarks.accuracy.recorded_logits ../shared/golden

The folder holds the logits (`cifar10_resnet20.npz`) and what the published code computes from them (`.json`).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.measure import table_head, table_row
from driftcal.calibrators import PAPER_CALIBRATORS
from driftcal.metrics import expected_calibration_error
from driftcal.paper.calibrator_names import label


@dataclass(frozen=True, eq=False)
class RecordedLogits:
    """Logits of 5,000 validation images at ten levels of noise, and of 5,000 test images under nine affine shifts.

    `levels` is (level, image, class), the clean level first; `shifts` maps a name to the same for a shift.
    """

    levels: np.ndarray
    validation_labels: np.ndarray
    shifts: dict[str, np.ndarray]
    test_labels: np.ndarray

    @classmethod
    def load(cls, folder: Path) -> RecordedLogits:
        """Read ``cifar10_resnet20.npz``."""
        stored = np.load(folder / "cifar10_resnet20.npz")
        names = [name for name in stored.files if name.startswith("test_") and name != "test_labels"]
        return cls(
            stored["ladder_logits"].astype(np.float64),
            stored["val_labels"].astype(np.int64),
            {name.removeprefix("test_"): stored[name].astype(np.float64) for name in names},
            stored["test_labels"].astype(np.int64),
        )

    @property
    def clean_test(self) -> np.ndarray:
        """Logits of the clean test images."""
        return next(iter(self.shifts.values()))[0]

    def tuning_samples(self, *, perturbed: bool, n_images: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Logits and labels of the first validation images: clean ones, or those of all levels (-P)."""
        levels, labels = self.levels[:, :n_images], self.validation_labels[:n_images]
        if not perturbed:
            return levels[0], labels
        return levels.reshape(-1, levels.shape[-1]), np.tile(labels, len(levels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    recorded = RecordedLogits.load(folder)
    reference = json.loads((folder / "cifar10_resnet20.json").read_text())["results"]

    def errors(name: str, perturbed: bool, t_max: float | None) -> tuple[float, float]:
        """The mean of the micro-averaged ECE-10 over the nine shifts, and the ECE-10 in domain."""
        has_t_max = "t_max" in driftcal.make_calibrator(name).get_params()
        calibrator = driftcal.make_calibrator(name, **({"t_max": t_max} if has_t_max else {}))
        calibrator.fit(*recorded.tuning_samples(perturbed=perturbed))

        def ece(logits: np.ndarray) -> float:
            labels = np.tile(recorded.test_labels, len(logits) // len(recorded.test_labels))
            return expected_calibration_error(labels, calibrator.predict_proba(logits), n_bins=10)

        by_shift = [ece(logits.reshape(-1, 10)) for logits in recorded.shifts.values()]
        return float(np.mean(by_shift)), ece(recorded.clean_test)

    columns = "mean ECE, T ≤ 5", "reference", "in domain, T ≤ 5", "reference", "mean ECE, exact", "in domain, exact"
    print(table_head(["", *columns]))
    largest_difference = 0.0
    for perturbed in (False, True):
        for name in PAPER_CALIBRATORS[1:] if perturbed else PAPER_CALIBRATORS:
            title = label(f"{name}-p" if perturbed else name)
            capped, exact = errors(name, perturbed, 5.0), errors(name, perturbed, None)
            published = reference.get(title)
            expected = (published["mean_ece10"], published["in_domain_ece10"]) if published else None
            cells = [f"{error:.3f}" for error in (*capped, *exact)]
            if expected:
                largest_difference = max(largest_difference, *np.abs(np.subtract(capped, expected)))
            mean_reference, in_domain_reference = (f"{e:.3f}" for e in expected) if expected else ("–", "–")
            print(table_row([title, cells[0], mean_reference, cells[1], in_domain_reference, *cells[2:]]))
    print(f"\nLargest difference to the reference: {largest_difference:.5f}")


if __name__ == "__main__":
    main()
