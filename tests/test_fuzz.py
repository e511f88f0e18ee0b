"""A short run of the fuzzer on every reader; `make fuzz SECONDS=300` is the long one."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = (
    "calibrator", "cache", "results", "monitor", "npz", "pt2", "onnx", "lines", "requests", "journal", "images", "tables",
    "windows", "models",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")  # values that no writer writes may overflow
def test_mutated_files_are_read_or_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from tools.fuzz.__main__ import fuzz
    from tools.fuzz.targets import NAMES as ALL

    assert set(NAMES) == set(ALL)
    outcomes = fuzz(name, 60, 0, tmp_path, count=60)
    assert outcomes.total() == 60
    assert outcomes["foreign"] == 0
