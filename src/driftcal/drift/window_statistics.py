"""Statistics of unlabelled samples that add: a window's sums give its features and the temperature it needs.

Every statistic is smooth in the logits. A rounding step in one sample therefore changes a window only by a rounding step,
and an exported graph agrees with Python.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import exp, kernel, log, row_max
from driftcal.core.passes import map_blocks
from driftcal.types import Array, Float64, Logits

#: Temperatures at which the sums of the confidence are kept, `T_PER_OCTAVE` for each doubling: T/2 … 108 T.
N_TEMPERATURES, T_PER_OCTAVE = 32, 4
#: The position of T itself among them.
_CLEAN_T = 4
# The columns of the statistics: the count, these, the confidence at each temperature, the probability of each class.
(_COUNT, _SQUARED_CONFIDENCE, _NEGATIVE_ENTROPY, _MARGIN, _LOG_MARGIN, _ABOVE_CONFIDENCE, _ABOVE_ENTROPY, _HEIGHT,
 _SQUARED_HEIGHT, _SQUARED_PROBS, _CONFIDENCES) = range(11)  # fmt: skip
_PROBS = _CONFIDENCES + N_TEMPERATURES
_SCALARS = ("count", "squared confidence", "normalised negative entropy", "margin", "log margin", "above the confidence threshold",
            "above the entropy threshold", "height", "squared height", "sum of squared probabilities")  # fmt: skip
#: The features of a window, in the order of :meth:`WindowStatistics.features`.
FEATURES = (
    "mean confidence",
    "standard deviation of the confidence",
    "mean normalised negative entropy",
    "log mean margin",
    "mean log margin",
    "soft share above the ATC threshold of the confidence",
    "soft share above the ATC threshold of the entropy",
    "log mean height of the top logit",
    "log standard deviation of that height",
    "chance that two samples get one class",
    "distance of the class mix from the clean one",
)
#: The range of exponents, and of the log-odds of a probability.
_LARGEST, _LARGEST_ODDS = 745.0, 30.0
#: Two samples say little about the class mix: the clean mix counts as this many pairs.
_PRIOR_PAIRS = 10.0
#: Powers of two that bound the columns which exceed 1: margin, log margin, height, squared height.
_BOUNDS = {_MARGIN: 2.0**10, _LOG_MARGIN: 2.0**3, _HEIGHT: 2.0**10, _SQUARED_HEIGHT: 2.0**20}
#: The only statistic that can be negative, by its column.
SIGNED = _LOG_MARGIN
#: The widths of the soft thresholds, in log-odds and in the logarithm of the entropy.
_SOFT_CONFIDENCE, _SOFT_ENTROPY = 0.5, 0.5
#: Added before a logarithm, so that ties and constant windows have one.
_SMALL_MARGIN, _SMALL_HEIGHT, _SMALL_ENTROPY = 0.1, 0.01, 1e-4


@dataclass(frozen=True, eq=False)
class WindowStatistics:
    """Label-free statistics of samples, relative to clean samples. Only their sums over a window are needed.

    Parameters
    ----------
    temperature : temperature fitted on the clean samples.
    odds_threshold, entropy_threshold : ATC thresholds on the log-odds of the confidence and on -log(entropy).
    class_shares : (C,): the mean prediction of the clean samples.
    """

    temperature: float
    odds_threshold: float
    entropy_threshold: float
    class_shares: Float64

    @classmethod
    def of_clean(cls, logits: Logits, temperature: float, accuracy: float, weights: Float64) -> WindowStatistics:
        """The statistics relative to these clean samples, predicted with this accuracy."""
        start = cls(temperature, 0.0, 0.0, np.zeros(logits.shape[1]))
        scores = sample_scores(logits, temperature)
        probs = start.of_samples(logits)[:, _PROBS:]
        shares = weights @ probs / weights.sum()
        odds_threshold, entropy_threshold = (_weighted_quantile(column, weights, 1 - accuracy) for column in scores.T)
        return cls(temperature, odds_threshold, entropy_threshold, shares)

    @property
    def n_statistics(self) -> int:
        """Columns of the statistics."""
        return _PROBS + len(self.class_shares)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        confidences = [f"confidence at T * 2^({j - _CLEAN_T}/{T_PER_OCTAVE})" for j in range(N_TEMPERATURES)]
        return (*_SCALARS, *confidences, *(f"probability of class {c}" for c in range(len(self.class_shares))))

    @property
    def bounds(self) -> Float64:
        """(k,): powers of two that no absolute value of a column exceeds."""
        bounds = np.ones(self.n_statistics)
        bounds[list(_BOUNDS)] = list(_BOUNDS.values())
        return bounds

    @property
    def confidence_columns(self) -> slice:
        """The columns with the confidence at each of the `temperatures`."""
        return slice(_CONFIDENCES, _PROBS)

    @property
    def temperatures(self) -> Float64:
        """(32,): the temperatures at which the confidence is summed, rising."""
        return self.temperature * 2.0 ** ((np.arange(N_TEMPERATURES) - _CLEAN_T) / T_PER_OCTAVE)

    def of_samples(self, logits: Logits) -> Float64:
        """(n, k): the statistics of each sample; column 0 is 1."""
        settings = (1 / self.temperature, self.odds_threshold, self.entropy_threshold)
        return map_blocks(lambda block, out: _statistics(block, *settings, out), logits, self.n_statistics)

    def features(self, sums: Float64) -> Float64:
        """(..., 11): the `FEATURES` of windows from their sums (..., k)."""
        n = sums[..., :1]
        means = sums[..., :_PROBS] / n
        confidence = means[..., _CONFIDENCES + _CLEAN_T]
        deviation = np.sqrt(np.maximum(means[..., _SQUARED_CONFIDENCE] - confidence**2, 0) + 1e-4)
        height = means[..., _HEIGHT]
        height_deviation = np.sqrt(np.maximum(means[..., _SQUARED_HEIGHT] - height**2, 0) + _SMALL_HEIGHT)
        same, distance = self._class_mix(sums)
        return np.stack(
            [
                confidence,
                deviation,
                means[..., _NEGATIVE_ENTROPY],
                np.log(means[..., _MARGIN] + _SMALL_MARGIN),
                means[..., _LOG_MARGIN],
                means[..., _ABOVE_CONFIDENCE],
                means[..., _ABOVE_ENTROPY],
                np.log(height + _SMALL_HEIGHT),
                np.log(height_deviation),
                np.arcsinh(same),
                np.arcsinh(distance),
            ],
            axis=-1,
        )

    def confidences(self, sums: Float64) -> Float64:
        """(..., 32): the mean confidence of windows at each of the `temperatures`."""
        return sums[..., _CONFIDENCES:_PROBS] / sums[..., :1]

    def confidence_at(self, confidences: Float64, temperature: float) -> float:
        """The mean confidence at any temperature, interpolated between the means (32,) at the `temperatures`."""
        position = T_PER_OCTAVE * math.log2(temperature / self.temperature) + _CLEAN_T
        return float(np.interp(position, np.arange(N_TEMPERATURES), confidences))

    def consistent_temperature(self, sums: Float64, accuracy: Float64) -> Float64:
        """(...): the temperatures at which the mean confidence is `accuracy`, interpolated; Clarté et al. 2023."""
        confidences = self.confidences(sums)
        # a grid falls: how many of its points lie above says between which two the accuracy lies
        above = np.clip((confidences > accuracy[..., None]).sum(axis=-1), 1, N_TEMPERATURES - 1)[..., None]
        left = np.take_along_axis(confidences, above - 1, -1)[..., 0]
        right = np.take_along_axis(confidences, above, -1)[..., 0]
        share = np.clip((left - accuracy) / np.maximum(left - right, 1e-12), 0, 1)
        position = above[..., 0] - 1 + share
        return np.asarray(self.temperature * 2.0 ** ((position - _CLEAN_T) / T_PER_OCTAVE))

    def _class_mix(self, sums: Float64) -> tuple[Float64, Float64]:
        """The chance that two samples get one class, and the squared distance to the clean mix, per clean chance.

        Both are unbiased for any size of the window, but for a prior that few pairs need.
        """
        n, total = sums[..., 0], sums[..., _PROBS:]
        chance = float(self.class_shares @ self.class_shares)
        pairs = n * (n - 1)
        same = np.maximum((total**2).sum(axis=-1) - sums[..., _SQUARED_PROBS], 0)
        same = (same + _PRIOR_PAIRS * chance) / (pairs + _PRIOR_PAIRS)
        n_prior = math.sqrt(_PRIOR_PAIRS)
        cross = (total @ self.class_shares + n_prior * chance) / (n + n_prior)
        return same / chance, (same - 2 * cross + chance) / chance


def sample_scores(logits: Logits, temperature: float) -> Float64:
    """(n, 2): log-odds of the confidence, and -log(entropy), of softmax(z / T)."""
    return map_blocks(lambda block, out: _scores(block, 1 / temperature, out), logits, 2)


def _weighted_quantile(values: Float64, weights: Float64, share: float) -> float:
    """The value below which `share` of the weight lies."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    # the share is often that of some of the samples: rounding must not decide between two neighbours
    position = min(int(np.searchsorted(cumulative, (share - 1e-9) * cumulative[-1])), len(values) - 1)
    return float(values[order][position])


@kernel
def _scores(logits: Logits, scale: float, out: Float64) -> None:
    """Write the log-odds of the confidence, and -log(entropy)."""
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        total = 0.0
        weighted = 0.0
        for c in range(row.shape[0]):
            d = max(scale * (np.float64(row[c]) - top), -_LARGEST)
            e = exp(d)
            total += e
            weighted += e * d
        out[i, 0], out[i, 1] = _odds(total), _minus_log(log(total) - weighted / total)


@kernel
def _odds(total: float) -> float:
    """The log-odds of the confidence 1 / total."""
    return min(-log(max(total - 1.0, 1e-30)), _LARGEST_ODDS)


@kernel
def _minus_log(entropy: float) -> float:
    return -log(max(entropy, 0.0) + _SMALL_ENTROPY)


@kernel
def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-max(x, -700.0)))


@kernel
def _statistics(logits: Logits, scale: float, odds_threshold: float, entropy_threshold: float, out: Array) -> None:
    n_classes = logits.shape[1]
    # exp(x / T) at the four largest temperatures; each squaring halves the temperature
    lowest = scale * 2.0 ** (-(N_TEMPERATURES - 1 - _CLEAN_T) / T_PER_OCTAVE)
    totals = np.empty(N_TEMPERATURES)
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        totals[:] = 0.0
        second = -np.inf
        seen_top = False
        weighted = 0.0
        mean = 0.0
        finite = 0
        for c in range(n_classes):
            value = np.float64(row[c])
            out[i, _PROBS + c] = 0.0
            if value == -np.inf:
                continue
            d = value - top
            if value == top and not seen_top:
                seen_top = True
            else:
                second = max(second, value)
            for k in range(T_PER_OCTAVE):
                e = exp(max(lowest * 2.0 ** (k / T_PER_OCTAVE) * d, -_LARGEST))
                j = N_TEMPERATURES - 1 - k
                while j >= 0:
                    totals[j] += e
                    if j == _CLEAN_T:
                        out[i, _PROBS + c] = e
                        weighted += e * max(scale * d, -_LARGEST)
                    e = e * e
                    j -= T_PER_OCTAVE
            mean += d
            finite += 1
        total = totals[_CLEAN_T]
        squares = 0.0
        for c in range(n_classes):
            p = out[i, _PROBS + c] / total
            out[i, _PROBS + c] = p
            squares += p * p
        entropy = max(log(total) - weighted / total, 0.0)
        margin = min(scale * (top - second), _LARGEST) if finite > 1 else _LARGEST
        height = min(-scale * mean / finite, _LARGEST) if finite > 1 else _LARGEST
        out[i, _COUNT] = 1.0
        out[i, _SQUARED_CONFIDENCE] = 1.0 / (total * total)
        out[i, _NEGATIVE_ENTROPY] = 1.0 - entropy / math.log(n_classes)
        out[i, _MARGIN] = margin
        out[i, _LOG_MARGIN] = log(margin + _SMALL_MARGIN)
        out[i, _ABOVE_CONFIDENCE] = _sigmoid((_odds(total) - odds_threshold) / _SOFT_CONFIDENCE)
        out[i, _ABOVE_ENTROPY] = _sigmoid((_minus_log(entropy) - entropy_threshold) / _SOFT_ENTROPY)
        out[i, _HEIGHT] = height
        out[i, _SQUARED_HEIGHT] = height * height
        out[i, _SQUARED_PROBS] = squares
        for j in range(N_TEMPERATURES):
            out[i, _CONFIDENCES + j] = 1.0 / totals[j]
