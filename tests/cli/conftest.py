"""A tiny model as importable code and as ONNX, data for it, and `run`, which calls the command line in this process."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

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
    def call(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ran(int(end.value.code or 0), captured.out, captured.err)

    return call


def make_data(path, n, seed, **more):
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    x = rng.random((n, 8, 8, 1), np.float32)
    y = ((x.reshape(n, -1) - 0.5) @ weights).argmax(axis=1)
    wrong = rng.random(n) < 0.2
    y[wrong] = (y[wrong] + 1) % 4
    np.savez(path, x=x, y=y, **{"class_names": ["a", "b", "c", "d"], **more})


def make_onnx(path, weights):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "w"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with cli_net.py, val.npz and test.npz, and the process in it."""
    (tmp_path / "cli_net.py").write_text(NET)
    make_data(tmp_path / "val.npz", 60, 1)
    make_data(tmp_path / "test.npz", 40, 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("cli_net", None)
    return tmp_path


@pytest.fixture
def tuned(here, run):
    """The same with a calibrator in cal.safetensors."""
    ran = run("tune", "cli_net:make", "val.npz", "--method", "ts", "--levels", "3", "-q")
    assert ran.code == 0, ran.err
    return here
