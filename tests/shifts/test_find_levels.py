"""Algorithm 1: targets are met, passes are counted, and unusual models get a note."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftcal
from driftcal.errors import InputError, LabelsError, UnknownName


def logistic(half: float, slope: float, clean: float, plateau: float):
    """accuracy(level) of a model that falls from `clean` to `plateau`, half of it at `half`."""
    return lambda level, indices: plateau + (clean - plateau) / (1 + (level / half) ** slope)


@settings(max_examples=60)
@given(
    half=st.floats(1e-4, 1.0),
    slope=st.floats(0.8, 2.5),
    clean=st.floats(0.6, 1.0),
    classes=st.integers(3, 1000),
    n_levels=st.integers(2, 12),
)
def test_every_level_meets_its_target(half: float, slope: float, clean: float, classes: int, n_levels: int) -> None:
    result = driftcal.find_levels(
        logistic(half, slope, clean, 1 / classes), n_classes=classes, n_samples=5000, n_levels=n_levels
    )
    assert len(result.levels) == n_levels
    assert result.levels[0].epsilon == 0
    assert list(result.epsilons) == sorted(result.epsilons)
    for level in result.levels:
        assert abs(level.accuracy - level.target) <= 0.01 + 1e-9
    assert result.passes == sum(level.passes for level in result.levels)
    assert result.passes <= 2 * n_levels + 4


def network(n: int = 600, classes: int = 4, seed: int = 0):
    """A linear model on random points, its labels, and its logits under noise that is a function of the sample."""
    rng = np.random.default_rng(seed)
    points, noise = rng.normal(size=(n, 6)), rng.normal(size=(n, 6))
    weights = rng.normal(size=(6, classes))
    labels = (points @ weights).argmax(axis=1)
    calls: list[tuple[float, int]] = []

    def evaluate(level: float, indices: np.ndarray | None) -> np.ndarray:
        chosen = slice(None) if indices is None else indices
        calls.append((level, n if indices is None else len(indices)))
        return (points[chosen] + 5 * np.sqrt(level) * noise[chosen]) @ weights

    return evaluate, labels, calls


@pytest.mark.parametrize("options", [{}, {"subsample": 150}, {"solver": "nelder-mead"}])
def test_logits_are_those_of_the_levels_and_passes_are_counted(options: dict) -> None:
    evaluate, labels, calls = network()
    result = driftcal.find_levels(evaluate, labels, n_levels=6, **options)
    assert result.passes == pytest.approx(sum(size for _, size in calls) / 600)
    assert len(result.logits) == 6
    for level, logits in zip(result.levels, result.logits, strict=True):
        assert np.array_equal(logits, evaluate(level.epsilon, None))
        assert level.accuracy == np.mean(logits.argmax(axis=1) == labels)
        assert level.standard_error == pytest.approx(np.sqrt(level.accuracy * (1 - level.accuracy) / 600))
    # no level is evaluated twice
    whole = [level for level, size in calls[: -len(result.levels)] if size == 600]
    assert len(whole) == len(set(whole))


def test_the_shared_curve_needs_far_fewer_passes_than_nelder_mead() -> None:
    curve = logistic(0.004, 1.5, 0.92, 0.1)
    curve_levels = driftcal.find_levels(curve, n_classes=10, n_samples=5000)
    paper_levels = driftcal.find_levels(curve, n_classes=10, n_samples=5000, solver="nelder-mead")
    assert curve_levels.passes <= 16
    assert paper_levels.passes > 2 * curve_levels.passes
    for level in paper_levels.levels[:-1]:
        assert abs(level.accuracy - level.target) <= 0.01


def test_levels_estimated_on_a_subsample_are_corrected_on_all_samples() -> None:
    def evaluate(level, indices):
        error = 0.0 if indices is None else 0.015 * np.sin(2 * np.log(level + 1e-3))
        return float(np.clip(logistic(0.004, 1.5, 0.92, 0.1)(level, indices) + error, 0, 1))

    result = driftcal.find_levels(evaluate, n_classes=10, n_samples=5000, subsample=500)
    assert result.passes < 16
    for level in result.levels:
        assert abs(level.accuracy - level.target) <= 0.01


def test_any_first_level_and_any_scale_of_levels_work() -> None:
    for first_level in (1e-6, 0.0025, 3.0):
        for half in (1e-5, 0.01, 30.0):
            result = driftcal.find_levels(
                logistic(half, 1.2, 0.9, 0.1), n_classes=10, n_samples=5000, first_level=first_level
            )
            assert max(abs(level.accuracy - level.target) for level in result.levels) <= 0.01
            assert result.passes <= 25


def test_when_chance_is_out_of_reach_by_less_than_a_step_the_last_level_reaches_the_plateau() -> None:
    result = driftcal.find_levels(logistic(0.01, 1.5, 0.9, 0.13), n_classes=10, n_samples=5000)
    assert result.levels[-1].target == pytest.approx(0.1)
    assert 0.13 <= result.levels[-1].accuracy <= 0.15
    assert "out of reach" in result.notes[0]
    assert "lowest that reaches it" in result.notes[0]


def test_when_chance_is_out_of_reach_by_more_the_targets_are_spaced_down_to_the_plateau() -> None:
    result = driftcal.find_levels(logistic(0.01, 1.5, 0.9, 0.4), n_classes=10, n_samples=5000)
    assert len(set(result.epsilons)) == 10
    assert 0.4 <= result.levels[-1].accuracy <= 0.42
    assert "spaced down to it" in result.notes[0]
    assert "note: chance" in repr(result)


def test_a_model_at_chance_has_only_the_clean_level() -> None:
    result = driftcal.find_levels(lambda level, indices: 0.1, n_classes=10, n_samples=5000)
    assert result.epsilons == (0.0,)
    assert result.passes == 1
    assert "at chance" in result.notes[0]


def test_accuracy_that_never_falls_has_only_the_clean_level() -> None:
    result = driftcal.find_levels(lambda level, indices: 0.5 + 0.4 * level / (1 + level), n_classes=10, n_samples=5000)
    assert result.epsilons == (0.0,)
    assert "does not fall" in result.notes[0]
    assert "rises with noise" in result.notes[1]


def test_accuracy_that_rises_first_is_followed_down_to_chance() -> None:
    def evaluate(level, indices):
        return 0.5 + 60 * level if level < 0.005 else 0.1 + 0.7 / (1 + level / 0.01)

    result = driftcal.find_levels(evaluate, n_classes=10, n_samples=5000)
    assert max(abs(level.accuracy - level.target) for level in result.levels) <= 0.01
    assert any("rises with noise" in note for note in result.notes)


def test_accuracy_that_jumps_is_noted_and_costs_few_passes() -> None:
    result = driftcal.find_levels(lambda level, indices: 0.9 if level < 0.01 else 0.1, n_classes=10, n_samples=5000)
    assert result.passes <= 20
    assert sum("jumps over it" in note for note in result.notes) == 8


def test_labels_of_one_class_get_a_note() -> None:
    evaluate, _, _ = network()
    result = driftcal.find_levels(evaluate, np.full(600, 2), n_levels=5)
    assert "all samples have the same label" in result.notes[0]
    assert result.levels[0].epsilon == 0


def test_every_spelling_of_labels_gives_the_same_levels() -> None:
    evaluate, columns, _ = network()
    names = np.array(["ant", "bee", "cat", "dog"])
    expected = driftcal.find_levels(evaluate, columns, n_levels=4)
    assert expected.levels[0].accuracy == 1
    for labels, options in (
        (columns.astype(str), {}),
        (columns.astype(float).tolist(), {}),
        (np.eye(4)[columns], {}),
        (names[columns], {"classes": names.tolist()}),
        (columns + 10, {"classes": [10, 11, 12, 13]}),
    ):
        result = driftcal.find_levels(evaluate, labels, n_levels=4, **options)
        assert result.levels == expected.levels
        assert result.notes == expected.notes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: np.array(["ant", "bee", "cat", "dog"])[y], r"labels are text .*pass classes=\['ant', 'bee'"),
        (lambda y: y + 1, r"labels must be 0\.\.3 for 4 classes; sample \d+ has 4"),
        (lambda y: y - 1, r"sample \d+ has -1"),
        (lambda y: y + 0.5, "whole numbers or class names"),
        (lambda y: np.eye(4)[y] * 2, "one-hot samples of 0 and 1"),
        (lambda y: y[:0], r"labels must hold one label per sample; their shape is \(0,\)"),
        (lambda y: 3, r"one label per sample; their shape is \(\)"),
    ],
)
def test_labels_that_are_no_columns_are_refused(change, message: str) -> None:
    evaluate, columns, _ = network()
    with pytest.raises(LabelsError, match=message):
        driftcal.find_levels(evaluate, change(columns), n_levels=4)


def test_one_column_of_logits_is_the_log_odds_of_class_1() -> None:
    log_odds = np.random.default_rng(0).normal(size=(500, 1))
    labels = (log_odds[:, 0] > 0).astype(int)
    noise = np.random.default_rng(1).normal(size=(500, 1))
    result = driftcal.find_levels(lambda level, indices: log_odds + np.sqrt(level) * noise, labels, n_levels=3)
    assert result.levels[0].accuracy == 1
    assert result.levels[-1].target == pytest.approx(0.5)


def test_with_few_samples_the_tolerance_is_one_sample() -> None:
    evaluate, labels, _ = network(n=20)
    result = driftcal.find_levels(evaluate, labels, n_levels=10)
    assert result.passes < 40


def test_one_level_is_the_clean_level_and_max_level_is_respected() -> None:
    assert driftcal.find_levels(logistic(1, 1, 0.9, 0.1), n_classes=10, n_samples=99, n_levels=1).epsilons == (0.0,)
    result = driftcal.find_levels(logistic(0.01, 1, 0.9, 0.1), n_classes=10, n_samples=5000, max_level=0.02)
    assert max(result.epsilons) <= 0.02
    assert "out of reach" in result.notes[0]


def test_levels_of_a_real_shift_are_found() -> None:
    images = np.random.default_rng(0).random((200, 8, 8, 1), np.float32)
    labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype(int) + (images[:, 0, 0, 0] > 0.5)
    centre = np.stack([images[labels == c].mean(axis=0).ravel() for c in range(3)])
    shift = driftcal.get_shift("gaussian")

    def evaluate(level, indices):
        chosen = np.arange(200) if indices is None else indices
        flat = shift(images[chosen], level, seed=4, indices=chosen).reshape(len(chosen), -1)
        return -((flat[:, None] - centre) ** 2).sum(axis=2)

    result = driftcal.find_levels(evaluate, labels, n_levels=4, tolerance=0.05)
    assert len(result.levels) == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_levels": 0}, InputError, "n_levels must be a whole number, 1 or more"),
        ({"tolerance": 0}, InputError, "tolerance must be a positive accuracy"),
        ({"first_level": 0.0}, InputError, "first_level must be positive"),
        ({"max_level": 0.001}, InputError, "at most max_level"),
        ({"solver": "newton"}, UnknownName, "there is no solver 'newton'"),
        ({"n_classes": None}, InputError, "n_classes and n_samples must be given"),
        ({"subsample": 0}, InputError, "subsample must be a number of samples"),
    ],
)
def test_bad_options_are_named(options: dict, error: type[Exception], message: str) -> None:
    all_options = {"n_classes": 10, "n_samples": 100, **options}
    with pytest.raises(error, match=re.escape(message)):
        driftcal.find_levels(logistic(0.01, 1, 0.9, 0.1), **all_options)


def test_bad_outputs_of_evaluate_are_named() -> None:
    with pytest.raises(InputError, match=r"must return logits \(3, classes\)"):
        driftcal.find_levels(lambda level, indices: np.zeros((2, 4)), [0, 1, 2])
    with pytest.raises(InputError, match="must return an accuracy"):
        driftcal.find_levels(lambda level, indices: 7.0, n_classes=3, n_samples=10)
