"""A scikit-learn classifier with calibrated probabilities, in domain and under shift of its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from driftcal.calibrators import CALIBRATORS, Calibrator
from driftcal.core.inputs.frames import take
from driftcal.core.labels import as_columns, check_range
from driftcal.core.validation import as_array
from driftcal.errors import InputError, LabelsError, ModelError, UnknownName
from driftcal.models.boosters import booster_framework, from_booster
from driftcal.models.outputs import SMALLEST_PROBABILITY, log_probabilities
from driftcal.models.sklearn import scores_classes
from driftcal.models.votes import note_on_votes, probabilities_of
from driftcal.pipeline.collecting.input_warnings import find_warnings, warn
from driftcal.pipeline.collecting.perturbation import perturb
from driftcal.pipeline.tuning.candidates import Selection, method_calibrator
from driftcal.pipeline.tuning.tune_calibrators import tune_calibrators
from driftcal.shifts import TabularNoise, get_shift
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray, Array, Indices, Labels, Logits, LogProbs, Probs


class DriftCalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """`estimator` with a calibrator tuned on clean and perturbed features (Tomani et al. 2021, Algorithm 1).

    A clone that was not fitted on a sample predicts it. The calibrator is tuned on these predictions. The estimator is
    then fitted on all samples.

    Parameters
    ----------
    estimator
        A classifier.
    method
        "auto", the short name of a calibrator, an unfitted calibrator, or a :class:`driftcal.Selection`.
    cv
        A number of folds or a splitter. "prefit": `estimator` is fitted, and `fit` gets samples that it was not fitted
        on.
    shift
        What perturbs the features, at levels where the accuracy falls in equal steps down to chance. "tabular_noise" is
        noise in the scale of each column. None: clean samples only.
    n_levels
        Perturbation levels, the clean one included.
    clean_weight
        The share of the clean samples in all weight. None: all levels have the same weight; with None, method "auto"
        tries several.
    categorical
        Columns that are resampled instead of getting noise: by number, or by name in a data frame. Those of dtype
        category, string or bool need not be named.
    random_state
        The seed of the perturbation.

    Attributes
    ----------
    estimator_, calibrator_, classes_
        The fitted estimator, its calibrator and the classes.
    perturbation_
        The shift and the levels that Algorithm 1 found.
    explanation_
        What was chosen and why, in plain sentences.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> calibrated = DriftCalibratedClassifier(LogisticRegression(max_iter=1000), n_levels=4).fit(X, y)
    >>> calibrated.predict_proba(X).shape
    (150, 3)
    """

    def __init__(
        self,
        estimator: Any,
        method: str | Calibrator | Selection = "auto",
        *,
        cv: Any = 5,
        shift: str | Shift | None = "tabular_noise",
        n_levels: int = 10,
        clean_weight: float | None = None,
        categorical: Sequence[int | str] = (),
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.shift = shift
        self.n_levels = n_levels
        self.clean_weight = clean_weight
        self.categorical = categorical
        self.random_state = random_state

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit the estimator unless it is fitted, and tune the calibrator on samples that it was not fitted on."""
        method = method_calibrator(self.method)
        samples = _as_samples(X)
        targets = _checked_targets(y, len(samples))
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                raise UnknownName.of("cv", self.cv, ["prefit"])
            check_is_fitted(self.estimator)
            self.estimator_, self.classes_ = self.estimator, np.asarray(self.estimator.classes_)
            labels, _ = as_columns(targets, len(self.classes_), len(targets), classes=self.classes_.tolist())
            check_range(labels, len(self.classes_))
            predictors = [(self.estimator_, np.arange(len(targets)))]
        else:
            self.classes_, labels = np.unique(targets, return_inverse=True)
            if len(self.classes_) < 2:
                raise LabelsError(
                    f"y must hold at least two classes; it holds {len(self.classes_)} class. Check the labels."
                )
            folds = check_cv(self.cv, targets, classifier=True).split(samples, targets)
            predictors = [
                (clone(self.estimator).fit(take(samples, fitted), targets[fitted]), held_out)
                for fitted, held_out in folds
            ]
            if sorted(np.concatenate([held_out for _, held_out in predictors])) != list(range(len(targets))):
                raise InputError(
                    "cv must hold out every sample exactly once. Use a number of folds, KFold or StratifiedKFold."
                )
            self.estimator_ = clone(self.estimator).fit(samples, targets)
        for estimator, held_out in predictors:
            _check_scores(estimator, take(samples, held_out))
        provider = CrossFittedLogits(samples, labels, predictors, self.classes_, self.random_state)
        perturbed = perturb(provider, self._tuning_shift(samples), n_levels=self.n_levels)
        accuracy = float(np.mean(np.asarray(perturbed.clean).argmax(axis=1) == labels))
        warnings = find_warnings(accuracy, labels, [str(name) for name in self.classes_], len(self.classes_))
        warn(warnings)
        selection = _per_sample(self.method if isinstance(self.method, Selection) else Selection()).for_inputs(
            "features"
        )
        tuned = tune_calibrators(method, selection, perturbed, labels, clean_weight=self.clean_weight)
        self.calibrator_, self.perturbation_ = tuned.calibrator, perturbed.record
        accuracy_sentence = f"Validation accuracy {accuracy:.3f} on {len(labels)} samples."
        sentences = [accuracy_sentence, *warnings, note_on_votes(self.estimator_), tuned.explanation]
        self.explanation_ = " ".join(filter(None, sentences))
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        return self

    def _tuning_shift(self, samples: Any) -> Shift | None:
        if self.shift is None:
            return None
        shift = get_shift(self.shift)
        if not isinstance(shift, TabularNoise) or shift.scale is not None:
            return shift
        return shift.fit(samples, categorical=self.categorical)

    def predict_proba(self, X: AnyArray) -> Probs:
        """Calibrated probabilities, a column for each of `classes_`."""
        logits = self._logits(X)
        return self.calibrator_.predict_proba(logits)

    def predict_log_proba(self, X: AnyArray) -> LogProbs:
        """Calibrated log-probabilities, a column for each of `classes_`."""
        logits = self._logits(X)
        return self.calibrator_.predict_log_proba(logits)

    def predict(self, X: AnyArray) -> Array:
        """The most likely class; a calibrator that keeps the accuracy never changes the estimator's prediction."""
        logits = self._logits(X)
        labels: Array = self.classes_[self.calibrator_.predict(logits)]
        return labels

    def _logits(self, X: AnyArray) -> Logits:
        check_is_fitted(self)
        return _estimator_logits(self.estimator_, _as_samples(X), self.classes_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


@dataclass(frozen=True, eq=False)
class CrossFittedLogits:
    """The logits of samples under any shift, each sample by the estimator that was not fitted on it.

    It implements :class:`driftcal.pipeline.collecting.collect.LogitProvider`.
    """

    samples: Any
    labels: Labels
    predictors: Sequence[tuple[Any, Indices]]
    classes: Array
    seed: int

    @property
    def n_classes(self) -> int:
        """Columns of the logits."""
        return len(self.classes)

    @property
    def is_remote(self) -> bool:
        """False: everything is computed in this process."""
        return False

    def logits(self, shift: Shift | None, level: float, *, keep: bool = True) -> Logits:
        """All logits of a condition."""
        logits = np.empty((len(self.labels), len(self.classes)))
        for estimator, held_out in self.predictors:
            inputs = take(self.samples, held_out)
            if shift is not None and level:
                inputs = shift(inputs, level, seed=self.seed, indices=held_out)
            logits[held_out] = _estimator_logits(estimator, inputs, self.classes)
        return logits

    def logits_of(self, shift: Shift, level: float, indices: Indices) -> Logits:
        """The logits of some samples."""
        return self.logits(shift, level)[indices]

    def condition(self, shift: Shift | None, level: float) -> Logits:
        """All logits of a condition."""
        return self.logits(shift, level)

    def accuracy(self, shift: Shift | None, level: float) -> float:
        """The share of samples whose largest logit is that of the label."""
        return float(np.mean(self.logits(shift, level).argmax(axis=1) == self.labels))


def _per_sample(selection: Selection) -> Selection:
    """The selection without windowed candidates: a classifier of scikit-learn predicts each sample alone."""
    names = CALIBRATORS if selection.candidates is None else selection.candidates
    return replace(selection, candidates=[n for n in names if not CALIBRATORS[n].needs_window] or ["ts"])


def _as_samples(X: AnyArray) -> Any:
    """A data frame unchanged, all else as an array."""
    return X if hasattr(X, "iloc") else as_array(X, "X")


def _checked_targets(y: AnyArray, n_samples: int) -> Array:
    if y is None:
        raise LabelsError("this estimator requires y to be passed, but the target y is None. Pass fit(X, y).")
    targets: Array = column_or_1d(y, warn=True)
    if len(targets) != n_samples:
        raise LabelsError(
            f"y must hold one label per sample of X; X has {n_samples} samples and y has shape {targets.shape}."
        )
    return targets


def _estimator_logits(estimator: Any, samples: Any, classes: Array) -> Logits:
    """Log-probabilities of an estimator, or its scores if it has no probabilities, a column for each class.

    A class that the estimator was not fitted on gets a small probability, not 0.
    """
    booster = booster_framework(estimator)
    if booster is not None:  # margins are exact where float32 probabilities are rounded to 0 and 1
        logits = np.asarray(from_booster(estimator, booster, outputs="logits").run(samples))
    elif hasattr(estimator, "predict_proba"):
        logits = log_probabilities(probabilities_of(estimator, samples))
    elif hasattr(estimator, "decision_function"):
        logits = np.asarray(estimator.decision_function(samples), np.float64)
        logits = np.stack([np.zeros(len(logits)), logits], axis=1) if logits.ndim == 1 else logits
    else:
        raise ModelError(
            f"the estimator must give predict_proba or decision_function; {type(estimator).__name__} has neither. Pass a classifier."
        )
    fitted_classes = np.asarray(estimator.classes_)
    if logits.shape[1] != len(fitted_classes):
        raise _no_score_per_class(estimator, f"gives {logits.shape[1]} for {len(fitted_classes)} classes")
    full = np.full((len(logits), len(classes)), logits.min(initial=0.0) + np.log(SMALLEST_PROBABILITY))
    columns, _ = as_columns(fitted_classes, len(classes), len(fitted_classes), classes=classes.tolist())
    full[:, columns] = logits  # by name: the estimator need not have sorted its classes
    return full


def _check_scores(estimator: Any, samples: Any) -> None:
    """Refuse scores of pairs of classes: there may be as many pairs as classes."""
    if hasattr(estimator, "predict_proba") or not hasattr(estimator, "decision_function"):
        return
    shape = np.shape(estimator.decision_function(samples))
    if len(shape) == 2 and shape[1] == len(estimator.classes_) and not scores_classes(estimator, samples):
        raise _no_score_per_class(estimator, "seldom has its top score at the class it predicts")


def _no_score_per_class(estimator: Any, fact: str) -> ModelError:
    return ModelError(
        f"the estimator must give a score per class; {type(estimator).__name__} {fact}. "
        "For SVC set decision_function_shape='ovr'."
    )
