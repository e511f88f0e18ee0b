"""Recorded logits of several networks: validation images at levels of noise, and test images under suites of shifts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy.recorded_logits import RecordedLogits


@dataclass(frozen=True, eq=False)
class Condition:
    """Test samples under one shift at one level."""

    logits: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class RecordedNetwork:
    """Logits of one network. `levels` is (level, sample, class) of the validation samples, clean first."""

    name: str
    levels: np.ndarray
    validation_labels: np.ndarray
    #: Clean samples, as many as there are.
    clean: Condition
    #: Suite -> its conditions.
    suites: dict[str, list[Condition]]

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.levels.shape[-1]


def recorded_networks(golden: Path, study: Path, names: Iterable[str]) -> Iterator[RecordedNetwork]:
    """The network of `golden`, and the named ones of the study."""
    recorded = RecordedLogits.load(golden)
    clean = Condition(
        np.concatenate([recorded.levels[0], recorded.clean_test]),
        np.concatenate([recorded.validation_labels, recorded.test_labels]),
    )
    affine = [Condition(logits, recorded.test_labels) for levels in recorded.shifts.values() for logits in levels]
    yield RecordedNetwork(
        "ResNet-20", recorded.levels, recorded.validation_labels, clean, {"affine": affine}
    )  # fmt: skip
    for name in names:
        with np.load(study / f"{name}.npz") as stored:
            yield _of_study(name, {key: stored[key] for key in stored.files})


def _of_study(name: str, arrays: dict[str, np.ndarray]) -> RecordedNetwork:
    """The network of a file of `benchmarks.accuracy.collect_study`."""
    test_labels = arrays["test_labels"].astype(np.int64)
    suites: dict[str, list[Condition]] = {}
    for key, logits in arrays.items():
        if key.startswith("test/") and key != "test/clean":
            suites.setdefault(key.split("/")[1], []).append(Condition(logits.astype(np.float64), test_labels))
    if "natural" in arrays:
        natural = Condition(arrays["natural"].astype(np.float64), arrays["natural_labels"].astype(np.int64))
        suites["natural"] = [natural]
    clean = Condition(arrays["clean"].astype(np.float64), arrays["clean_labels"].astype(np.int64))
    levels = [arrays[f"levels/gaussian/{k}"] for k in range(10)]
    return RecordedNetwork(
        name, np.array(levels, np.float64), arrays["val_labels"].astype(np.int64), clean, suites
    )  # fmt: skip
