"""Published estimates of a window's accuracy from its logits alone, and published ways to use a window.

They are for comparison; none is a calibrator of driftcal. Temperatures are fitted on clean validation samples.

- ``atc`` (Garg et al. 2022) and ``doc`` (Guillory et al. 2021), as in `driftcal.drift.estimators`.
- ``cot`` and ``cott`` (Lu et al. 2023): the cost of moving the window's predictions to the clean class shares.
- ``nuclear`` (Deng et al. 2023) and ``mano`` (Xie et al. 2024): a norm of the prediction matrix; linear regression of the
  accuracy on it over windows of the simulated shifts.
- ``transcal`` (Wang et al. 2020): importance weights of the clean samples. The paper's discriminator reads layer features;
  this one reads the sorted logits, and the temperature follows by expectation consistency.
- ``bcts-em`` (Alexandari et al. 2020; Saerens et al. 2002): the window's class shares by expectation maximisation.

PseudoCal (Hu et al. 2024) needs model passes over mixed inputs of the window and is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq, linear_sum_assignment, minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from benchmarks.accuracy.study_data import StudyData
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.drift.estimators import atc_threshold

#: Training windows of each simulated condition for the estimators by regression.
WINDOWS_PER_CONDITION = 5


@dataclass(eq=False)
class CleanSamples:
    """The clean validation samples that every estimator knows."""

    data: StudyData
    logits: np.ndarray = field(init=False)
    labels: np.ndarray = field(init=False)
    temperature: float = field(init=False)

    def __post_init__(self) -> None:
        self.logits, self.labels = self.data.logits("val/clean"), self.data.labels("val")
        self.temperature = TemperatureScaling().fit(self.logits, self.labels).temperature_
        self.probabilities = self.scaled(self.logits)
        self.correct = self.logits.argmax(axis=1) == self.labels
        self.shares = np.bincount(self.labels, minlength=self.logits.shape[1]) / len(self.labels)

    def scaled(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities at the clean temperature."""
        return softmax(logits.astype(np.float64) / self.temperature, axis=1)


#: ``make(clean samples, window size, seed) -> (logits of a window -> accuracy)``
Estimate = Callable[[np.ndarray], float]


def _negative_entropy(p: np.ndarray) -> np.ndarray:
    return (p * np.log(np.maximum(p, 1e-300))).sum(axis=1)


def atc(clean: CleanSamples, size: int, seed: int) -> Estimate:
    """Share of samples above the threshold of the negative entropy."""
    threshold = atc_threshold(_negative_entropy(clean.probabilities), clean.correct)
    return lambda logits: float((_negative_entropy(clean.scaled(logits)) >= threshold).mean())


def doc(clean: CleanSamples, size: int, seed: int) -> Estimate:
    """Clean accuracy minus the loss of confidence."""
    confidence, accuracy = float(clean.probabilities.max(axis=1).mean()), float(clean.correct.mean())
    return lambda logits: float(np.clip(accuracy - confidence + clean.scaled(logits).max(axis=1).mean(), 0, 1))


def transport_costs(p: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The cost 1 - p(class) of each sample in the cheapest assignment of samples to classes with these shares."""
    counts = np.floor(shares * len(p)).astype(int)
    largest_remainders = np.argsort(counts - shares * len(p))[: len(p) - counts.sum()]
    counts[largest_remainders] += 1
    classes = np.repeat(np.arange(len(shares)), counts)
    cost = 1 - p[:, classes]
    rows, columns = linear_sum_assignment(cost)
    costs: np.ndarray = cost[rows, columns]
    return costs


def cot(clean: CleanSamples, size: int, seed: int) -> Estimate:
    """1 - mean cost."""
    return lambda logits: 1 - float(transport_costs(clean.scaled(logits), clean.shares).mean())


def cott(clean: CleanSamples, size: int, seed: int) -> Estimate:
    """Share of samples whose cost is below the threshold that gives the clean accuracy on clean windows of this size."""
    order = np.random.default_rng(seed).permutation(len(clean.labels))
    parts = [order[k : k + size] for k in range(0, len(order) - min(size, len(order)) + 1, size)]
    costs = np.concatenate([transport_costs(clean.probabilities[part], clean.shares) for part in parts])
    threshold = np.quantile(costs, clean.correct.mean())
    return lambda logits: float(np.mean(transport_costs(clean.scaled(logits), clean.shares) <= threshold))


def nuclear_norm(p: np.ndarray) -> float:
    """Nuclear norm of the predictions, 1 at most."""
    return float(np.linalg.norm(p, "nuc") / np.sqrt(len(p) * min(p.shape)))


def mano_score(logits: np.ndarray) -> float:
    """Norm (p = 4) of the logits after softmax; after a Taylor expansion where the window is not confident (Φ at most 5)."""
    z = logits.astype(np.float64)
    if -log_softmax(z, axis=1).mean() > 5:
        q = softmax(z, axis=1)
    else:
        expanded = 1 + z + z**2 / 2
        q = expanded / expanded.sum(axis=1, keepdims=True)
    return float(np.mean(q**4) ** 0.25)


def _by_regression(score: Callable[[CleanSamples, np.ndarray], float]) -> Callable[[CleanSamples, int, int], Estimate]:
    def make(clean: CleanSamples, size: int, seed: int) -> Estimate:
        rng = np.random.default_rng(seed)
        logits, labels, _, _ = clean.data.simulated()
        n = len(clean.labels)
        points = []
        for start in range(0, len(labels), n):
            for _ in range(WINDOWS_PER_CONDITION):
                chosen = start + rng.permutation(n)[:size]
                accuracy = np.mean(logits[chosen].argmax(axis=1) == labels[chosen])
                points.append((score(clean, logits[chosen]), accuracy))
        slope, intercept = np.polyfit(*np.array(points).T, 1)
        return lambda window: float(np.clip(slope * score(clean, window) + intercept, 0, 1))

    return make


def transcal(clean: CleanSamples, size: int, seed: int) -> Estimate:
    """Weighted clean accuracy, with the weight itself as control variate."""

    def estimate(logits: np.ndarray) -> float:
        x = np.sort(np.concatenate([clean.logits, logits]), axis=1)
        x = (x - x.mean(axis=1, keepdims=True)) / clean.logits.std()
        is_target = np.arange(len(x)) >= len(clean.logits)
        model = LogisticRegression(C=0.1, class_weight="balanced", solver="newton-cholesky", tol=1e-2).fit(x, is_target)
        odds = np.exp(np.clip(model.decision_function(x[: len(clean.logits)]), -7, 7))
        weights = odds / odds.mean()
        weighted = weights * clean.correct
        slope = np.cov(weighted, weights)[0, 1] / max(weights.var(), 1e-12)
        return float(np.clip(weighted.mean() - slope * (weights.mean() - 1), 0, 1))

    return estimate


ESTIMATORS: dict[str, Callable[[CleanSamples, int, int], Estimate]] = {
    "atc": atc,
    "doc": doc,
    "cot": cot,
    "cott": cott,
    "nuclear": _by_regression(lambda clean, logits: nuclear_norm(clean.scaled(logits))),
    "mano": _by_regression(lambda clean, logits: mano_score(logits)),
    "transcal": transcal,
}


@dataclass(frozen=True, eq=False)
class ExpectationConsistent:
    """A temperature per window such that mean confidence equals an estimated accuracy."""

    clean: CleanSamples
    estimate: Estimate

    def predict(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities of a window."""
        accuracy = self.estimate(logits)
        z = logits.astype(np.float64)

        def excess(log_factor: float) -> float:
            return float(
                softmax(z / (self.clean.temperature * np.exp(log_factor)), axis=1).max(axis=1).mean() - accuracy
            )

        low, high = -4.0, 4.0  # a factor of 55: an accuracy at or below chance would ask for infinity
        log_factor = low if excess(low) <= 0 else high if excess(high) >= 0 else brentq(excess, low, high, xtol=1e-4)
        return softmax(z / (self.clean.temperature * np.exp(log_factor)), axis=1)


@dataclass(frozen=True, eq=False)
class BiasCorrectedEM:
    """softmax(z / T + b) on clean samples; a window's class shares by expectation maximisation, and its reweighting."""

    beta: float
    bias: np.ndarray
    shares: np.ndarray

    @classmethod
    def fit(cls, clean: CleanSamples) -> BiasCorrectedEM:
        """T and b by NLL on the clean samples."""
        z, n_classes = clean.logits.astype(np.float64), clean.logits.shape[1]
        one_hot = np.eye(n_classes)[clean.labels]

        def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            log_p = log_softmax(parameters[0] * z + parameters[1:], axis=1)
            residual = (np.exp(log_p) - one_hot) / len(z)
            return -(log_p * one_hot).sum() / len(z), np.concatenate([[(residual * z).sum()], residual.sum(axis=0)])

        start = np.concatenate([[1 / clean.temperature], np.zeros(n_classes)])
        best = minimize(loss, start, jac=True, method="L-BFGS-B").x
        calibrated = softmax(best[0] * z + best[1:], axis=1)
        return cls(float(best[0]), best[1:], calibrated.mean(axis=0))

    def predict(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities of a window under its own class shares."""
        p = softmax(self.beta * logits.astype(np.float64) + self.bias, axis=1)
        shares = self.shares
        for _ in range(100):
            weighted = p * (shares / self.shares)
            weighted /= weighted.sum(axis=1, keepdims=True)
            if np.abs(weighted.mean(axis=0) - shares).max() < 1e-6:
                break
            shares = weighted.mean(axis=0)
        return weighted
