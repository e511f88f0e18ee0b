"""docs/cli.md is what --help prints."""

from pathlib import Path

from driftcal.cli import app
from driftcal.cli.reference_page import reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_what_help_prints(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m driftcal.cli.reference_page > docs/cli.md"


def test_the_page_has_every_command():
    text = PAGE.read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert f"## driftcal {command.callback.__name__}\n" in text
