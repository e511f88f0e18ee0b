"""The numbers that the paper prints, from ``published.json`` in this folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _document() -> dict[str, Any]:
    text = (files("driftcal.paper") / "published.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def published(table: str, data: str, network: str) -> Mapping[str, float]:
    """The paper's numbers for a network in a table, by calibrator; {} if it prints none.

    >>> published("table1", "cifar10", "vgg19")["irm-p"]
    0.044
    >>> published("table1", "cifar10", "resnet20")
    {}
    """
    values: Mapping[str, float] = _document()["tables"].get(table, {}).get("values", {}).get(f"{data}/{network}", {})
    return values


def where(table: str) -> str:
    """The name of a table or section in the paper.

    >>> where("table1")
    'Table 1'
    """
    return str(_document()["tables"][table]["where"])


def published_accuracy(data: str) -> Mapping[str, tuple[float, float]]:
    """Shift -> the paper's accuracy in domain and at the strongest level."""
    by_shift = _document()["tables"]["accuracy"]["values"].get(data, {})
    return {shift: (float(clean), float(strongest)) for shift, (clean, strongest) in by_shift.items()}


def citation() -> str:
    """The reference of the paper."""
    return str(_document()["source"])
