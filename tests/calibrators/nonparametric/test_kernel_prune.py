"""Breakpoints that are pruned from an isotonic fit do not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.calibrators.nonparametric.kernels import isotonic_fit
from driftcal.calibrators.nonparametric.kernels.prune import Pruned, find_buckets, n_counters, prune
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import softmax


def keep_all(breakpoints, weights, counts):
    """The algorithm without pruning: every breakpoint is kept, and every score is added exactly."""
    is_open = np.ones(len(counts), bool)
    is_open[-1] = False
    return Pruned(np.arange(len(breakpoints)), breakpoints, weights, np.zeros(len(breakpoints)), is_open)


def same_bits(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("scores", "values", "starts"))


def problem(n, n_classes, seed, scale=3.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * scale
    chance = softmax(logits, 0.7).cumsum(axis=1)
    return logits, np.minimum((chance < rng.random((n, 1))).sum(axis=1), n_classes - 1)


def fit_both_ways(monkeypatch, logits, y, weights=None):
    data = LabelledLogits(logits, y, weights)
    pruned, _ = isotonic_fit.fit_curves(data, 1)
    with monkeypatch.context() as patch:
        patch.setattr(isotonic_fit, "prune", keep_all)
        plain, _ = isotonic_fit.fit_curves(data, 1)
    return pruned, plain


@settings(max_examples=60)
@given(
    n=st.integers(1, 600),
    n_classes=st.integers(2, 30),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.01, 1.0, 5.0, 300.0]),
    kind=st.sampled_from(["plain", "ties", "masked"]),
    weighted=st.sampled_from(["not", "whole", "wild"]),
)
def test_the_curve_is_that_of_all_breakpoints(n, n_classes, seed, scale, kind, weighted):
    rng = np.random.default_rng(seed)
    logits, y = problem(n, n_classes, seed, scale)
    if kind == "ties":
        logits = np.round(logits)
    if kind == "masked":
        masked = rng.random(logits.shape) < 0.3
        masked[np.arange(n), y] = False
        logits[masked] = -np.inf
    weights = {"not": None, "whole": rng.integers(0, 4, n) + (np.arange(n) == 0), "wild": 10.0 ** rng.uniform(-9, 9, n)}
    with pytest.MonkeyPatch.context() as patch:
        pruned, plain = fit_both_ways(patch, logits, y, weights[weighted])
    if weighted == "wild":  # sums in another order
        at = np.unique(np.concatenate([softmax(logits).ravel(), np.linspace(0, 1, 50)]))
        np.testing.assert_allclose(
            np.interp(at, pruned.scores, pruned.values),
            np.interp(at, plain.scores, plain.values),
            rtol=1e-9,
            atol=1e-12,
        )
    else:
        assert same_bits(pruned, plain)


@pytest.mark.parametrize(("n", "n_classes", "scale"), [(100_000, 10, 2.0), (20_000, 100, 3.0), (300_000, 2, 1.0)])
def test_few_breakpoints_and_scores_are_left_of_many(monkeypatch, n, n_classes, scale):
    calls = []

    def spy(breakpoints, weights, counts):
        calls.append((len(breakpoints), counts[:-1], prune(breakpoints, weights, counts)))
        return calls[-1][2]

    logits, y = problem(n, n_classes, 1, scale)
    with monkeypatch.context() as patch:
        patch.setattr(isotonic_fit, "prune", spy)
        pruned, _ = isotonic_fit.fit_curves(LabelledLogits(logits, y), 1)
        patch.setattr(isotonic_fit, "prune", keep_all)
        plain, _ = isotonic_fit.fit_curves(LabelledLogits(logits, y), 1)
    assert same_bits(pruned, plain)
    [(n_breakpoints, counts, left)] = calls
    assert counts.sum() == n * (n_classes - 1)
    assert len(left.breakpoints) < 0.5 * n_breakpoints
    assert counts[left.is_open[:-1]].sum() < 0.3 * counts.sum()
    assert left.weights.sum() == n


@given(scores=st.lists(st.floats(0, 1), min_size=2, max_size=50), n_samples=st.integers(1, 10**7))
def test_buckets_keep_the_order_of_scores_and_hold_scores_only(scores, n_samples):
    n = n_counters(n_samples)
    values = np.array([*sorted(scores), -1.0, np.nan, np.inf, 1.5])
    buckets = np.empty(len(values), np.int64)
    find_buckets(values, n, buckets)
    assert (np.diff(buckets[:-4]) >= 0).all()
    assert buckets[0] >= 0
    assert buckets[-5] <= n - 2
    assert (buckets[-4:] == n - 1).all()
