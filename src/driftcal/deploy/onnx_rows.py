"""Nodes that give each row a temperature of its own, and the softmax at that temperature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.calibrators.entropy import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.calibrators.network import LARGEST
from driftcal.deploy.onnx_features import add_distances
from driftcal.deploy.onnx_nodes import Nodes, log1p, number, row_sum
from driftcal.deploy.recipe_rows import (
    ByRow,
    ScaledByDistance,
    ScaledByEntropy,
    ScaledByNetwork,
    ScaledByRegression,
)
from driftcal.numerics import MASKED

#: Stands for the infinite gap to a masked class; a quotient of infinities would be none.
_MOST = 1e300


def scale_by_row(nodes: Nodes, scores: ByRow, z: str, features: Sequence[str], name: str | None) -> str:
    """softmax(z / T) with the T that `scores` gives each row; `features` are layers whose rows have length 1."""
    sharpness = _sharpness(nodes, scores, z, features)
    # relative to the top first: a very sharp row would leave no digits for differences
    top = nodes("GatherElements", z, nodes("ArgMax", z, axis=1, keepdims=1), axis=1)
    below = nodes("Sub", z, top)
    return nodes("Softmax", nodes("Mul", below, sharpness), axis=1, name=name)


def _sharpness(nodes: Nodes, scores: ByRow, z: str, features: Sequence[str]) -> str:
    """1/T of each row, as a column."""
    match scores:
        case ScaledByEntropy():
            return _by_entropy(nodes, scores, z)
        case ScaledByNetwork():
            return _by_network(nodes, scores, z, features)
        case ScaledByDistance():
            rise = nodes("MatMul", add_distances(nodes, scores.neighbours, features), scores.slopes[:, None])
            return nodes("Reciprocal", nodes("Add", rise, number(scores.constant)))
        case ScaledByRegression():
            rise = nodes("MatMul", nodes("Concat", *features, axis=1), scores.slopes[:, None])
            log_t = nodes("Add", rise, number(scores.constant))
            return nodes("Exp", nodes("Neg", nodes("Clip", log_t, number(scores.low), number(scores.high))))


def _by_entropy(nodes: Nodes, scores: ScaledByEntropy, z: str) -> str:
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    top = nodes("GatherElements", z, best, axis=1)
    others = nodes("ScatterElements", z, best, nodes("Add", top, number(-np.inf)), axis=1)
    below = nodes("Max", nodes("Sub", others, top), number(MASKED))  # finite, so that its product with 0 is 0
    powers = nodes("Exp", below)
    rest = row_sum(nodes, powers)
    pull = nodes("Div", row_sum(nodes, nodes("Mul", powers, below)), nodes("Add", rest, number(1)))
    entropy = nodes("Max", nodes("Sub", log1p(nodes, rest), pull), number(np.exp(LEAST_LOG_ENTROPY)))
    line = nodes("Add", nodes("Mul", nodes("Log", entropy), number(scores.slope)), number(scores.intercept))
    a = nodes("Max", line, number(LEAST_ARGUMENT))
    tail = log1p(nodes, nodes("Exp", nodes("Neg", nodes("Abs", a))))
    return nodes("Reciprocal", nodes("Add", nodes("Max", a, number(0)), tail))


def _by_network(nodes: Nodes, scores: ScaledByNetwork, z: str, features: Sequence[str]) -> str:
    """scale·exp(−g)"""
    width = scores.gaps
    largest = nodes("TopK", z, np.array([width + 1]), axis=1, spare=1)
    top, next_ones = (nodes("Gather", largest, place, axis=1) for place in (np.array([0]), np.arange(1, width + 1)))
    gaps = nodes("Min", nodes("Div", nodes("Sub", top, next_ones), number(scores.unit)), number(_MOST))
    x = log1p(nodes, gaps)
    if scores.neighbours.references:
        x = nodes("Concat", x, add_distances(nodes, scores.neighbours, features), axis=1)
    x = nodes("Min", nodes("Max", x, scores.low), scores.high)
    x = nodes("Div", nodes("Sub", x, scores.mean), scores.spread)
    *hidden, (weights, constants) = scores.layers
    for into, shift in hidden:
        x = nodes("Tanh", nodes("Add", nodes("MatMul", x, into), shift))
    g = nodes("Add", nodes("MatMul", x, weights), constants)
    g = nodes("Clip", g, number(-LARGEST), number(LARGEST))
    return nodes("Mul", nodes("Exp", nodes("Neg", g)), number(scores.scale))
