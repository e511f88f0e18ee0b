"""The whole calibration as ONNX nodes: scores, an optional table look-up, masking, normalisation, label, confidence."""

from __future__ import annotations

from collections.abc import Sequence

from driftcal.calibrators.export_maps.export_map import (
    BetaCurves,
    Blended,
    ExportMap,
    Mixed,
    Scaled,
    ScaledPerClass,
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
from driftcal.decisions import Threshold
from driftcal.export.onnx.maps.isotonic_and_bins import add_look_up
from driftcal.export.onnx.maps.layer_pooling import add_unit
from driftcal.export.onnx.maps.one_vs_rest import add_beta_curves, add_sigmoids
from driftcal.export.onnx.maps.samplewise import add_sample_scaling
from driftcal.export.onnx.maps.scaling import add_blend, add_matrix, add_softmax, add_vector_scaling
from driftcal.export.onnx.maps.top_class_spline import add_top_curve
from driftcal.export.onnx.nodes import Nodes, is_masked, number

#: The outputs that a calibration adds to a model.
OUTPUTS = ("probabilities", "label", "confidence")
#: The output that a threshold adds.
ACCEPT = "accept"


def add_calibration(
    nodes: Nodes,
    export_map: ExportMap,
    logits: str,
    outputs: tuple[str, str, str] = OUTPUTS,
    features: Sequence[str] = (),
) -> None:
    """Add the nodes from float64 (n, C) `logits` to probabilities (n, C), label (n,) and confidence (n,).

    `logits` and `features` are names of tensors in the graph, `outputs` are the names of the new tensors. A calibrator
    that reads layer features needs float64 (n, F) `features` of each layer.
    """
    probabilities, label, confidence = outputs
    unit_features = add_unit(nodes, features) if features else ""
    last_step = export_map.last_step
    # the last of the steps that a map has gets the name of the probabilities
    values_name = probabilities if last_step == "nothing" else None
    scores_name = values_name if export_map.table is None else None
    values = _add_scores(nodes, export_map, logits, unit_features, scores_name)
    if export_map.table is not None:
        least = LEAST_VALUE if last_step == "normalise" else 0.0
        values = add_look_up(nodes, export_map.table, values, least, values_name)
    if last_step != "nothing":
        masked = is_masked(nodes, logits)
        values = nodes("Where", masked, number(0), values, name=probabilities if last_step == "mask" else None)
    if last_step == "normalise":
        # values are at least LEAST_VALUE: too small to change a usual sample, but a sample of zeros becomes uniform
        values = nodes("LpNormalization", values, axis=1, p=1, name=probabilities)
    nodes("ArgMax", logits if export_map.keeps_accuracy else values, axis=1, keepdims=0, name=label)
    # a calibrator that keeps the accuracy keeps the largest probability at the same class
    nodes.reduce("ReduceMax", values, keepdims=0, name=confidence)


def add_accept(nodes: Nodes, threshold: Threshold, confidence: str, name: str = ACCEPT) -> None:
    """Add the node from the confidence (n,) to `name`, bool (n,): whether it reaches the threshold."""
    nodes("GreaterOrEqual", confidence, number(threshold.confidence), name=name)


def _add_scores(nodes: Nodes, export_map: ExportMap, z: str, features: str, name: str | None) -> str:
    """Add the nodes from float64 logits `z` to scores, both (n, C).

    `features` is the name of the features of all layers side by side, those of each layer of length 1.
    """
    scores = export_map.scores
    match scores:
        case Scaled():
            return add_softmax(nodes, z, scores.scale, name, exact=export_map.table is not None)
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
