"""The calibration as ONNX nodes: scores, then perhaps a table look-up, then masking and normalisation, label and confidence."""

from __future__ import annotations

from collections.abc import Sequence

from driftcal.calibrators.export_maps.export_map import (
    BetaCurves,
    Blended,
    ExportMap,
    Mixed,
    Scaled,
    ScaledPerClass,
    Scores,
    Sigmoids,
    TopCurve,
)
from driftcal.calibrators.export_maps.sample_temperatures import (
    ScaledByDistance,
    ScaledByEntropy,
    ScaledByNetwork,
    ScaledByRegression,
)
from driftcal.calibrators.normalise import LEAST_VALUE
from driftcal.export.onnx.isotonic_and_bins import add_look_up
from driftcal.export.onnx.layer_pooling import add_unit
from driftcal.export.onnx.nodes import Nodes, is_masked, number
from driftcal.export.onnx.one_vs_rest import add_beta_curves, add_sigmoids
from driftcal.export.onnx.samplewise import add_sample_scaling
from driftcal.export.onnx.scaling import add_blend, add_matrix, add_softmax, add_vector_scaling
from driftcal.export.onnx.top_class_spline import add_top_curve

#: The outputs of a calibrated model beside its own.
OUTPUTS = ("probabilities", "label", "confidence")


def add_calibration(
    nodes: Nodes,
    export_map: ExportMap,
    logits: str,
    outputs: tuple[str, str, str] = OUTPUTS,
    features: Sequence[str] = (),
) -> None:
    """Add the nodes from float64 (n, classes) `logits` to probabilities, label and confidence, named by `outputs`.

    A calibrator that reads layer features needs float64 (n, F) `features` of each layer.
    """
    unit_features = add_unit(nodes, features) if features else ""
    last_step, name = export_map.last_step, outputs[0]
    last_name = name if last_step == "nothing" else None
    scores_name = last_name if export_map.table is None else None
    values = _add_scores(nodes, export_map.scores, logits, unit_features, scores_name)
    if export_map.table is not None:
        least = LEAST_VALUE if last_step == "normalise" else 0.0
        values = add_look_up(nodes, export_map.table, values, least, last_name)
    if last_step != "nothing":
        masked = is_masked(nodes, logits)
        values = nodes("Where", masked, number(0), values, name=name if last_step == "mask" else None)
    if last_step == "normalise":
        # values are at least LEAST_VALUE: it adds nothing to a sample with mass, and one without becomes uniform
        values = nodes("LpNormalization", values, axis=1, p=1, name=name)
    nodes("ArgMax", logits if export_map.keeps_accuracy else values, axis=1, keepdims=0, name=outputs[1])
    # a calibrator that keeps the accuracy keeps the largest probability at the same class
    nodes.reduce("ReduceMax", values, keepdims=0, name=outputs[2])


def _add_scores(nodes: Nodes, scores: Scores, z: str, features: str, name: str | None) -> str:
    """Add the nodes from float64 logits to scores; `name` is theirs where they are the probabilities already.

    `features` are the layers side by side, the features of each layer of length 1.
    """
    match scores:
        case Scaled():
            return add_softmax(nodes, z, scores.scale, name)
        case Blended():
            return add_blend(nodes, scores, z, name)
        case ScaledPerClass():
            return add_vector_scaling(nodes, scores, z, name)
        case Mixed():
            return add_matrix(nodes, scores, z, name)
        case Sigmoids():
            return add_sigmoids(nodes, scores, z)
        case BetaCurves():
            return add_beta_curves(nodes, scores, z)
        case TopCurve():
            return add_top_curve(nodes, scores, z, name)
        case ScaledByEntropy() | ScaledByNetwork() | ScaledByDistance() | ScaledByRegression():
            return add_sample_scaling(nodes, scores, z, features, name)
