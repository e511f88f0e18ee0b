"""Opening a model file never runs code from it, reads no other file and does not fill the memory."""

import importlib
import io
import json
import os
import pickle
import re
import struct
import sys
import tomllib
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

os.environ.setdefault("KERAS_BACKEND", "torch")

from driftcal.errors import SAFE_VERSIONS, MissingExtra, ModelError
from driftcal.models import open_model


class Evil:
    """Whatever unpickles this has run code from a file."""

    def __reduce__(self):
        return (sys.modules[__name__].explode, ())


RAN: list[str] = []


def explode():
    RAN.append("code from a file")


def test_pickled_files_are_never_opened(tmp_path):
    for name in ("model.pkl", "model.joblib", "model.pickle"):
        (tmp_path / name).write_bytes(pickle.dumps(Evil()))
        with pytest.raises(ModelError, match="could run code"):
            open_model(tmp_path / name)
    torch.save({"state_dict": Evil()}, tmp_path / "model.pth")
    with pytest.raises(ModelError, match="pickled checkpoint"):
        open_model(tmp_path / "model.pth")
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ModelError, match=r"neither TorchScript nor torch.export"):
        open_model(tmp_path / "old.pt")
    assert RAN == []


def test_keras_lambdas_are_refused(tmp_path):
    import keras

    net = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x * 2), keras.layers.Dense(3)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__ implementation", category=DeprecationWarning)
        net.save(tmp_path / "net.keras")
    with pytest.raises(ModelError, match=r"safe mode.*package\.module:factory"):
        open_model(tmp_path / "net.keras")
    assert open_model(net).logits(np.ones((2, 4), np.float32)).shape == (2, 3), "in memory it is the user's own code"


@pytest.mark.parametrize(
    ("name", "module", "old"),
    [("net.keras", "keras", "3.7.0"), ("net.pt2", "torch", "2.5.1+cpu"), ("net.onnx", "onnxruntime", "1.20.1")],
)
def test_frameworks_that_would_run_code_are_refused(tmp_path, monkeypatch, name, module, old):
    """An extra declares the lowest version; whoever installs the framework by hand may have an older one."""
    monkeypatch.setattr(importlib.import_module(module), "__version__", old)
    (tmp_path / name).write_bytes(b"not read")
    with pytest.raises(MissingExtra, match=rf"needs {module} [0-9.]+ or newer.*{re.escape(old)} is installed"):
        open_model(tmp_path / name)


def test_the_extras_declare_the_safe_versions():
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = [requirement for listed in declared["optional-dependencies"].values() for requirement in listed]
    for module, lowest in SAFE_VERSIONS.items():
        assert {item for item in extras if item.startswith(f"{module}>")} == {f"{module}>={'.'.join(map(str, lowest))}"}


class Writes(torch.nn.Module):
    """TorchScript runs `__setstate__` while it is loaded; this one writes a file."""

    w: torch.Tensor

    def __init__(self, path):
        super().__init__()
        self.w = torch.randn(4, 3)
        self.path = path

    @torch.jit.export
    def __getstate__(self):
        return (self.w, self.path, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, str, bool]):
        written = torch.from_file(state[1], True, 5, dtype=torch.uint8)
        written.fill_(65)
        self.w = state[0] + 0 * written.sum().float()
        self.path = state[1]
        self.training = state[2]

    def forward(self, x):
        return x @ self.w


def test_torchscript_is_opened_only_when_trusted(tmp_path):
    target = tmp_path / "written"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Writes(str(target))).save(str(tmp_path / "evil.pt"))
    with pytest.raises(ModelError, match=r"can run code and write files while it is loaded.*trust=True"):
        open_model(tmp_path / "evil.pt")
    assert not target.exists()
    open_model(tmp_path / "evil.pt", trust=True)
    assert target.read_bytes() == b"AAAAA", "the file is as hostile as it claims to be"


def test_exported_programs_cannot_write_files(tmp_path):
    """`aten.from_file` maps a file for writing: the first batch would replace its bytes."""
    good = exported(tmp_path)

    def call_from_file(data):
        graph = json.loads(data)
        node = graph["graph_module"]["graph"]["nodes"][0]
        node["target"] = "torch.ops.aten.from_file.default"
        return json.dumps(graph).encode()

    with pytest.raises(ModelError, match=r"calls 'torch\.ops\.aten\.from_file\.default'"):
        open_model(rewritten(good, "models/model.json", call_from_file))


def test_operators_that_use_files_or_random_numbers_are_not_allowed():
    from driftcal.models.torch.operators import OPERATORS, is_allowed

    for name in ("from_file", "save", "set_", "resize_", "as_strided", "empty", "rand", "randn", "bernoulli", "_print"):
        assert f"aten.{name}" not in OPERATORS
        assert not is_allowed(f"torch.ops.aten.{name}.default")
    assert not is_allowed("torch.ops.image.read_file.default")
    assert not is_allowed("torch.os.system")
    assert not is_allowed("torch.ops.aten.relu.default.__globals__")


def exported(tmp_path):
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten())
    program = torch.export.export(
        net.eval(), (torch.rand(2, 1, 4, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
    )
    torch.export.save(program, tmp_path / "good.pt2")
    return tmp_path / "good.pt2"


def rewritten(good, name, change, extra=()):
    """A copy of an archive with one member changed and others added."""
    target = good.with_name("bad.pt2")
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(target, "w") as new:
        root = old.namelist()[0].split("/")[0]
        for item in old.namelist():
            data = old.read(item)
            new.writestr(item, change(data) if item == f"{root}/{name}" else data)
        for member, data in extra:
            new.writestr(f"{root}/{member}", data)
    return target


def test_exported_programs_cannot_run_code(tmp_path):
    good = exported(tmp_path)
    images = np.random.default_rng(0).random((3, 4, 4, 1), np.float32)
    assert open_model(good).logits(images).shape == (3, 12)

    def text(old, new):
        return lambda data: data.replace(old, new, 1)

    call = rewritten(good, "models/model.json", text(b"torch.ops.aten.relu.default", b"torch.os.system"))
    with pytest.raises(ModelError, match=r"calls 'torch\.os\.system'"):
        open_model(call)
    shape = rewritten(
        good,
        "models/model.json",
        lambda data: json.dumps(_poisoned(json.loads(data), "__import__('os').getpid()")).encode(),
    )
    with pytest.raises(ModelError, match="a shape is written as"):
        open_model(shape)
    buffer = io.BytesIO()
    torch.save(Evil(), buffer)
    sample = rewritten(good, "data/sample_inputs/model.pt", lambda data: buffer.getvalue())
    with pytest.raises(ModelError, match="cannot be loaded"):
        open_model(sample)
    opaque = rewritten(good, "", lambda data: data, [("data/constants/opaque_obj_0", pickle.dumps(Evil()))])
    with pytest.raises(ModelError, match="contains 'data/constants/opaque_obj_0'"):
        open_model(opaque)
    compiled = rewritten(good, "", lambda data: data, [("data/aotinductor/model/lib.so", b"\x7fELF")])
    with pytest.raises(ModelError, match="contains"):
        open_model(compiled)
    pickled = rewritten(
        good, "data/weights/model_weights_config.json", text(b'"use_pickle": false', b'"use_pickle": true')
    )
    with pytest.raises(ModelError, match="pickled tensors"):
        open_model(pickled)
    guards = rewritten(
        good,
        "models/model.json",
        lambda data: json.dumps({**json.loads(data), "guards_code": [f"__import__('{__name__}').explode()"]}).encode(),
    )
    open_model(guards).logits(images)  # guards are not evaluated
    trace = rewritten(
        good,
        "models/model.json",
        text(b'"stack_trace": "', f'"stack_trace": "\\nimport {__name__};{__name__}.explode()\\n'.encode()),
    )
    open_model(trace).logits(images)
    good.with_name("cut.pt2").write_bytes(good.read_bytes()[:-500])
    with pytest.raises(ModelError):
        open_model(good.with_name("cut.pt2"))
    assert RAN == []


def test_exported_programs_hold_each_member_once(tmp_path):
    """Of two members of one name, torch may read another one than was checked."""
    good = exported(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns about the second name
        twice = rewritten(good, "", lambda data: data, [("models/model.json", b"{}")])
    with pytest.raises(ModelError, match=r"contains 'models/model\.json' twice"):
        open_model(twice)


def directory_of(content):
    """(position, size) of the directory of a zip archive, and the archive without its end."""
    end = content.rindex(b"PK\x05\x06")
    size, position = struct.unpack("<II", content[end + 12 : end + 20])
    return position, size, content[: position + size]


def plain_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path.read_bytes()


def test_exported_programs_hold_one_directory(tmp_path):
    """Python would find and check the second archive in this file, while torch would load the first one."""
    good = exported(tmp_path)
    with zipfile.ZipFile(good) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(members)).split("/")[0]
    hostile = {
        **members,
        f"{root}/models/model.json": members[f"{root}/models/model.json"].replace(
            b"aten.relu.default", b"aten.sign.default"
        ),
    }
    first, second = plain_zip(tmp_path / "1.zip", hostile), plain_zip(tmp_path / "2.zip", members)
    position_1, size, body_1 = directory_of(first)
    position_2, size_2, body_2 = directory_of(second)
    assert (size, position_1) == (size_2, position_2), "the archives differ in four letters only"
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(members), len(members), size, position_1, 0)
    both = tmp_path / "both.pt2"
    both.write_bytes(body_1 + body_2 + end)
    with zipfile.ZipFile(both) as archive:
        assert archive.read(f"{root}/models/model.json") == members[f"{root}/models/model.json"], "what is checked"
    assert b"aten.sign" in str(torch.export.load(both).graph).encode(), "what torch would load"
    with pytest.raises(ModelError, match="must be one plain zip archive"):
        open_model(both)
    (tmp_path / "plain.pt2").write_bytes(second)
    assert open_model(tmp_path / "plain.pt2").logits(np.zeros((2, 4, 4, 1), np.float32)).shape == (2, 12)


# archives that unpack to more than their size


def compressed(path, target, padding=0):
    """A copy of an archive that is compressed as much as possible; `padding` zeros are added to its weights."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + (bytes(padding) if name.endswith((".h5", ".json")) else b""))
    return target


@pytest.fixture
def keras_file(tmp_path):
    import keras

    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="__array__ implementation", category=DeprecationWarning)
        net.save(tmp_path / "net.keras")
    return tmp_path / "net.keras"


def test_archives_that_unpack_to_far_more_than_their_size_are_refused(tmp_path, keras_file, monkeypatch):
    monkeypatch.setenv("DRIFTCAL_MAX_MODEL_BYTES", str(1 << 20))
    assert open_model(compressed(keras_file, tmp_path / "small.keras")).logits(np.ones((2, 4))).shape == (2, 3)
    bomb = compressed(keras_file, tmp_path / "bomb.keras", padding=1 << 24)
    assert bomb.stat().st_size < 1 << 18
    with pytest.raises(ModelError, match="must unpack to at most 1 MB"):
        open_model(bomb)
    with pytest.raises(ModelError, match="must unpack to at most 1 MB"):
        open_model(compressed(exported(tmp_path), tmp_path / "bomb.pt2", padding=1 << 24))


def test_weights_that_hdf5_stores_in_no_bytes_are_refused(tmp_path, keras_file):
    import h5py

    content = io.BytesIO()
    with zipfile.ZipFile(keras_file) as archive:
        content.write(archive.read("model.weights.h5"))
        members = {name: archive.read(name) for name in archive.namelist()}
    with h5py.File(content, "a") as weights:
        weights.create_dataset("layers/dense/vars/2", (1 << 16, 1 << 16), "f4")  # 17 GB that were never written
    members["model.weights.h5"] = content.getvalue()
    with zipfile.ZipFile(tmp_path / "sparse.keras", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ModelError, match="it declares 17,180 MB"):
        open_model(tmp_path / "sparse.keras")


# ONNX weights in files of their own


def onnx_model(location, *, external):
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    entry = weights.external_data.add()
    entry.key, entry.value = "location", location
    if external:
        weights.data_location = TensorProto.EXTERNAL
        weights.ClearField("raw_data")
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [weights],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )


@pytest.mark.parametrize("location", ["/dev/zero", "missing.bin", "/etc/passwd", "fifo"])
def test_locations_that_no_tensor_uses_are_not_read(tmp_path, location):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "net.onnx").write_bytes(onnx_model(location, external=False).SerializeToString())
    model = open_model(tmp_path / "net.onnx")
    assert len(model.fingerprint) == 64


@pytest.mark.parametrize("location", ["../secret.bin", "missing.bin", "fifo", "link.bin", "", "sub", "/etc/passwd"])
def test_weights_outside_the_folder_are_refused(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(np.ones((4, 3), np.float32).tobytes())
    os.mkfifo(folder / "fifo")
    (folder / "sub").mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    path = folder / "net.onnx"
    path.write_bytes(onnx_model("unused", external=False).SerializeToString())
    model = open_model(path)
    path.write_bytes(onnx_model(location, external=True).SerializeToString())
    with pytest.raises(ModelError, match="must be regular files in its folder"):
        _ = model.fingerprint
    with pytest.raises(ModelError, match="must be regular files in its folder"):
        open_model(path)  # whatever the version of onnxruntime does


def test_an_absolute_path_into_the_folder_is_refused(tmp_path):
    """Such a model would read other files elsewhere."""
    (tmp_path / "w.bin").write_bytes(np.ones((4, 3), np.float32).tobytes())
    (tmp_path / "net.onnx").write_bytes(onnx_model(str(tmp_path / "w.bin"), external=True).SerializeToString())
    with pytest.raises(ModelError, match="must be regular files in its folder"):
        open_model(tmp_path / "net.onnx")
    (tmp_path / "net.onnx").write_bytes(onnx_model("w.bin", external=True).SerializeToString())
    np.testing.assert_array_equal(
        open_model(tmp_path / "net.onnx").logits(np.ones((2, 4), np.float32)), np.full((2, 3), 4)
    )


@pytest.mark.parametrize("place", ["initializer", "function", "sparse"])
def test_weights_are_found_wherever_they_are(tmp_path, place):
    from onnx import helper

    outside = onnx_model("../secret.bin", external=True)
    tensor = outside.graph.initializer[0]
    model = onnx_model("unused", external=False)
    if place == "initializer":
        model.graph.initializer[0].CopyFrom(tensor)
    elif place == "function":
        constant = helper.make_node("Constant", [], ["w"], value=tensor)
        model.functions.append(
            helper.make_function("f", "F", [], ["w"], [constant], opset_imports=[helper.make_opsetid("", 17)])
        )
    else:
        model.graph.sparse_initializer.add().values.CopyFrom(tensor)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"regular files in its folder; '\.\./secret\.bin'"):
        open_model(path)
    with pytest.raises(ModelError, match=r"must hold its weights; this one refers to '\.\./secret\.bin'"):
        open_model(model)


def test_damaged_onnx_files_are_our_error(tmp_path):
    content = onnx_model("unused", external=False).SerializeToString()
    for cut in range(0, len(content), 7):
        (tmp_path / "net.onnx").write_bytes(content[:cut] + b"\xff" + content[cut + 1 :])
        try:
            open_model(tmp_path / "net.onnx")
        except ModelError:
            continue


def test_weights_of_inner_graphs_are_part_of_the_fingerprint(tmp_path):
    from onnx import TensorProto, helper

    def save(folder, value):
        folder.mkdir()
        inner = helper.make_tensor("w", TensorProto.FLOAT, (1,), [0.0])
        inner.ClearField("float_data")
        inner.data_location = TensorProto.EXTERNAL
        entry = inner.external_data.add()
        entry.key, entry.value = "location", "inner.bin"
        (folder / "inner.bin").write_bytes(np.float32(value).tobytes())
        branch = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])], "b", [],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [inner],
        )  # fmt: skip
        graph = helper.make_graph(
            [
                helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("c", TensorProto.BOOL, (), [True])),
                helper.make_node("If", ["yes"], ["logits"], then_branch=branch, else_branch=branch),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 3])],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (folder / "net.onnx").write_bytes(made.SerializeToString())
        return open_model(folder / "net.onnx")

    fingerprints = {save(tmp_path / str(value), value).fingerprint for value in (1, 2)}
    assert len(fingerprints) == 2


# hashing


def test_a_file_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    from driftcal.models import file_digest

    path = exported(tmp_path)
    model, hashed = open_model(path), []
    real = file_digest.sha256_file
    monkeypatch.setattr(file_digest, "sha256_file", lambda file: hashed.append(file) or real(file))
    first = model.fingerprint
    assert [model.fingerprint, open_model(path).fingerprint] == [first, first]
    assert hashed == [path]
    path.write_bytes(path.read_bytes() + b"\0")
    assert model.fingerprint != first


def _poisoned(value, text):
    if isinstance(value, dict):
        return {k: text if k == "expr_str" else _poisoned(v, text) for k, v in value.items()}
    return [_poisoned(item, text) for item in value] if isinstance(value, list) else value
