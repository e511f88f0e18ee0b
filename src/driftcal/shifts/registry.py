"""The registry of shifts. The choices of the command line, the law tests and the docs read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from driftcal.errors import InputError, UnknownName
from driftcal.shifts.affine import AFFINE, Affine
from driftcal.shifts.corruptions.corruption import CORRUPTIONS, Corruption
from driftcal.shifts.custom import Custom
from driftcal.shifts.gaussian import Gaussian
from driftcal.shifts.mixture import Mixture
from driftcal.shifts.series.changes import SERIES_SHIFTS, SIMULATED_SERIES
from driftcal.shifts.series.series_shift import SeriesNoise, SeriesShift
from driftcal.shifts.shift import Shift
from driftcal.shifts.simulated.image_changes import IMAGE_CHANGES, ImageChange
from driftcal.shifts.suites import H_TUNING
from driftcal.shifts.tabular.drifts import DRIFTS, SIMULATED_DRIFTS, FeatureDrift
from driftcal.shifts.tabular.tabular_noise import TabularNoise
from driftcal.shifts.text.text_shift import SIMULATED_TEXT, TEXT_SHIFTS, TextShift, WordNoise
from driftcal.shifts.varied import Varied

#: name -> shift
SHIFTS: dict[str, Shift] = {
    "gaussian": Gaussian(),
    **{name: Affine(name) for name in AFFINE},
    **{name: Corruption(name) for name in CORRUPTIONS},
    "h_mixture": Mixture("h_mixture", tuple(map(Corruption, H_TUNING))),
    "varied": Varied(),
    "tabular_noise": TabularNoise(),
    **{name: ImageChange(name) for name in IMAGE_CHANGES},
    **{name: FeatureDrift(name) for name in (*DRIFTS, *SIMULATED_DRIFTS)},
    "text_noise": WordNoise(),
    **{name: TextShift(name) for name in (*TEXT_SHIFTS, *SIMULATED_TEXT)},
    "series_noise": SeriesNoise(),
    **{name: SeriesShift(name=name) for name in (*SERIES_SHIFTS, *SIMULATED_SERIES)},
}

_BUILT_IN = frozenset(SHIFTS)

#: The options of ``get_shift(name, **options)``, by the class of the shift.
_OPTIONS: dict[type, tuple[str, ...]] = {Gaussian: ("clip",), Corruption: ("table",)}


def get_shift(name: str | Shift, **options: Any) -> Shift:
    """The shift called `name`: a callable ``(inputs, level, *, seed=0, indices=None) -> inputs``.

    Images are float32 (or uint8) of shape (n, height, width, channels) in [0, 1], in and out. Level 0 is the identity.
    `options` change its settings: ``get_shift("gaussian", clip=False)``, ``get_shift("fog", table="cifar10-c")``.
    `indices` are the samples' positions in their data set: with them a sample's pixels do not depend on its batch.

    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((4, 32, 32, 3), np.float32)
    >>> fog = get_shift("fog")
    >>> fog.levels
    (0, 1, 2, 3, 4, 5)
    >>> whole = fog(images, 3, seed=1)
    >>> bool(np.array_equal(fog(images[2:], 3, seed=1, indices=[2, 3]), whole[2:]))
    True
    """
    if not isinstance(name, str):
        if isinstance(name, Shift):
            return name
        raise InputError(
            f"a shift must be a name or a shift; got {name!r}. Register a function: register_shift(name, function)."
        )
    if name not in SHIFTS:
        raise UnknownName.of("shift", name, SHIFTS)
    shift: Any = SHIFTS[name]
    allowed = _OPTIONS.get(type(shift), ())
    for option in sorted(set(options) - set(allowed)):
        raise InputError(f"the shift {name!r} has no option {option!r}; it takes {', '.join(allowed) or 'none'}.")
    changed: Shift = dataclasses.replace(shift, **options) if options else shift
    return changed


def image_shifts() -> list[Shift]:
    """The shifts that act on one image: `gaussian`, the 28 of the suite ``all``, then the user's own."""
    return [shift for shift in SHIFTS.values() if isinstance(shift, Gaussian | Affine | Corruption | Custom)]


def register_shift(name: str, function: Callable[..., Any], *, levels: Sequence[int] | None = None) -> Shift:
    """Make your own function a shift: ``(inputs, level)`` or ``(inputs, level, *, seed, indices)``.

    `levels` are 0, 1, … if the function has a table of levels. Without `levels`, the level is any number from 0 up.
    Level 0 is the identity and is never passed to the function.

    >>> darker = register_shift("darker", lambda images, level: images * (1 - level / 10), levels=range(6))
    >>> darker.levels
    (0, 1, 2, 3, 4, 5)
    """
    if name in _BUILT_IN:
        raise InputError(f"name must not be that of a built-in shift; {name!r} is one. Choose another.")
    if not callable(function):
        raise InputError(
            f"function must be callable; got {function!r}. Pass a function (inputs, level) that returns the shifted inputs."
        )
    table = None if levels is None else tuple(int(level) for level in levels)
    if (table is not None and table != tuple(range(len(table)))) or table == ():
        raise InputError(f"levels must count 0, 1, 2, …; got {table}. A level is a position in the shift's table.")
    SHIFTS[name] = Custom(name, function, table)
    return SHIFTS[name]
