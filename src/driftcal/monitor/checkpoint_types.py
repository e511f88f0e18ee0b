"""Types of what a monitor file holds: its author can compute the digest, so the digest proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftcal.monitor.window_sums import are_possible
from driftcal.types import Array


def check_state(metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raise ValueError for values of a type that a monitor does not write."""
    for name in ("windows", "sums", "pending"):
        if arrays[name].dtype != np.int64:
            raise ValueError(f"{name} must hold whole numbers of 64 bits")
    if arrays["sums"].ndim != 2 or not are_possible(arrays["sums"]):
        raise ValueError("sums must be those of windows; some of them contradict each other")
    if len(arrays["windows"]) < 1 or len(set(arrays["windows"][1:].tolist())) != len(arrays["windows"]) - 1:
        raise ValueError("windows must hold different numbers")
    first_window, timed, rejected, ids = (metadata.get(key) for key in ("first_window", "timed", "rejected", "ids"))
    if not (first_window is None or type(first_window) is int):
        raise ValueError("first_window must be a whole number")
    if not (timed is None or isinstance(timed, bool)):
        raise ValueError("timed must be true or false")
    if not isinstance(rejected, dict) or any(type(count) is not int or count < 0 for count in rejected.values()):
        raise ValueError("rejected must hold counts")
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids) or len(set(ids)) != len(ids):
        raise ValueError("ids must be different texts")
