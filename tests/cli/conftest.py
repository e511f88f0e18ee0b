"""A tiny model as importable code and as ONNX, data for it, and `run`, which calls the command line in this process."""

import sys
from dataclasses import dataclass

import pytest
from tiny_model import make_data

from driftcal.cli import main

NET = """
import numpy as np

WEIGHTS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


def make():
    return lambda batch: 2 * (batch.reshape(len(batch), -1) - 0.5) @ WEIGHTS
"""


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys):
    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(int(end.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with cli_net.py, val.npz and test.npz, and the process in it."""
    (tmp_path / "cli_net.py").write_text(NET)
    make_data(tmp_path / "val.npz", 60, 1)
    make_data(tmp_path / "test.npz", 40, 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("cli_net", None)
    return tmp_path


@pytest.fixture
def tuned(folder, run):
    """The same with a calibrator in cal.safetensors."""
    ran = run("tune", "cli_net:make", "val.npz", "--method", "ts", "--n-levels", "3", "-q")
    assert ran.code == 0, ran.err
    return folder
