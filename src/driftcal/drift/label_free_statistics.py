"""Label-free statistics: numbers of a sample's logits, and their means over a window of inputs."""

from __future__ import annotations

import math

import numpy as np

from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import exp, kernel, log, row_max
from driftcal.core.passes import map_blocks
from driftcal.errors import UnknownName
from driftcal.types import AnyArray, Float64, Labels, Logits, Weights

#: Statistics of a sample by name: each falls as the model grows less confident, and ignores a constant added to the logits.
STATISTICS: dict[str, str] = {
    "confidence": "the largest probability",
    "negative_entropy": "minus the entropy of the probabilities",
    "margin": "the largest logit minus the second",
    "energy": "log-sum-exp of the logits above their mean",
}
# Names in files of version 0.1.
_OLD_NAMES = {"certainty": "negative_entropy"}
# What a sample with one unmasked class has as margin and energy: there is no second class, and exp(745) is infinite.
_LARGEST = 745.0


def check_statistic(name: str) -> str:
    """The name of one of the `STATISTICS`; names of version 0.1 are accepted."""
    current = _OLD_NAMES.get(name, name) if isinstance(name, str) else ""
    if current not in STATISTICS:
        raise UnknownName.of("statistic", name, STATISTICS)
    return current


def sample_statistics(logits: AnyArray, temperature: float = 1.0) -> Float64:
    """(n, 4): the `STATISTICS` of each sample, in their order; confidence and entropy are those of softmax(z / T).

    >>> import numpy as np
    >>> sample_statistics(np.log([[0.9, 0.1], [0.5, 0.5]])).round(3)
    array([[ 0.9  , -0.325,  2.197,  1.204],
           [ 0.5  , -0.693,  0.   ,  0.693]])
    """
    scores, _ = validation.as_logits(logits)
    scale = 1 / temperature
    return map_blocks(lambda block, out: _sample_statistics(block, scale, out), scores, len(STATISTICS))


def sample_statistic(name: str, logits: AnyArray, temperature: float = 1.0) -> Float64:
    """(n,): one of the `STATISTICS` of each sample."""
    return sample_statistics(logits, temperature)[:, _column(name)]


def data_statistic(name: str, data: LabelledLogits, temperature: float = 1.0) -> float:
    """The weighted mean of a statistic over labelled logits, such as those of one perturbation level."""
    column, scale = _column(name), 1 / temperature

    def add(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
        values = np.empty((len(logits), len(STATISTICS)))
        _sample_statistics(logits, scale, values)
        sums[0] += weights @ values[:, column]

    return float(data.reduce_sum(add, 1)[0] / data.total_weight)


def normalised_negative_entropy(negative_entropy: Float64, n_classes: int) -> Float64:
    """1 − H / log C in [0, 1]: 0 for the uniform distribution, 1 for all mass on one class.

    >>> normalised_negative_entropy(np.array([-np.log(2), 0.0]), 2)
    array([0., 1.])
    """
    value: Float64 = np.clip(1 + negative_entropy / math.log(n_classes), 0, 1)
    return value


def _column(name: str) -> int:
    return list(STATISTICS).index(check_statistic(name))


@kernel
def _sample_statistics(logits: Logits, scale: float, out: Float64) -> None:
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        second = -np.inf
        seen_top = False
        total = 0.0
        weighted = 0.0
        plain = 0.0
        mean = 0.0
        finite = 0
        for c in range(row.shape[0]):
            value = np.float64(row[c])
            if value == -np.inf:
                continue
            d = value - top
            if value == top and not seen_top:
                seen_top = True
            else:
                second = max(second, value)
            e = exp(max(scale * d, -745.0))
            total += e
            weighted += e * max(scale * d, -745.0)
            plain += exp(max(d, -745.0))
            mean += d
            finite += 1
        out[i, 0] = 1.0 / total
        out[i, 1] = weighted / total - log(total)
        out[i, 2] = top - second if finite > 1 else _LARGEST
        out[i, 3] = log(plain) - mean / finite if finite > 1 else _LARGEST
