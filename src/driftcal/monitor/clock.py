"""The times of a stream: numbers, text and dates as seconds, the windows of these times, and the watermark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from driftcal.errors import InputError
from driftcal.monitor.alarm_rule import MIN_SAMPLES
from driftcal.monitor.window_sums import N_SAMPLES
from driftcal.types import AnyArray, Array, Float64

#: Larger window indices are not exact in float64.
_MAX_INDEX = 2.0**53
#: A jump over more windows than this is a long pause or an incorrect clock. With windows of an hour it is six weeks.
_LONG_JUMP = 1000
#: Years or months since 1970 that are certainly no dates.
_MAX_YEARS = 10**9
#: Unit of datetime64 -> its length in seconds, as numerator and denominator.
_SECONDS = {
    "W": (604800.0, 1.0), "D": (86400.0, 1.0), "h": (3600.0, 1.0), "m": (60.0, 1.0), "s": (1.0, 1.0), "ms": (1.0, 1e3),
    "us": (1.0, 1e6), "ns": (1.0, 1e9), "ps": (1.0, 1e12), "fs": (1.0, 1e15), "as": (1.0, 1e18), "generic": (1.0, 1.0),
}  # fmt: skip


def seconds(value: Any) -> float:
    """A time as seconds: a number unchanged; a date or ISO 8601 text since 1970, by default in UTC; otherwise NaN.

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


def as_times(times: AnyArray) -> Array:
    """Dates and objects as an array of seconds; numbers and text unchanged.

    >>> as_times(np.array(["1970-01-02", "NaT"], "datetime64[ns]"))
    array([86400.,    nan])
    """
    array = np.atleast_1d(np.asarray(times))
    if array.dtype.kind == "M":
        return _since_1970(array)
    if array.dtype.kind == "O":
        return np.array([seconds(value) for value in array.reshape(-1)]).reshape(array.shape)
    return array


def _since_1970(moments: Array) -> Float64:
    """datetime64 of any unit as seconds since 1970; NaN for NaT and for years with more than nine digits.

    numpy converts between units with 64-bit integers. Attoseconds and distant years overflow: up to numpy 2.4 silently,
    later with an error.
    """
    unit, count = np.datetime_data(moments.dtype)
    numbers, missing = moments.astype(np.int64), np.isnat(moments)
    if unit in ("Y", "M"):  # their lengths differ
        missing |= np.abs(numbers) > _MAX_YEARS
        moments = np.where(missing, np.zeros((), moments.dtype), moments)
        unit, count, numbers = "D", 1, moments.astype("datetime64[D]").astype(np.int64)
    since: Float64 = np.where(missing, np.nan, numbers * (count * _SECONDS[unit][0]) / _SECONDS[unit][1])
    return since


def window_indices(times: AnyArray, n_samples: int, window_size: float, *, start: int) -> tuple[Array, Array]:
    """The window of each sample, and whether its time can be used.

    Parameters
    ----------
    times : one time, or one per sample; None if samples are counted.
    n_samples : number of samples.
    window_size : seconds, or samples if they are counted.
    start : number of the first sample, if samples are counted.

    >>> window_indices([0.0, 59.9, 60.0], 3, 60.0, start=0)[0]
    array([0, 0, 1])
    """
    if times is None:
        moments = np.arange(start, start + n_samples, dtype=np.float64)
    else:
        array = as_times(times)
        if array.dtype.kind not in "fiu" or array.size not in (1, n_samples):
            raise InputError(
                f"times must be one time, or one for each of {n_samples} samples; it has shape {np.shape(times)}. "
                "Pass seconds, dates or sample numbers."
            )
        moments = np.broadcast_to(array.reshape(-1).astype(np.float64), (n_samples,))
    with np.errstate(all="ignore"):
        indices = np.floor(moments / window_size)
    usable = np.abs(indices) < _MAX_INDEX  # false for NaN, too
    return np.where(usable, indices, 0).astype(np.int64), usable


def watermark(sums: Mapping[int, Array]) -> int | None:
    """The window that the stream has reached: the newest one that is not due to a few samples with an incorrect clock.

    Fewer than 50 samples that are more than 1,000 windows after all others are ignored here. Otherwise one sample from
    the year 2100 would end every window as soon as it begins. Such samples stay in their windows, because their times
    may be correct. Once there are 50 of them, the stream has made a long pause.
    """
    windows = sorted(window for window, window_sums in sums.items() if window_sums[N_SAMPLES])
    if not windows:
        return None
    reached, beyond = windows[-1], 0
    for earlier, window in reversed(list(pairwise(windows))):
        beyond += int(sums[window][N_SAMPLES])
        if beyond >= MIN_SAMPLES:
            break
        if window - earlier > _LONG_JUMP:
            reached = earlier
    return reached
