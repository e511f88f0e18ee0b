"""Metrics agree with other libraries; data/metrics.json lists the libraries and their versions."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from sklearn import metrics as sk

from driftcal import metrics
from driftcal.core.numerics import softmax

pytestmark = pytest.mark.golden

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden" / "metrics.json").read_text())
CASES = [(np.array(c["logits"]), np.array(c["labels"]), c["peers"]) for c in GOLDEN["cases"]]


def check_binned_errors(y, p, peer_values):
    """Every error that a library computes from confidences and outcomes."""
    for m in (10, 15):
        assert metrics.expected_calibration_error(y, p, n_bins=m) == pytest.approx(
            peer_values[f"netcal ECE {m}"], abs=1e-12
        )
        if f"netcal MCE {m}" in peer_values:
            assert metrics.maximum_calibration_error(y, p, n_bins=m) == pytest.approx(
                peer_values[f"netcal MCE {m}"], abs=1e-12
            )
    peer = "uncertainty-calibration"
    assert metrics.equal_mass_calibration_error(y, p) == pytest.approx(peer_values[f"{peer} equal-mass ECE"], abs=1e-12)
    assert metrics.debiased_calibration_error(y, p) == pytest.approx(peer_values[f"{peer} debiased"], abs=1e-12)
    width = peer_values["relplot smECE bandwidth"]
    assert metrics.smooth_calibration_error(y, p) == pytest.approx(peer_values["relplot smECE"], abs=1e-3)
    assert metrics.smooth_calibration_error(y, p, bandwidth=width) == pytest.approx(
        peer_values["relplot smECE"], abs=1.5e-3
    )


@pytest.mark.parametrize(("logits", "y", "peers"), CASES)
def test_top_label_errors_are_those_of_netcal_uncertainty_calibration_and_relplot(logits, y, peers):
    p, peer_values = softmax(logits), peers["top-label"]
    check_binned_errors(y, p, peer_values)
    assert metrics.expected_calibration_error(y, p) == pytest.approx(
        peer_values["uncertainty-calibration ECE"], abs=1e-12
    )
    marginal = metrics.debiased_calibration_error(y, p, kind="marginal")
    assert marginal == pytest.approx(peer_values["uncertainty-calibration debiased marginal"], abs=1e-12)


def test_errors_of_class_1_are_theirs_too():
    logits, y, peers = CASES[0]
    check_binned_errors(y, softmax(logits)[:, 1], peers["positive"])


@pytest.mark.parametrize(("logits", "y", "peers"), CASES)
def test_scores_are_those_of_probmetrics(logits, y, peers):
    peer_values = peers["probmetrics"]
    binary = logits.shape[1] == 2
    # its binary errors are those of class 1
    scores = logits[:, 1] - logits[:, 0] if binary else logits
    evaluation = metrics.evaluate(y, scores, score_type="logits")
    assert evaluation.accuracy == pytest.approx(peer_values["accuracy"], abs=1e-6)
    assert evaluation.nll == pytest.approx(peer_values["logloss"], abs=1e-12)
    assert evaluation.brier * (2 if binary else 1) == pytest.approx(peer_values["brier"], abs=1e-12)
    assert evaluation.ece == pytest.approx(peer_values["ece-15"], abs=1e-6)
    assert evaluation.mce == pytest.approx(peer_values["mce-15"], abs=1e-6)
    assert evaluation.smooth_ece == pytest.approx(peer_values["smece"], abs=1e-3)
    if binary:
        assert evaluation.ks == pytest.approx(peer_values["kolmogorov-smirnov"], abs=1e-6)


@pytest.mark.parametrize(("logits", "y", "_"), CASES)
def test_proper_scores_and_auroc_are_those_of_scikit_learn(logits, y, _):
    p = softmax(logits)
    weights = np.random.default_rng(0).random(len(y))
    classes = np.arange(p.shape[1])
    with_weights = {"sample_weight": weights}
    assert metrics.accuracy(y, p, **with_weights) == pytest.approx(sk.accuracy_score(y, p.argmax(1), **with_weights))
    assert metrics.negative_log_likelihood(y, p, **with_weights) == pytest.approx(
        sk.log_loss(y, p, labels=classes, **with_weights), rel=1e-12
    )
    one_hot = np.eye(p.shape[1])[y]
    assert metrics.brier_score(y, p, **with_weights) == pytest.approx(
        np.average(((p - one_hot) ** 2).sum(axis=1), weights=weights), rel=1e-12
    )
    correct = p.argmax(axis=1) == y
    assert metrics.error_auroc(y, p, **with_weights) == pytest.approx(
        sk.roc_auc_score(correct, p.max(axis=1), **with_weights), rel=1e-12
    )


def test_binary_brier_is_that_of_scikit_learn():
    logits, y, _ = CASES[0]
    p = softmax(logits)[:, 1]
    assert metrics.brier_score(y, p) == pytest.approx(sk.brier_score_loss(y, p), rel=1e-12)
    assert metrics.negative_log_likelihood(y, p) == pytest.approx(sk.log_loss(y, p), rel=1e-12)


def test_entropy_and_nll_at_50_digits():
    logits = np.array([[1e4, 9.99e3, -1e4], [0.0, 1e-9, -30.0], [3.5, -2.25, 700.0], [-5.0, -5.0, -5.0]])
    y = np.array([1, 2, 2, 0])
    with mpmath.workdps(50):
        nll, entropy, brier = [], [], []
        for row, label in zip(logits, y, strict=True):
            e = [mpmath.e ** (mpmath.mpf(z) - mpmath.mpf(max(row))) for z in row]
            p = [x / sum(e) for x in e]
            nll.append(-mpmath.log(max(p[label], mpmath.mpf("1e-15"))))
            entropy.append(-sum(x * mpmath.log(x) for x in p))
            brier.append(sum((x - (c == label)) ** 2 for c, x in enumerate(p)))
        exact = [float(sum(values) / len(values)) for values in (nll, entropy, brier)]
    statistics = metrics.Statistics.of(y, logits)
    assert [statistics.nll, statistics.entropy, statistics.brier] == pytest.approx(exact, rel=1e-14)


def test_sweep_by_hand():
    # three bins rise (0, 1/2, 1); four bins do not (0, 1/2, 0, 1 …) for these outcomes
    confidence = np.array([0.1, 0.2, 0.5, 0.55, 0.6, 0.8, 0.9, 0.95])
    y = np.array([0, 0, 1, 0, 0, 1, 1, 1])

    def heights(n_bins):
        return [piece.mean() for piece in np.array_split(y, n_bins)]

    rising = [b for b in range(1, 9) if heights(b) == sorted(heights(b))]
    n_bins = next(b for b in range(1, 9) if b + 1 not in rising)
    expected = sum(
        abs((c - o).sum()) for c, o in zip(np.array_split(confidence, n_bins), np.array_split(y, n_bins), strict=True)
    )
    assert metrics.sweep_calibration_error(y, confidence) == pytest.approx(expected / len(y))


def test_risk_coverage_area_by_hand():
    # the most confident sample is correct, the second incorrect, the third correct: errors(t) is 0 up to 1, t - 1 up to
    # 2, then 1
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    area = (1 - math.log(2)) + math.log(3 / 2)
    assert metrics.area_under_risk_coverage([0, 0, 0], p) == pytest.approx(area / 3)


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("errors", ["most confident", "least confident", "random", "all"])
def test_risk_coverage_area_is_the_mean_over_ranks_up_to_one_over_n(n, errors):
    confidence = np.linspace(0.99, 0.6, n)
    chosen = {
        "most confident": [0],
        "least confident": [n - 1],
        "all": slice(None),
        "random": np.random.default_rng(0).random(n) < 0.3,
    }
    incorrect = np.zeros(n)
    incorrect[chosen[errors]] = 1
    mean_over_ranks = (incorrect.cumsum() / np.arange(1, n + 1)).mean()
    p = np.stack([confidence, 1 - confidence], axis=1)
    assert metrics.area_under_risk_coverage(incorrect.astype(int), p) == pytest.approx(mean_over_ranks, abs=1 / n)


def test_null_ece_of_even_odds_is_the_mean_absolute_binomial():
    n = 30
    exact = sum(math.comb(n, k) * 0.5**n * abs(k / n - 0.5) for k in range(n + 1))
    y, p = np.zeros(n, int), np.full(n, 0.5)
    assert metrics.null_ece(y, p, n_resamples=20_000) == pytest.approx(exact, rel=0.02)
    assert metrics.Statistics.of(y, p, score_type="probabilities").null_ece == pytest.approx(exact, rel=0.02)
