"""Thresholds: the bound holds as often as it says, equal confidences stay together, files are checked."""

import re

import numpy as np
import pytest

from driftcal.decisions import CoverageCurve, Threshold, choose_threshold
from driftcal.decisions.threshold import fewest_samples, lower_bound
from driftcal.errors import InputError, NoThreshold


def predictions(n, seed, sharpness=3.0):
    """Calibrated confidences of a model with rising accuracy, and outcomes drawn from them."""
    rng = np.random.default_rng(seed)
    confidence = 1 - rng.random(n) ** sharpness / 2
    return confidence, rng.random(n) < confidence


def exact_accuracy(threshold, sharpness=3.0):
    u = min(1.0, (2 * (1 - threshold)) ** (1 / sharpness))  # kept: u below this
    return 1 - u**sharpness / (2 * (sharpness + 1))


def test_curve_counts_what_a_threshold_keeps():
    confidence, correct = predictions(300, 0)
    confidence = confidence.round(2)  # many are equal
    curve = CoverageCurve.of(confidence, correct)
    for threshold, kept, n_correct in zip(curve.thresholds, curve.kept, curve.correct, strict=True):
        accepted = confidence >= threshold
        assert (accepted.sum(), correct[accepted].sum()) == (kept, n_correct)
    assert curve.thresholds[-1] == 0
    assert len(curve.kept) == len(np.unique(confidence))


def test_a_thinned_curve_counts_the_same():
    confidence, correct = predictions(5000, 0)
    curve = CoverageCurve.of(confidence, correct, max_points=50)
    assert len(curve.kept) == 50
    for threshold, kept in zip(curve.thresholds, curve.kept, strict=True):
        assert (confidence >= threshold).sum() == kept


def test_confidences_that_differ_by_rounding_are_kept_together():
    confidence = 0.9 - np.arange(3) * np.spacing(0.9)  # neighbours: the middle of two is one of them
    curve = CoverageCurve.of([0.95, *confidence, 0.6], [True, True, False, True, True])
    assert curve.kept.tolist() == [1, 4, 5]
    again = CoverageCurve.from_dict(curve.to_dict())
    assert np.array_equal(again.thresholds, curve.thresholds)


@pytest.mark.theory
@pytest.mark.parametrize(("accuracy", "n"), [(0.9, 500), (0.95, 1000), (0.97, 2000)])
def test_the_accuracy_holds_in_95_of_100_and_little_coverage_is_lost(accuracy, n):
    thresholds, missing = [], 0
    for seed in range(400):
        try:
            thresholds.append(choose_threshold(CoverageCurve.of(*predictions(n, seed)), accuracy=accuracy).confidence)
        except NoThreshold:
            missing += 1
    violations = sum(exact_accuracy(max(t, 0.5)) < accuracy for t in thresholds)
    assert violations <= 0.05 * 400 + 2 * np.sqrt(400 * 0.05 * 0.95)
    assert missing < 40


def test_the_bound_is_that_of_clopper_and_pearson():
    threshold = choose_threshold(CoverageCurve.of(*predictions(1000, 1)), coverage=0.8)
    assert 0.8 <= threshold.coverage < 0.803
    correct = round(threshold.accuracy * 1000 * threshold.coverage)
    assert threshold.accuracy_bound == pytest.approx(lower_bound(correct, round(1000 * threshold.coverage), 0.05))
    assert lower_bound(0, 10, 0.05) == 0


def test_accuracy_is_certified_and_a_higher_one_keeps_less():
    curve = CoverageCurve.of(*predictions(3000, 2))
    low, high = (choose_threshold(curve, accuracy=target) for target in (0.92, 0.97))
    assert low.accuracy_bound >= 0.92
    assert high.accuracy_bound >= 0.97
    assert high.confidence > low.confidence
    assert high.coverage < low.coverage
    assert choose_threshold(curve, accuracy=0.5).coverage == 1


def test_a_cost_is_chows_rule_where_confidence_is_calibrated():
    threshold = choose_threshold(CoverageCurve.of(*predictions(100_000, 3)), cost=0.2)
    assert threshold.confidence == pytest.approx(0.8, abs=0.03)
    assert threshold.accuracy_bound is None


def test_a_cost_below_that_of_every_threshold_is_an_error():
    curve = CoverageCurve.of([0.9] * 20 + [0.6] * 80, [True] * 19 + [False] + [True, False] * 40)
    assert choose_threshold(curve, cost=0.1).coverage == 0.2
    with pytest.raises(NoThreshold, match=r"at 0\.02 the best threshold costs 0\.026 per sample\. Abstain on all"):
        choose_threshold(curve, cost=0.02)


def test_what_cannot_be_certified_is_an_error_that_says_why():
    confidence, _ = predictions(200, 0)
    curve = CoverageCurve.of(confidence, confidence > 0.55)
    with pytest.raises(NoThreshold, match="at least 3100 accepted samples without an error") as refused:
        choose_threshold(curve, accuracy=0.999)
    offered = re.search(r"They certify ([\d.]+), with a coverage of (\d+)%.*Ask for accuracy=\1", str(refused.value))
    assert choose_threshold(curve, accuracy=float(offered[1])).coverage == pytest.approx(
        float(offered[2]) / 100, abs=0.01
    )
    with pytest.raises(NoThreshold):
        choose_threshold(curve, accuracy=float(offered[1]) + 0.005)
    with pytest.raises(NoThreshold, match=r"certify no accuracy at all\. Pass more labelled samples"):
        choose_threshold(CoverageCurve.of([0.9, 0.8], [False, False]), accuracy=0.9)
    assert fewest_samples(0.999, 0.05) > 200


def test_a_percentage_is_explained():
    with pytest.raises(InputError, match=r"Write 0\.95 for 95 %"):
        choose_threshold(CoverageCurve.of([0.9, 0.8], [True, False]), accuracy=95)


@pytest.mark.parametrize("wrong", [{}, {"accuracy": 0.9, "cost": 0.1}, {"accuracy": 95}, {"coverage": 0.5, "delta": 0}])
def test_one_criterion_between_0_and_1(wrong):
    with pytest.raises(InputError):
        choose_threshold(CoverageCurve.of([0.9, 0.8], [True, False]), **wrong)


def test_both_are_plain_values_and_checked():
    curve = CoverageCurve.of(*predictions(100, 0))
    again = CoverageCurve.from_dict(curve.to_dict())
    assert np.array_equal(again.thresholds, curve.thresholds)
    threshold = choose_threshold(curve, coverage=0.5)
    assert Threshold.from_dict(threshold.to_dict()) == threshold
    with pytest.raises(ValueError, match="fit together"):
        CoverageCurve.from_dict({**curve.to_dict(), "n_samples": 99})
    with pytest.raises(ValueError, match="shares"):
        Threshold.from_dict({**threshold.to_dict(), "confidence": 2})
