"""The same answer under every configuration: threads, block sizes, dtypes, memory orders, column orders, without JIT.

`make matrix` runs this file, and the laws of the calibrators under some of these configurations.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from driftcal.calibrators import CALIBRATORS, make_calibrator

pytestmark = pytest.mark.law

NAMES = sorted(name for name, kind in CALIBRATORS.items() if not kind.needs_features)
#: Training a network amplifies the last digit of its sums.
TOLERANCE = {"pts": 1e-5}


def problem(n=230, n_classes=4):
    """Logits in steps of 1/8, which float16 holds exactly, with masked classes; weights; and labels."""
    rng = np.random.default_rng(5)
    logits = np.round(rng.normal(size=(n, n_classes)) * 24) / 8
    y = np.argmax(logits / 2 + rng.gumbel(size=logits.shape), axis=1)
    y[:3] = logits[:3].argmin(axis=1)
    masked = rng.random(logits.shape) < 0.05
    masked[np.arange(n), y] = masked[np.arange(n), logits.argmax(axis=1)] = False
    logits[masked] = -np.inf
    logits[np.arange(n), logits.argmax(axis=1)] += 0.125  # one top class
    return logits, y, rng.integers(1, 4, n)


LOGITS, Y, WEIGHTS = problem()


def proba(name, logits=LOGITS, y=Y, predict=LOGITS):
    return make_calibrator(name).fit(logits, y, sample_weight=WEIGHTS).predict_proba(predict)


@pytest.fixture(scope="module")
def expected():
    return {name: proba(name) for name in NAMES}


def check(name, p, expected):
    np.testing.assert_allclose(p, expected[name], rtol=0, atol=TOLERANCE.get(name, 1e-8))


#: A network takes minutes with one sample per block.
BLOCKS = [(name, n) for name in NAMES for n in (1, 13, 4096) if (name, n) != ("pts", 1)]


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("name", "block_samples"), BLOCKS)
def test_threads_and_block_sizes(name, block_samples, threads, expected, monkeypatch):
    monkeypatch.setenv("DRIFTCAL_THREADS", threads)
    monkeypatch.setattr("driftcal.core.blocks.BLOCK_SCORES", block_samples * LOGITS.shape[1])
    check(name, proba(name), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", NAMES)
def test_dtypes_and_memory_orders_of_read_only_arrays(name, order, dtype, expected):
    logits = np.array(LOGITS, dtype, order=order)
    logits.flags.writeable = False
    labels = Y.copy()
    labels.flags.writeable = False
    check(name, proba(name, logits, labels, logits), expected)


@pytest.mark.parametrize("name", NAMES)
def test_orders_of_columns(name, expected):
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(LOGITS.shape[1])
        p = proba(name, LOGITS[:, order], np.argsort(order)[Y], LOGITS[:, order])
        check(name, p[:, np.argsort(order)], expected)


def two_minima(n=9000):
    """Two groups of samples whose best temperatures differ 600-fold; the squared errors of the two minima are within 0.01."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 4))
    has_small_logits = (rng.random(n) < 0.4)[:, None]
    y = np.argmax(z * np.where(has_small_logits, 6, 1) + rng.gumbel(size=z.shape), axis=1)
    return z * np.where(has_small_logits, 0.3, 30), y


@pytest.mark.parametrize("block_samples", [1, 16, 4096])
@pytest.mark.parametrize("name", ["ets", "ts-ir"])
def test_the_lower_of_two_minima_is_found_from_any_subsample(name, block_samples, monkeypatch):
    logits, y = two_minima()
    expected = make_calibrator(name).fit(logits, y).temperature_
    monkeypatch.setattr("driftcal.core.blocks.BLOCK_SCORES", block_samples * logits.shape[1])
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        temperature = make_calibrator(name).fit(logits[order], y[order]).temperature_
        assert temperature == pytest.approx(expected, rel=1e-8)


WITHOUT_JIT = """
import sys
import numpy as np
from driftcal.calibrators import make_calibrator
rng = np.random.default_rng(0)
logits = np.round(rng.normal(size=(24, 3)) * 16) / 8
y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
y[:3] = logits[:3].argmin(axis=1)
for name in ("ts", "irm", "ir", "hb", "ps", "vs", "spline"):
    p = make_calibrator(name).fit(logits, y).predict_proba(logits)
    print(name, " ".join(value.hex() for value in p.ravel().tolist()))
"""


def test_without_compilation():
    """`NUMBA_DISABLE_JIT=1` runs the same code in Python, where bits of floats are read by numpy."""
    outputs = []
    for disabled in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT_JIT],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-2000:]
        rows = [line.split() for line in run.stdout.splitlines()]
        outputs.append({row[0]: [float.fromhex(value) for value in row[1:]] for row in rows})
    for name, values in outputs[0].items():
        np.testing.assert_allclose(values, outputs[1][name], rtol=0, atol=1e-9)
