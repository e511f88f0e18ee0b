"""The map of a fitted calibrator: scores, then perhaps a table that replaces each score, then perhaps a last step.

A calibrator builds its map in `export_map`. The torch module and the ONNX graph are both made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from driftcal.calibrators.export_maps.lookup import LookupTable
from driftcal.calibrators.export_maps.sample_temperatures import SampleTemperatures
from driftcal.types import Float64

#: The last step: nothing; masked classes get 0; or masked classes get 0 and samples are normalised.
LastStep: TypeAlias = Literal["nothing", "mask", "normalise"]


@dataclass(frozen=True)
class Scaled:
    """softmax(scale·z)"""

    scale: float = 1.0


@dataclass(frozen=True)
class Blended:
    """weights[0]·softmax(scale·z) + weights[1]·softmax(z) + weights[2]/(classes that are not masked)"""

    scale: float
    weights: tuple[float, float, float]


@dataclass(frozen=True)
class ScaledPerClass:
    """softmax(slope·log p + intercept), class by class, with p = softmax(scale·z)"""

    scale: float
    slopes: Float64
    intercepts: Float64


@dataclass(frozen=True)
class Mixed:
    """softmax(log p · matrix + intercept) with p = softmax(z); log p is at least `least`."""

    matrix: Float64
    intercepts: Float64
    least: float


@dataclass(frozen=True)
class Sigmoids:
    """σ(slope·log-odds + intercept), class by class."""

    slopes: Float64
    intercepts: Float64


@dataclass(frozen=True)
class BetaCurves:
    """σ(a·log p − b·log(1 − p) + c), class by class, with p = softmax(z)"""

    a: Float64
    b: Float64
    c: Float64


@dataclass(frozen=True)
class TopCurve:
    """The top class gets the value of the curve at its log-odds, but stays above the second; others share the rest."""

    curve: LookupTable


Scores: TypeAlias = Scaled | SampleTemperatures | Blended | ScaledPerClass | Mixed | Sigmoids | BetaCurves | TopCurve


@dataclass(frozen=True)
class ExportMap:
    """Scores, table and last step of one calibrator.

    Parameters
    ----------
    scores
        What is computed from the logits first.
    table
        Curves or bins that the scores are looked up in; None for none.
    last_step
        How the values become probabilities.
    layer_widths
        The widths of the layers whose features the calibrator reads.
    n_classes, keeps_accuracy
        Those of the calibrator; the export fills them in.
    """

    scores: Scores = Scaled()
    table: LookupTable | None = None
    last_step: LastStep = "nothing"
    layer_widths: tuple[int, ...] = ()
    n_classes: int = 0
    keeps_accuracy: bool = True
