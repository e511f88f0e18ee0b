"""The methods of the windowed study: each is fitted on validation logits and predicts blocks of unlabelled test logits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

import driftcal
from benchmarks.accuracy.accuracy_baselines import ESTIMATORS, BiasCorrectedEM, CleanSamples, ExpectationConsistent
from benchmarks.accuracy.study_data import StudyData
from driftcal.calibrators import CALIBRATORS, Calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.pipeline.tuning.candidates import Selection
from driftcal.pipeline.tuning.tune_calibrators import tune_calibrators

#: The paper's five methods that are tuned on levels of noise.
PAPER_P = ("ts-p", "ets-p", "ts-ir-p", "ir-p", "irm-p")


class Predictor(Protocol):
    """A fitted method."""

    def predict(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities of a block, which is one window if the method is windowed."""


@dataclass(frozen=True)
class Method:
    """A method by its name; `fit` takes the data, the size of the windows and a seed."""

    name: str
    fit: Callable[[StudyData, int, int], Predictor]
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


def fit_on_simulated(name: str, data: StudyData) -> Calibrator:
    """A calibrator fitted on the clean samples and every simulated shift."""
    logits, labels, conditions, families = data.simulated()
    return driftcal.make_calibrator(name).fit(logits, labels, levels=conditions, families=families)


def driftcal_method(name: str, tuning: str) -> Method:
    """A driftcal calibrator tuned on ``clean`` samples, the levels of ``gaussian`` or ``varied``, or ``simulated`` shifts."""
    suffix = {"clean": "", "gaussian": "-p", "varied": "-v", "simulated": ""}[tuning]
    takes_levels = CALIBRATORS[name].needs_levels

    def fit(data: StudyData, size: int, seed: int) -> Predictor:
        if tuning == "clean":
            return Fitted(driftcal.make_calibrator(name).fit(data.logits("val/clean"), data.labels("val")))
        if tuning == "simulated":
            return Fitted(fit_on_simulated(name, data))
        logits, labels, levels = data.levels(tuning)
        calibrator = driftcal.make_calibrator(name)
        if takes_levels:
            return Fitted(calibrator.fit(logits, labels, levels=levels))
        return Fitted(calibrator.fit(logits, labels))

    return Method(name + suffix, fit, issubclass(CALIBRATORS[name], WindowedCalibrator))


def with_unrelated(name: str) -> Method:
    """A calibrator tuned on clean samples and as many unrelated images whose label is uniform (arXiv 2507.07780)."""

    def fit(data: StudyData, size: int, seed: int) -> Predictor:
        clean, unrelated = data.logits("val/clean"), data.logits("ood")
        n_classes = clean.shape[1]
        logits = np.concatenate([clean, np.repeat(unrelated, n_classes, axis=0)])
        labels = np.concatenate([data.labels("val"), np.tile(np.arange(n_classes), len(unrelated))])
        weights = np.full(len(logits), len(clean) / len(unrelated) / n_classes)
        weights[: len(clean)] = 1
        return Fitted(driftcal.make_calibrator(name).fit(logits, labels, sample_weight=weights))

    return Method(f"{name}-ood", fit)


def expectation_consistent(name: str) -> Method:
    """Expectation consistency with one of the published estimators of accuracy."""

    def fit(data: StudyData, size: int, seed: int) -> Predictor:
        clean = CleanSamples(data)
        return ExpectationConsistent(clean, ESTIMATORS[name](clean, size, seed))

    return Method(f"{name}-ec", fit, windowed=True)


def default_per_sample() -> Method:
    """The per-sample calibrator that ``method="auto"`` chooses from what `tune` collects."""

    def fit(data: StudyData, size: int, seed: int) -> Predictor:
        tuned = tune_calibrators(None, Selection(), *data.for_tune())
        print(f"{data.network}: {tuned.explanation}", file=sys.stderr, flush=True)
        return Fitted(tuned.calibrator)

    return Method("default", fit)


def methods() -> dict[str, Method]:
    """Every method of the study by name."""
    listed = [
        driftcal_method("base", "clean"),
        driftcal_method("ts", "clean"),
        *(driftcal_method(name.removesuffix("-p"), "gaussian") for name in PAPER_P),
        *(driftcal_method("level-ts", tuning) for tuning in ("gaussian", "varied")),
    ]
    listed += [expectation_consistent(name) for name in ESTIMATORS]
    listed.append(Method("bcts-em", lambda data, size, seed: BiasCorrectedEM.fit(CleanSamples(data)), windowed=True))
    listed += [with_unrelated(name) for name in ("ts", "irm")]
    listed += [driftcal_method("window-ts", "simulated"), default_per_sample()]
    return {method.name: method for method in listed}
