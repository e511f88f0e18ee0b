"""Fitted calibrators and hard rows for the tests of exports."""

from __future__ import annotations

import functools

import numpy as np

from driftcal.calibrators import CALIBRATORS, PAPER_CALIBRATORS, make_calibrator

#: They look inside the model, where an exported map of logits cannot.
NEED_FEATURES = ("dac", "md-ts")
NAMES = [name for name in CALIBRATORS if name not in NEED_FEATURES]
ADAPTIVE = [name for name in NAMES if CALIBRATORS[name].adaptive]
#: Every calibrator with few and with many classes; adaptive ones export another one's map, which is there already.
SIZED = [(name, n) for name in NAMES for n in (2, 10, 1000) if n < 1000 or name not in ADAPTIVE]


@functools.cache
def fitted(name, n_classes, **params):
    """A calibrator tuned on overconfident logits; the last class of many has no labels. Adaptive ones see three rungs."""
    rng = np.random.default_rng(n_classes)
    logits = 2 * rng.normal(size=(2_000, n_classes)).astype(np.float32)
    levels = np.arange(len(logits)) % 3 * CALIBRATORS[name].needs_levels
    labels = np.argmax(0.6 / (1 + levels[:, None]) * logits + rng.gumbel(size=logits.shape), axis=1)
    if n_classes > 2:
        labels[labels == n_classes - 1] = 0
    return make_calibrator(name, **params).fit(logits, labels, levels=levels)


@functools.cache
def rows(n_classes, random, extreme):
    """Random rows; rows to ±1e4, with ties, with scores that underflow, with masked classes, and of one class only."""
    rng = np.random.default_rng(1)
    usual = 3 * rng.normal(size=(random, n_classes))
    hard = rng.uniform(-1e4, 1e4, size=(extreme, n_classes))
    hard[0::4] = np.round(hard[0::4] / 5e3) * 5e3
    hard[1::4] = rng.uniform(-800, 0, size=hard[1::4].shape)
    masked = rng.random((len(hard[2::4]), n_classes)) < 0.5
    masked[np.arange(len(masked)), rng.integers(n_classes, size=len(masked))] = False
    hard[2::4] = np.where(masked, -np.inf, hard[2::4] / 1e3)
    hard[0], hard[4] = 0, 1e4
    hard[8], hard[8, -1] = -np.inf, -7
    return np.concatenate([usual, hard]).astype(np.float32)


@functools.lru_cache(maxsize=1)  # 90 MB of probabilities of 1,000 classes
def case(name, n_classes):
    """A calibrator, 10,000 random and 1,000 extreme rows, and what it says to them; some fewer of very wide ones."""
    wide = n_classes == 1000 and name not in PAPER_CALIBRATORS
    logits = rows(n_classes, 2_000, 500) if wide else rows(n_classes, 10_000, 1_000)
    calibrator = fitted(name, n_classes)
    return calibrator, logits, calibrator.predict_proba(logits)
