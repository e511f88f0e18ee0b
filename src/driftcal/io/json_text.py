"""Parsing JSON of files that may be damaged or hostile."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for any text that is not JSON.

    Python accepts more than JSON: NaN, infinity, numbers that overflow to infinity and keys that occur twice. These are
    refused, and so are nested lists that are too deep for the parser.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key occurs twice")
    return values
