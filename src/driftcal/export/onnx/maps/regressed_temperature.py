"""ONNX nodes of `window-ts`: its statistics of each sample, and the temperature that a regression reads from their sums.

Line by line as `driftcal/drift/window_statistics.py`, `driftcal/drift/accuracy_regression.py` and
`driftcal/calibrators/windowed/window_ts.py`.
"""

from __future__ import annotations

import math

import numpy as np

from driftcal.calibrators.export_maps.windowed_map import RegressedTemperature
from driftcal.drift.accuracy_regression import expit
from driftcal.drift.window_statistics import (
    _CLEAN_T,
    _LARGEST,
    _LARGEST_ODDS,
    _PRIOR_PAIRS,
    _SMALL_ENTROPY,
    _SMALL_HEIGHT,
    _SMALL_MARGIN,
    _SOFT_CONFIDENCE,
    _SOFT_ENTROPY,
    N_TEMPERATURES,
    T_PER_OCTAVE,
)
from driftcal.export.onnx.nodes import DOUBLE, INT64, Nodes, is_masked, number, sum_over_classes

#: The statistics between the count and the confidences.
_N_SCALARS = 9
_OCTAVES = N_TEMPERATURES // T_PER_OCTAVE


def add_regression_statistics(nodes: Nodes, temperature: RegressedTemperature, z: str) -> str:
    """The statistics of each sample, (n, k); column 0 is 1."""
    of_clean = temperature.statistics
    scale = 1 / of_clean.temperature
    masked = is_masked(nodes, z)
    relative = nodes("Where", masked, number(0), nodes("Sub", z, nodes.reduce("ReduceMax", z)))  # (n, C), finite
    confidences, clean_powers = _confidences(nodes, relative, masked, scale)
    total = sum_over_classes(nodes, clean_powers)
    probs = nodes("Div", clean_powers, total)
    exponents = nodes("Max", nodes("Mul", relative, number(scale)), number(-_LARGEST))
    weighted = sum_over_classes(nodes, nodes("Mul", clean_powers, exponents))
    entropy = nodes("Max", nodes("Sub", nodes("Log", total), nodes("Div", weighted, total)), number(0))
    others = nodes("Max", nodes("Sub", total, number(1)), number(1e-30))
    odds = nodes("Min", nodes("Neg", nodes("Log", others)), number(_LARGEST_ODDS))
    minus_log_entropy = nodes("Neg", nodes("Log", nodes("Add", entropy, number(_SMALL_ENTROPY))))
    n_finite = sum_over_classes(nodes, nodes("Cast", nodes("Not", masked), to=DOUBLE))
    is_only_class = nodes("Less", n_finite, number(1.5))
    unmasked = nodes("Where", masked, number(-np.inf), relative)
    largest, _ = nodes.several("TopK", 2, unmasked, np.array([2]), axis=1)
    second = nodes("Slice", largest, np.array([1]), np.array([2]), np.array([1]))
    below_mean = nodes("Div", sum_over_classes(nodes, relative), n_finite)
    margin, height = (
        nodes("Where", is_only_class, number(_LARGEST), nodes("Min", nodes("Mul", x, number(-scale)), number(_LARGEST)))
        for x in (second, below_mean)
    )
    columns = [
        nodes("Expand", np.ones((1, 1)), nodes("Shape", total)),
        nodes("Reciprocal", nodes("Mul", total, total)),
        nodes("Sub", number(1), nodes("Div", entropy, number(math.log(len(of_clean.class_shares))))),
        margin,
        nodes("Log", nodes("Add", margin, number(_SMALL_MARGIN))),
        _soft_share(nodes, odds, of_clean.odds_threshold, _SOFT_CONFIDENCE),
        _soft_share(nodes, minus_log_entropy, of_clean.entropy_threshold, _SOFT_ENTROPY),
        height,
        nodes("Mul", height, height),
        sum_over_classes(nodes, nodes("Mul", probs, probs)),
    ]
    return nodes("Concat", *columns, confidences, probs, axis=1)


def add_regressed_temperature(nodes: Nodes, temperature: RegressedTemperature, sums: str) -> str:
    """log T (1,) of a window with these sums (k,), of at least one sample."""
    n_classes = len(temperature.statistics.class_shares)
    lengths = np.array([1, _N_SCALARS, N_TEMPERATURES, n_classes])
    count, scalars, confidences, probs = nodes.several("Split", 4, sums, lengths, axis=0)
    n = nodes("Max", count, number(1))
    means, confidences = nodes("Div", scalars, n), nodes("Div", confidences, n)
    features = _features(nodes, temperature, n, means, confidences, scalars, probs)
    regression = temperature.regression
    x = nodes("Div", nodes("Sub", features, regression.centre), regression.scale)
    terms = _quadratic_terms(nodes, x, len(regression.centre))
    log_odds = nodes("ReduceSum", nodes("Mul", terms, regression.coefficients), np.array([0]), keepdims=1)
    log_odds = nodes("Clip", log_odds, number(-30), number(30))
    accuracy = _sigmoid(nodes, log_odds)
    octaves = _consistent_octaves(nodes, confidences, accuracy)  # log2(T / clean T)
    slack = nodes("Div", 2 * regression.noise, nodes("Sqrt", n))
    too_low = nodes("Sub", nodes("Sub", regression.low, slack), features)
    too_high = nodes("Sub", nodes("Sub", features, regression.high), slack)
    outside = nodes("Div", nodes("Max", nodes("Max", too_low, too_high), number(0)), regression.scale)
    excess = nodes("ReduceSum", nodes("Mul", outside, outside), np.array([0]), keepdims=1)  # squared
    inside = nodes("Add", nodes("Div", excess, number(temperature.half_excess**2)), number(1))
    n_more = nodes("Sub", n, number(1))
    share = nodes("Div", n_more, nodes("Add", n_more, number(temperature.half_size)))
    weight = nodes("Div", nodes("Mul", share, number(temperature.follows)), inside)
    weight = nodes("Mul", weight, _evidence(nodes, temperature, log_odds, n))
    shift = nodes("Mul", weight, nodes("Mul", octaves, number(math.log(2))))
    return nodes("Add", shift, number(math.log(temperature.statistics.temperature)))


def _evidence(nodes: Nodes, temperature: RegressedTemperature, log_odds: str, n: str) -> str:
    """How far the estimate is from the accuracy on clean samples, (1,): 0 to 1, a half at `half_distance` standard errors."""
    clean = float(expit(temperature.clean_log_odds))
    sampling = nodes("Reciprocal", nodes("Mul", n, number(clean * (1 - clean))))
    variance = nodes("Add", sampling, number(temperature.regression.standard_error**2))
    deviation = nodes("Sub", log_odds, number(temperature.clean_log_odds))
    squared = nodes("Div", nodes("Mul", deviation, deviation), variance)
    ratio = nodes("Div", squared, number(temperature.half_distance**2))
    return nodes("Sub", number(1), nodes("Reciprocal", nodes("Add", nodes("Mul", ratio, ratio), number(1))))


def _confidences(nodes: Nodes, relative: str, masked: str, scale: float) -> tuple[str, str]:
    """The confidence at each temperature, (n, 32), and exp(z / T) at the clean one, (n, C); each squaring halves T."""
    lowest = scale * 2.0 ** (-(N_TEMPERATURES - 1 - _CLEAN_T) / T_PER_OCTAVE)
    scales = lowest * 2.0 ** (np.arange(T_PER_OCTAVE)[::-1] / T_PER_OCTAVE)  # rising temperatures
    exponents = nodes("Mul", nodes("Unsqueeze", relative, np.array([2])), scales)
    powers = nodes("Exp", nodes("Max", exponents, number(-_LARGEST)))
    powers = nodes("Where", nodes("Unsqueeze", masked, np.array([2])), number(0), powers)  # (n, C, 4)
    octave, column = divmod(_CLEAN_T, T_PER_OCTAVE)
    totals, clean = [], ""
    for i in reversed(range(_OCTAVES)):  # from the highest temperatures to the lowest
        totals.append(nodes("ReduceSum", powers, np.array([1]), keepdims=0))
        if i == octave:
            clean = nodes("Gather", powers, np.array(column), axis=2)
        if i:
            powers = nodes("Mul", powers, powers)
    return nodes("Reciprocal", nodes("Concat", *reversed(totals), axis=1)), clean


def _features(
    nodes: Nodes, temperature: RegressedTemperature, n: str, means: str, confidences: str, scalars: str, probs: str
) -> str:
    """The features of a window, (11,)."""
    squared, negative_entropy, margin, log_margin, above, above_entropy, height, squared_height, _ = nodes.several(
        "Split", _N_SCALARS, means, np.ones(_N_SCALARS, np.int64), axis=0
    )
    confidence = nodes("Gather", confidences, np.array([_CLEAN_T]), axis=0)
    shares = temperature.statistics.class_shares
    chance, n_prior = float(shares @ shares), math.sqrt(_PRIOR_PAIRS)
    squared_probs = nodes("Gather", scalars, np.array([_N_SCALARS - 1]), axis=0)
    squares = nodes("ReduceSum", nodes("Mul", probs, probs), np.array([0]), keepdims=1)
    same = nodes("Max", nodes("Sub", squares, squared_probs), number(0))
    pairs = nodes("Mul", n, nodes("Sub", n, number(1)))
    same = nodes("Div", nodes("Add", same, number(_PRIOR_PAIRS * chance)), nodes("Add", pairs, number(_PRIOR_PAIRS)))
    cross = nodes("ReduceSum", nodes("Mul", probs, shares), np.array([0]), keepdims=1)
    cross = nodes("Div", nodes("Add", cross, number(n_prior * chance)), nodes("Add", n, number(n_prior)))
    distance = nodes("Add", nodes("Sub", same, nodes("Mul", cross, number(2))), number(chance))
    features = [
        confidence,
        _deviation(nodes, squared, confidence, 1e-4),
        negative_entropy,
        nodes("Log", nodes("Add", margin, number(_SMALL_MARGIN))),
        log_margin,
        above,
        above_entropy,
        nodes("Log", nodes("Add", height, number(_SMALL_HEIGHT))),
        nodes("Log", _deviation(nodes, squared_height, height, _SMALL_HEIGHT)),
        _arcsinh(nodes, nodes("Div", same, number(chance))),
        _arcsinh(nodes, nodes("Div", distance, number(chance))),
    ]
    return nodes("Concat", *features, axis=0)


def _consistent_octaves(nodes: Nodes, confidences: str, accuracy: str) -> str:
    """log2(T / clean T) (1,) at which the mean confidence is the accuracy, interpolated."""
    is_above = nodes("Cast", nodes("Greater", confidences, accuracy), to=INT64)
    above = nodes("ReduceSum", is_above, np.array([0]), keepdims=1)
    above = nodes("Min", nodes("Max", above, np.array(1)), np.array(N_TEMPERATURES - 1))
    left = nodes("Gather", confidences, nodes("Sub", above, np.array(1)), axis=0)
    fall = nodes("Max", nodes("Sub", left, nodes("Gather", confidences, above, axis=0)), number(1e-12))
    share = nodes("Clip", nodes("Div", nodes("Sub", left, accuracy), fall), number(0), number(1))
    position = nodes("Add", nodes("Cast", above, to=DOUBLE), nodes("Sub", share, number(1 + _CLEAN_T)))
    return nodes("Div", position, number(T_PER_OCTAVE))


def _quadratic_terms(nodes: Nodes, x: str, n_features: int) -> str:
    i, j = np.triu_indices(n_features)
    products = nodes("Mul", nodes("Gather", x, i, axis=0), nodes("Gather", x, j, axis=0))
    return nodes("Concat", np.ones(1), x, products, axis=0)


def _deviation(nodes: Nodes, second_moment: str, mean: str, least: float) -> str:
    variance = nodes("Max", nodes("Sub", second_moment, nodes("Mul", mean, mean)), number(0))
    return nodes("Sqrt", nodes("Add", variance, number(least)))


def _soft_share(nodes: Nodes, values: str, threshold: float, width: float) -> str:
    x = nodes("Div", nodes("Sub", values, number(threshold)), number(width))
    return _sigmoid(nodes, nodes("Max", x, number(-700)))


def _sigmoid(nodes: Nodes, x: str) -> str:
    return nodes("Reciprocal", nodes("Add", nodes("Exp", nodes("Neg", x)), number(1)))


def _arcsinh(nodes: Nodes, x: str) -> str:
    """sign(x)·log(|x| + sqrt(x² + 1)): runtimes have no Asinh in float64."""
    size = nodes("Abs", x)
    root = nodes("Sqrt", nodes("Add", nodes("Mul", x, x), number(1)))
    return nodes("Mul", nodes("Sign", x), nodes("Log", nodes("Add", size, root)))
