"""Opening models by file, factory or object: what is accepted, what is refused, and the error messages."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from driftcal import errors
from driftcal.errors import InputError, MissingExtra, ModelError
from driftcal.models import Model, open_model

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def linear(batch):
    return batch @ W


@pytest.fixture
def factories(tmp_path, monkeypatch):
    (tmp_path / "my_models_for_test.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            from driftcal import open_model

            def good():
                return lambda batch: batch[:, :3] - 2

            def ready():
                return open_model(lambda batch: batch[:, :3] - 2, name="ready")

            def net():
                import torch
                return torch.nn.Linear(6, 3)

            class Box:
                make = staticmethod(good)

            number = 3
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_models_for_test"
    sys.modules.pop("my_models_for_test", None)


def test_a_missing_file_of_the_demo_names_the_command_that_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"no model file 'runs/demo/model\.onnx'\. It is written by: make demo\."):
        open_model("runs/demo/model.onnx")


def test_a_factory_gives_a_model(factories, tmp_path):
    model = open_model(f"{factories}:good")
    assert model.logits(X).shape == (40, 3)
    assert model.name == f"{factories}:good"
    assert open_model(f"{factories}:Box.make").logits(X).shape == (40, 3)
    ready = open_model(f"{factories}:ready")
    assert isinstance(ready, Model)
    assert open_model(ready) is ready
    with pytest.raises(ModelError, match="has no 'bad'"):
        open_model(f"{factories}:bad")
    with pytest.raises(ModelError, match="must be a function"):
        open_model(f"{factories}:number")
    with pytest.raises(ModelError, match=r"no module 'nowhere_at_all'.*PYTHONPATH"):
        open_model("nowhere_at_all.deep:net")


def test_safetensors_weights_are_loaded_into_the_module_of_a_factory(factories, tmp_path):
    import torch
    from safetensors.torch import save_file

    net = torch.nn.Linear(6, 3)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    model = open_model(f"{factories}:net", weights=tmp_path / "w.safetensors")
    np.testing.assert_allclose(model.logits(X), net(torch.from_numpy(X)).detach().numpy(), atol=1e-6)
    save_file({"weight": torch.zeros(2, 2)}, tmp_path / "odd.safetensors")
    with pytest.raises(ModelError, match="do not fit the module"):
        open_model(f"{factories}:net", weights=tmp_path / "odd.safetensors")
    with pytest.raises(ModelError, match="no weights file"):
        open_model(f"{factories}:net", weights=tmp_path / "none.safetensors")
    with pytest.raises(ModelError, match=r"must be a \.safetensors file"):
        open_model(f"{factories}:net", weights="w.pth")
    with pytest.raises(InputError, match="weights= goes with"):
        open_model(linear, weights="w.safetensors")
    with pytest.raises(ModelError, match="holds weights only"):
        open_model(tmp_path / "w.safetensors")


def test_missing_files_and_files_that_are_no_models_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"no model file.*Known endings: \.onnx"):
        open_model(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match=r"package.module:function"):
        open_model("some/path:thing")
    (tmp_path / "model.h5").write_bytes(b"x")
    with pytest.raises(ModelError, match="must end in one of"):
        open_model(tmp_path / "model.h5")
    for name in ("net.onnx", "net.keras", "net.pt", "net.pt2"):
        (tmp_path / name).write_bytes(b"garbage")
        with pytest.raises(ModelError):
            open_model(tmp_path / name)
    with pytest.raises(ModelError, match="it is int"):
        open_model(3)


def test_missing_frameworks_name_their_extra(tmp_path, monkeypatch):
    real = importlib.import_module

    def without(name, *args):
        if name.partition(".")[0] in ("torch", "onnxruntime", "keras"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *args)

    monkeypatch.setattr(errors.importlib, "import_module", without)
    for name, extra in (("net.onnx", "onnx"), ("net.pt2", "torch"), ("net.keras", "keras")):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(MissingExtra, match=rf'pip install "driftcal\[{extra}\]"'):
            open_model(tmp_path / name)


def test_weights_without_the_package_safetensors_name_the_extra(tmp_path, monkeypatch):
    from driftcal.models.torch.torch_backend import load_weights

    real = importlib.import_module

    def without(name, *args):
        if name.partition(".")[0] == "safetensors":
            raise ImportError(f"No module named {name!r}")
        return real(name, *args)

    monkeypatch.setattr(errors.importlib, "import_module", without)
    with pytest.raises(MissingExtra, match=r'safetensors.*pip install "driftcal\[torch\]"'):
        load_weights(None, tmp_path / "w.safetensors")


def test_onnx_models_are_opened_by_their_shapes_or_refused(tmp_path):
    from onnx import TensorProto, helper

    def graph(shape, inputs=1, outputs=1, kind=TensorProto.FLOAT):
        names = [f"x{i}" for i in range(inputs)]
        nodes = [helper.make_node("Flatten", ["x0"], ["a"])]
        nodes += [helper.make_node("Identity", ["a"], [f"o{i}"]) for i in range(outputs)]
        return helper.make_model(
            helper.make_graph(
                nodes,
                "g",
                [helper.make_tensor_value_info(n, kind, shape) for n in names],
                [helper.make_tensor_value_info(f"o{i}", kind, None) for i in range(outputs)],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=9,
        )

    assert open_model(graph(["n", 3, 8, 8])).preprocessing.layout == "NCHW"
    assert open_model(graph(["n", 8, 8, 3])).preprocessing.layout == "NHWC"
    assert open_model(graph(["n", 6])).preprocessing.layout == "flat"
    with pytest.raises(
        ModelError, match="must be a dictionary of arrays for this ONNX model, which takes 'x0': float32"
    ):
        open_model(graph(["n", 6], inputs=2)).logits(X)
    with pytest.raises(ModelError, match="one called 'logits'"):
        open_model(graph(["n", 6], outputs=2))
    with pytest.raises(ModelError, match="must be a dictionary of arrays"):
        open_model(graph(["n", 6], kind=TensorProto.INT64)).logits(X)
    with pytest.raises(ModelError, match="must take numbers"):
        open_model(graph(["n", 6], kind=TensorProto.STRING))
    with pytest.raises(InputError, match="batch_size must be 4"):
        open_model(graph([4, 6]), batch_size=8)
    with pytest.raises(ModelError, match="device must be"):
        open_model(graph(["n", 6]), device="tpu")
    model = open_model(graph(["n", 6]))
    np.testing.assert_allclose(model.logits(X), X)
    assert model.fingerprint == open_model(graph(["n", 6])).fingerprint


def test_onnx_weight_files_are_part_of_the_fingerprint(tmp_path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(folder, weights):
        folder.mkdir()
        model = helper.make_model(
            helper.make_graph(
                [helper.make_node("MatMul", ["x", "w"], ["y"])],
                "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 300])],
                [numpy_helper.from_array(weights, "w")],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=9,
        )
        onnx.save_model(model, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
        return open_model(folder / "m.onnx")

    one = save(tmp_path / "a", np.ones((6, 300), np.float32))
    same = save(tmp_path / "b", np.ones((6, 300), np.float32))
    other = save(tmp_path / "c", np.full((6, 300), 2, np.float32))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert one.features(X, ["y"])["y"].shape == (40, 300)


def test_opening_a_callable_imports_no_framework():
    code = (
        "import sys, numpy as np, driftcal\n"
        "source = driftcal.open_source((np.zeros((4, 6)), np.arange(4) % 2))\n"
        "driftcal.open_model(lambda batch: batch[:, :2] - 1).logits(source.inputs())\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"torch", "onnx", "onnxruntime", "keras", "sklearn", "PIL", "numba", "matplotlib"}


def test_an_onnx_model_may_give_labels_beside_its_scores(tmp_path):
    from onnx import TensorProto, helper, numpy_helper, save

    def graph(*outputs):
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["z"]),
            helper.make_node("Softmax", ["z"], ["probabilities"], axis=1),
            helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
        ]
        kinds = {
            "label": (TensorProto.INT64, ["n"]),
            "probabilities": (TensorProto.FLOAT, ["n", 3]),
            "z": (TensorProto.FLOAT, ["n", 3]),
        }
        made = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
            [helper.make_tensor_value_info(name, *kinds[name]) for name in outputs],
            [numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")],
        )  # fmt: skip
        save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
        return str(tmp_path / "net.onnx")

    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    logits = open_model(graph("label", "probabilities"), outputs="probabilities").logits(x)
    np.testing.assert_allclose(logits, x - np.log(np.exp(x).sum(axis=1, keepdims=True)), atol=1e-6)
    with pytest.raises(ModelError, match=r"one output of scores.*'z', 'probabilities'.*zipmap"):
        open_model(graph("z", "probabilities"))
