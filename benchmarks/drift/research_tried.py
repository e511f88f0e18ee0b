"""Static calibrators that were tried and did not become part of driftcal: what docs/research.md tells of them.

Each is made from rungs (levels, images, classes), labels and the clean rung's share of the weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from driftcal.calibrators import Calibrator, make_calibrator
from driftcal.calibrators.rungs import rung_weights


def fit(name: str, rungs, labels, clean_weight: float | None = None, **options) -> Calibrator:
    """A calibrator of driftcal's on all rungs."""
    weights, n = rung_weights(len(rungs), clean_weight), len(labels)
    return make_calibrator(name, **options).fit(
        np.concatenate(rungs), np.tile(labels, len(rungs)), levels=np.repeat(np.arange(len(rungs)), n),
        sample_weight=None if weights is None else np.repeat(weights, n),
    )  # fmt: skip


def gaps(logits, scale: float):
    """log(1 + distance from the largest logit / scale), in order: what the linear temperature and the gate look at."""
    ordered = -np.sort(-logits, axis=-1)
    return np.log1p((ordered[:, :1] - ordered[:, 1:]) / scale)


def softmax(logits):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Linear:
    """log T = w·gaps + b by squared error: PTS without its hidden layers."""

    def __init__(self, rungs, labels, clean_weight: float | None = None, *, slopes: bool = True) -> None:
        logits, y = np.concatenate(rungs), np.tile(labels, len(rungs))
        weights = np.repeat(rung_weights(len(rungs), clean_weight) or [1.0] * len(rungs), len(labels)) / len(y)
        ordered = -np.sort(-logits, axis=-1)
        self.scale, self.slopes = float((ordered[:, 0] - ordered[:, 1]).mean()), slopes
        x = gaps(logits, self.scale)
        self.low, self.high, self.mean, self.spread = x.min(0), x.max(0), x.mean(0), x.std(0)
        x, below, rows = self._inputs(logits), logits - logits.max(axis=1, keepdims=True), np.arange(len(y))

        def loss(line):
            u = below * np.exp(-np.clip(x @ line, -4, 6))[:, None]
            p = softmax(u)
            turn = -p * (u - (p * u).sum(axis=1, keepdims=True))  # of p, in log T
            value = (p * p).sum(axis=1) - 2 * p[rows, y] + 1
            slope = 2 * (p * turn).sum(axis=1) - 2 * turn[rows, y]
            return weights @ value + 1e-4 * line[1:] @ line[1:], x.T @ (weights * slope) + 2e-4 * np.r_[0, line[1:]]

        self.line = minimize(loss, np.r_[0.3, np.zeros(x.shape[1] - 1)], jac=True, method="L-BFGS-B").x

    def _inputs(self, logits):
        x = (np.clip(gaps(logits, self.scale), self.low, self.high) - self.mean) / self.spread
        return np.c_[np.ones(len(x)), x] if self.slopes else np.ones((len(x), 1))

    def log_temperature(self, logits):
        return np.clip(self._inputs(logits) @ self.line, -4, 6)

    def predict_proba(self, logits):
        return softmax(logits / np.exp(self.log_temperature(logits))[:, None])


class Gate:
    """log T = (1 - g)·log T_clean + g·log T_P(x), g = probability of being drifted: logistic, on the gaps of one row."""

    def __init__(self, rungs, labels, clean_weight: float) -> None:
        self.clean, self.drifted = Linear(rungs[:1], labels, slopes=False), Linear(rungs[1:], labels)
        weights = np.repeat(rung_weights(len(rungs), clean_weight), len(labels))
        x = self.drifted._inputs(np.concatenate(rungs))
        self.model = LogisticRegression(C=10.0, max_iter=500)
        self.model.fit(x, np.repeat(np.arange(len(rungs)) > 0, len(labels)), sample_weight=weights)

    def predict_proba(self, logits):
        g = self.model.predict_proba(self.drifted._inputs(logits))[:, 1]
        both = (1 - g) * self.clean.log_temperature(logits) + g * self.drifted.log_temperature(logits)
        return softmax(logits / np.exp(both)[:, None])


class Chain:
    """One calibrator on the log-probabilities of another, both on the same rungs."""

    def __init__(self, rungs, labels, clean_weight: float | None, first: str, second: str) -> None:
        self.first = fit(first, rungs, labels, clean_weight)
        self.second = fit(second, [self.first.predict_log_proba(one) for one in rungs], labels, clean_weight)

    def predict_proba(self, logits):
        return self.second.predict_proba(self.first.predict_log_proba(logits))


class Average:
    """The geometric mean of the temperatures of PTS from several starts."""

    def __init__(self, rungs, labels, clean_weight: float | None, seeds: Sequence[int] = (0, 1, 2)) -> None:
        self.parts = [fit("pts", rungs, labels, clean_weight, seed=seed) for seed in seeds]

    def predict_proba(self, logits):
        log_t = np.mean([np.log(part.temperatures(logits)) for part in self.parts], axis=0)
        return softmax(logits / np.exp(log_t)[:, None])
