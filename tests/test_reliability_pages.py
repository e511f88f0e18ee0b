"""Every test that the pages about reliability name exists, and every defect has one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("docs/reliability.md", "benchmarks/reliability/defects.md", "SECURITY.md")
DEFECTS = [f"C{i}" for i in (1, 2)] + [
    f"{kind}{i + 1}" for kind, n in (("H", 7), ("M", 10), ("L", 11)) for i in range(n)
]


def named_tests(text):
    """(file, test or None) for each `tests/x.py`, `tests/x.py::test_y` and later `test_z` of the same line."""
    for line in text.splitlines():
        path = None
        for match in re.findall(r"`((?:tests/[\w/]+\.py)?(?:::)?(?:test_\w+)?)`", line):
            file, _, test = match.rpartition("::") if "::" in match else (match, "", "")
            if not file.startswith("tests/"):
                file, test = "", match
            path = file or path
            if path:
                yield path, test or None


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_exist(page):
    named = list(named_tests((ROOT / page).read_text(encoding="utf-8")))
    assert len(named) > 3
    for file, test in named:
        assert (ROOT / file).is_file(), file
        if test:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {test}"


def test_every_defect_has_a_line():
    rows = (ROOT / "benchmarks/reliability/defects.md").read_text(encoding="utf-8").splitlines()
    listed = [match[1] for row in rows if (match := re.match(r"\| ([CHML]\d+) \|", row))]
    assert listed == DEFECTS
