"""Accuracy estimators without labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.drift import estimators
from driftcal.errors import InputError, UnknownName

FEW = settings(max_examples=40, derandomize=True)


@FEW
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), share=st.floats(0, 1))
def test_atc_gives_the_validation_samples_their_own_accuracy(seed, n, share):
    rng = np.random.default_rng(seed)
    scores, correct = rng.random(n), rng.random(n) < share
    threshold = estimators.atc_threshold(scores, correct)
    assert (scores >= threshold).mean() == pytest.approx(correct.mean(), abs=1e-12)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="one entry per validation sample"):
        estimators.atc_threshold([0.5], [True, False])


def test_estimators_by_name():
    assert estimators.check_estimator("ladder") == "level-matching"  # version 0.1
    assert estimators.check_estimator("middle") == "atc-level-mean"
    with pytest.raises(UnknownName, match="did you mean 'atc'"):
        estimators.check_estimator("act")
