"""A scikit-learn classifier whose probabilities stay honest when its features drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from driftcal.calibrators import CALIBRATORS
from driftcal.core.labels import as_columns
from driftcal.core.validation import as_array
from driftcal.errors import InputError, LabelsError, ModelError, UnknownName
from driftcal.models.outputs import SMALLEST_PROBABILITY, log_probabilities
from driftcal.models.sklearn import scores_classes
from driftcal.pipeline.select import choose
from driftcal.pipeline.tune import fit_on_levels
from driftcal.shifts import TabularNoise, get_shift
from driftcal.shifts.levels.find_levels import find_levels
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray, Array, Labels, Logits, LogProbs, Probs

#: What whoever asks for an adaptive calibrator has to know.
_STATIC = (
    "The calibrator follows windows of rows; predict_proba answers each row by itself, with its static map. For windows pass the "
    "logits to calibrator_.adapt or calibrator_.stream, or use driftcal.tune."
)


class DriftCalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """`estimator` with a calibrator tuned on rows that drift (Tomani et al. 2021, Algorithm 1), for tabular data.

    With `cv` a number of folds or a splitter, each row is answered by a clone that has not seen it, the calibrator is
    tuned on these answers, and the estimator is then fitted to all rows. ``cv="prefit"`` takes a fitted estimator and
    tunes on the rows given to `fit`, which it must not have seen. `shift` perturbs those rows at `levels` levels that
    step the accuracy evenly down to chance: noise in each column's own scale by default, with `categorical` columns (by
    number, or by name in a data frame) resampled; None tunes on the rows as they are. `method` is a calibrator's name
    or "auto", `clean_weight` the share of the rows as they are in all weight (None: of each level alike). Each row is answered by itself,
    so "auto" tries no calibrator that follows a window, and one that is named answers with its static map.

    Fitted: `estimator_`, `calibrator_`, `classes_`, `ladder_` (what Algorithm 1 found) and `explanation_` (in words).

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> honest = DriftCalibratedClassifier(LogisticRegression(max_iter=1000), levels=4).fit(X, y)
    >>> honest.predict_proba(X).shape
    (150, 3)
    """

    def __init__(
        self,
        estimator: Any,
        method: str = "irm",
        *,
        cv: Any = 5,
        shift: str | Shift | None = "tabular_noise",
        levels: int = 10,
        clean_weight: float | None = None,
        categorical: Sequence[int | str] = (),
        seed: int = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.shift = shift
        self.levels = levels
        self.clean_weight = clean_weight
        self.categorical = categorical
        self.seed = seed

    def fit(self, X: AnyArray, y: AnyArray) -> Self:
        """Fit the estimator unless it is, and tune the calibrator on rows that it has not seen."""
        if self.method != "auto" and self.method not in CALIBRATORS:
            raise UnknownName.of("method", self.method, [*CALIBRATORS, "auto"])
        rows = _as_rows(X)
        if y is None:
            raise LabelsError("this estimator requires y to be passed, but the target y is None. Pass fit(X, y).")
        targets = column_or_1d(y, warn=True)
        if len(targets) != len(rows):
            raise LabelsError(
                f"y must hold one label per row of X; X has {len(rows)} rows and y has shape {targets.shape}."
            )
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                raise UnknownName.of("cv", self.cv, ["prefit"])
            check_is_fitted(self.estimator)
            self.estimator_, self.classes_ = self.estimator, np.asarray(self.estimator.classes_)
            labels, _ = as_columns(targets, len(self.classes_), len(targets), classes=self.classes_.tolist())
            answerers = [(self.estimator_, np.arange(len(targets)))]
        else:
            self.classes_, labels = np.unique(targets, return_inverse=True)
            if len(self.classes_) < 2:
                raise LabelsError(
                    f"y must hold at least two classes; it holds {len(self.classes_)} class. Check the labels."
                )
            folds = check_cv(self.cv, targets, classifier=True).split(rows, targets)
            answerers = [(clone(self.estimator).fit(_take(rows, seen), targets[seen]), new) for seen, new in folds]
            if sorted(np.concatenate([new for _, new in answerers])) != list(range(len(targets))):
                raise InputError(
                    "cv must hold out every row exactly once. Use a number of folds, KFold or StratifiedKFold."
                )
            self.estimator_ = clone(self.estimator).fit(rows, targets)
        self._tune(rows, labels, answerers)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        return self

    def _tune(self, rows: Any, labels: Labels, answerers: list[tuple[Any, Array]]) -> None:
        for estimator, held_out in answerers:
            _check_scores(estimator, _take(rows, held_out))
        noise = self._noise(rows)

        def answers(level: float, some: Array | None = None) -> Logits:
            logits = np.empty((len(labels), len(self.classes_)))
            for estimator, held_out in answerers:
                inputs = _take(rows, held_out)
                if noise is not None and level:
                    inputs = _perturbed(inputs, noise, level, self.seed, held_out)
                logits[held_out] = _logits(estimator, inputs, self.classes_)
            return logits if some is None else logits[some]

        self.ladder_, self.explanation_ = None, ""
        if noise is None:
            tuning = [answers(0.0)]
        elif noise.levels is not None:
            tuning = [answers(level) for level in noise.levels]
        else:
            ladder = find_levels(answers, labels, n_levels=self.levels)
            tuning = list(ladder.logits)
            self.ladder_ = {
                "shift": noise.name,
                "levels": [asdict(level) for level in ladder.levels],
                "notes": list(ladder.notes),
            }
            self.explanation_ = " ".join(ladder.notes)
        method = self.method
        if method == "auto":
            choice = choose(
                tuning,
                labels,
                keep_accuracy=False,
                focus="both",
                t_max=None,
                clean_weight=self.clean_weight,
                adaptive=False,
            )
            method, self.explanation_ = choice.method, f"{choice.explanation} {self.explanation_}".strip()
        self.calibrator_, words = fit_on_levels(method, tuning, labels, None, self.clean_weight)
        self.explanation_ = " ".join(
            filter(None, (self.explanation_, words, _STATIC if CALIBRATORS[method].adaptive else ""))
        )

    def _noise(self, rows: Any) -> Shift | None:
        if self.shift is None:
            return None
        noise = get_shift(self.shift)
        if isinstance(noise, TabularNoise) and noise.scale is None:
            names = list(getattr(rows, "columns", ()))
            columns = [names.index(c) if isinstance(c, str) and c in names else c for c in self.categorical]
            unknown = [c for c in columns if isinstance(c, str)]
            if unknown:
                raise UnknownName.of("column", unknown[0], [str(name) for name in names])
            return noise.fit(rows, categorical=[int(c) for c in columns])
        return noise

    def predict_proba(self, X: AnyArray) -> Probs:
        """Calibrated probabilities, a column for each of `classes_`."""
        logits = self._scores(X)
        return self.calibrator_.predict_proba(logits)

    def predict_log_proba(self, X: AnyArray) -> LogProbs:
        """Calibrated log-probabilities, a column for each of `classes_`."""
        logits = self._scores(X)
        return self.calibrator_.predict_log_proba(logits)

    def predict(self, X: AnyArray) -> Array:
        """The most likely class; the estimator's own where the calibrator keeps accuracy."""
        logits = self._scores(X)
        labels: Array = self.classes_[self.calibrator_.predict(logits)]
        return labels

    def _scores(self, X: AnyArray) -> Logits:
        check_is_fitted(self)
        return _logits(self.estimator_, _as_rows(X), self.classes_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


def _as_rows(X: AnyArray) -> Any:
    """A data frame as it is, all else as an array."""
    return X if hasattr(X, "iloc") else as_array(X, "X")


def _take(rows: Any, which: Array) -> Any:
    return rows.iloc[which] if hasattr(rows, "iloc") else rows[which]


def _perturbed(rows: Any, noise: Shift, level: float, seed: int, indices: Array) -> Any:
    """The rows with noise; a data frame stays one, with its columns."""
    if not hasattr(rows, "iloc"):
        return noise(rows, level, seed=seed, indices=indices)
    values = noise(rows.to_numpy(), level, seed=seed, indices=indices)
    return type(rows)(values, index=rows.index, columns=rows.columns).infer_objects()


def _logits(estimator: Any, rows: Any, classes: Array) -> Logits:
    """Log-probabilities of an estimator, or its scores where it has no probabilities, a column for each class.

    A class that the estimator has not seen, and a probability that it rounds to 0, is small, not impossible.
    """
    if hasattr(estimator, "predict_proba"):
        logits = log_probabilities(estimator.predict_proba(rows))
    elif hasattr(estimator, "decision_function"):
        logits = np.asarray(estimator.decision_function(rows), np.float64)
        logits = np.stack([np.zeros(len(logits)), logits], axis=1) if logits.ndim == 1 else logits
    else:
        raise ModelError(
            f"the estimator must give predict_proba or decision_function; {type(estimator).__name__} has neither. Pass a classifier."
        )
    known = np.asarray(estimator.classes_)
    if logits.shape[1] != len(known):
        raise _no_score_per_class(estimator, f"gives {logits.shape[1]} for {len(known)} classes")
    full = np.full((len(logits), len(classes)), logits.min(initial=0.0) + np.log(SMALLEST_PROBABILITY))
    columns, _ = as_columns(known, len(classes), len(known), classes=classes.tolist())
    full[:, columns] = logits  # by name: whoever made the estimator need not have sorted its classes
    return full


def _check_scores(estimator: Any, rows: Any) -> None:
    """Refuse scores that are as many as classes and are not theirs."""
    if hasattr(estimator, "predict_proba") or not hasattr(estimator, "decision_function"):
        return
    shape = np.shape(estimator.decision_function(rows))
    if len(shape) == 2 and shape[1] == len(estimator.classes_) and not scores_classes(estimator, rows):
        raise _no_score_per_class(estimator, "has its top score seldom at the class it predicts")


def _no_score_per_class(estimator: Any, fact: str) -> ModelError:
    return ModelError(
        f"the estimator must give a score per class; {type(estimator).__name__} {fact}. "
        "For SVC set decision_function_shape='ovr'."
    )
