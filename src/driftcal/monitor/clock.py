"""Times of a stream: numbers, text and dates of any kind as seconds, and the windows they lie in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from driftcal.errors import InputError
from driftcal.monitor.states import FEWEST
from driftcal.types import AnyArray, Array, Float64

# Beyond this a number of a window is no whole number any more.
_FARTHEST = 2.0**53
#: A gap of more windows than this is either a long rest or a wrong clock; windows of an hour rest six weeks.
_FAR = 1000


def seconds(value: Any) -> float:
    """A time as seconds: a number as it is, a date or ISO 8601 since 1970, in UTC unless it says; NaN for anything else.

    >>> seconds(12), seconds("1970-01-01T01:00:00+00:00"), seconds(datetime(1970, 1, 2)), seconds("noon")
    (12.0, 3600.0, 86400.0, nan)
    """
    try:
        if isinstance(value, np.datetime64):
            return float(_since_1970(np.array([value]))[0])
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, date) and not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
        if isinstance(moment, datetime):
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return float(moment)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def times_of(at: AnyArray) -> Array:
    """Times as an array of numbers; what cannot be read as one is left as it is, for the caller to refuse.

    >>> times_of(np.array(["1970-01-02", "NaT"], "datetime64[ns]"))
    array([86400.,    nan])
    """
    array = np.atleast_1d(np.asarray(at))
    if array.dtype.kind == "M":
        return _since_1970(array)
    if array.dtype.kind == "O":
        return np.array([seconds(value) for value in array.reshape(-1)]).reshape(array.shape)
    return array


def _since_1970(moments: Array) -> Float64:
    """datetime64 of any unit as seconds; numpy itself would give nanoseconds, days or objects, as the unit is."""
    since: Float64 = (moments - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    return since


def window_keys(at: AnyArray, n: int, every: float, rows: int) -> tuple[Array, Array]:
    """The window of each row, and whether its time can be used; without times rows are counted on from `rows`.

    >>> window_keys([0.0, 59.9, 60.0], 3, 60.0, 0)[0]
    array([0, 0, 1])
    """
    if at is None:
        times = np.arange(rows, rows + n, dtype=np.float64)
    else:
        found = times_of(at)
        if found.dtype.kind not in "fiu" or found.size not in (1, n):
            raise InputError(
                f"at must be one time, or one for each of {n} rows; it has shape {np.shape(at)}. Give seconds, dates or row numbers."
            )
        times = np.broadcast_to(found.reshape(-1).astype(np.float64), (n,))
    with np.errstate(all="ignore"):
        keys = np.floor(times / every)
    timely = np.abs(keys) < _FARTHEST  # false for NaN, too
    return np.where(timely, keys, 0).astype(np.int64), timely


def front(sums: Mapping[int, Array]) -> int | None:
    """The window that time has come to: the newest, but for a few rows whose clock was wrong.

    Fewer than 50 rows that lie more than 1,000 windows after all others prove nothing: one row from the year 2100 would
    otherwise end every window as soon as it begins. They are kept in windows of their own, since nobody can say that
    they are wrong; once there are 50, the stream had a long rest.
    """
    keys = sorted(key for key, values in sums.items() if values[0])
    if not keys:
        return None
    found, beyond = keys[-1], 0
    for earlier, key in reversed(list(pairwise(keys))):
        beyond += int(sums[key][0])
        if beyond >= FEWEST:
            break
        if key - earlier > _FAR:
            found = earlier
    return found
