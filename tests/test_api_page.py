"""Every name of docs/api.md exists, every public name is on it, and mkdocs.yml is YAML whose pages exist."""

import importlib
import re
import sys
from pathlib import Path

import pytest
import yaml

import driftcal

ROOT = Path(__file__).parents[1]
NAMES = re.findall(r"^::: ([\w.]+)", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_page_exists(name):
    module, _, attribute = name.rpartition(".")
    if name == "driftcal.errors":
        importlib.import_module(name)
    else:
        assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", sorted(driftcal._PUBLIC))
def test_a_public_name_is_on_the_page(name):
    (path,) = [
        path for path in NAMES if path.rpartition(".")[2] == name and path != "driftcal.metrics.evaluation.evaluate"
    ]
    module, _, attribute = path.rpartition(".")
    assert getattr(importlib.import_module(module), attribute) is getattr(driftcal, name)


def test_the_table_has_the_first_sentence_of_every_name(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from tools.api_table import PAGE, with_table

    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "run python -m tools.api_table"


def pages(navigation):
    for entry in navigation:
        (target,) = entry.values()
        yield from pages(target) if isinstance(target, list) else [target]


def test_the_site_lists_every_page_once():
    listed = list(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    from_the_root = ["changelog.md", "contributing.md", "security.md"]  # tools/site_pages.py
    assert sorted(listed) == sorted([*(path.name for path in (ROOT / "docs").glob("*.md")), *from_the_root])
