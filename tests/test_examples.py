"""The examples run as they are printed, each in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
LINE = re.compile(r"^(\S+) +ECE in domain (0\.\d+), under shift (0\.\d+)$", re.MULTILINE)


def test_there_is_an_example_for_each_framework():
    assert [path.stem for path in EXAMPLES] == ["keras_model", "onnx_model", "sklearn_model", "torch_model"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_better_than_ts_under_shift(path, tmp_path):
    ran = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    shift_ece = {name: float(ece) for name, _, ece in LINE.findall(ran.stdout)}
    *_, last = shift_ece  # the windowed form, or the method tuned on perturbed samples
    assert last not in ("base", "ts")
    assert shift_ece[last] < 0.8 * shift_ece["ts"], ran.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    code = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith(('"""', "#"))]
    assert len(code) <= 18
