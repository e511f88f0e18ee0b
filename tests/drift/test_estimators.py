"""What a window of unlabelled logits tells: statistics of rows, estimates of accuracy, the position on a ladder."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.calibrators import label_free
from driftcal.errors import InputError, UnknownName
from driftcal.numerics import softmax

FEW = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 7.0])
def test_statistics_are_what_they_are_called(temperature):
    z = np.random.default_rng(0).normal(size=(50, 6)) * 3
    p = softmax(z, 1 / temperature)
    ordered = np.sort(z, axis=1)
    expected = {
        "confidence": p.max(axis=1),
        "certainty": (p * np.log(p)).sum(axis=1),
        "margin": ordered[:, -1] - ordered[:, -2],
        "energy": np.log(np.exp(z).sum(axis=1)) - z.mean(axis=1),
    }
    assert list(expected) == list(label_free.STATISTICS)
    for name, values in expected.items():
        np.testing.assert_allclose(label_free.row_statistic(name, z, temperature), values, rtol=1e-12, atol=1e-14)


def test_statistics_of_masked_tied_and_huge_rows_are_finite_and_ignore_a_constant():
    z = np.array([[0.0, 0.0, -np.inf], [1e4, -1e4, 0.0], [5.0, -np.inf, -np.inf]])
    found = label_free.row_statistics(z)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0], [0.5, -np.log(2), 0.0, np.log(2)], atol=1e-12)
    np.testing.assert_allclose(label_free.row_statistics(z + 64.0), found, rtol=1e-12, atol=1e-12)


def test_an_unknown_statistic_names_its_neighbours():
    with pytest.raises(UnknownName, match="did you mean 'margin'"):
        label_free.row_statistic("margins", [[0.0, 1.0]])


@FEW
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), share=st.floats(0, 1))
def test_atc_gives_the_validation_rows_their_own_accuracy(seed, n, share):
    rng = np.random.default_rng(seed)
    scores, correct = rng.random(n), rng.random(n) < share
    threshold = label_free.atc_threshold(scores, correct)
    assert label_free.atc_accuracy(scores, threshold) == pytest.approx(correct.mean(), abs=1e-12)


def test_difference_of_confidences_is_exact_on_validation_rows_and_stays_an_accuracy():
    scores = np.array([0.9, 0.7, 0.8])
    assert label_free.doc_accuracy(scores, scores.mean(), 0.66) == pytest.approx(0.66)
    assert label_free.doc_accuracy([0.0], 0.9, 0.1) == 0
    assert label_free.doc_accuracy([1.0], 0.1, 0.9) == 1


@FEW
@given(seed=st.integers(0, 10**6), rungs=st.integers(1, 12))
def test_a_position_falls_as_the_statistic_rises_and_finds_the_rungs_of_a_falling_ladder(seed, rungs):
    rng = np.random.default_rng(seed)
    means = rng.random(rungs)
    scale = label_free.LadderScale.of(means)
    values = np.sort(rng.uniform(-0.2, 1.2, 30))
    positions = [scale.position(float(v)) for v in values]
    assert all(a >= b for a, b in itertools.pairwise(positions))
    assert min(positions) >= 0
    assert max(positions) <= rungs - 1
    falling = np.sort(means)[::-1]
    if len(set(falling.tolist())) == rungs:
        exact = label_free.LadderScale.of(falling)
        assert [exact.position(float(v)) for v in falling] == pytest.approx(list(range(rungs)))


def test_windows_without_rows_and_rulers_without_rungs_are_refused():
    with pytest.raises(InputError, match="at least one row"):
        label_free.atc_accuracy([], 0.5)
    with pytest.raises(InputError, match="one finite number per rung"):
        label_free.LadderScale.of([])
    with pytest.raises(InputError, match="must be finite"):
        label_free.LadderScale.of([1.0]).position(float("nan"))
    with pytest.raises(InputError, match="one entry per validation row"):
        label_free.atc_threshold([0.5], [True, False])
