"""Predictions of the validation samples by calibrators that were not fitted on them, as a coverage curve."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.decisions import CoverageCurve
from driftcal.engines.remote_passes import map_logits
from driftcal.errors import DidNotConverge
from driftcal.metrics.sample_scores import SampleScores
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.tuning.candidates import Variant
from driftcal.pipeline.tuning.cross_validation import fold_of_samples, held_out_scores
from driftcal.types import Array, Labels, Logits

#: A calibrator with at most so many fitted numbers may predict the samples of its fit: a temperature cannot adapt to
#: single samples.
FEW_NUMBERS = 4


def curve_of_fit(
    calibrator: Calibrator,
    method: Calibrator,
    variant: Variant,
    perturbed: PerturbedLogits,
    labels: Labels,
    features: CollectedFeatures,
) -> CoverageCurve | None:
    """The curve of clean validation samples for a fitted `calibrator`, of which `method` is the unfitted form.

    With few fitted numbers its own predictions are used. Otherwise the method is fitted again on four fifths of the
    samples, and predicts the others. None if that is not possible.
    """
    if sum(np.size(getattr(calibrator, name)) for name in calibrator.fitted) <= FEW_NUMBERS:
        options = {"labels": labels, "candidate": Candidate(variant.method, variant.method, calibrator)}
        (scores,) = map_logits(_score_all, [perturbed.clean], options)
        return curve_of_scores(scores)
    if method.needs_window or len(labels) < 2:
        return None
    fold = fold_of_samples(len(labels))
    parts = []
    for k in np.unique(fold):
        try:
            parts.append(held_out_scores(variant, perturbed, labels, fold == k, features, method)[0])
        except DidNotConverge:
            return None
    return CoverageCurve.of(
        np.concatenate([part.confidence for part in parts]), np.concatenate([part.correct for part in parts])
    )


def curve_of_scores(scores: SampleScores) -> CoverageCurve:
    """The curve of these predictions."""
    return CoverageCurve.of(scores.confidence, scores.correct)


def _score_all(logits: Logits, labels: Array, candidate: Candidate) -> SampleScores:
    return SampleScores.of_probabilities(labels, candidate.predict_proba(logits))
