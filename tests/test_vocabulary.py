"""Coined words of the first version stay out of the code and the pages. The field's words are in docs/architecture.md and the API.

Ordinary English words that were used in a sense of their own are a matter of reading, not of this list.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Coined word -> the word to use.
COINED = {
    "ladder": "perturbation levels",
    "rung": "level",
    "climb": "find levels",
    "contender": "candidate",
    "rival": "baseline",
    "entrant": "candidate",
    "twin": "clean-tuned baseline",
    "foretold": "predicted",
    "foretell": "predict",
    "honest": "calibrated",
    "honesty": "calibration",
    "ruler": "scale",
    "reckon": "estimate",
    "the model as it is": "the uncalibrated model",
    "looks inside": "reads layer features",
    "too sure": "over-confident",
    "second look": "augmented view",
    "static map": "per-sample form",
}
#: Files that name what version 0.1 wrote.
LEGACY = {
    "src/driftcal/calibrators/version_1.py",
    "src/driftcal/drift/estimators.py",
    "src/driftcal/pipeline/evaluating/results.py",
}
FILES = sorted(
    path.relative_to(ROOT)
    for path in [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs").rglob("*.csv"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
    ]
    if path.relative_to(ROOT).as_posix() not in LEGACY
)
PATTERN = re.compile(rf"\b({'|'.join(map(re.escape, COINED))})(s|es|ed|ing)?\b", re.IGNORECASE)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_coined_words(path):
    found = [
        f"{path}:{number}: {match[0]!r}, say {COINED[match[1].lower()]!r}"
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1)
        for match in PATTERN.finditer(line)
    ]
    assert found == []


@pytest.mark.parametrize("text", ["the noise ladder", "three rungs", "An honest model", "it is too sure"])
def test_the_pattern_finds_them(text):
    assert PATTERN.search(text)


@pytest.mark.parametrize("text", ["entwined", "rivalry", "a temperature per sample"])
def test_the_pattern_leaves_other_words(text):
    assert not PATTERN.search(text)
