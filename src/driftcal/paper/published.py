"""The paper's own figures, from ``published.json`` beside this file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _document() -> dict[str, Any]:
    text = (files("driftcal.paper") / "published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def published(table: str, data: str, network: str) -> Mapping[str, float]:
    """What the paper printed for a network in a table, by calibrator; {} where it printed nothing.

    >>> published("table1", "cifar10", "vgg19")["irm-p"]
    0.044
    >>> published("table1", "cifar10", "resnet20")
    {}
    """
    values: Mapping[str, float] = _document()["tables"].get(table, {}).get("values", {}).get(f"{data}/{network}", {})
    return values


def where(table: str) -> str:
    """Where in the paper a table stands.

    >>> where("table1")
    'Table 1'
    """
    return str(_document()["tables"][table]["where"])


def published_accuracy(data: str) -> Mapping[str, tuple[float, float]]:
    """Accuracy in domain and at the strongest level of each shift, where the paper printed it."""
    found = _document()["tables"]["accuracy"]["values"].get(data, {})
    return {shift: (float(clean), float(worst)) for shift, (clean, worst) in found.items()}


def source() -> str:
    """The paper."""
    return str(_document()["source"])
