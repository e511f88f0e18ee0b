"""Every limit has a variable that raises it, and the documentation lists it."""

from pathlib import Path

import pytest

from driftcal.errors import InputError
from driftcal.io.limits import LIMITS


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.variable)
def test_a_variable_replaces_the_limit(monkeypatch, limit):
    assert limit.value() == limit.default
    monkeypatch.setenv(limit.variable, "12345678901234567890")
    assert limit.value() == 12345678901234567890
    assert limit.variable in limit.way_out()
    for wrong in ("0", "-1", "1e9", "many"):
        monkeypatch.setenv(limit.variable, wrong)
        with pytest.raises(InputError, match=rf"{limit.variable} must be a whole number.*Unset it"):
            limit.value()


def test_the_documentation_lists_every_limit():
    page = (Path(__file__).parents[2] / "docs" / "bring-your-own.md").read_text(encoding="utf-8")
    for limit in LIMITS:
        assert f"| `{limit.variable}` | {limit.default:,} {limit.unit} | {limit.covers} |" in page
