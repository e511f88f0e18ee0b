"""The export map of a calibrator, or an error that says why there is none."""

from __future__ import annotations

from dataclasses import replace

from driftcal.calibrators import Calibrator, WindowedCalibrator
from driftcal.calibrators.base import check_takes_logits
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.windowed_map import WindowedMap
from driftcal.errors import InputError, NotFittedError


def windowed_map_of(calibrator: Calibrator) -> WindowedMap:
    """The map of a fitted windowed calibrator from a window's sums to a temperature."""
    name = type(calibrator).__name__
    if not isinstance(calibrator, WindowedCalibrator):
        raise InputError(
            f"windowed=True (--windowed) needs a windowed calibrator; {name} maps each sample alone. Leave it out, or tune with "
            "method='auto' or a windowed method such as window-ts."
        )
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError("only a fitted calibrator can be exported; this one is not. Call fit(logits, y) first.")
    check_takes_logits(calibrator, "an exported calibrator")
    windowed_map = calibrator.windowed_map()
    if windowed_map is None:
        raise InputError(
            f"{name} has no export of its windowed form. Export calibrator.adapt(window) for data like those of a window of logits, or "
            "tune window-ts."
        )
    return windowed_map


def export_map_of(calibrator: Calibrator) -> ExportMap:
    """The map of a fitted calibrator, with its number of classes and whether it keeps the accuracy."""
    if not isinstance(calibrator, Calibrator):
        raise InputError(
            f"only a calibrator can be exported; this is a {type(calibrator).__name__}. Pass the calibrator of a "
            "CalibratedModel, or the path of a saved one to append_to_onnx."
        )
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError("only a fitted calibrator can be exported; this one is not. Call fit(logits, y) first.")
    name = type(calibrator).__name__
    if isinstance(calibrator, WindowedCalibrator):
        raise InputError(
            f"an exported calibrator maps each sample alone; {name} follows a window. Export calibrator.per_sample(), or "
            "calibrator.adapt(window) for data like those of a window of logits, or the windowed form as an ONNX graph "
            "(windowed=True, --windowed)."
        )
    check_takes_logits(calibrator, "an exported calibrator")
    export_map = calibrator.export_map()
    if export_map is None:
        raise InputError(
            f"{name} has no export as torch module or ONNX graph. Define its export_map, use it in Python, or tune a method that has "
            "one, such as irm or ts."
        )
    return replace(export_map, n_classes=calibrator.n_features_in_, keeps_accuracy=calibrator.keeps_accuracy)
