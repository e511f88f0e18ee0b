"""A condition is a shift and its level: its name, the levels of a shift, and what a shift's results depend on."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from driftcal.io.fingerprint import fingerprint
from driftcal.shifts.shift import Shift

#: A shift and its level. The clean samples are (None, 0).
Condition: TypeAlias = tuple[Shift | None, float]
CLEAN: Condition = (None, 0.0)


def table_levels(shift: Shift) -> Sequence[int]:
    """The levels of the shift's table; the clean level alone where it has none."""
    return shift.levels or (0,)


def condition_name(shift: Shift | None, level: float) -> str:
    """The name of a condition in progress and errors."""
    return "clean" if shift is None or not level else f"{shift.name} {level:g}"


def shift_identity(shift: Shift) -> str:
    """A fingerprint of everything that a shift's result depends on: its parameters, and the code of a user's shift."""
    parts: dict[str, Any] = {"name": shift.name, "kind": type(shift).__name__}
    if dataclasses.is_dataclass(shift):
        parts |= {field.name: _plain(getattr(shift, field.name)) for field in dataclasses.fields(shift)}
    else:
        parts["code"] = _plain(type(shift).__call__)
    return fingerprint(parts)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype != object else [repr(v) for v in value.tolist()]
    if isinstance(value, tuple | list):
        return [fingerprint({"value": _plain(v)}) for v in value]
    if callable(value) and not dataclasses.is_dataclass(value):
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):  # code typed in a console has no source, only bytecode
            code = getattr(value, "__code__", None)
            return [code.co_code.hex(), repr(code.co_consts)] if code else repr(type(value))
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
