"""Two searches for perturbation levels: one shared accuracy curve, or Nelder-Mead for each level as in the paper."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import numpy as np

from driftcal.shifts.levels.curve import AccuracyCurve
from driftcal.shifts.levels.search import LevelSearch
from driftcal.types import Array, Indices

#: Evaluations for one target; four times as many for Nelder-Mead, which shares none between targets.
_MAX_TRIES = 8


def _solve_by_curve(search: LevelSearch) -> None:
    """Measure accuracies down to the plateau, then refine one curve until every target is met."""
    n_levels, max_level = search.n_levels, search.max_level
    curve = AccuracyCurve(search.chance, {0.0: search.clean_accuracy})
    estimate = None if search.subsample is None else _estimate_curve(search, search.subsample)
    start = search.first_level
    if estimate is not None:
        start = estimate.bracket(search.chance + search.tolerance)[1]
        start = min(start if math.isfinite(start) else max(estimate.points), max_level)
    plateau = _descend(curve, lambda level: search.measure(level, n_levels - 1), search, start)
    if plateau > search.clean_accuracy - search.tolerance:
        search.notes.append(
            f"accuracy does not fall: {search.clean_accuracy:.3f} without the shift, {plateau:.3f} or more with it; "
            "only the clean level is used"
        )
        search.targets = [search.clean_accuracy]
        return
    search.set_targets(plateau)
    targets = search.targets
    tries = dict.fromkeys(range(1, n_levels - 1), 0)
    while unmet := [
        i for i in tries if tries[i] < _MAX_TRIES and not search.is_met(i) and not _is_jump(curve, targets[i])
    ]:
        # the target farthest from any measured accuracy improves the curve most
        measured = np.array(list(curve.points.values()))
        i = max(unmet, key=lambda k: float(np.min(np.abs(measured - targets[k]))))
        tries[i] += 1
        if estimate is not None and tries[i] == 1:
            level = _corrected_level(curve, estimate, targets[i])
        else:
            level = curve.level_for(targets[i])
        level = _inside_bracket(curve, level, targets[i])
        curve.points[level] = search.measure(min(level, max_level), i)
    _lower_last_level(search)


def _descend(curve: AccuracyCurve, measure: Callable[[float], float], search: LevelSearch, start: float) -> float:
    """Raise the level until accuracy is at chance or stops falling; the lowest accuracy, at least chance."""
    level, steps_without_fall = start, 0
    while True:
        lowest = min(curve.points.values())
        accuracy = measure(level)
        curve.points[level] = accuracy
        if accuracy <= search.chance + search.tolerance or level >= search.max_level:
            break
        error = search.standard_error(accuracy)
        falls = lowest - accuracy > max(search.tolerance / 2, error)
        steps_without_fall = 0 if falls else steps_without_fall + 1
        has_fallen = curve.points[0.0] - min(lowest, accuracy) > 2 * max(search.tolerance, error)
        # after a fall, one step without another fall is the plateau; before, the levels may just be far too small
        if steps_without_fall >= (1 if has_fallen else 6):
            break
        predicted = curve.level_for(search.chance + search.tolerance / 2) if has_fallen and falls else 0.0
        level = min(max(predicted, level * (4 if has_fallen else 16)), search.max_level)
    return max(min(curve.points.values()), search.chance)


def _is_jump(curve: AccuracyCurve, target: float) -> bool:
    """Whether accuracy jumps over the target between two levels at most 1 % apart."""
    low, high = curve.bracket(target)
    return high <= 1.01 * low


def _corrected_level(curve: AccuracyCurve, estimate: AccuracyCurve, target: float) -> float:
    """The level to try, from the curve of the subsample corrected by its errors at the measured levels."""
    levels = sorted(curve.points, key=lambda level: curve.points[level])
    measured = [curve.points[level] for level in levels]
    error = float(np.interp(target, measured, [curve.points[level] - estimate.accuracy_at(level) for level in levels]))
    return estimate.level_for(target - error)


def _inside_bracket(curve: AccuracyCurve, level: float, target: float) -> float:
    """`level` if the curve must pass the target around it, else the middle of the bracket where it must."""
    low, high = curve.bracket(target)
    if low < level < high:
        return level
    return math.sqrt(max(low, high / 16) * high) if math.isfinite(high) else 4 * low


def _estimate_curve(search: LevelSearch, subsample: Indices) -> AccuracyCurve:
    """The curve on the subsample: down to its plateau, then one more point for each target without a point nearby."""
    curve = AccuracyCurve(search.chance, {0.0: search.measure_on(subsample, 0.0)})
    plateau = _descend(curve, lambda level: search.measure_on(subsample, level), search, search.first_level)
    step = (curve.points[0.0] - plateau) / (search.n_levels - 1)
    for target in np.linspace(curve.points[0.0], plateau, search.n_levels)[1:-1]:
        if min(abs(accuracy - target) for accuracy in curve.points.values()) > step / 2:
            level = _inside_bracket(curve, curve.level_for(float(target)), float(target))
            curve.points[level] = search.measure_on(subsample, level)
    return curve


def _lower_last_level(search: LevelSearch) -> None:
    """Try twice to reach the last target at a lower level, if the last level is far above the one before."""
    for _ in range(2):
        last, previous = search.best_for(search.targets[-1]), search.best_for(search.targets[-2])
        if previous <= 0 or last <= 64 * previous:
            return
        search.measure(math.sqrt(last * previous), len(search.targets) - 1)


def _solve_by_nelder_mead(search: LevelSearch) -> None:
    """Search each target by itself with Nelder-Mead, as in the paper."""
    from scipy.optimize import minimize

    search.targets = np.linspace(search.clean_accuracy, search.chance, search.n_levels).tolist()
    level = search.first_level
    for i in range(1, search.n_levels):
        target = search.targets[i]

        def deviation(x: Array, i: int = i, target: float = target) -> float:
            accuracy = search.measure(min(max(float(x[0]), 0.0), search.max_level), i)
            if abs(accuracy - target) <= search.tolerance:
                raise StopIteration
            return abs(accuracy - target)

        options = {
            "initial_simplex": [[level], [1.5 * level]],
            "maxfev": 4 * _MAX_TRIES,
            "xatol": 0,
            "fatol": 0,
        }
        with contextlib.suppress(StopIteration):  # the target is met
            minimize(deviation, [level], method="Nelder-Mead", options=options)
        level = max(search.best_for(target), 1e-12) if search.best_for(target) > 0 else level
    lowest = min(search.accuracies.values())
    if lowest > search.chance + search.tolerance:
        search.notes.append(f"chance ({search.chance:.3f}) was not reached: the lowest accuracy found is {lowest:.3f}")


#: name -> solver(search)
SOLVERS: dict[str, Callable[[LevelSearch], None]] = {
    "curve": _solve_by_curve,
    "nelder-mead": _solve_by_nelder_mead,
}
