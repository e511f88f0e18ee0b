"""The protocol of calibrators: maps from logits to calibrated log-probabilities, fitted on labelled logits.

A calibrator that needs logits only subclasses :class:`LogitCalibrator`. A windowed one subclasses `WindowedCalibrator`
(windowed/windowed_calibrator.py). One that reads layer features subclasses `FeatureCalibrator`
(samplewise/feature_calibrator.py).
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from driftcal.calibrators.estimator import Estimator, not_fitted_error
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.labels import as_columns, declared_classes
from driftcal.core.passes import map_blocks
from driftcal.errors import DidNotConverge, InputError, LogitsError
from driftcal.types import AnyArray, Array, Float64, Logits, LogProbs, Probs


@dataclass(frozen=True)
class FitReport:
    """The loss of a fit on the tuning samples before and after, the passes over the samples, the time and warnings.

    Parameters
    ----------
    loss
        The name of the loss.
    before, after
        Its mean without and with calibration; infinite if a true class is masked.
    passes
        Passes over the samples.
    seconds
        The time of the fit; `fit` fills it in.
    warnings
        Sentences for the user.
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


@dataclass(frozen=True, eq=False)
class FitInputs:
    """Further arguments of `fit`: the level of each sample, its layer features, and those of training samples.

    `families` names the shift of each level.
    """

    levels: AnyArray = None
    features: AnyArray = None
    reference: AnyArray = None
    families: Sequence[str] | None = None


class Calibrator(Estimator, ABC):
    """A map from logits to calibrated log-probabilities, fitted on labelled logits.

    `classes` names the columns of the logits. Without it, labels are column numbers or the column names of a data
    frame. Probabilities have the columns of the logits, in the order of `classes_`. scikit-learn's scorers assume
    sorted classes; if yours are not sorted, use driftcal's metrics with ``classes=calibrator.classes_``.
    """

    #: Whether the predicted class is always that of the uncalibrated model. `predict` reads the logits then: two logits
    #: that differ by less than about 1e-7 may get equal probabilities, but never in the reverse order.
    keeps_accuracy: ClassVar[bool]
    #: Whether `fit` uses the perturbation level of each sample. Other calibrators ignore `levels`.
    needs_levels: ClassVar[bool] = False
    #: Whether `fit` uses the families of shifts, and gains from many separate simulated shifts.
    uses_families: ClassVar[bool] = False
    #: Whether this is a `WindowedCalibrator`, which follows a window of unlabelled logits.
    needs_window: ClassVar[bool] = False
    #: Whether this is a `FeatureCalibrator`, whose `fit` and `predict_proba` take layer features.
    needs_features: ClassVar[bool] = False
    #: Whether `fit` also takes the layer features of training samples.
    needs_reference: ClassVar[bool] = False
    #: Whether `fit` depends on the number of samples, not only on the ratios of their weights: a prior counts as
    #: samples.
    uses_sample_count: ClassVar[bool] = False
    #: The fitted attributes, which a file stores.
    fitted: ClassVar[Mapping[str, FittedArray]] = {}

    classes: Sequence[Any] | None

    @abstractmethod
    def _fit_inputs(self, data: LabelledLogits, inputs: FitInputs) -> FitReport:
        """Set every attribute in `fitted`; raise `DidNotConverge` without a certified optimum."""

    @abstractmethod
    def _predict(self, logits: Logits, features: AnyArray, *, log: bool) -> Float64:
        """Probabilities of checked logits (n, C), or their logarithms."""

    def export_map(self) -> ExportMap | None:
        """The fitted map in plain numbers, which export/ turns into ONNX and torch; None if it cannot be exported."""
        return None

    def _check_params(self) -> None:
        """Raise `InputError` for constructor parameters that cannot be used. `fit` and `load` call it."""

    def _check_fitted(self) -> None:
        """Raise `ValueError` if loaded arrays do not fit together. Their shapes were checked before."""

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the state with writable arrays: for the read-only arrays of workers, kernels would compile again."""
        arrays = {k: v.copy() for k, v in state.items() if isinstance(v, np.ndarray) and not v.flags.writeable}
        self.__dict__.update({**state, **arrays})

    def fit(
        self,
        logits: AnyArray,
        y: AnyArray = None,
        *,
        sample_weight: AnyArray = None,
        score_type: str | None = None,
        levels: AnyArray = None,
        features: AnyArray = None,
        reference: AnyArray = None,
        families: Sequence[str] | None = None,
    ) -> Self:
        """Fit on labelled logits.

        Parameters
        ----------
        logits
            (n, C); or (n,), the scores of class 1. Or a re-iterable of ``(logits, y[, sample_weight])`` chunks, without
            `y`.
        y
            One label per sample: a column number, one of `classes`, or one-hot.
        sample_weight
            One number of at least 0 per sample. None: all 1.
        score_type
            "logits" or "probabilities". Scores with one column need it, because their values can be both. Other scores
            are logits without it. `predict_proba` expects the same type.
        levels
            The perturbation level of each sample, 0 for clean. None: all samples are clean.
        features
            Layer features of the samples, for calibrators that read them (:func:`driftcal.pooled_features`).
        reference
            Layer features of training samples, for calibrators that compare with them.
        families
            The shift of each level: ``families[level]`` is a name, that of level 0 is not used. Calibrators that are
            validated on shifts that were left out leave out one name at a time. None: each level by itself.
        """
        started = time.perf_counter()
        self._check_params()
        data = self._labelled(logits, y, sample_weight, score_type)
        state_before = dict(self.__dict__)
        try:
            report = self._fit_inputs(data, FitInputs(levels, features, reference, families))
            for name in self.fitted:
                if not np.isfinite(getattr(self, name)).all():
                    raise DidNotConverge(
                        f"{name} must be finite after a fit; it is {getattr(self, name)}. Please report these logits."
                    )
        except BaseException:
            self.__dict__.clear()  # a fit that fails does not change the calibrator
            self.__dict__.update(state_before)
            raise
        self.classes_: Array = data.classes
        self.n_features_in_ = data.n_classes
        self.score_type_ = data.score_type
        self.__dict__.pop("feature_names_in_", None)
        if names := validation.column_names(logits):
            self.feature_names_in_: Array = np.array(names, object)
        # the scan that checked the samples was a pass, too
        self.fit_report_ = FitReport(
            **{**vars(report), "passes": report.passes + 1, "seconds": time.perf_counter() - started}
        )
        return self

    def _labelled(
        self, logits: AnyArray, y: AnyArray, sample_weight: AnyArray, score_type: str | None
    ) -> LabelledLogits:
        """Checked samples; a caller may also pass `LabelledLogits` as `logits`, for instance those on workers."""
        classes = getattr(self, "classes", None)
        if not isinstance(logits, LabelledLogits):
            names = declared_classes(logits, y, classes)
            return LabelledLogits(logits, y, sample_weight, classes=names, score_type=score_type)
        if y is not None or sample_weight is not None or classes is not None:
            raise InputError("y, sample_weight and classes belong to the labelled logits already; leave them out.")
        return logits

    def predict_log_proba(self, logits: AnyArray, *, features: AnyArray = None) -> LogProbs:
        """Calibrated log-probabilities, in the shape of the logits. They can be used as logits."""
        return self._predict_shaped(logits, features, log=True)

    def predict_proba(self, logits: AnyArray, *, features: AnyArray = None) -> Probs:
        """Calibrated probabilities, in the shape of the logits. They sum to 1 for each sample."""
        return self._predict_shaped(logits, features, log=False)

    def predict(self, logits: AnyArray, *, features: AnyArray = None) -> Array:
        """The most likely class of each sample, one of `classes_`."""
        scores, shape = self._checked(logits)
        if not self.keeps_accuracy:
            scores = self._predict(scores, features, log=False)
        labels: Array = self.classes_[scores.argmax(axis=1)].reshape(shape)
        return labels

    def score(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray = None) -> float:
        """The accuracy on logits X, with labels y in any form that `fit` takes."""
        predicted = self.predict(X).reshape(-1)
        labels, _ = as_columns(y, self.n_features_in_, len(predicted), classes=self.classes_.tolist())
        weights = validation.as_weights(sample_weight, len(predicted))
        return float(np.average(predicted == self.classes_[labels], weights=weights))

    def _predict_shaped(self, logits: AnyArray, features: AnyArray, *, log: bool) -> Float64:
        scores, shape = self._checked(logits)
        return self._predict(scores, features, log=log).reshape(*shape, scores.shape[1])

    def _checked(self, logits: AnyArray) -> tuple[Logits, tuple[int, ...]]:
        """Checked logits as (n, C), and the shape of the result without its class axis."""
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise not_fitted_error()(
                f"this {name} must be fitted before it is used; it is not. Call fit(logits, y) first."
            )
        scores, shape = validation.as_logits(logits)
        validation.check_columns(logits, getattr(self, "feature_names_in_", None), "logits", "calibrator", LogitsError)
        if self.score_type_ == "probabilities":
            scores = validation.from_probabilities(logits, 'scores (score_type="probabilities", as in fit)')
        elif len(scores) >= validation.SURELY_PROBABILITIES and validation.looks_like_probabilities(scores):
            raise validation.probabilities_as_logits("logits")
        validation.finite_logits(scores, self.n_features_in_)
        return scores, shape

    def save(self, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write this calibrator to `path` as safetensors; ``driftcal.load(path)`` restores it to the bit."""
        # imported here because the file format imports the registry, which imports this module
        from driftcal.calibrators.serialization import save

        return save(self, path, metadata=metadata)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")


class LogitCalibrator(Calibrator):
    """A calibrator that needs labelled logits only. Subclass this for your own calibrator.

    Implement `_fit` and `_proba_into`, and declare `keeps_accuracy` and `fitted`. Implement `export_map` for the
    export.
    """

    @abstractmethod
    def _fit(self, data: LabelledLogits) -> FitReport:
        """Set every attribute in `fitted`; raise `DidNotConverge` without a certified optimum."""

    @abstractmethod
    def _proba_into(self, logits: Logits, out: Float64) -> None:
        """Write the probabilities of a block of checked logits into `out`."""

    def _log_proba_into(self, logits: Logits, out: Float64) -> None:
        """Write the log-probabilities of a block of checked logits into `out`."""
        self._proba_into(logits, out)
        with np.errstate(divide="ignore"):
            np.log(out, out=out)

    def _fit_inputs(self, data: LabelledLogits, inputs: FitInputs) -> FitReport:
        refuse_features(self, inputs.features, inputs.reference)
        return self._fit(data)

    def _predict(self, logits: Logits, features: AnyArray, *, log: bool) -> Float64:
        refuse_features(self, features)
        return map_blocks(self._log_proba_into if log else self._proba_into, logits, logits.shape[1])


def check_takes_logits(calibrator: Calibrator, subject: str) -> None:
    """Refuse a calibrator that was fitted on probabilities; `subject` is, say, "a monitored calibrator"."""
    if calibrator.score_type_ != "logits":
        raise InputError(
            f"{subject} takes logits; this {type(calibrator).__name__} was fitted with score_type={calibrator.score_type_!r}. "
            "Fit it on driftcal.from_probabilities(probabilities)."
        )


def refuse_features(calibrator: Calibrator, *arguments: AnyArray) -> None:
    """Refuse layer features for a calibrator that reads logits only."""
    if any(value is not None for value in arguments):
        name = type(calibrator).__name__
        raise InputError(f"{name} reads logits only; features or reference was given. Leave them out.")
