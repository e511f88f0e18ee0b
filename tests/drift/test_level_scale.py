"""The position of a window between perturbation levels."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.drift.level_scale import LevelScale
from driftcal.errors import InputError

FEW = settings(max_examples=40, derandomize=True)


@FEW
@given(seed=st.integers(0, 10**6), n_levels=st.integers(1, 12))
def test_a_position_falls_as_the_statistic_rises_and_is_exact_at_falling_levels(seed, n_levels):
    rng = np.random.default_rng(seed)
    means = rng.random(n_levels)
    scale = LevelScale.of(means)
    values = np.sort(rng.uniform(-0.2, 1.2, 30))
    positions = [scale.position(float(v)) for v in values]
    assert all(a >= b for a, b in itertools.pairwise(positions))
    assert min(positions) >= 0
    assert max(positions) <= n_levels - 1
    falling = np.sort(means)[::-1]
    if len(set(falling.tolist())) == n_levels:
        exact = LevelScale.of(falling)
        assert [exact.position(float(v)) for v in falling] == pytest.approx(list(range(n_levels)))


def test_windows_and_levels_must_be_finite():
    with pytest.raises(InputError, match="one finite number per level"):
        LevelScale.of([])
    with pytest.raises(InputError, match="must be finite"):
        LevelScale.of([1.0]).position(float("nan"))
