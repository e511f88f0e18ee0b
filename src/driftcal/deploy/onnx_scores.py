"""The first step of a calibrator's ONNX graph, from float64 logits to scores, and what the graph is built with."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.calibrators.entropy import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.calibrators.parameterized import LARGEST
from driftcal.deploy.recipe import Blended, Scaled, ScaledByEntropy, ScaledByNetwork, Scores, Sigmoids
from driftcal.errors import need
from driftcal.numerics import MASKED
from driftcal.types import Array

#: Values to be normalised are not let below this. It adds nothing to a row that has mass, and a row without any needs no
#: special case: five operators less.
FLOOR = 1e-300
#: Stands for the infinite gap to a masked class; a quotient of infinities would be none.
_MOST = 1e300


class Nodes:
    """Nodes and constants of a graph that grows; every name starts with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._onnx: Any = need("onnx", "onnx")
        self._prefix = prefix
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def __call__(
        self, operator: str, *inputs: str | Array, name: str | None = None, spare: int = 0, **attributes: Any
    ) -> str:
        """Add a node; arrays among its inputs become constants. Returns the name of its first output; `spare` more are not used."""
        output = name or f"{self._prefix}{operator}_{len(self.nodes)}"
        names = [self._constant(value) if isinstance(value, np.ndarray) else value for value in inputs]
        outputs = [output, *(f"{output}_spare_{i}" for i in range(spare))]
        node = self._onnx.helper.make_node(operator, names, outputs, name=f"{output}_node", **attributes)
        self.nodes.append(node)
        return output

    def _constant(self, value: Array) -> str:
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            name = f"{self._prefix}constant_{len(self._constants)}"
            self._constants[key] = name
            self.initializers.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return self._constants[key]


AXIS = np.array([1])
_DOUBLE = 11  # TensorProto.DOUBLE


def number(value: float) -> Array:
    """A constant."""
    return np.array(value, np.float64)


def row_sum(nodes: Nodes, values: str) -> str:
    """The sum of each row, as a column."""
    return nodes("ReduceSum", values, AXIS, keepdims=1)


def add_scores(nodes: Nodes, scores: Scores, z: str, name: str | None) -> str:
    """Add the nodes from float64 logits to scores; `name` is theirs where they are the probabilities already."""
    match scores:
        case Scaled():
            return _softmax(nodes, scores.scale, z, name)
        case ScaledByEntropy():
            return _by_row(nodes, z, _sharpness_by_entropy(nodes, scores, z), name)
        case ScaledByNetwork():
            return _by_row(nodes, z, _sharpness_by_network(nodes, scores, z), name)
        case Blended():
            scaled, plain, doubt = scores.weights
            first = nodes("Mul", _softmax(nodes, scores.scale, z), number(scaled))
            blended = nodes("Add", first, nodes("Mul", _softmax(nodes, 1.0, z), number(plain)))
            count = row_sum(nodes, nodes("Cast", are_open(nodes, z), to=_DOUBLE))
            return nodes("Add", blended, nodes("Div", number(doubt), count))
        case Sigmoids():
            return _sigmoid(nodes, _log_odds(nodes, z), scores.slopes, scores.intercepts)


def _softmax(nodes: Nodes, scale: float, z: str, name: str | None = None) -> str:
    return nodes("Softmax", nodes("Mul", z, number(scale)) if scale != 1 else z, axis=1, name=name)


def _by_row(nodes: Nodes, z: str, sharpness: str, name: str | None) -> str:
    # relative to the top first: a very sharp row would leave no digits for differences
    top = nodes("GatherElements", z, nodes("ArgMax", z, axis=1, keepdims=1), axis=1)
    below = nodes("Sub", z, top)
    return nodes("Softmax", nodes("Mul", below, sharpness), axis=1, name=name)


def _sharpness_by_entropy(nodes: Nodes, scores: ScaledByEntropy, z: str) -> str:
    """1/T of each row, as a column."""
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    top = nodes("GatherElements", z, best, axis=1)
    others = nodes("ScatterElements", z, best, nodes("Add", top, number(-np.inf)), axis=1)
    below = nodes("Max", nodes("Sub", others, top), number(MASKED))  # finite, so that its product with 0 is 0
    powers = nodes("Exp", below)
    rest = row_sum(nodes, powers)
    pull = nodes("Div", row_sum(nodes, nodes("Mul", powers, below)), nodes("Add", rest, number(1)))
    entropy = nodes("Max", nodes("Sub", _log1p(nodes, rest), pull), number(np.exp(LEAST_LOG_ENTROPY)))
    line = nodes("Add", nodes("Mul", nodes("Log", entropy), number(scores.slope)), number(scores.intercept))
    a = nodes("Max", line, number(LEAST_ARGUMENT))
    tail = _log1p(nodes, nodes("Exp", nodes("Neg", nodes("Abs", a))))
    return nodes("Reciprocal", nodes("Add", nodes("Max", a, number(0)), tail))


def _sharpness_by_network(nodes: Nodes, scores: ScaledByNetwork, z: str) -> str:
    """scale·exp(−g) of each row, as a column."""
    width = len(scores.low)
    largest = nodes("TopK", z, np.array([width + 1]), axis=1, spare=1)
    top, next_ones = (nodes("Gather", largest, place, axis=1) for place in (np.array([0]), np.arange(1, width + 1)))
    gaps = nodes("Min", nodes("Div", nodes("Sub", top, next_ones), number(scores.unit)), number(_MOST))
    x = nodes("Min", nodes("Max", _log1p(nodes, gaps), scores.low), scores.high)
    x = nodes("Div", nodes("Sub", x, scores.mean), scores.spread)
    *hidden, (weights, constants) = scores.layers
    for into, shift in hidden:
        x = nodes("Tanh", nodes("Add", nodes("MatMul", x, into), shift))
    g = nodes("Add", nodes("MatMul", x, weights), constants)
    g = nodes("Clip", g, number(-LARGEST), number(LARGEST))
    return nodes("Mul", nodes("Exp", nodes("Neg", g)), number(scores.scale))


def _log1p(nodes: Nodes, x: str) -> str:
    """log(1 + x) for x from 0 to _MOST: what rounding takes from 1 + x, the quotient gives back."""
    more = nodes("Add", x, number(1))
    kept = nodes("Sub", more, number(1))
    logs = nodes("Mul", nodes("Log", more), nodes("Div", x, kept))
    return nodes("Where", nodes("Greater", kept, number(0)), logs, x)


def are_open(nodes: Nodes, z: str) -> str:
    """Which classes are not masked."""
    return nodes("Greater", z, number(-np.inf))


def _log_odds(nodes: Nodes, z: str) -> str:
    """z_c − log Σ_{k≠c} exp(z_k), at most −MASKED, without cancellation; anything for masked classes."""
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    top = nodes("GatherElements", z, best, axis=1)
    others = nodes("ScatterElements", z, best, nodes("Add", top, number(-np.inf)), axis=1)
    runner_up = nodes("GatherElements", others, nodes("ArgMax", others, axis=1, keepdims=1), axis=1)
    # finite also where all others are masked: their sum is then 0 and the top's log-odds are capped
    second = nodes("Max", runner_up, number(MASKED))
    powers = nodes("Exp", nodes("Sub", others, second))
    total = row_sum(nodes, powers)
    gap = nodes("Sub", second, top)
    odds_of_top = nodes("Min", nodes("Neg", nodes("Add", gap, nodes("Log", total))), number(-MASKED))
    share = nodes("Exp", gap)
    most = nodes("Add", nodes("Mul", share, total), number(1))
    rest = nodes("Sub", most, nodes("Mul", powers, share))
    below = nodes("Sub", nodes("Sub", z, top), nodes("Log", rest))
    return nodes("ScatterElements", below, best, odds_of_top, axis=1)


def _sigmoid(nodes: Nodes, x: str, slopes: Array, intercepts: Array) -> str:
    """e^m / (1 + e^m): the lower tail keeps its digits down to FLOOR, unlike in the operator Sigmoid."""
    m = nodes("Add", nodes("Mul", x, slopes), intercepts)
    e = nodes("Exp", nodes("Clip", m, number(np.log(FLOOR)), number(-np.log(FLOOR))))
    return nodes("Div", e, nodes("Add", e, number(1)))
