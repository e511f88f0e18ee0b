"""Scores that differ by rounding only are one score.

A softmax sums its exponentials in the order of the columns, and torch and onnxruntime have exponential functions of
their own. So the same sample may get scores that differ in the last bits, if its columns are in another order or if an
exported graph computes them. Steps of a curve and edges of bins lie at scores of tuning samples: there a last bit would
decide between two values.

Therefore a score counts as equal to a step or an edge within the share `TOLERANCE` of it:

- In a fit, scores of true classes within `TOLERANCE` above a breakpoint belong to this breakpoint, and the breakpoint
  is lowered by `TOLERANCE`, so that scores just below it belong to it too.
- In a prediction, a score within `TOLERANCE` of a point of a curve gets the value of this point; of two points closer
  than that, the nearer one counts. A score within `TOLERANCE` above an edge is in the bin below.
- An exported table holds the lowered and raised numbers.

Rounding all scores to a grid would be as cheap, but one score in some thousands would lie at a border of the grid, and
rounding would still decide. Here, rounding decides only if two different scores are `TOLERANCE` apart to the last bits.
Only breakpoints and edges are moved, not the n·C scores, so a fit takes no more time.
"""

from __future__ import annotations

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.types import Array, Float64

#: 4,096 units in the last place. A softmax over 1,000 classes differs by some tens of them, the tail of a sigmoid by up
#: to 3,000: its argument is up to 745 and has a rounding error of some units of its own.
TOLERANCE = 2.0**-40
#: Up to this slope, `TOLERANCE` covers the rounding of log-odds: 16 units in the last place.
USUAL_STEEPNESS = 256.0
#: Smaller scores are one score: other exponential functions have few digits there, or return 0.
LEAST_SCORE = 1e-300


@kernel
def lowered(score: float) -> float:
    """The least number that counts as equal to a score; every number below if the score is tiny."""
    return score * (1.0 - TOLERANCE) if score >= LEAST_SCORE else -1.0


@kernel
def raised(score: float) -> float:
    """The greatest number that counts as equal to a score."""
    return max(score * (1.0 + TOLERANCE), LEAST_SCORE)


def raised_edges(edges: Float64, steepness: Float64 | float = 1.0) -> Float64:
    """The edges of bins as predictions and exported tables compare them.

    Scores that are a steep function of log-odds have larger rounding errors: `steepness` is the slope of this function.

    >>> bool((raised_edges(np.array([0.25])) > 0.25).all())
    True
    """
    tolerance = TOLERANCE * np.maximum(1.0, np.abs(steepness) / USUAL_STEEPNESS)
    moved: Float64 = np.maximum(edges * (1.0 + tolerance), LEAST_SCORE)
    return moved


@kernel
def begins_group(scores: Float64, curve: Array) -> Array:
    """Whether each score begins a group of equal ones; scores are ordered by curve, then by size.

    A group is no wider than `TOLERANCE`, so that many close scores do not become one long chain.
    """
    begins = np.ones(scores.shape[0], np.bool_)
    first = 0
    for i in range(1, scores.shape[0]):
        begins[i] = curve[i] != curve[first] or scores[i] > raised(scores[first])
        if begins[i]:
            first = i
    return begins


@kernel
def begins_log_odds_group(log_odds: Float64) -> Array:
    """Whether each of the ordered log-odds begins a group of equal ones."""
    begins = np.ones(log_odds.shape[0], np.bool_)
    first = 0
    for i in range(1, log_odds.shape[0]):
        begins[i] = log_odds[i] > log_odds[first] + TOLERANCE * max(1.0, abs(log_odds[first]))
        if begins[i]:
            first = i
    return begins
