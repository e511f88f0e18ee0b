"""Label-free statistics of samples and windows."""

import numpy as np
import pytest

from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import softmax
from driftcal.drift import label_free_statistics as statistics
from driftcal.errors import UnknownName


@pytest.mark.parametrize("temperature", [0.5, 1.0, 7.0])
def test_statistics_are_those_of_their_definitions(temperature):
    z = np.random.default_rng(0).normal(size=(50, 6)) * 3
    p = softmax(z, 1 / temperature)
    ordered = np.sort(z, axis=1)
    expected = {
        "confidence": p.max(axis=1),
        "negative_entropy": (p * np.log(p)).sum(axis=1),
        "margin": ordered[:, -1] - ordered[:, -2],
        "energy": np.log(np.exp(z).sum(axis=1)) - z.mean(axis=1),
    }
    assert list(expected) == list(statistics.STATISTICS)
    y, weights = z.argmax(axis=1), np.linspace(0.5, 2, 50)
    data = LabelledLogits(z, y, weights)
    for name, values in expected.items():
        np.testing.assert_allclose(statistics.sample_statistic(name, z, temperature), values, rtol=1e-12, atol=1e-14)
        mean = statistics.data_statistic(name, data, temperature)
        assert mean == pytest.approx(np.average(values, weights=weights))


def test_statistics_of_masked_tied_and_huge_logits_are_finite_and_ignore_a_constant():
    z = np.array([[0.0, 0.0, -np.inf], [1e4, -1e4, 0.0], [5.0, -np.inf, -np.inf]])
    computed = statistics.sample_statistics(z)
    assert np.isfinite(computed).all()
    np.testing.assert_allclose(computed[0], [0.5, -np.log(2), 0.0, np.log(2)], atol=1e-12)
    np.testing.assert_allclose(statistics.sample_statistics(z + 64.0), computed, rtol=1e-12, atol=1e-12)


def test_an_unknown_statistic_names_its_neighbours_and_names_of_0_1_are_known():
    with pytest.raises(UnknownName, match="did you mean 'margin'"):
        statistics.sample_statistic("margins", [[0.0, 1.0]])
    assert statistics.check_statistic("certainty") == "negative_entropy"
