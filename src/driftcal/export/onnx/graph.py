"""Calibrators as ONNX graphs of standard operators: the calibration itself, in float64.

All operators but `Nodes.reduce` have kept their form since opset 13, so the nodes also fit at the end of an older model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from driftcal.calibrators.base import FLOOR
from driftcal.export.maps import ExportMap
from driftcal.export.onnx.features import add_unit
from driftcal.export.onnx.nodes import Nodes, look_up, number
from driftcal.export.onnx.scores import add_scores, are_masked, keeps_mass

#: What a calibrated model answers beside its own outputs.
OUTPUTS = ("probabilities", "label", "confidence")


def add_calibration(
    nodes: Nodes,
    export_map: ExportMap,
    logits: str,
    outputs: tuple[str, str, str] = OUTPUTS,
    features: Sequence[str] = (),
) -> None:
    """Add the nodes from float64 (n, classes) `logits` to probabilities, label and confidence, named by `outputs`.

    A calibrator that looks at a model's layers needs float64 (n, F) `features` of each.
    """
    scores = add_scores(
        nodes,
        export_map.scores,
        logits,
        add_unit(nodes, features) if features else "",
        name=outputs[0] if export_map.finish == "nothing" else None,
        to_be_normalised=export_map.table is None and export_map.finish == "normalise",
    )
    if export_map.table is not None:
        floor = FLOOR if export_map.finish == "normalise" else 0.0
        scores = look_up(nodes, export_map.table, scores, floor)
    probabilities = _finish(nodes, export_map, logits, scores, outputs[0])
    nodes("ArgMax", logits if export_map.keeps_accuracy else probabilities, axis=1, keepdims=0, name=outputs[1])
    # a calibrator that keeps accuracy keeps the largest in its place
    nodes.reduce("ReduceMax", probabilities, keepdims=0, name=outputs[2])


def _finish(nodes: Nodes, export_map: ExportMap, z: str, values: str, name: str) -> str:
    """Masked classes get 0 and rows sum to 1. FLOOR adds nothing to a row that has mass; one of FLOORs becomes uniform by itself."""
    if export_map.finish == "nothing":
        return values
    if export_map.finish == "mask":
        return nodes("Where", are_masked(nodes, z), number(0), values, name=name)
    if export_map.table is not None or not keeps_mass(export_map.scores):
        values = nodes("Where", are_masked(nodes, z), number(0), values)
    return nodes("LpNormalization", values, axis=1, p=1, name=name)


def names_in(graph: Any) -> Iterator[str]:
    """Every value and node name in a graph and the graphs inside its nodes."""
    for listed in (graph.input, graph.output, graph.initializer, graph.value_info):
        yield from (item.name for item in listed)
    for node in graph.node:
        yield node.name
        yield from node.input
        yield from node.output
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from names_in(inner)


def batch_of(graph: Any, name: str) -> str | int:
    """The declared batch size of an output, or its name."""
    for item in graph.output:
        if item.name == name and item.type.tensor_type.shape.dim:
            first = item.type.tensor_type.shape.dim[0]
            return int(first.dim_value) or str(first.dim_param) or "n"
    return "n"
