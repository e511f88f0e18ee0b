"""The training examples run, and print figures that a trained network has."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "training"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lightning_metrics", "trainer_metrics"])
def test_an_example_prints_the_calibration_of_a_trained_network(name, tmp_path):
    ran = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    figures = ast.literal_eval(ran.stdout.strip().splitlines()[-1])
    prefix = "eval_" if "eval_ece" in figures else ""
    assert figures[f"{prefix}accuracy"] > 0.85
    assert 0 < figures[f"{prefix}ece"] < 0.2
