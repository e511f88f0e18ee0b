"""ONNX nodes of temperature, ensemble temperature, vector and Dirichlet scaling."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.export_map import Blended, Mixed, ScaledPerClass
from driftcal.core.numerics import MASKED
from driftcal.export.onnx.nodes import Nodes, is_masked, number

#: Multiplied by this, all logits that are not masked have the same exponential.
_FLAT_SCALE = 1e-300


def add_softmax(nodes: Nodes, z: str, scale: float, name: str | None = None, *, exact: bool = False) -> str:
    """softmax(scale·z), with `exact` as softmax(scale·(z − max z)): products of large logits would lose digits."""
    if exact and scale != 1:
        z = nodes("Sub", z, nodes.reduce("ReduceMax", z))
    return nodes("Softmax", _scaled(nodes, z, scale), axis=1, name=name)


def add_blend(nodes: Nodes, blend: Blended, z: str, name: str | None) -> str:
    """The weighted mean of softmax(scale·z), softmax(z) and the uniform distribution over unmasked classes."""
    scales = np.array([blend.scale, 1.0, _FLAT_SCALE]).reshape(3, 1, 1)
    parts = nodes("Softmax", nodes("Mul", z, scales), axis=2)  # (3, n, classes)
    weighted = nodes("Mul", parts, np.array(blend.weights).reshape(3, 1, 1))
    return nodes("ReduceSum", weighted, np.array([0]), keepdims=0, name=name)


def add_vector_scaling(nodes: Nodes, scores: ScaledPerClass, z: str, name: str | None) -> str:
    """softmax(slope·log p + intercept), class by class, with p = softmax(scale·z)"""
    log_p = nodes("LogSoftmax", _scaled(nodes, z, scores.scale), axis=1)
    # a finite number for masked classes, because a slope may be 0, and 0·∞ is NaN
    x = nodes("Max", log_p, number(MASKED))
    return _masked_softmax(nodes, nodes("Add", nodes("Mul", x, scores.slopes), scores.intercepts), z, name)


def add_matrix(nodes: Nodes, scores: Mixed, z: str, name: str | None) -> str:
    """softmax(log p · matrix + intercept) with p = softmax(z)"""
    x = nodes("Max", nodes("LogSoftmax", z, axis=1), number(scores.least))
    return _masked_softmax(nodes, nodes("Add", nodes("MatMul", x, scores.matrix), scores.intercepts), z, name)


def _scaled(nodes: Nodes, z: str, scale: float) -> str:
    return nodes("Mul", z, number(scale)) if scale != 1 else z


def _masked_softmax(nodes: Nodes, values: str, z: str, name: str | None) -> str:
    """The softmax of `values` over the classes that are not masked in z."""
    return nodes("Softmax", nodes("Where", is_masked(nodes, z), number(-np.inf), values), axis=1, name=name)
