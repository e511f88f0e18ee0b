"""Shifts of text: the identity at level 0, seeded per sample, stronger with the level."""

import difflib

import numpy as np
import pytest

from driftcal.errors import InputError
from driftcal.shifts.text.characters import NEIGHBOURS
from driftcal.shifts.text.text_shift import SIMULATED_TEXT, TEXT_SHIFTS, TextShift, WordNoise

TEXTS = [
    "The quick brown fox jumps over the lazy dog near 15 rivers.",
    "Calibration means that stated confidence equals accuracy.",
    "A",
    "",
    "Größe, naïve café – 日本語 is kept as it is.",
] * 6


def similarity(shift, level):
    changed = shift(TEXTS, level, seed=1)
    return np.mean([difflib.SequenceMatcher(None, a, b).ratio() for a, b in zip(TEXTS, changed, strict=True)])


@pytest.mark.parametrize("name", [*TEXT_SHIFTS, *SIMULATED_TEXT])
def test_levels_rise_from_the_identity(name):
    shift = TextShift(name)
    assert shift(TEXTS, 0).tolist() == TEXTS
    assert 1 > similarity(shift, 1) > similarity(shift, 3) > similarity(shift, 5)
    assert shift.label(0) == "0 %"


@pytest.mark.parametrize("shift", [*map(TextShift, TEXT_SHIFTS), WordNoise()], ids=lambda shift: shift.name)
def test_a_text_depends_on_seed_and_index_only(shift):
    level = 2
    whole = shift(TEXTS, level, seed=3)
    assert shift(TEXTS[4:9], level, seed=3, indices=range(4, 9)).tolist() == whole[4:9].tolist()
    if shift.name != "text_truncation":
        assert shift(TEXTS, level, seed=4).tolist() != whole.tolist()
    assert all(isinstance(text, str) for text in whole)


def test_noise_of_words_leaves_nothing_at_high_levels():
    noisy = WordNoise()(TEXTS, 50.0)
    assert not {"quick", "Calibration", "accuracy."} & {word for text in noisy for word in text.split()}
    assert similarity(WordNoise(), 0.1) > similarity(WordNoise(), 1.0) > similarity(WordNoise(), 5.0)


def test_typing_errors_hit_neighbours():
    assert NEIGHBOURS["g"][:2] == "fh"
    assert "p" not in NEIGHBOURS["q"]


@pytest.mark.parametrize(
    ("inputs", "level", "fact"),
    [([[1, 2]], 1, "shape"), ([1, 2], 1, "list of str"), (["a"], 6, "0 to 5"), (["a"], "x", "0 to 5")],
)
def test_wrong_inputs_are_named(inputs, level, fact):
    with pytest.raises(InputError, match=fact):
        TextShift("text_typos")(inputs, level)


def test_a_level_of_noise_is_a_number():
    with pytest.raises(InputError, match="at least 0"):
        WordNoise()(["a"], -1)
