"""ONNX nodes of the top class and the sum of the others, without underflow, for one-vs-rest calibrators and the spline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import MASKED
from driftcal.export.onnx.nodes import Nodes, number, sum_over_classes


@dataclass(frozen=True)
class TopAndOthers:
    """Names of tensors: the top class, the two largest logits, and the exponentials of the others and their sum.

    The exponentials are relative to the second largest logit, (n, C), with 0 for the top class. The others are (n, 1).
    The sum is 0 if all other classes are masked.
    """

    best: str
    top: str
    second: str
    powers: str
    total: str


def add_top_and_others(nodes: Nodes, z: str) -> TopAndOthers:
    """Add the nodes from (n, C) logits."""
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    top = nodes("GatherElements", z, best, axis=1)
    others = nodes("ScatterElements", z, best, nodes("Add", top, number(-np.inf)), axis=1)
    runner_up = nodes("GatherElements", others, nodes("ArgMax", others, axis=1, keepdims=1), axis=1)
    # finite if all other classes are masked too
    second = nodes("Max", runner_up, number(MASKED))
    powers = nodes("Exp", nodes("Sub", others, second))
    return TopAndOthers(best, top, second, powers, sum_over_classes(nodes, powers))
