"""The table of docs/api.md: the names of the page with the first sentence of each. ``python -m tools.api_table`` rewrites it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
#: The page holds the table between these lines.
BEGIN, END = "| name | what it is |\n", "\n## From a model"


def with_table(page: str) -> str:
    """The page with the table of the names that it lists."""
    names = re.findall(r"^::: ([\w.]+)", page, re.MULTILINE)
    rows = "".join(f"| `{public_name(name)}` | {first_sentence(name)} |\n" for name in names)
    start, end = page.index(BEGIN), page.index(END)
    return f"{page[:start]}{BEGIN}|---|---|\n{rows}{page[end:]}"


def public_name(name: str) -> str:
    """The shortest name by which users reach it from `driftcal`.

    >>> public_name("driftcal.pipeline.tuning.tune.tune"), public_name("driftcal.metrics.evaluation.evaluate")
    ('tune', 'metrics.evaluate')
    """
    attribute, package = name.rpartition(".")[2], name.split(".")[1]
    value = _value(name)
    if getattr(importlib.import_module("driftcal"), attribute, None) is value or package == attribute:
        return attribute
    is_there = getattr(importlib.import_module(f"driftcal.{package}"), attribute, None) is value
    return f"{package}.{attribute}" if is_there else attribute


def _value(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute, None) or importlib.import_module(name)


def first_sentence(name: str) -> str:
    """The first sentence of the docstring of a dotted name, as Markdown in a cell.

    >>> first_sentence("driftcal.report.write_report")
    'Write a report as one HTML file that works offline; return its path.'
    """
    text = " ".join((inspect.getdoc(_value(name)) or "").partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])\s+(?=[A-Z])", text)[0].rstrip(":")
    plain = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", sentence).replace("``", "`")
    return plain.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
