"""Samples split by the perturbation level they come from."""

import numpy as np
import pytest

from driftcal.calibrators import make_calibrator
from driftcal.calibrators.levels import split_by_level
from driftcal.core.dataset import LabelledLogits
from driftcal.errors import InputError

LOGITS = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.arange(12) % 3


def test_each_part_holds_the_samples_of_one_level_clean_first_in_any_order():
    levels = np.array([2, 0, 1] * 4)
    by_level = split_by_level(LabelledLogits(LOGITS, LABELS, np.arange(12.0)), levels)
    for level, level_data in enumerate(by_level):
        block = next(level_data.blocks())
        assert np.array_equal(block.logits, LOGITS[levels == level])
        assert np.array_equal(block.labels, LABELS[levels == level])
        assert np.array_equal(block.weights, np.arange(12.0)[levels == level])


def test_neighbouring_samples_are_not_copied():
    levels = np.repeat([0, 1, 2], 4)
    for level_data in split_by_level(LabelledLogits(LOGITS, LABELS), levels):
        assert np.shares_memory(next(level_data.blocks()).logits, LOGITS)


def test_without_levels_all_samples_are_clean_and_a_level_without_weight_is_left_out():
    data = LabelledLogits(LOGITS, LABELS)
    assert split_by_level(data, None) == [data]
    weights = np.repeat([1.0, 0.0, 1.0], 4)
    assert len(split_by_level(LabelledLogits(LOGITS, LABELS, weights), np.repeat([0, 1, 2], 4))) == 2


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([0, 1], "one whole number per sample"),
        (np.full(12, 0.5), "one whole number per sample"),
        (np.repeat([0, np.inf], 6), "one whole number per sample"),
        (np.ones(12, int), "count from 0"),
    ],
)
def test_levels_that_cannot_be_used_are_refused(levels, message):
    with pytest.raises(InputError, match=message):
        split_by_level(LabelledLogits(LOGITS, LABELS), levels)


def test_a_source_of_chunks_is_gathered():
    class Chunks:
        def __iter__(self):
            return iter([(LOGITS[:5], LABELS[:5]), (LOGITS[5:], LABELS[5:])])

    by_level = split_by_level(LabelledLogits(Chunks()), np.repeat([0, 1], 6))
    assert np.array_equal(next(by_level[1].blocks()).logits, LOGITS[6:])


def test_calibrators_that_do_not_need_levels_ignore_them():
    plain = make_calibrator("irm").fit(LOGITS, LABELS)
    with_levels = make_calibrator("irm").fit(LOGITS, LABELS, levels=np.arange(12) % 2)
    assert np.array_equal(plain.predict_proba(LOGITS), with_levels.predict_proba(LOGITS))
