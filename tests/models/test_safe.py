"""Opening a model file never runs code from it."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import warnings
import zipfile

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")

from driftcal.errors import ModelError
from driftcal.models import open_model


class Evil:
    """Whatever unpickles this has run code from a file."""

    def __reduce__(self):
        return (sys.modules[__name__].explode, ())


RAN: list[str] = []


def explode():
    RAN.append("code from a file")


def test_pickled_files_are_never_opened(tmp_path):
    import torch

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


def exported(tmp_path):
    import torch

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


def test_exported_programs_cannot_smuggle_code(tmp_path):
    import torch

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


def _poisoned(value, text):
    if isinstance(value, dict):
        return {k: text if k == "expr_str" else _poisoned(v, text) for k, v in value.items()}
    return [_poisoned(item, text) for item in value] if isinstance(value, list) else value
