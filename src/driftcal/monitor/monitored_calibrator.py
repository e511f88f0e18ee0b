"""The calibrator of a monitor, with what its file holds: drift reference, windowed form, threshold, class names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.base import check_takes_logits
from driftcal.calibrators.serialization import WINDOWED_NAME, calibrator_identity, load_file
from driftcal.calibrators.windowed.window_ts import WindowedTemperatureScaling
from driftcal.core.kernels import SMALL, part_of
from driftcal.core.numerics import softmax
from driftcal.core.validation import as_logits
from driftcal.decisions import Threshold, decisions_from_metadata
from driftcal.drift.estimators import CALIBRATED_CONFIDENCE, CONFIDENCE, DRIFT_STATISTICS, WINDOW_TS
from driftcal.drift.reference import OLD_KEYS, DriftReference, rename_keys
from driftcal.errors import InputError
from driftcal.io.fingerprint import fingerprint
from driftcal.models.recorded_scores import SCORES
from driftcal.monitor.window_sums import MeasuredSamples, SumLayout
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.types import Array


@dataclass(frozen=True, eq=False)
class MonitoredCalibrator:
    """A calibrator and what its file holds for a monitor.

    Parameters
    ----------
    calibrator : the per-sample calibrator whose confidence is monitored.
    drift_reference : what clean and perturbed samples look like, if it is known.
    class_names : the names of the classes, if there are any.
    windowed : the windowed form, if it estimates the accuracy of a window.
    threshold : which predictions are accepted, if there is a threshold.
    score_type : type of the scores that it was fitted on, if these were recorded scores; otherwise "logits".
    """

    calibrator: Calibrator
    drift_reference: DriftReference | None = None
    class_names: tuple[str, ...] = ()
    windowed: WindowedTemperatureScaling | None = None
    threshold: Threshold | None = None
    score_type: str = "logits"

    @property
    def layout(self) -> SumLayout:
        """Which sums a window needs."""
        return SumLayout(
            len(self.calibrator.classes_),
            None if self.windowed is None else self.windowed.statistics,
            None if self.threshold is None else self.threshold.confidence,
        )

    @property
    def default_estimator(self) -> str | None:
        """The accuracy estimator that is used unless a monitor sets another one; None if there is none."""
        if self.windowed is not None:
            return WINDOW_TS
        if self.drift_reference is None:
            return None
        return self.drift_reference.estimator if self.drift_reference.n_levels > 1 else "confidence"

    def check_has(self, estimator: str | None) -> None:
        """Refuse the regression of a windowed form that is not there."""
        if estimator == WINDOW_TS and self.windowed is None:
            raise InputError(
                'estimator must be one that the calibrator has; "window-ts" is not in it. Tune with method="auto" or "window-ts" and '
                "with a shift, or leave estimator out."
            )

    @property
    def identity(self) -> str:
        """A fingerprint of all but the class names. A saved monitor can be loaded with this calibrator only."""
        calibrator, reference = self.calibrator, self.drift_reference
        fitted = {name: np.asarray(getattr(calibrator, name)) for name in calibrator.fitted}
        parts = {
            "kind": type(calibrator).__name__,
            "profile": None if reference is None else _in_version_0_1(reference),
            **({} if self.windowed is None else {"windowed": calibrator_identity(self.windowed)}),
            **({} if self.threshold is None else {"threshold": self.threshold.confidence}),
        }
        return fingerprint({**parts, **fitted, "classes": [str(name) for name in calibrator.classes_]})

    def measure(self, logits: Array) -> MeasuredSamples:
        """What the sums need of checked samples."""
        logits, _ = as_logits(logits)
        with part_of(SMALL + 1):  # the numbers must not depend on the size of a batch
            calibrated = self.calibrator.predict_proba(logits)
            if self.drift_reference is not None:
                statistics = self.drift_reference.statistics(logits, calibrated)
            else:
                columns = np.zeros((len(logits), len(DRIFT_STATISTICS)))
                columns[:, CALIBRATED_CONFIDENCE] = calibrated.max(axis=1)
                columns[:, CONFIDENCE] = softmax(logits).max(axis=1)
                statistics = np.clip(columns, 0, 1)
            window_statistics = None if self.windowed is None else self.windowed.window_statistics(logits)
        return MeasuredSamples(statistics, calibrated.argmax(axis=1), window_statistics)


#: A calibrator, a calibrated model, the path of a file that holds one, or what another monitor has opened.
CalibratorSource = Calibrator | CalibratedModel | MonitoredCalibrator | str | os.PathLike[str]


def open_calibrator(
    source: CalibratorSource, drift_reference: DriftReference | None, class_names: Sequence[Any] | None
) -> MonitoredCalibrator:
    """The calibrator of a monitor. `drift_reference` and `class_names` replace those of its file."""
    opened = _open(source)
    calibrator = opened.calibrator
    if calibrator.needs_features:
        raise InputError(
            f"calibrator must calibrate logits alone to be monitored; {type(calibrator).__name__} also needs layer features, "
            'which a stream does not contain. Monitor a calibrator without them, such as method="ts".'
        )
    check_takes_logits(calibrator, "a monitored calibrator")
    n_classes = len(calibrator.classes_)
    reference = opened.drift_reference if drift_reference is None else drift_reference
    if reference is not None and reference.n_classes != n_classes:
        raise InputError(
            f"drift_reference must have the calibrator's {n_classes} classes; it has {reference.n_classes}. "
            "Make it from the perturbation levels of the same model."
        )
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(
            f"class_names must name the calibrator's {n_classes} classes; it has {len(class_names)}. Pass one per column."
        )
    # calibrators of `tune` number their classes by column, and the file stores the names separately
    stored = opened.class_names if len(opened.class_names) == n_classes else calibrator.classes_.tolist()
    names = tuple(str(name) for name in (stored if class_names is None else class_names))
    return replace(opened, drift_reference=reference, class_names=names)


def _open(source: CalibratorSource) -> MonitoredCalibrator:
    if isinstance(source, MonitoredCalibrator):
        return source
    if isinstance(source, Calibrator):
        return MonitoredCalibrator(source, windowed=_estimating(source))
    if isinstance(source, CalibratedModel):
        calibrator, reference = source.calibrator, source.drift_reference
        names: Any = source.class_names
        windowed: Calibrator | None = source.windowed_calibrator
        threshold = source.decision_threshold
        model: Any = {"framework": source.model.framework, "outputs": source.model.outputs}
    else:
        file = load_file(source)
        calibrator, metadata = file.calibrator, file.metadata
        reference, names = metadata.get("drift_reference"), metadata.get("class_names")
        windowed = file.others.get(WINDOWED_NAME)
        threshold = decisions_from_metadata(metadata, source).threshold
        model = metadata.get("model")
    is_of_probabilities = isinstance(model, Mapping) and (model.get("framework"), model.get("outputs")) == (
        SCORES,
        "probabilities",
    )
    return MonitoredCalibrator(
        calibrator,
        DriftReference.from_dict(reference) if isinstance(reference, Mapping) else None,
        tuple(names) if isinstance(names, list | tuple) else (),  # a file may hold anything
        _estimating(windowed if windowed is not None else calibrator),
        threshold,
        "probabilities" if is_of_probabilities else "logits",
    )


def _estimating(calibrator: Calibrator | None) -> WindowedTemperatureScaling | None:
    """The calibrator, if it estimates the accuracy of a window."""
    if isinstance(calibrator, WindowedTemperatureScaling) and calibrator.follows_:
        return calibrator
    return None


def _in_version_0_1(drift_reference: DriftReference) -> dict[str, Any]:
    """The drift reference under the names of version 0.1, so that the identity of its files stays the same."""
    names = {new: old for old, new in OLD_KEYS.items()}
    values = rename_keys(drift_reference.to_dict(), names)
    return {**values, "estimator": names.get(values["estimator"], values["estimator"])}
