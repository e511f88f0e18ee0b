"""How the levels are found: on one shared curve, or one by one with Nelder–Mead as in the paper."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import numpy as np

from driftcal.shifts.levels.curve import Curve
from driftcal.shifts.levels.search import Search
from driftcal.types import Array


def _down_to_the_floor(
    curve: Curve, measure: Callable[[float], float], s: Search, start: float, largest: float
) -> float:
    """Raise the level until accuracy is at chance or stops falling; the floor that was reached."""
    level, still = start, 0
    while True:
        lowest = min(curve.points.values())
        accuracy = measure(level)
        curve.add(level, accuracy)
        if accuracy <= s.chance + s.tolerance or level >= largest:
            break
        fell = lowest - accuracy > max(s.tolerance / 2, s.standard_error(accuracy))
        still = 0 if fell else still + 1
        seen = curve.points[0.0] - min(lowest, accuracy) > 2 * max(s.tolerance, s.standard_error(accuracy))
        # after a fall, one step of 4 without another is the floor; before any, the start may just be far too small
        if still >= (1 if seen else 6):
            break
        wish = curve.level_for(s.chance + s.tolerance / 2) if seen and fell else 0.0
        level = min(max(wish, level * (4 if seen else 16)), largest)
    return max(min(curve.points.values()), s.chance)


def _solve_by_curve(s: Search, n_levels: int, start: float, largest: float, max_tries: int, rows: Array | None) -> None:
    curve = Curve(s.chance, {0.0: s.clean})
    guide = None if rows is None else _sketch(s, n_levels, start, largest, rows)
    if guide is not None:
        start = guide.around(s.chance + s.tolerance)[1]
        start = min(start if math.isfinite(start) else max(guide.points), largest)
    floor = _down_to_the_floor(curve, lambda level: s.measure(level, n_levels - 1), s, start, largest)
    if floor > s.clean - s.tolerance:
        s.notes.append(
            f"accuracy does not fall: {s.clean:.3f} without the shift, {floor:.3f} or more up to level "
            f"{max(curve.points):.4g}; only the clean level is used"
        )
        s.targets = [s.clean]
        return
    s.space(n_levels, floor, max(curve.points))
    tries = dict.fromkeys(range(1, n_levels - 1), 0)
    while open_ := [i for i in tries if tries[i] < max_tries and not s.met(i) and _gap_is_wide(curve, s.targets[i])]:
        # the target farthest from any measured accuracy teaches most about the curve
        known = np.array(list(curve.points.values()))
        i = max(open_, key=lambda k: float(np.min(np.abs(known - s.targets[k]))))
        helped = guide if tries[i] == 0 else None
        tries[i] += 1
        level = _between(curve, _aim(curve, helped, s.targets[i]), s.targets[i])
        curve.add(level, s.measure(min(level, largest), i))
    _tighten(s, curve)


def _gap_is_wide(curve: Curve, target: float) -> bool:
    """False when accuracy jumps over the target between two levels 1 % apart."""
    low, high = curve.around(target)
    return high > 1.01 * low


def _aim(curve: Curve, guide: Curve | None, target: float) -> float:
    """The level to try: from the measured curve, or from a sketch of it shifted by what it was off nearby."""
    if guide is None:
        return curve.level_for(target)
    levels = sorted(curve.points, key=lambda level: curve.points[level])
    measured = [curve.points[level] for level in levels]
    off = float(np.interp(target, measured, [curve.points[x] - guide.accuracy_at(x) for x in levels]))
    return guide.level_for(target - off)


def _between(curve: Curve, level: float, target: float) -> float:
    """`level` if it lies where the curve must pass the target, else the middle of that gap."""
    low, high = curve.around(target)
    if low < level < high:
        return level
    return math.sqrt(max(low, high / 16) * high) if math.isfinite(high) else 4 * low


def _sketch(s: Search, n_levels: int, start: float, largest: float, rows: Array) -> Curve:
    """The curve as some of the rows see it: down to its floor, then one point for each target without one nearby."""
    guide = Curve(s.chance, {0.0: s.sketch(0.0, rows)})
    floor = _down_to_the_floor(guide, lambda level: s.sketch(level, rows), s, start, largest)
    step = (guide.points[0.0] - floor) / (n_levels - 1)
    for target in np.linspace(guide.points[0.0], floor, n_levels)[1:-1]:
        if min(abs(a - target) for a in guide.points.values()) > step / 2:
            level = _between(guide, guide.level_for(float(target)), float(target))
            guide.add(level, s.sketch(level, rows))
    return guide


def _tighten(s: Search, curve: Curve) -> None:
    """A last level far beyond the one before only adds noise: try twice to reach the same accuracy with less."""
    for _ in range(2):
        last, before = s.best_for(s.targets[-1]), s.best_for(s.targets[-2])
        if before <= 0 or last <= 64 * before:
            return
        level = math.sqrt(last * before)
        curve.add(level, s.measure(level, len(s.targets) - 1))


def _solve_by_nelder_mead(
    s: Search, n_levels: int, start: float, largest: float, max_tries: int, rows: Array | None
) -> None:
    from scipy.optimize import minimize

    s.targets = [float(t) for t in np.linspace(s.clean, s.chance, n_levels)]
    level = start
    for i in range(1, n_levels):
        target = s.targets[i]

        def miss(x: Array, i: int = i, target: float = target) -> float:
            gap = abs(s.measure(min(max(float(x[0]), 0.0), largest), i) - target)
            if gap <= s.tolerance:
                raise StopIteration
            return gap

        with contextlib.suppress(StopIteration):
            minimize(
                miss,
                [level],
                method="Nelder-Mead",
                options={"initial_simplex": [[level], [1.5 * level]], "maxfev": 4 * max_tries, "xatol": 0, "fatol": 0},
            )
        level = max(s.best_for(target), 1e-12) if s.best_for(target) > 0 else level
    floor = min(s.accuracy.values())
    if floor > s.chance + s.tolerance:
        s.notes.append(f"chance ({s.chance:.3f}) was not reached: the lowest accuracy found is {floor:.3f}")


#: name -> solver(search, n_levels, start, largest, max_tries, rows of the subsample)
SOLVERS: dict[str, Callable[[Search, int, float, float, int, Array | None], None]] = {
    "curve": _solve_by_curve,
    "nelder-mead": _solve_by_nelder_mead,
}
