"""The methods of the windowed study: each is fitted on validation logits and predicts blocks of unlabelled test logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

import driftcal
from benchmarks.accuracy.study_data import StudyData
from driftcal.calibrators import CALIBRATORS
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator

#: The paper's five methods that are tuned on levels of noise.
PAPER_P = ("ts-p", "ets-p", "ts-ir-p", "ir-p", "irm-p")


class Predictor(Protocol):
    """A fitted method."""

    def predict(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities of a block, which is one window if the method is windowed."""


@dataclass(frozen=True)
class Method:
    """A method by its name; `fit` takes the data and a seed."""

    name: str
    fit: Callable[[StudyData, int], Predictor]
    windowed: bool = False


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted driftcal calibrator; a windowed one adapts to each block."""

    calibrator: object

    def predict(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities."""
        calibrator = self.calibrator
        if isinstance(calibrator, WindowedCalibrator):
            calibrator = calibrator.adapt(logits)
        return calibrator.predict_proba(logits)


def driftcal_method(name: str, tuning: str) -> Method:
    """A driftcal calibrator tuned on ``clean`` samples, the levels of ``gaussian`` or ``varied``, or ``simulated`` shifts."""
    suffix = {"clean": "", "gaussian": "-p", "varied": "-v", "simulated": ""}[tuning]
    takes_levels = CALIBRATORS[name].needs_levels

    def fit(data: StudyData, seed: int) -> Predictor:
        if tuning == "clean":
            return Fitted(driftcal.make_calibrator(name).fit(data.logits("val/clean"), data.labels("val")))
        logits, labels, levels = data.simulated()[:3] if tuning == "simulated" else data.levels(tuning)
        calibrator = driftcal.make_calibrator(name)
        if takes_levels:
            return Fitted(calibrator.fit(logits, labels, levels=levels))
        return Fitted(calibrator.fit(logits, labels))

    return Method(name + suffix, fit, issubclass(CALIBRATORS[name], WindowedCalibrator))


def methods() -> dict[str, Method]:
    """Every method of the study by name."""
    listed = [
        driftcal_method("base", "clean"),
        driftcal_method("ts", "clean"),
        *(driftcal_method(name.removesuffix("-p"), "gaussian") for name in PAPER_P),
        *(
            driftcal_method(name, tuning)
            for name in ("level-ts", "level-ec", "level-irm")
            for tuning in ("gaussian", "varied")
        ),
    ]
    if "window-ts" in CALIBRATORS:
        listed.append(driftcal_method("window-ts", "simulated"))
    return {method.name: method for method in listed}
