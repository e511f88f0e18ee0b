"""Drift on demand: (inputs, level, seed) -> inputs.

`SHIFTS` is the registry: it feeds the command line's choices, the law tests and the docs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from driftcal.errors import InputError, UnknownName
from driftcal.shifts.affine import AFFINE, Affine
from driftcal.shifts.corruptions.corruption import CORRUPTIONS, Corruption
from driftcal.shifts.custom import Custom, Mixture
from driftcal.shifts.gaussian import Gaussian
from driftcal.shifts.shift import Shift
from driftcal.shifts.suites import H_TUNING, SUITES, Suite, get_suite
from driftcal.shifts.tabular.drifts import DRIFTS, FeatureDrift
from driftcal.shifts.tabular.noise import TabularNoise
from driftcal.shifts.varied import Varied

__all__ = [
    "SHIFTS",
    "SUITES",
    "FeatureDrift",
    "Shift",
    "Suite",
    "TabularNoise",
    "get_shift",
    "get_suite",
    "register_shift",
]

#: name -> shift
SHIFTS: dict[str, Shift] = {
    "gaussian": Gaussian(),
    **{name: Affine(name) for name in AFFINE},
    **{name: Corruption(name) for name in CORRUPTIONS},
    "h_mixture": Mixture("h_mixture", tuple(map(Corruption, H_TUNING))),
    "varied": Varied(),
    "tabular_noise": TabularNoise(),
    **{name: FeatureDrift(name) for name in DRIFTS},
}

_BUILT_IN = frozenset(SHIFTS)


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
            f"a shift must be a name or a shift; got {name!r}. Register a function: register_shift(name, f)."
        )
    if name not in SHIFTS:
        raise UnknownName.of("shift", name, SHIFTS)
    shift: Any = SHIFTS[name]
    known = {field.name for field in dataclasses.fields(shift)} - {
        "name",
        "function",
        "levels",
        "parts",
        "scale",
        "columns",
        "centre",
        "values",
    }
    wrong = sorted(set(options) - known)
    if wrong:
        offered = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise InputError(f"the shift {name!r} has no option {wrong[0]!r}; {offered}.")
    changed: Shift = dataclasses.replace(shift, **options) if options else shift
    return changed


def drawable() -> list[Shift]:
    """The shifts of single images: `gaussian` and the 28, in the registry's order, then the user's own."""
    others = {"h_mixture", "varied", "tabular_noise", *DRIFTS}
    return [shift for name, shift in SHIFTS.items() if name not in others]


def register_shift(name: str, function: Callable[..., Any], *, levels: Sequence[int] | None = None) -> Shift:
    """Make your own function a shift: ``(inputs, level)`` or ``(inputs, level, *, seed, indices)``.

    `levels` are 0, 1, … when it has a table; without, the level is any number from 0 up. Level 0 never reaches it.

    >>> darker = register_shift("darker", lambda images, level: images * (1 - level / 10), levels=range(6))
    >>> darker.levels
    (0, 1, 2, 3, 4, 5)
    """
    if name in _BUILT_IN:
        raise InputError(f"name must not be that of a shift driftcal brings; {name!r} is one. Choose another.")
    if not callable(function):
        raise InputError(f"function must be callable; got {function!r}.")
    steps = None if levels is None else tuple(int(level) for level in levels)
    if (steps is not None and steps != tuple(range(len(steps)))) or steps == ():
        raise InputError(f"levels must count 0, 1, 2, …; got {steps}. A level is a position in the shift's table.")
    SHIFTS[name] = Custom(name, function, steps)
    return SHIFTS[name]
