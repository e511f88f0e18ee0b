"""What every calibrator shares: scikit-learn's words around one `_fit` and one map."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import sklearn.exceptions
from sklearn.base import BaseEstimator, ClassifierMixin

from driftcal.calibrators.levels import split_by_level
from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits, map_blocks
from driftcal.core.labels import as_columns, declared_classes
from driftcal.core.numerics import kernel
from driftcal.errors import DidNotConverge, InputError, LogitsError, NotFittedError
from driftcal.types import AnyArray, Array, Float64, Logits, LogProbs, Probs


class _NotFitted(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """Both worlds' way to say that ``fit`` has not been called."""


@dataclass(frozen=True)
class FitReport:
    """What a fit did: its loss on the tuning rows before and after, and what it took.

    `loss` names the quantity that `before` (doing nothing) and `after` measure; they are means over the tuning rows,
    and infinite where a true class is masked.
    """

    loss: str
    before: float
    after: float
    passes: int
    seconds: float = 0.0
    warnings: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"warnings": list(self.warnings)}


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A map from logits to honest log-probabilities, learnt from labelled logits.

    `classes` names the columns of the logits; without it labels are column numbers, the names of a frame's columns, or all names
    in sorted order. Probabilities come in the order of the logits, which `classes_` tells. scikit-learn's scorers take sorted
    classes for granted: where yours are not, use driftcal's metrics with ``classes=calibrator.classes_``.
    """

    #: Whether the most likely class is always the logits' own.
    keeps_accuracy: ClassVar[bool]
    #: Whether `fit` looks at which rung of the noise ladder a row comes from; the others accept `levels` and ignore it.
    needs_levels: ClassVar[bool] = False
    #: Whether `adapt` can follow a window of unlabelled logits; see :mod:`driftcal.calibrators.windowed.windowed_calibrator`.
    adaptive: ClassVar[bool] = False
    #: Whether `fit` and `predict_proba` take a model's features; see :mod:`driftcal.calibrators.samplewise.feature_calibrator`.
    needs_features: ClassVar[bool] = False
    #: Whether `fit` also takes the features of training rows.
    needs_reference: ClassVar[bool] = False
    #: Whether the sum of the weights matters and not only their ratios: a prior's pull is set against the number of rows,
    #: which is that sum or, where weights are shares, the number of rows itself.
    counts_rows: ClassVar[bool] = False
    #: Fitted attributes, the whole of what an artefact keeps.
    fitted: ClassVar[tuple[str, ...]] = ()

    classes: Sequence[Any] | None

    @abstractmethod
    def _fit(self, rows: LabelledLogits) -> FitReport:
        """Learn from `rows`; set every attribute in `fitted`; raise where there is no certified optimum."""

    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        """The same from the rungs of a ladder, the clean one first, for a calibrator that needs levels."""
        return self._fit(by_level[0])

    @abstractmethod
    def _map(self, logits: Logits, out: Float64) -> None:
        """Write the probabilities of a block of checked rows into `out`."""

    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each fitted array of a loaded calibrator, as far as its kernels trust them."""
        return {}

    def _log_map(self, logits: Logits, out: Float64) -> None:
        """Write the log-probabilities of a block of checked rows into `out`."""
        self._map(logits, out)
        with np.errstate(divide="ignore"):
            np.log(out, out=out)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """As scikit-learn's; arrays that a worker gets read-only become its own, or its kernels would compile twice."""
        arrays = {k: v.copy() for k, v in state.items() if isinstance(v, np.ndarray) and not v.flags.writeable}
        super().__setstate__({**state, **arrays})

    def fit(
        self,
        logits: AnyArray,
        y: AnyArray = None,
        *,
        sample_weight: AnyArray = None,
        features: AnyArray = None,
        reference: AnyArray = None,
        levels: AnyArray = None,
    ) -> Self:
        """Learn from logits and labels, or from a re-iterable source of (logits, y[, sample_weight]) chunks.

        `features` and `reference` are for calibrators that look at a model's features; the others refuse them. `levels`
        names the rung of the noise ladder each row comes from, 0 for clean; without it all rows are clean. Only
        calibrators with `needs_levels` look at it.
        """
        started = time.perf_counter()
        rows = self._rows(logits, y, sample_weight)
        before = dict(self.__dict__)
        try:
            report = self._fit_given(rows, features, reference, levels)
            for name in self.fitted:
                if not np.isfinite(getattr(self, name)).all():
                    raise DidNotConverge(
                        f"{name} must be finite after a fit; it is {getattr(self, name)}. Please report these logits."
                    )
        except BaseException:
            self.__dict__.clear()  # a fit that fails leaves the calibrator as it was
            self.__dict__.update(before)
            raise
        self.classes_: Array = rows.classes
        self.n_features_in_ = rows.n_classes
        self.__dict__.pop("feature_names_in_", None)
        if names := validation.column_names(logits):
            self.feature_names_in_: Array = np.array(names, object)
        # one more pass than the fit's own: the scan that checked the rows
        self.fit_report_ = FitReport(
            **{**vars(report), "passes": report.passes + 1, "seconds": time.perf_counter() - started}
        )
        return self

    def _fit_given(self, rows: LabelledLogits, features: AnyArray, reference: AnyArray, levels: AnyArray) -> FitReport:
        """Hand what was given beside the rows to the kind of fit that wants it."""
        if features is not None or reference is not None:
            name = type(self).__name__
            raise InputError(f"{name} looks at logits only; features or reference was given. Leave them out.")
        return self._fit_levels(split_by_level(rows, levels)) if self.needs_levels else self._fit(rows)

    def _rows(self, logits: AnyArray, y: AnyArray, sample_weight: AnyArray) -> LabelledLogits:
        """Checked rows; whoever has made some already, perhaps elsewhere, may pass them instead of logits."""
        names = getattr(self, "classes", None)
        if not isinstance(logits, LabelledLogits):
            return LabelledLogits(logits, y, sample_weight, classes=declared_classes(logits, y, names))
        if y is not None or sample_weight is not None or names is not None:
            raise InputError("y, sample_weight and classes belong to the rows already; leave them out.")
        return logits

    def predict_log_proba(self, logits: AnyArray) -> LogProbs:
        """Calibrated log-probabilities, in the shape of the logits; they are valid logits again."""
        return self._run(self._log_map, logits)

    def predict_proba(self, logits: AnyArray) -> Probs:
        """Calibrated probabilities, in the shape of the logits; rows sum to 1."""
        return self._run(self._map, logits)

    def predict(self, logits: AnyArray) -> Array:
        """The most likely class of each row; the logits' own where the calibrator keeps accuracy."""
        scores, shape = self._checked(logits)
        if not self.keeps_accuracy:
            scores = map_blocks(self._map, scores, scores.shape[1])
        labels: Array = self.classes_[scores.argmax(axis=1)].reshape(shape)
        return labels

    def score(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray = None) -> float:
        """The accuracy on logits X, labels y in any form that `fit` takes."""
        predicted = self.predict(X).reshape(-1)
        labels, _ = as_columns(y, self.n_features_in_, len(predicted), classes=self.classes_.tolist())
        weights = validation.as_weights(sample_weight, len(predicted))
        return float(np.average(predicted == self.classes_[labels], weights=weights))

    def _run(self, function: Any, logits: AnyArray) -> Float64:
        scores, shape = self._checked(logits)
        return map_blocks(function, scores, scores.shape[1]).reshape(*shape, scores.shape[1])

    def _checked(self, logits: AnyArray) -> tuple[Logits, tuple[int, ...]]:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise _NotFitted(f"this {name} must be fitted before it is used; it is not. Call fit(logits, y) first.")
        scores, shape = validation.as_logits(logits)
        validation.check_columns(logits, getattr(self, "feature_names_in_", None), "logits", "calibrator", LogitsError)
        validation.finite_logits(scores, self.n_features_in_)
        return scores, shape

    def save(self, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> Path:
        """Write this calibrator to `path` as safetensors; `driftcal.load(path)` brings it back, equal to the bit."""
        from driftcal.calibrators.serialization import (
            save,  # the file format knows all calibrators, so it comes after them
        )

        return save(self, path, notes=notes)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")


#: A row that sums to less than the first has next to no mass; its classes then have the second at least. Just above what underflows,
#: where an exponential function has few digits left.
NO_MASS, FLOOR = 1e-280, 1e-300


@kernel
def mask(logits: Logits, out: Float64) -> None:
    """Give masked classes exactly 0."""
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            if logits[i, c] == -np.inf:
                out[i, c] = 0.0


@kernel
def finish(logits: Logits, out: Float64) -> None:
    """Give masked classes exactly 0 and let rows sum to 1.

    In a row with next to no mass the others get FLOOR at least, so that one without any becomes uniform over them.
    """
    for i in range(out.shape[0]):
        total = 0.0
        for c in range(out.shape[1]):
            if logits[i, c] == -np.inf:
                out[i, c] = 0.0
            total += out[i, c]
        if total < NO_MASS:
            total = 0.0
            for c in range(out.shape[1]):
                if logits[i, c] > -np.inf:
                    out[i, c] = max(out[i, c], FLOOR)
                    total += out[i, c]
        for c in range(out.shape[1]):
            if total > 0:
                out[i, c] /= total
