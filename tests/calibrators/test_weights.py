"""Weights that sum to 1 count as samples; masked samples fill no bins; odd sizes; results that can be pickled."""

import copy
import pickle

import numpy as np
import pytest

from driftcal import make_calibrator, metrics
from driftcal.calibrators import CALIBRATORS
from driftcal.core.numerics import softmax
from driftcal.errors import InputError, UnknownName

RNG = np.random.default_rng(8)
Z = RNG.normal(size=(2000, 4)) * 2
Z[:, 3] -= 12
Y = (Z[:, :3] / 1.5 + RNG.gumbel(size=(2000, 3))).argmax(axis=1)
Z[:15, 3] += 24  # a rare class that a line separates from all others
Y[:15] = 3
LOGIT_ONLY = [name for name, kind in CALIBRATORS.items() if not (kind.needs_features or kind.needs_levels)]


@pytest.mark.parametrize("name", LOGIT_ONLY)
def test_weights_that_are_shares_count_as_samples(name):
    expected = make_calibrator(name).fit(Z, Y).predict_proba(Z)
    for share in (1 / 2000, 1e-18):
        p = make_calibrator(name).fit(Z, Y, sample_weight=np.full(2000, share)).predict_proba(Z)
        np.testing.assert_allclose(p, expected, atol=1e-5)


def test_debiased_errors_of_shares_are_those_of_the_samples():
    shares = np.full(2000, 1 / 2000)
    plain, shared = (metrics.evaluate(Y, 2 * Z, per_class=True, sample_weight=w) for w in (None, shares))
    assert plain.debiased_ece > 0.01
    assert shared.debiased_ece == pytest.approx(plain.debiased_ece, rel=0.01)  # bins of shares may end a sample earlier
    assert shared.marginal_debiased_ece == pytest.approx(plain.marginal_debiased_ece, rel=0.01)


@pytest.mark.parametrize("name", ["hb", "pbmc"])
def test_masked_samples_fill_no_bins(name):
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(4000, 4))
    masked = rng.random(4000) < 0.9
    z[masked, 3] = -np.inf
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    for logits in (z, np.column_stack([z[:, :3], np.full(4000, -np.inf)])):
        fitted = make_calibrator(name).fit(logits, np.where(np.isneginf(logits[:, 3]) & (y == 3), 0, y))
        assert np.isfinite(fitted.predict_proba(logits)).all()
    fitted = make_calibrator(name).fit(z, y)
    assert len(np.unique(fitted.bin_edges_[3])) == 9
    scores = softmax(z)[~masked, 3]
    if name == "hb":  # ten bins of the unmasked samples, and their frequencies
        counts = np.bincount(np.searchsorted(fitted.bin_edges_[3], scores), minlength=10)
        hits = np.bincount(np.searchsorted(fitted.bin_edges_[3], scores), y[~masked] == 3, 10)
        assert counts.max() - counts.min() <= 1
        np.testing.assert_allclose(fitted.bin_values_[3], hits / counts, rtol=1e-12)


def test_a_score_that_underflows_is_a_score():
    z = np.array([[2000.0, 0.0]] * 30 + [[0.0, 2000.0]] * 10)
    y = np.array([0] * 24 + [1] * 6 + [1] * 10)
    fitted = make_calibrator("hb").fit(z, y)
    np.testing.assert_allclose(fitted.predict_proba(z[:1]), [[0.8, 0.2]])


def test_evaluations_can_be_pickled_and_statistics_add_up():
    evaluation = metrics.evaluate(Y, Z, intervals=True, n_resamples=10)
    for copied in (pickle.loads(pickle.dumps(evaluation)), copy.deepcopy(evaluation)):
        assert copied.to_dict() == evaluation.to_dict()
    parts = [metrics.Statistics.of(Y[k::3], Z[k::3]) for k in range(3)]
    assert sum(parts).accuracy == pytest.approx(evaluation.accuracy, rel=1e-12)
    with pytest.raises(TypeError):
        1 + parts[0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "basis"}, UnknownName, "did you mean 'basic'"),
        ({"groups": [1, 2]}, InputError, "groups must name the image of each sample"),
        ({"random_state": None}, InputError, "random_state must be a whole number"),
        ({"n_resamples": 10.0}, InputError, "n_resamples must be a whole number of at least 2"),
    ],
)
def test_options_are_checked_before_they_are_needed(options, error, message):
    with pytest.raises(error, match=message):
        metrics.evaluate(Y, Z, **options)


def test_groups_of_a_diagram_are_counted():
    with pytest.raises(InputError, match="groups must name the image of each sample; there are 2000 samples"):
        metrics.prepare_reliability(Y, softmax(Z), groups=np.arange(3000))
    names = [None if i % 2 else "a" for i in range(2000)]
    assert metrics.prepare_reliability(Y, softmax(Z), groups=names, n_resamples=20).ece > 0


def test_scores_of_labels_in_every_form():
    fitted = make_calibrator("ts").fit(Z, Y)
    accuracy = (Z.argmax(axis=1) == Y).mean()
    assert fitted.score(Z, Y) == accuracy
    assert fitted.score(Z, np.eye(4)[Y]) == accuracy
    assert fitted.score(Z.reshape(20, 10, 10, 4), Y.reshape(20, 10, 10)) == accuracy
    assert fitted.score(Z, Y, np.eye(1, 2000)[0]) == float(Z[0].argmax() == Y[0])


def test_the_random_state_of_networks_is_checked():
    with pytest.raises(InputError, match="random_state must be a whole number"):
        make_calibrator("pts", random_state=-1).fit(Z, Y)


@pytest.mark.parametrize("name", ["ets", "ts-ir", "pts"])
def test_a_few_huge_logits_do_not_hide_the_minimum_of_the_others(name):
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(1000, 3))
    y = (2 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    z[:50] *= 1e6
    y[:50] = rng.integers(0, 3, 50)
    fitted = make_calibrator(name).fit(z, y)
    assert 0.4 < fitted.temperature_ < 0.6
    assert metrics.brier_score(y, fitted.predict_proba(z)) < metrics.evaluate(y, z).brier
