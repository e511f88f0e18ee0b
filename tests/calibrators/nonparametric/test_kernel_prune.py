"""Pivots that are left out of an isotonic fit change nothing about it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.calibrators.nonparametric.kernels import isotonic_fit
from driftcal.calibrators.nonparametric.kernels.prune import Narrowed, find_buckets, narrow, places
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import softmax


def keep_all(pivots, weights, counts):
    """Every pivot has its cell, every score is put into one: the plain algorithm."""
    open_ = np.ones(len(counts), bool)
    open_[-1] = False
    return Narrowed(pivots, weights, np.zeros(len(pivots)), open_)


def problem(n, n_classes, seed, scale=3.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * scale
    chance = softmax(logits, 0.7).cumsum(axis=1)
    return logits, np.minimum((chance < rng.random((n, 1))).sum(axis=1), n_classes - 1)


def fit_both_ways(monkeypatch, logits, y, weights=None):
    rows = LabelledLogits(logits, y, weights)
    narrowed, _ = isotonic_fit.fit_curves(rows, 1)
    with monkeypatch.context() as patch:
        patch.setattr(isotonic_fit, "narrow", keep_all)
        plain, _ = isotonic_fit.fit_curves(rows, 1)
    return narrowed, plain


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 600),
    n_classes=st.integers(2, 30),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.01, 1.0, 5.0, 300.0]),
    kind=st.sampled_from(["plain", "ties", "masked"]),
    weighted=st.sampled_from(["not", "whole", "wild"]),
)
def test_the_curve_is_that_of_all_pivots(n, n_classes, seed, scale, kind, weighted):
    rng = np.random.default_rng(seed)
    logits, y = problem(n, n_classes, seed, scale)
    if kind == "ties":
        logits = np.round(logits)
    if kind == "masked":
        gone = rng.random(logits.shape) < 0.3
        gone[np.arange(n), y] = False
        logits[gone] = -np.inf
    weights = {"not": None, "whole": rng.integers(0, 4, n) + (np.arange(n) == 0), "wild": 10.0 ** rng.uniform(-9, 9, n)}
    with pytest.MonkeyPatch.context() as patch:
        found, wanted = fit_both_ways(patch, logits, y, weights[weighted])
    if weighted == "wild":  # sums in another order
        at = np.unique(np.concatenate([softmax(logits).ravel(), np.linspace(0, 1, 50)]))
        np.testing.assert_allclose(np.interp(at, *found[:2]), np.interp(at, *wanted[:2]), rtol=1e-9, atol=1e-12)
    else:
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize(("n", "n_classes", "scale"), [(100_000, 10, 2.0), (20_000, 100, 3.0), (300_000, 2, 1.0)])
def test_few_pivots_and_scores_are_left_of_many(monkeypatch, n, n_classes, scale):
    seen = {}

    def spy(pivots, weights, counts):
        seen["all"], seen["counts"], seen["narrowed"] = len(pivots), counts, narrow(pivots, weights, counts)
        return seen["narrowed"]

    logits, y = problem(n, n_classes, 1, scale)
    with monkeypatch.context() as patch:
        patch.setattr(isotonic_fit, "narrow", spy)
        narrowed, _ = isotonic_fit.fit_curves(LabelledLogits(logits, y), 1)
        patch.setattr(isotonic_fit, "narrow", keep_all)
        plain, _ = isotonic_fit.fit_curves(LabelledLogits(logits, y), 1)
    assert all(np.array_equal(a, b) for a, b in zip(narrowed, plain, strict=True))
    left, counts = seen["narrowed"], seen["counts"][:-1]
    assert counts.sum() == n * (n_classes - 1)
    assert len(left.pivots) < 0.5 * seen["all"]
    assert counts[left.open[:-1]].sum() < 0.3 * counts.sum()
    assert left.weights.sum() == n


@given(scores=st.lists(st.floats(0, 1), min_size=2, max_size=50), n_rows=st.integers(1, 10**7))
def test_buckets_keep_the_order_of_scores_and_nothing_else_falls_into_one(scores, n_rows):
    n_places = places(n_rows)
    given_ = np.array([*sorted(scores), -1.0, np.nan, np.inf, 1.5])
    found = np.empty(len(given_), np.int64)
    find_buckets(given_, n_places, found)
    assert (np.diff(found[:-4]) >= 0).all()
    assert found[0] >= 0
    assert found[-5] <= n_places - 2
    assert (found[-4:] == n_places - 1).all()
