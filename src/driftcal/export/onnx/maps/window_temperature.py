"""ONNX nodes of windowed calibrators: the statistics of each sample, and the temperature of a window from their sums."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.windowed_map import InterpolatedTemperature, RegressedTemperature, WindowedMap
from driftcal.export.onnx.maps.regressed_temperature import add_regressed_temperature, add_regression_statistics
from driftcal.export.onnx.nodes import DOUBLE, INT64, Nodes, is_masked, number, sum_over_classes
from driftcal.types import Float64

#: The margin and the energy of a sample with one unmasked class, as in driftcal/drift/label_free_statistics.py.
_LARGEST = 745.0
#: What a windowed graph takes beside the logits or the model's inputs, and gives beside probabilities, label and confidence.
WINDOW_NAMES = ("window_sums", "sample_mask", "batch_sums")


def add_windowed_calibration(
    nodes: Nodes,
    windowed_map: WindowedMap,
    logits: str,
    inputs: tuple[str, str],
    outputs: tuple[str, str, str, str],
) -> None:
    """Add the nodes from float64 (n, C) `logits` to probabilities, label, confidence and the sums of this batch.

    `inputs` are the names of the previous sums (k,) and of the mask (n,) of the samples that count. Masked samples get
    probabilities too, but change no sum.
    """
    previous, mask = inputs
    probabilities, label, confidence, batch_sums = outputs
    statistics = add_statistics(nodes, windowed_map, logits)
    counts = nodes("Unsqueeze", mask, np.array([1]))
    # selected, not multiplied: padding may hold anything
    sums = nodes("ReduceSum", nodes("Where", counts, statistics, number(0)), np.array([0]), keepdims=0, name=batch_sums)
    total = nodes("Add", sums, previous)
    temperature = add_temperature(nodes, windowed_map, total)
    relative = nodes("Sub", logits, nodes.reduce("ReduceMax", logits))
    values = nodes("Softmax", nodes("Div", relative, temperature), axis=1, name=probabilities)
    nodes("ArgMax", logits, axis=1, keepdims=0, name=label)
    nodes.reduce("ReduceMax", values, keepdims=0, name=confidence)


def add_statistics(nodes: Nodes, windowed_map: WindowedMap, z: str) -> str:
    """The statistics of each sample, (n, k); column 0 is 1."""
    temperature = windowed_map.temperature
    if isinstance(temperature, RegressedTemperature):
        return add_regression_statistics(nodes, temperature, z)
    value = _label_free_statistic(nodes, temperature.statistic, z)
    ones = nodes("Expand", np.ones((1, 1)), nodes("Shape", value))
    return nodes("Concat", ones, value, axis=1)


def add_temperature(nodes: Nodes, windowed_map: WindowedMap, sums: str) -> str:
    """The temperature (1,) of a window with these sums (k,)."""
    temperature = windowed_map.temperature
    count, others = nodes.several("Split", 2, sums, np.array([1, windowed_map.n_statistics - 1]), axis=0)
    if isinstance(temperature, RegressedTemperature):
        log_t = add_regressed_temperature(nodes, temperature, sums)
    else:
        means = nodes("Div", others, nodes("Max", count, number(1)))
        log_t = _interpolated(nodes, temperature, nodes("Neg", means))
    is_small = nodes("Less", count, number(windowed_map.min_window))
    return nodes("Exp", nodes("Where", is_small, number(np.log(windowed_map.per_sample_temperature)), log_t))


def _interpolated(nodes: Nodes, temperature: InterpolatedTemperature, x: str) -> str:
    """log T (1,) at `x` (1,)."""
    points, values = temperature.points, temperature.log_temperatures
    if len(points) == 1:
        return nodes("Where", nodes("IsNaN", x), x, number(values[0]))
    return add_interpolation(nodes, x, points, values)


def add_interpolation(nodes: Nodes, x: str, points: Float64, values: Float64) -> str:
    """The piecewise linear function through the points at `x` (1,), constant at both ends, as (1,)."""
    reached = nodes("Cast", nodes("GreaterOrEqual", x, points[1:-1]), to=INT64)  # (m - 2,): points that x has passed
    left = nodes("ReduceSum", reached, np.array([0]), keepdims=1)  # 0 … m - 2
    start, step = nodes("Gather", points, left, axis=0), nodes("Gather", np.diff(points), left, axis=0)
    share = nodes("Clip", nodes("Div", nodes("Sub", x, start), step), number(0), number(1))
    rise = nodes("Mul", share, nodes("Gather", np.diff(values), left, axis=0))
    return nodes("Add", nodes("Gather", values, left, axis=0), rise)


def _label_free_statistic(nodes: Nodes, name: str, z: str) -> str:
    """One of the `STATISTICS` of each sample at temperature 1, (n, 1)."""
    top = nodes.reduce("ReduceMax", z)
    relative = nodes("Sub", z, top)
    masked = is_masked(nodes, z)
    finite = nodes("Where", masked, number(0), nodes("Max", relative, number(-_LARGEST)))
    powers = nodes("Where", masked, number(0), nodes("Exp", finite))
    total = sum_over_classes(nodes, powers)
    if name == "confidence":
        return nodes("Reciprocal", total)
    if name == "negative_entropy":
        return nodes(
            "Sub", nodes("Div", sum_over_classes(nodes, nodes("Mul", powers, finite)), total), nodes("Log", total)
        )
    if name == "margin":
        largest, _ = nodes.several("TopK", 2, relative, np.array([2]), axis=1)
        value = nodes("Neg", nodes("Slice", largest, np.array([1]), np.array([2]), np.array([1])))
    else:  # energy
        n_finite = sum_over_classes(nodes, nodes("Cast", nodes("Not", masked), to=DOUBLE))
        differences = sum_over_classes(nodes, nodes("Where", masked, number(0), relative))
        value = nodes("Sub", nodes("Log", total), nodes("Div", differences, n_finite))
    is_only_class = nodes("Equal", nodes.reduce("ReduceMax", _without_top(nodes, z)), number(-np.inf))
    return nodes("Where", is_only_class, number(_LARGEST), value)


def _without_top(nodes: Nodes, z: str) -> str:
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    infinity = nodes("Expand", number(-np.inf), nodes("Shape", best))
    return nodes("ScatterElements", z, best, infinity, axis=1)
