"""Which calibrator: the choice among static and adaptive ones, by evidence on the ladder, and how a chosen one is used."""

import numpy as np
import pytest

import driftcal
from driftcal.calibrators import CALIBRATORS
from driftcal.pipeline.layer_features import CollectedFeatures
from driftcal.pipeline.select import CANDIDATES, _entrants, choose

N, C = 800, 5
STATIC = ("base", "ts", "ets", "ir", "irm", "ps", "hb", "vs", "spline", "hts")


def level_data(level, seed):
    """Over-confident logits, less often right the higher the rung."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % C
    z = rng.normal(size=(N, C)) * 1.6
    z[np.arange(N), y] += 4.0 - 0.6 * level
    return (3 * z).astype(np.float32), y


LEVELS, LABELS = [level_data(level, level)[0] for level in range(6)], level_data(0, 0)[1]


def test_adaptive_ones_are_tried_on_windows_and_can_be_left_out():
    found = choose(LEVELS, LABELS, candidates=("ts", "irm", "ladder-ts"))
    assert found.method == "ladder-ts"
    assert "ask for no adaptive" in found.explanation
    static = choose(LEVELS, LABELS, candidates=("ts", "irm", "ladder-ts"), adaptive=False)
    assert not CALIBRATORS[static.method].adaptive
    assert {trial.method for trial in static.trials} == {"ts", "irm"}


def test_without_a_ladder_nothing_adapts():
    assert {t.method for t in choose(LEVELS[:1], LABELS, candidates=("ts", "ladder-ec")).trials} == {"ts"}


def test_all_that_logits_suffice_for_are_in_the_race():
    found = choose(LEVELS, LABELS)
    assert {trial.method for trial in found.trials} == {n for n, kind in CALIBRATORS.items() if not kind.needs_features}
    order = [(not trial.fair, -trial.folds, trial.score("both")) for trial in found.trials]
    assert order == sorted(order)
    assert {trial.folds for trial in found.trials} > {1, 5}
    assert found.method == found.trials[0].method
    for trial in found.trials:
        assert f"{trial.method.upper()} " in found.explanation


def test_who_leaves_the_race_would_not_have_won_it():
    """Each by itself has nobody to fall behind: all five folds."""
    raced = choose(LEVELS, LABELS, candidates=STATIC)
    alone = [choose(LEVELS, LABELS, candidates=(name,)).trials[0] for name in STATIC]
    assert {trial.folds for trial in alone} == {5}
    best = min(alone, key=lambda trial: trial.score("both"))
    assert (raced.method, raced.trials[0]) == (best.method, best)
    assert {t for t in raced.trials if t.folds == 5} <= set(alone)


def test_accuracy_is_not_sold_for_calibration():
    """Bins that give nearly all rows one answer are right as often as they say, and useless."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(N) < 0.7, 0, rng.integers(1, C, N))
    clean = rng.normal(size=(N, C))
    clean[np.arange(N), labels] += 2.0
    found = choose([8 * clean, *8 * rng.normal(size=(3, N, C))], labels, candidates=("ts", "hb"), focus="drift")
    trials = {trial.method: trial for trial in found.trials}
    assert trials["hb"].drift_ece < trials["ts"].drift_ece
    assert trials["hb"].lost > 0.05
    assert trials["ts"].lost == 0
    assert found.method == "ts"
    assert "cost more than 0.02 of the accuracy on clean rows: HB" in found.explanation


def test_what_is_left_out_is_said():
    few = choose([level[:100] for level in LEVELS], LABELS[:100])
    assert all(CALIBRATORS[trial.method].keeps_accuracy for trial in few.trials)
    assert "The rarest class has 20 validation rows, fewer than 50" in few.explanation
    wide = np.tile(LEVELS[0], (1, 50))  # 250 classes, of which 5 occur
    names, reasons = _entrants(
        [wide] * 6, np.arange(len(wide) * 20) % 250, CANDIDATES, False, True, CollectedFeatures()
    )
    assert "dirichlet" not in names
    assert any("DIRICHLET was left out: 250² numbers on 96000 rows" in reason for reason in reasons)


def test_a_candidate_that_cannot_be_tuned_does_not_stop_the_others():
    sure = [np.where(np.eye(C)[LABELS] > 0, 9.0, 0.0)]  # every row right: no temperature is best
    found = choose(sure, LABELS, candidates=("ts", "irm"))
    assert [trial.method for trial in found.trials] == ["irm"]
    assert choose(sure, LABELS, candidates=("ts",)).method == "base"


@pytest.fixture(scope="module")
def tuned():
    x, y = LEVELS[0], LABELS

    def model(inputs):
        return inputs.reshape(len(inputs), -1)

    return driftcal.tune(model, x, y, method="ladder-ts", levels=4, outputs="logits")


def test_a_tuned_model_takes_its_inputs_as_the_window(tuned):
    x = LEVELS[3][:100]
    logits = tuned.logits(x)
    assert np.array_equal(tuned.predict_proba(x), tuned.calibrator.predict_proba(logits, context=logits))
    assert np.array_equal(tuned.predict_log_proba(x), tuned.calibrator.predict_log_proba(logits, context=logits))
    assert np.array_equal(tuned.predict_proba(x[:1]), tuned.calibrator.predict_proba(logits[:1]))
    frozen = tuned.adapt(x)
    assert np.array_equal(frozen.predict_proba(x[:1]), tuned.predict_proba(x)[:1])
    assert frozen.adapt(x) is frozen
    stream = tuned.stream(window=50)
    stream(x[:60])
    assert np.array_equal(stream(x[60:61]), tuned.calibrator.predict_proba(logits[60:61], context=logits[11:61]))
    assert np.array_equal(frozen.stream()(x), frozen.predict_proba(x))
