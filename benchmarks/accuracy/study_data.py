"""Logits that `collect_study` recorded: of one network, on validation and test images under all conditions.

    python -m benchmarks.accuracy.study_data FULL.npz benchmarks/data/NETWORK.npz

writes the reduced file that is kept with the code: fewer validation images, no augmented views.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.collecting.simulated import SimulatedLogits, assign_samples
from driftcal.shifts import simulated_conditions

#: Passes over the validation images that Algorithm 1 takes, for ResNet-20 (level_search.md).
N_PASSES = 14
#: Families that are recorded but not among the library's simulated shifts.
NOT_IN_LIBRARY = ("mixture",)
#: shift -> level -> logits (images, classes)
Conditions = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class StudyData:
    """One network's file; logits are read as float32."""

    network: str
    arrays: dict[str, np.ndarray]

    @classmethod
    def load(cls, file: Path) -> StudyData:
        """Read the file whole."""
        with np.load(file) as stored:
            return cls(file.stem, {name: stored[name] for name in stored.files})

    def logits(self, name: str) -> np.ndarray:
        """One condition, float32."""
        return self.arrays[name].astype(np.float32)

    def labels(self, name: str) -> np.ndarray:
        """``val``, ``test``, ``natural`` or ``clean``."""
        return self.arrays[f"{name}_labels"].astype(np.int64)

    def conditions(self, prefix: str) -> Conditions:
        """Every condition below a prefix such as ``test/affine``, by shift and level."""
        found: Conditions = {}
        for name in self.arrays:
            if name.startswith(prefix + "/") and name.count("/") == prefix.count("/") + 2:
                shift, level = name.removeprefix(prefix + "/").split("/")
                found.setdefault(shift, {})[level] = self.logits(name)
        return found

    def levels(self, shift: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logits, labels and level of the validation images at the levels of Algorithm 1, the clean one first."""
        names = [name for name in self.arrays if name.startswith(f"levels/{shift}/")]
        logits = [self.logits(name) for name in sorted(names, key=lambda name: int(name.rpartition("/")[2]))]
        return _stacked(logits, self.labels("val"))

    @cached_property
    def families(self) -> dict[str, str]:
        """Simulated shift -> family."""
        return dict(json.loads(str(self.arrays["families"])))

    def simulated(
        self, *, leave_out: tuple[str, ...] = NOT_IN_LIBRARY
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
        """Logits, labels and condition (0 is clean) of the validation images, and the family of each condition.

        `leave_out` are families.
        """
        logits, families = [self.logits("val/clean")], ["clean"]
        for shift, by_level in self.conditions("val").items():
            if self.families[shift] not in leave_out:
                logits += by_level.values()
                families += [self.families[shift]] * len(by_level)
        return *_stacked(logits, self.labels("val")), families

    def for_tune(self, n_images: int | None = None, *, seed: int = 0) -> tuple[PerturbedLogits, np.ndarray]:
        """What the default `tune` collects of the first validation images, and their labels.

        These are the levels of Gaussian noise and, for as many passes, parts of the images under simulated shifts.
        """
        labels = self.labels("val")[:n_images]
        names, level_of_noise = {}, 0
        for condition in simulated_conditions():
            level_of_noise += condition.family == "noise"
            level = level_of_noise if condition.family == "noise" else condition.level
            names[condition] = f"val/{condition.shift.name}/{level:g}"
        parts = assign_samples(list(names), len(labels), N_PASSES, seed)
        simulated = SimulatedLogits(
            [condition.family for condition, _ in parts],
            [part for _, part in parts],
            [self.logits(names[condition])[part] for condition, part in parts],
        )
        levels = [self.logits(f"levels/gaussian/{k}")[: len(labels)] for k in range(10)]
        record = {"shift": "gaussian", "passes": float(N_PASSES), "notes": []}
        return PerturbedLogits(record, levels, simulated), labels


def _stacked(logits: list[np.ndarray], labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = len(labels)
    return np.concatenate(logits), np.tile(labels, len(logits)), np.repeat(np.arange(len(logits)), n)


#: Validation images of a reduced file; it has all test images.
N_REDUCED = 600


def reduced(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first validation images, and everything but views."""
    kept = {}
    for name, array in arrays.items():
        if not name.startswith("views/"):
            kept[name] = array[:N_REDUCED] if name.startswith(("val", "levels/")) else array
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("full", type=Path)
    parser.add_argument("reduced", type=Path)
    options = parser.parse_args()
    options.reduced.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.reduced, **reduced(StudyData.load(options.full).arrays))


if __name__ == "__main__":
    main()
