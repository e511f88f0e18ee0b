"""Recorded logits of several networks: validation images at levels of noise, and test images under suites of shifts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy.recorded_logits import RecordedLogits
from benchmarks.accuracy.study_data import StudyData


@dataclass(frozen=True, eq=False)
class Condition:
    """Test samples under one shift at one level."""

    logits: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class SimulatedShifts:
    """Validation samples under every simulated shift: (condition, sample, class), the clean one first, and their families."""

    logits: np.ndarray
    families: list[str]


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
    #: None if only levels of noise were recorded: then there is no windowed form.
    simulated: SimulatedShifts | None = None

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
        yield _of_study(StudyData.load(study / f"{name}.npz"))


def _of_study(data: StudyData) -> RecordedNetwork:
    """The network of a file of `benchmarks.accuracy.collect_study`."""
    suites = {
        suite: [
            Condition(logits, data.labels("test"))
            for by_level in data.conditions(f"test/{suite}").values()
            for logits in by_level.values()
        ]
        for suite in ("affine", "corruptions", "simple")
    }
    suites["natural"] = [Condition(data.logits("natural"), data.labels("natural"))]
    labels = data.labels("val")
    levels = data.levels("gaussian")[0].reshape(-1, len(labels), data.logits("clean").shape[1])
    logits, _, _, families = data.simulated()
    return RecordedNetwork(
        data.network,
        levels,
        labels,
        Condition(data.logits("clean"), data.labels("clean")),
        suites,
        SimulatedShifts(logits.reshape(-1, *levels.shape[1:]), families),
    )
