"""Algorithm 1: the noise levels whose accuracies step evenly from the clean model down to chance.

Tomani et al. 2021, Algorithm 1. The paper searches each level by itself with Nelder–Mead and fresh noise. Here the noise
is a fixed function of (seed, sample), so accuracy(level) is one fixed curve, and every evaluation serves all levels.
"""

from __future__ import annotations

import math

import numpy as np

from driftcal.core.images import as_seed
from driftcal.errors import InputError, UnknownName
from driftcal.shifts.levels.search import Evaluate, Level, PerturbationLevels, Search
from driftcal.shifts.levels.solvers import SOLVERS
from driftcal.types import AnyArray, Array

__all__ = ["Evaluate", "Level", "PerturbationLevels", "find_levels"]


def find_levels(
    evaluate: Evaluate,
    labels: AnyArray | None = None,
    *,
    n_levels: int = 10,
    n_classes: int | None = None,
    n_samples: int | None = None,
    tolerance: float = 0.01,
    start: float = 0.0025,
    largest: float = math.inf,
    solver: str = "curve",
    subsample: int | None = None,
    seed: int = 0,
    max_tries: int = 8,
) -> PerturbationLevels:
    """Find the levels at which accuracy takes `n_levels` evenly spaced values from the clean one down to 1 / classes.

    `evaluate(level, rows)` shifts the rows (None: all of them) by `level`, always with the same seed, and returns the
    model's logits; without `labels` it returns the accuracy itself, and `n_classes` and `n_samples` are needed.
    Any shift whose level is a number from 0 up will do; `start` is the first level tried, `largest` the last allowed.

    ``solver="curve"`` (default) keeps one accuracy–level curve for all targets. `subsample` rows may find its shape
    first, which costs a fraction of a pass; the levels are then corrected on all rows. ``solver="nelder-mead"`` follows
    the paper: each target by itself, from the last one's level. An evaluated level within `tolerance` of a target is
    used as it is, its logits too.

    Where chance is out of reach the ladder ends at the lowest accuracy that is: when this costs more than the last
    level, the targets are spaced down to it instead. A model at chance gets the clean level only. `notes` says so.

    >>> import numpy as np
    >>> ladder = find_levels(lambda e, rows: 0.1 + 0.8 / (1 + e / 0.01), n_classes=10, n_samples=5000, n_levels=4)
    >>> [round(level.accuracy, 1) for level in ladder.levels]
    [0.9, 0.6, 0.4, 0.1]
    """
    if isinstance(n_levels, bool) or not isinstance(n_levels, (int, np.integer)) or n_levels < 1:
        raise InputError(f"n_levels must be a whole number, 1 or more; got {n_levels!r}. The paper takes 10.")
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise InputError(f"tolerance must be a positive accuracy; got {tolerance!r}. Try 0.01.")
    if not (0 < start < math.inf and largest >= start):
        raise InputError(f"start must be a positive level, at most largest; got start={start!r}, largest={largest!r}.")
    if solver not in SOLVERS:
        raise UnknownName.of("solver", solver, SOLVERS)
    search = Search(evaluate, labels, n_classes, n_samples, tolerance)
    search.measure(0.0)
    search.describe()
    if n_levels > 1 and not search.at_chance():
        rows = None
        if subsample is not None and solver == "curve" and subsample < search.n:
            rows = _some_rows(search.n, subsample, seed)
        SOLVERS[solver](search, int(n_levels), start, largest, max_tries, rows)
    else:
        search.targets = [search.clean]
    return search.result(solver)


def _some_rows(n: int, subsample: int, seed: int) -> Array:
    if subsample < 1:
        raise InputError(f"subsample must be a number of rows, 1 or more; got {subsample!r}. Leave it out to use all.")
    return np.sort(np.random.default_rng(as_seed(seed)).permutation(n)[:subsample])
