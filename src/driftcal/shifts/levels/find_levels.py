"""Algorithm 1: the perturbation levels whose accuracies step evenly from the clean accuracy down to chance.

Tomani et al. 2021, Algorithm 1. The paper searches each level by itself with Nelder-Mead and new noise. Here the noise
is a fixed function of (seed, sample index). Accuracy is therefore a fixed function of the level, and every evaluation
is used for all levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.core.random import as_seed
from driftcal.core.scalars import is_whole
from driftcal.errors import InputError, UnknownName
from driftcal.shifts.levels.search import Evaluate, LevelSearch, PerturbationLevel, PerturbationLevels
from driftcal.shifts.levels.solvers import SOLVERS
from driftcal.types import AnyArray, Indices

__all__ = ["Evaluate", "PerturbationLevel", "PerturbationLevels", "find_levels"]


def find_levels(
    evaluate: Evaluate,
    labels: AnyArray | None = None,
    *,
    classes: Sequence[Any] | None = None,
    n_levels: int = 10,
    n_classes: int | None = None,
    n_samples: int | None = None,
    tolerance: float = 0.01,
    first_level: float = 0.0025,
    max_level: float = math.inf,
    solver: str = "curve",
    subsample: int | None = None,
    random_state: int = 0,
) -> PerturbationLevels:
    """Find the levels at which accuracy takes `n_levels` evenly spaced values, from the clean accuracy down to chance.

    Works for any shift whose level is a number from 0 up. Chance is 1 / classes.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(level, indices)`` shifts the samples at `indices` (None: all samples) by `level`, always with the
        same seed, and returns the model's logits. Without `labels` it returns the accuracy itself.
    labels : array, optional
        The correct class of each sample: a column of the logits, one of `classes`, or a one-hot sample.
    classes : sequence, optional
        The class of each column of the logits. Without it, labels are columns.
    n_levels : int
        Number of levels, the clean one included. The paper takes 10.
    n_classes, n_samples : int, optional
        Needed without `labels`.
    tolerance : float
        An evaluated level whose accuracy is this close to a target is used, with its logits.
    first_level, max_level : float
        The first level that is tried, and the largest that is allowed.
    solver : {"curve", "nelder-mead"}
        ``"curve"`` estimates one accuracy-level curve for all targets. ``"nelder-mead"`` follows the paper: it searches
        each target by itself, starting from the level of the target before.
    subsample : int, optional
        Estimate the curve on this many samples first, which costs a fraction of a pass. The levels are then corrected
        on all samples. Only ``"curve"`` uses it.
    random_state : int
        Seed of the choice of the subsample.

    Returns
    -------
    PerturbationLevels
        The levels, their logits and the cost. If accuracy does not fall to chance, the last level is the lowest that
        reaches the plateau. If the plateau is more than one step above chance, the targets are spaced down to it
        instead. A model at chance gets the clean level only. `notes` lists which of these happened.

    Examples
    --------
    >>> def accuracy(level, indices):
    ...     return 0.1 + 0.8 / (1 + level / 0.01)
    >>> levels = find_levels(accuracy, n_classes=10, n_samples=5000, n_levels=4)
    >>> [round(level.accuracy, 1) for level in levels.levels]
    [0.9, 0.6, 0.4, 0.1]
    """
    check_n_levels(n_levels)
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise InputError(f"tolerance must be a positive accuracy; got {tolerance!r}. Try 0.01.")
    if not (0 < first_level < math.inf and max_level >= first_level):
        raise InputError(
            f"first_level must be positive and at most max_level; got first_level={first_level!r}, "
            f"max_level={max_level!r}. Try first_level=0.0025."
        )
    if solver not in SOLVERS:
        raise UnknownName.of("solver", solver, SOLVERS)
    search = LevelSearch(
        evaluate,
        labels,
        classes=classes,
        n_levels=int(n_levels),
        n_classes=n_classes,
        n_samples=n_samples,
        tolerance=tolerance,
        first_level=first_level,
        max_level=max_level,
    )
    search.measure(0.0)
    search.note_single_class()
    if n_levels > 1 and not search.is_at_chance():
        if subsample is not None and solver == "curve" and subsample < search.n_samples:
            search.subsample = _draw_subsample(search.n_samples, subsample, random_state)
        SOLVERS[solver](search)
    else:
        search.targets = [search.clean_accuracy]
    return search.result(solver)


def _draw_subsample(n_samples: int, size: int, random_state: int) -> Indices:
    if size < 1:
        raise InputError(f"subsample must be a number of samples, 1 or more; got {size!r}. Leave it out to use all.")
    generator = np.random.default_rng(as_seed(random_state, "random_state"))
    return np.sort(generator.permutation(n_samples)[:size])


def check_n_levels(n_levels: Any) -> None:
    """Refuse a number of perturbation levels that is no whole number of at least 1."""
    if not is_whole(n_levels) or n_levels < 1:
        raise InputError(f"n_levels must be a whole number, 1 or more; got {n_levels!r}. The paper takes 10.")
