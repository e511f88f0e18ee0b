"""scikit-learn classifiers and pipelines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from driftcal.core.inputs.frames import holds_numbers, is_frame, take
from driftcal.core.numerics import log_softmax
from driftcal.errors import ModelError
from driftcal.io.fingerprint import fingerprint, sha256_array
from driftcal.models.outputs import Outputs, log_probabilities
from driftcal.models.votes import n_votes, note_on_votes, probabilities_of
from driftcal.types import Array, Inputs

#: The largest score of a class is the predicted class, except for ties. Scores of pairs of classes agree only by
#: chance.
_LEAST_AGREEMENT = 0.6

#: The counts of trims, leaves, splits and calls in the state of a tree of nearest neighbours.
_TREE_COUNTS = slice(7, 11)

ScoreMethod = Literal["decision_function", "predict_proba"]


def scores_classes(estimator: Any, inputs: Any) -> bool:
    """Whether `decision_function` scores classes and not pairs of classes; three classes have three pairs.

    Agreement with the prediction is averaged over classes, because a frequent class could hide disagreement on the
    others.
    """
    scores, classes = np.asarray(estimator.decision_function(inputs)), np.asarray(estimator.classes_)
    top = classes[scores.argmax(axis=1) if scores.ndim == 2 and scores.shape[1] > 1 else (scores.reshape(-1) > 0) * 1]
    predicted = np.asarray(estimator.predict(inputs))
    agreement = np.mean([np.mean(top[predicted == name] == name) for name in np.unique(predicted)])
    return bool(agreement > _LEAST_AGREEMENT)


def as_fitted(batch: Inputs, columns: Sequence[str] | None) -> Inputs:
    """A matrix as a data frame for a model that was fitted with one, because steps of a pipeline select columns by name.

    A frame of numbers becomes a matrix for a model that was fitted with a matrix.
    """
    if is_frame(batch):
        return batch.to_numpy() if columns is None and holds_numbers(batch) else batch
    if columns is None or batch.shape[1:] != (len(columns),):
        return batch
    import pandas  # installed, because the model was fitted with a data frame

    return pandas.DataFrame(batch, columns=list(columns))


class ScikitBackend:
    """Runs a fitted classifier.

    ``outputs="logits"`` uses `decision_function` if its softmax is `predict_proba` (logistic regression, boosting) or
    if there is no `predict_proba` (linear SVM). Otherwise it uses the logarithm of `predict_proba` (neural networks,
    forests), with the smallest float32 in place of 0. ``outputs="probabilities"`` always uses `predict_proba`.
    Probabilities that are shares of votes (forests, neighbours) are smoothed by one more vote; `note` says so.
    """

    framework = "sklearn"
    layout = "flat"
    takes_tables = True
    takes_text = True
    takes_dictionaries = False
    fixed_batch: int | None = None
    largest_batch: int | None = None
    device = "cpu"

    def __init__(self, estimator: Any, *, outputs: Outputs = "logits") -> None:
        self.estimator = estimator
        try:
            classes = estimator.classes_
        except AttributeError as error:
            raise ModelError(
                f"the estimator must be a fitted classifier; {type(estimator).__name__} has no classes_. Fit it."
            ) from error
        self.classes: tuple[Any, ...] | None = tuple(np.asarray(classes).tolist())
        self._outputs = outputs
        self._method: ScoreMethod | None = None

    @property
    def note(self) -> str:
        """What this adapter changes; empty if nothing."""
        return note_on_votes(self.estimator)

    def configured(self, *, outputs: Outputs, name: str | None) -> ScikitBackend:
        """The same estimator with other outputs."""
        return ScikitBackend(self.estimator, outputs=outputs)

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns that the estimator was fitted with, if it was fitted with a data frame."""
        names = getattr(self.estimator, "feature_names_in_", None)
        return None if names is None else list(names)

    def run(self, batch: Inputs) -> Array:
        """Scores of a preprocessed batch."""
        batch = as_fitted(batch, self.columns)
        if self._outputs == "probabilities":
            if not hasattr(self.estimator, "predict_proba"):
                raise ModelError(
                    f"{type(self.estimator).__name__} gives no probabilities. Leave outputs out to use its scores."
                )
            return probabilities_of(self.estimator, batch)
        if self._method is None:
            self._method = self._choose_method(batch)
        if self._method == "decision_function":
            logits = np.asarray(self.estimator.decision_function(batch))
            if logits.size > len(logits):
                return logits
            # two columns, because the log-odds of a weak model may lie in [0, 1] and look like probabilities
            return np.stack([np.zeros(len(logits)), logits.reshape(-1)], axis=1)
        return log_probabilities(probabilities_of(self.estimator, batch))

    def layers(self) -> tuple[str, ...]:
        """Always (): scikit-learn models have no named layers."""
        return ()

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over the class, all parameters and all fitted attributes."""
        digest = hashlib.sha256()
        _update_digest(digest, self.estimator, set())
        votes = n_votes(self.estimator)  # their probabilities are smoothed, which files of version 0.1 do not know
        return digest.hexdigest() if votes is None else fingerprint({"estimator": digest.hexdigest(), "votes": votes})

    def _choose_method(self, batch: Any) -> ScoreMethod:
        """The method of the estimator that gives logits; see the class."""
        has_scores = hasattr(self.estimator, "decision_function")
        if not hasattr(self.estimator, "predict_proba"):
            if has_scores and self._one_score_per_class(batch) and scores_classes(self.estimator, batch):
                return "decision_function"
            raise ModelError(
                f"{type(self.estimator).__name__} gives neither probabilities nor one score per class. Wrap it in "
                "CalibratedClassifierCV, or for SVC set decision_function_shape='ovr'."
            )
        if has_scores and self._one_score_per_class(batch):
            logits = np.asarray(self.estimator.decision_function(batch), np.float64)
            logits = np.stack([np.zeros(len(logits)), logits], axis=1) if logits.ndim == 1 else logits
            # compared as logarithms, because probabilities close to 1 hardly differ
            with np.errstate(divide="ignore"):
                log_probs = np.log(np.asarray(self.estimator.predict_proba(batch), np.float64))
            if np.allclose(np.maximum(log_softmax(logits), -30), np.maximum(log_probs, -30), atol=1e-3):
                return "decision_function"
        return "predict_proba"

    def _one_score_per_class(self, batch: Any) -> bool:
        shape = np.asarray(self.estimator.decision_function(take(batch, slice(1)))).shape
        n_classes = len(self.classes or ())
        return shape == (1, n_classes) or (n_classes == 2 and shape in ((1,), (1, 1)))


def _update_digest(digest: Any, value: Any, visited: set[int]) -> None:
    """Hash nested Python values by their contents: unlike pickles, equal models have equal hashes in every process."""
    kind = type(value)
    digest.update(f"<{kind.__module__}.{kind.__qualname__}>".encode())
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            _update_digest(digest, value.tolist(), visited)
        elif value.dtype.names:  # a tree's nodes: padding between fields is not data
            for name in value.dtype.names:
                _update_digest(digest, np.ascontiguousarray(value[name]), visited)
        else:
            digest.update(sha256_array(value).encode())
    elif value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        digest.update(repr(value).encode())
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            digest.update(repr(key).encode())
            _update_digest(digest, value[key], visited)
    elif isinstance(value, list | tuple):
        for item in value:
            _update_digest(digest, item, visited)
    elif isinstance(value, set | frozenset):
        digest.update(repr(sorted(map(repr, value))).encode())
    elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
        code = getattr(value, "__code__", None)
        if code is not None:
            digest.update(code.co_code + repr([c for c in code.co_consts if not hasattr(c, "co_code")]).encode())
    elif id(value) not in visited:
        visited.add(id(value))
        _update_digest(digest, _state(value), visited)


def _state(value: Any) -> Any:
    """The contents of an object, as nested Python values."""
    if hasattr(value, "get_state"):  # numpy's random states
        return value.get_state()
    if hasattr(value, "tocsr"):  # sparse matrices
        matrix = value.tocsr()
        return [matrix.shape, matrix.data, matrix.indices, matrix.indptr]
    state: Any = value.__getstate__() if hasattr(value, "__getstate__") else None
    if hasattr(value, "get_tree_stats"):  # the trees of nearest neighbours count their queries, from 0
        return (*state[: _TREE_COUNTS.start], *[0] * len(state[_TREE_COUNTS]), *state[_TREE_COUNTS.stop :])
    if state is None or isinstance(state, bytes):
        reduced = value.__reduce_ex__(2)
        state = [part for part in reduced[1:3] if part is not None]
    return state
