"""Nodes that give each row a temperature of its own, and the softmax at that temperature."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.kernels.network import LARGEST
from driftcal.calibrators.samplewise.hts import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.core.numerics import MASKED
from driftcal.export.onnx.features import add_distances
from driftcal.export.onnx.nodes import Nodes, log1p, number, row_sum
from driftcal.export.samplewise_maps import (
    ByRow,
    ScaledByDistance,
    ScaledByEntropy,
    ScaledByNetwork,
    ScaledByRegression,
)
from driftcal.types import Float64

#: What shorter graphs may cost a probability.
_LOST = 1e-7
#: log H of a row whose top has 0.9999 or more of the probability.
_CERTAIN = -10.0
#: 1/T below which logits of 1e4 keep ten digits when they are scaled as they are.
_SHARP = 100.0


def scale_by_row(nodes: Nodes, scores: ByRow, z: str, features: str, name: str | None) -> str:
    """softmax(z / T) with the T that `scores` gives each row; `features` are layers side by side whose rows have length 1."""
    if isinstance(scores, ScaledByRegression) and np.exp(-scores.low) <= _SHARP:
        return nodes("Softmax", nodes("Mul", z, _by_regression(nodes, scores, features)), axis=1, name=name)
    if isinstance(scores, ScaledByEntropy) and (floor := plain_entropy_from(scores)) is not None:
        return nodes("Softmax", nodes("Div", z, _by_plain_entropy(nodes, scores, z, floor)), axis=1, name=name)
    # relative to the top first: a very sharp row would leave no digits for differences
    top = nodes.reduce("ReduceMax", z)
    below = nodes("Sub", z, top)
    match scores:
        case ScaledByEntropy():
            scaled = nodes("Div", below, _by_entropy(nodes, scores, nodes("ArgMax", z, axis=1, keepdims=1), top, below))
        case ScaledByNetwork():
            scaled = nodes("Mul", below, _by_network(nodes, scores, below, features))
        case ScaledByDistance():
            distances = add_distances(nodes, scores.neighbours, features)
            scaled = nodes("Div", below, _linear(nodes, distances, scores.slopes[:, None], scores.constant))
        case ScaledByRegression():
            scaled = nodes("Mul", below, _by_regression(nodes, scores, features))
    # their largest is 0: what the operator Softmax would do, in less time
    return nodes("LpNormalization", nodes("Exp", scaled), axis=1, p=1, name=name)


def _linear(nodes: Nodes, x: str, weights: Float64, constants: Float64 | float) -> str:
    """x·weights + constants"""
    return nodes("Gemm", x, weights, np.atleast_1d(np.asarray(constants, np.float64)))


def _by_regression(nodes: Nodes, scores: ScaledByRegression, features: str) -> str:
    """1/T of each row, as a column."""
    minus_log_t = _linear(nodes, features, -scores.slopes[:, None], -scores.constant)
    return nodes("Exp", nodes("Clip", minus_log_t, number(-scores.high), number(-scores.low)))


def _by_entropy(nodes: Nodes, scores: ScaledByEntropy, best: str, top: str, below: str) -> str:
    """T of each row, as a column; `best` is the place of the top."""
    finite = nodes("Max", below, number(MASKED))  # its product with 0 is 0
    powers = nodes("Exp", finite)
    rest = row_sum(nodes, nodes("ScatterElements", powers, best, nodes("Sub", top, top), axis=1))
    pull = nodes("Div", row_sum(nodes, nodes("Mul", powers, finite)), nodes("Add", rest, number(1)))
    temperature = _of_entropy(nodes, scores, nodes("Sub", log1p(nodes, rest), pull), LEAST_LOG_ENTROPY)
    return nodes("Max", temperature, number(np.exp(LEAST_ARGUMENT)))


def _by_plain_entropy(nodes: Nodes, scores: ScaledByEntropy, z: str, floor: float) -> str:
    """T of each row, as a column, from −Σ p·log p, whose terms have one sign."""
    log_p = nodes("Max", nodes("LogSoftmax", z, axis=1), number(MASKED))
    return _of_entropy(nodes, scores, nodes.reduce("ReduceL1", nodes("Mul", nodes("Exp", log_p), log_p)), floor)


def _of_entropy(nodes: Nodes, scores: ScaledByEntropy, entropy: str, floor: float) -> str:
    """softplus(slope·log H + intercept), log H no less than `floor`."""
    log_h = nodes("Log", nodes("Max", entropy, number(np.exp(floor))))
    # softplus(a) = log(e^a + e^0); it loses digits only where T is so small that a row is all or nothing anyway
    line = _linear(nodes, log_h, np.array([[scores.slope, 0.0]]), np.array([scores.intercept, 0.0]))
    return nodes.reduce("ReduceLogSumExp", line)


def plain_entropy_from(scores: ScaledByEntropy) -> float | None:
    """The least log H that needs telling apart if the entropy may be plain; None if it may not.

    Where T grows with H, rows below it are certain, with this T and with any smaller one.
    """
    least = np.log(np.expm1(1 / _SHARP))  # its softplus
    if scores.slope > 0:
        floor = max((least - scores.intercept) / scores.slope, LEAST_LOG_ENTROPY)
        harmless = floor <= _CERTAIN
    else:
        floor, harmless = LEAST_LOG_ENTROPY, scores.slope * np.log(np.log(scores.n_classes)) + scores.intercept >= least
    return floor if harmless and lost_by_plain_sums(scores) < _LOST else None


def lost_by_plain_sums(scores: ScaledByEntropy) -> float:
    """How far a probability can be off, at most, if the entropy is −Σ p·log p.

    Only in rows that are next to certain does log p of the top lack digits, at most all of them, and with it the entropy H one of
    its two terms. Most of all that matters where the others are equally far below the top, by a gap g with
    H = (C − 1)·e^−g·(1 + g).
    """
    others, log_h = scores.n_classes - 1, np.linspace(LEAST_LOG_ENTROPY, _CERTAIN, 2_000)
    gap = -_CERTAIN - log_h
    for _ in range(20):
        gap = np.log(others * (1 + gap)) - log_h
    term = np.minimum(2 / (1 + gap), scores.n_classes * 2.0**-52 / np.exp(log_h))  # what may lack, as a share of H
    a = np.maximum(scores.slope * log_h + scores.intercept, LEAST_ARGUMENT)
    temperature = np.logaddexp(a, 0)
    steepness = abs(scores.slope) * np.exp(a - temperature) / temperature  # of log T in log H
    away = np.minimum(1, others * np.exp(-gap / temperature))
    return float((away * gap / temperature * steepness * term).max())


def _by_network(nodes: Nodes, scores: ScaledByNetwork, below: str, features: str) -> str:
    """1/T of each row, scale·exp(−g), as a column.

    The largest logit comes along with the next ones, its gap of 0 without weight, and all constants that only shift or stretch are
    part of the layers beside them: half the operators. log(unit + gap) stands for log(1 + gap/unit).
    """
    width, unit = scores.gaps, np.log(scores.unit)
    shift = np.where(np.arange(len(scores.low)) < width, unit, 0.0)
    low, high, mean = scores.low + shift, scores.high + shift, scores.mean + shift
    (first, constants), *hidden, (last, end) = scores.layers
    stretched = first / scores.spread[:, None]
    constants, first = constants - mean @ stretched, np.insert(stretched, 0, 0.0, axis=0)

    largest = nodes("TopK", below, np.array([width + 1]), axis=1, spare=1)
    x = nodes("Log", nodes("Sub", number(scores.unit), largest))
    if scores.neighbours.references:
        x = nodes("Concat", x, add_distances(nodes, scores.neighbours, features), axis=1)
    x = nodes("Min", nodes("Max", x, np.insert(low, 0, unit)), np.insert(high, 0, unit))
    for weights, shifts in ((first, constants), *hidden):
        x = nodes("Tanh", _linear(nodes, x, weights, shifts))
    log_scale = float(np.log(scores.scale))
    minus_g = _linear(nodes, x, -last, log_scale - end)
    if np.abs(last).sum() + np.abs(end).sum() > LARGEST:  # tanh is no more than 1
        minus_g = nodes("Clip", minus_g, number(log_scale - LARGEST), number(log_scale + LARGEST))
    return nodes("Exp", minus_g)
