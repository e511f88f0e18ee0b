"""Which predictions to accept: coverage curves, and thresholds of the confidence with a bound on the accuracy."""

from driftcal.decisions.coverage_curve import CoverageCurve
from driftcal.decisions.metadata import decisions_from_metadata, decisions_to_metadata
from driftcal.decisions.threshold import Threshold, choose_threshold, masked_labels

__all__ = [
    "CoverageCurve",
    "Threshold",
    "choose_threshold",
    "decisions_from_metadata",
    "decisions_to_metadata",
    "masked_labels",
]
