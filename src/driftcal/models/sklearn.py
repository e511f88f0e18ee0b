"""scikit-learn classifiers and pipelines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driftcal.errors import ModelError
from driftcal.files import sha256_array
from driftcal.models.answers import log_probabilities
from driftcal.numerics import log_softmax
from driftcal.types import Array

#: A classifier's own answers are the tops of its scores, ties aside; scores of pairs have theirs in the right place by chance only.
_LEAST_AGREEMENT = 0.6


def scores_classes(estimator: Any, rows: Any) -> bool:
    """Whether `decision_function` scores classes: of three classes there are as many pairs (SVC's "ovo").

    Compared class by class: the first one, if most rows are of it, is the top of pairs often enough.
    """
    scores, known = np.asarray(estimator.decision_function(rows)), np.asarray(estimator.classes_)
    tops = known[scores.argmax(axis=1) if scores.ndim == 2 and scores.shape[1] > 1 else (scores.reshape(-1) > 0) * 1]
    answers = np.asarray(estimator.predict(rows))
    agreement = np.mean([np.mean(tops[answers == name] == name) for name in np.unique(answers)])
    return bool(agreement > _LEAST_AGREEMENT)


class ScikitBackend:
    """Runs a fitted classifier.

    ``outputs="logits"`` takes, in this order: `decision_function` where its softmax is `predict_proba` (logistic
    regression, boosting) or where there is nothing else (linear SVM); otherwise the logarithm of `predict_proba` (neural nets,
    forests), where 0 counts as the smallest float32. ``outputs="probabilities"`` takes `predict_proba` in any case.
    """

    framework = "sklearn"
    layout = "flat"
    fixed_batch: int | None = None
    largest_batch: int | None = None
    device = "cpu"

    def __init__(self, estimator: Any, *, outputs: str = "logits") -> None:
        self.estimator = estimator
        try:
            labels = estimator.classes_
        except AttributeError as error:
            raise ModelError(
                f"the estimator must be a fitted classifier; {type(estimator).__name__} has no classes_. Fit it."
            ) from error
        self.classes: tuple[Any, ...] | None = tuple(np.asarray(labels).tolist())
        self._outputs = outputs
        self._way: str | None = None

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns that the estimator was fitted with, if it was fitted with a data frame."""
        names = getattr(self.estimator, "feature_names_in_", None)
        return None if names is None else list(names)

    def run(self, batch: Array) -> Array:
        """Scores of a preprocessed batch."""
        batch = self._named(batch)
        if self._outputs == "probabilities":
            if not hasattr(self.estimator, "predict_proba"):
                raise ModelError(
                    f"{type(self.estimator).__name__} gives no probabilities. Leave outputs out to use its scores."
                )
            return np.asarray(self.estimator.predict_proba(batch))
        if self._way is None:
            self._way = self._choose(batch)
        if self._way == "decision_function":
            return np.asarray(self.estimator.decision_function(batch))
        return log_probabilities(self.estimator.predict_proba(batch))

    def layers(self) -> tuple[str, ...]:
        """None: scikit-learn models have no layers to name."""
        return ()

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Not offered."""
        raise ModelError("scikit-learn models give no intermediate layers.")

    def digest(self, run: Callable[[], Array]) -> str:
        """Over the class, all parameters and all fitted attributes."""
        digest = hashlib.sha256()
        _feed(digest, self.estimator, set())
        return digest.hexdigest()

    def _named(self, batch: Array) -> Any:
        """A data frame for an estimator that was fitted with one: some steps of a pipeline know columns by name only."""
        if self.columns is None or batch.shape[1:] != (len(self.columns),):
            return batch
        import pandas  # whoever fitted with a data frame has it

        return pandas.DataFrame(batch, columns=self.columns)

    def _choose(self, batch: Any) -> str:
        decides = hasattr(self.estimator, "decision_function")
        if not hasattr(self.estimator, "predict_proba"):
            if decides and self._columns(batch) and scores_classes(self.estimator, batch):
                return "decision_function"
            raise ModelError(
                f"{type(self.estimator).__name__} gives neither probabilities nor one score per class. Wrap it in "
                "CalibratedClassifierCV, or for SVC set decision_function_shape='ovr'."
            )
        if decides and self._columns(batch):
            logits = np.asarray(self.estimator.decision_function(batch), np.float64)
            logits = np.stack([np.zeros(len(logits)), logits], axis=1) if logits.ndim == 1 else logits
            # compared as logarithms: in rows that are nearly sure, all probabilities are alike
            with np.errstate(divide="ignore"):
                claimed = np.log(np.asarray(self.estimator.predict_proba(batch), np.float64))
            if np.allclose(np.maximum(log_softmax(logits), -30), np.maximum(claimed, -30), atol=1e-3):
                return "decision_function"
        return "predict_proba"

    def _columns(self, batch: Any) -> bool:
        shape = np.asarray(self.estimator.decision_function(batch[:1])).shape
        count = len(self.classes or ())
        return shape == (1, count) or (count == 2 and shape in ((1,), (1, 1)))


def _feed(digest: Any, value: Any, seen: set[int]) -> None:
    """Hash nested Python values by what they hold; no pickling, so equal models hash equal across processes."""
    kind = type(value)
    digest.update(f"<{kind.__module__}.{kind.__qualname__}>".encode())
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            _feed(digest, value.tolist(), seen)
        elif value.dtype.names:  # a tree's nodes: padding between fields is not data
            for name in value.dtype.names:
                _feed(digest, np.ascontiguousarray(value[name]), seen)
        else:
            digest.update(sha256_array(value).encode())
    elif value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        digest.update(repr(value).encode())
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            digest.update(repr(key).encode())
            _feed(digest, value[key], seen)
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(digest, item, seen)
    elif isinstance(value, set | frozenset):
        digest.update(repr(sorted(map(repr, value))).encode())
    elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
        code = getattr(value, "__code__", None)
        if code is not None:
            digest.update(code.co_code + repr([c for c in code.co_consts if not hasattr(c, "co_code")]).encode())
    elif id(value) not in seen:
        seen.add(id(value))
        _feed(digest, _state(value), seen)


def _state(value: Any) -> Any:
    if hasattr(value, "get_state"):  # numpy's random states
        return value.get_state()
    if hasattr(value, "tocsr"):  # sparse matrices
        matrix = value.tocsr()
        return [matrix.shape, matrix.data, matrix.indices, matrix.indptr]
    state = value.__getstate__() if hasattr(value, "__getstate__") else None
    if state is None or isinstance(state, bytes):
        reduced = value.__reduce_ex__(2)
        state = [part for part in reduced[1:3] if part is not None]
    return state
