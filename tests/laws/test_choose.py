"""Which calibrator: the choice among static and adaptive ones, by evidence on the ladder, and how a chosen one is used."""

import numpy as np
import pytest

import driftcal
from driftcal.calibrators import CALIBRATORS
from driftcal.choose import choose

N, C = 800, 5


def rung(level, seed):
    """Over-confident logits, less often right the higher the rung."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % C
    z = rng.normal(size=(N, C)) * 1.6
    z[np.arange(N), y] += 4.0 - 0.6 * level
    return (3 * z).astype(np.float32), y


LEVELS, LABELS = [rung(level, level)[0] for level in range(6)], rung(0, 0)[1]


def test_adaptive_ones_are_tried_on_windows_and_can_be_left_out():
    found = choose(LEVELS, LABELS, candidates=("ts", "irm", "ladder-ts"))
    assert found.method == "ladder-ts"
    assert "ask for no adaptive" in found.explanation
    static = choose(LEVELS, LABELS, candidates=("ts", "irm", "ladder-ts"), adaptive=False)
    assert not CALIBRATORS[static.method].adaptive
    assert {trial.method for trial in static.trials} == {"ts", "irm"}


def test_without_a_ladder_nothing_adapts():
    assert {t.method for t in choose(LEVELS[:1], LABELS, candidates=("ts", "ladder-ec")).trials} == {"ts"}


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
