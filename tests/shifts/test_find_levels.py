"""Algorithm 1: targets met, passes counted, and every awkward model answered for."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftcal
from driftcal.errors import InputError, UnknownName


def logistic(half: float, slope: float, clean: float, floor: float):
    """accuracy(level) of a model that falls from `clean` to `floor`, half of it at `half`."""
    return lambda level, rows: floor + (clean - floor) / (1 + (level / half) ** slope)


@settings(deadline=None, max_examples=60)
@given(
    half=st.floats(1e-4, 1.0),
    slope=st.floats(0.8, 2.5),
    clean=st.floats(0.6, 1.0),
    classes=st.integers(3, 1000),
    n_levels=st.integers(2, 12),
)
def test_every_level_meets_its_target(half: float, slope: float, clean: float, classes: int, n_levels: int) -> None:
    ladder = driftcal.find_levels(
        logistic(half, slope, clean, 1 / classes), n_classes=classes, n_samples=5000, n_levels=n_levels
    )
    assert len(ladder.levels) == n_levels
    assert ladder.levels[0].epsilon == 0
    assert list(ladder.epsilons) == sorted(ladder.epsilons)
    for level in ladder.levels:
        assert abs(level.accuracy - level.target) <= 0.01 + 1e-9
    assert ladder.passes == sum(level.passes for level in ladder.levels)
    assert ladder.passes <= 2 * n_levels + 4


def network(n: int = 600, classes: int = 4, seed: int = 0):
    """A linear model on random points, its labels, and its logits under noise that is a function of the sample."""
    rng = np.random.default_rng(seed)
    points, noise = rng.normal(size=(n, 6)), rng.normal(size=(n, 6))
    weights = rng.normal(size=(6, classes))
    labels = (points @ weights).argmax(axis=1)
    calls: list[tuple[float, int]] = []

    def evaluate(level: float, rows: np.ndarray | None) -> np.ndarray:
        chosen = slice(None) if rows is None else rows
        calls.append((level, n if rows is None else len(rows)))
        return (points[chosen] + 5 * np.sqrt(level) * noise[chosen]) @ weights

    return evaluate, labels, calls


@pytest.mark.parametrize("options", [{}, {"subsample": 150}, {"solver": "nelder-mead"}])
def test_logits_are_those_of_the_levels_and_passes_are_counted(options: dict) -> None:
    evaluate, labels, calls = network()
    ladder = driftcal.find_levels(evaluate, labels, n_levels=6, **options)
    assert ladder.passes == pytest.approx(sum(size for _, size in calls) / 600)
    assert len(ladder.logits) == 6
    for level, logits in zip(ladder.levels, ladder.logits, strict=True):
        assert np.array_equal(logits, evaluate(level.epsilon, None))
        assert level.accuracy == np.mean(logits.argmax(axis=1) == labels)
        assert level.standard_error == pytest.approx(np.sqrt(level.accuracy * (1 - level.accuracy) / 600))
    # no level is asked for twice
    whole = [level for level, size in calls[: -len(ladder.levels)] if size == 600]
    assert len(whole) == len(set(whole))


def test_the_shared_curve_needs_far_fewer_passes_than_nelder_mead() -> None:
    curve = logistic(0.004, 1.5, 0.92, 0.1)
    ours = driftcal.find_levels(curve, n_classes=10, n_samples=5000)
    papers = driftcal.find_levels(curve, n_classes=10, n_samples=5000, solver="nelder-mead")
    assert ours.passes <= 16
    assert papers.passes > 2 * ours.passes
    for level in papers.levels[:-1]:
        assert abs(level.accuracy - level.target) <= 0.01


def test_a_sketch_on_a_subsample_is_corrected_on_all_rows() -> None:
    def evaluate(level, rows):
        shift = 0.0 if rows is None else 0.015 * np.sin(2 * np.log(level + 1e-3))
        return float(np.clip(logistic(0.004, 1.5, 0.92, 0.1)(level, rows) + shift, 0, 1))

    ladder = driftcal.find_levels(evaluate, n_classes=10, n_samples=5000, subsample=500)
    assert ladder.passes < 16
    for level in ladder.levels:
        assert abs(level.accuracy - level.target) <= 0.01


def test_any_start_and_any_scale_will_do() -> None:
    for start in (1e-6, 0.0025, 3.0):
        for half in (1e-5, 0.01, 30.0):
            ladder = driftcal.find_levels(logistic(half, 1.2, 0.9, 0.1), n_classes=10, n_samples=5000, start=start)
            assert max(abs(level.accuracy - level.target) for level in ladder.levels) <= 0.01
            assert ladder.passes <= 25


def test_chance_out_of_reach_by_less_than_a_step() -> None:
    ladder = driftcal.find_levels(logistic(0.01, 1.5, 0.9, 0.13), n_classes=10, n_samples=5000)
    assert ladder.levels[-1].target == pytest.approx(0.1)
    assert 0.13 <= ladder.levels[-1].accuracy <= 0.15
    assert "out of reach" in ladder.notes[0]
    assert "lowest that reaches it" in ladder.notes[0]


def test_chance_out_of_reach_by_more_spaces_the_targets_anew() -> None:
    ladder = driftcal.find_levels(logistic(0.01, 1.5, 0.9, 0.4), n_classes=10, n_samples=5000)
    assert len(set(ladder.epsilons)) == 10
    assert 0.4 <= ladder.levels[-1].accuracy <= 0.42
    assert "spaced down to it" in ladder.notes[0]
    assert "note: chance" in repr(ladder)


def test_a_model_at_chance_has_only_the_clean_level() -> None:
    ladder = driftcal.find_levels(lambda level, rows: 0.1, n_classes=10, n_samples=5000)
    assert ladder.epsilons == (0.0,)
    assert ladder.passes == 1
    assert "at chance" in ladder.notes[0]


def test_accuracy_that_never_falls_has_only_the_clean_level() -> None:
    ladder = driftcal.find_levels(lambda level, rows: 0.5 + 0.4 * level / (1 + level), n_classes=10, n_samples=5000)
    assert ladder.epsilons == (0.0,)
    assert "does not fall" in ladder.notes[0]
    assert "rises with noise" in ladder.notes[1]


def test_accuracy_that_rises_first_is_followed_down() -> None:
    def evaluate(level, rows):
        return 0.5 + 60 * level if level < 0.005 else 0.1 + 0.7 / (1 + level / 0.01)

    ladder = driftcal.find_levels(evaluate, n_classes=10, n_samples=5000)
    assert max(abs(level.accuracy - level.target) for level in ladder.levels) <= 0.01
    assert any("rises with noise" in note for note in ladder.notes)


def test_accuracy_that_jumps_is_reported_and_does_not_cost_forever() -> None:
    ladder = driftcal.find_levels(lambda level, rows: 0.9 if level < 0.01 else 0.1, n_classes=10, n_samples=5000)
    assert ladder.passes <= 20
    assert sum("jumps over it" in note for note in ladder.notes) == 8


def test_labels_of_one_class() -> None:
    evaluate, _, _ = network()
    ladder = driftcal.find_levels(evaluate, np.full(600, 2), n_levels=5)
    assert "all labels are 2" in ladder.notes[0]
    assert ladder.levels[0].epsilon == 0


def test_few_samples_loosen_the_tolerance_to_one_of_them() -> None:
    evaluate, labels, _ = network(n=20)
    ladder = driftcal.find_levels(evaluate, labels, n_levels=10)
    assert ladder.passes < 40


def test_one_level_is_the_clean_one_and_largest_is_respected() -> None:
    assert driftcal.find_levels(logistic(1, 1, 0.9, 0.1), n_classes=10, n_samples=99, n_levels=1).epsilons == (0.0,)
    ladder = driftcal.find_levels(logistic(0.01, 1, 0.9, 0.1), n_classes=10, n_samples=5000, largest=0.02)
    assert max(ladder.epsilons) <= 0.02
    assert "out of reach" in ladder.notes[0]


def test_it_drives_a_real_shift() -> None:
    images = np.random.default_rng(0).random((200, 8, 8, 1), np.float32)
    labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype(int) + (images[:, 0, 0, 0] > 0.5)
    centre = np.stack([images[labels == c].mean(axis=0).ravel() for c in range(3)])
    shift = driftcal.get_shift("gaussian")

    def evaluate(level, rows):
        chosen = np.arange(200) if rows is None else rows
        flat = shift(images[chosen], level, seed=4, indices=chosen).reshape(len(chosen), -1)
        return -((flat[:, None] - centre) ** 2).sum(axis=2)

    ladder = driftcal.find_levels(evaluate, labels, n_levels=4, tolerance=0.05)
    assert len(ladder.levels) == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_levels": 0}, InputError, "n_levels must be a whole number, 1 or more"),
        ({"tolerance": 0}, InputError, "tolerance must be a positive accuracy"),
        ({"start": 0.0}, InputError, "start must be a positive level"),
        ({"largest": 0.001}, InputError, "at most largest"),
        ({"solver": "newton"}, UnknownName, "there is no solver 'newton'"),
        ({"n_classes": None}, InputError, "n_classes and n_samples must be given"),
        ({"subsample": 0}, InputError, "subsample must be a number of rows"),
    ],
)
def test_mistakes(options: dict, error: type[Exception], message: str) -> None:
    settings_ = {"n_classes": 10, "n_samples": 100, **options}
    with pytest.raises(error, match=re.escape(message)):
        driftcal.find_levels(logistic(0.01, 1, 0.9, 0.1), **settings_)


def test_wrong_answers_of_evaluate() -> None:
    with pytest.raises(InputError, match=r"must return logits \(3, classes\)"):
        driftcal.find_levels(lambda level, rows: np.zeros((2, 4)), [0, 1, 2])
    with pytest.raises(InputError, match="must return an accuracy"):
        driftcal.find_levels(lambda level, rows: 7.0, n_classes=3, n_samples=10)
