"""Opening models: what is accepted, what is refused, and what the refusal says."""

from __future__ import annotations

import importlib
import io
import json
import pickle
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from driftcal import errors
from driftcal.errors import ImagesError, InputError, MissingExtra, ModelError, UnknownName
from driftcal.models import SMALLEST_PROBABILITY, Model, Preprocessing, open_model

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
Y = np.arange(40) % 3
W = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def linear(batch):
    return batch @ W


def probabilities(batch):
    e = np.exp(batch @ W)
    return e / e.sum(1, keepdims=True)


# probabilities or logits


def test_softmax_outputs_are_refused_until_said():
    with pytest.raises(ModelError, match=r'look like probabilities.*outputs="probabilities"'):
        open_model(probabilities).logits(X)
    logits = open_model(probabilities, outputs="probabilities").logits(X)
    np.testing.assert_allclose(np.exp(logits).sum(1), 1, atol=1e-6)
    assert np.array_equal(logits.argmax(1), linear(X).argmax(1))
    with pytest.raises(ModelError, match="needs rows in"):
        open_model(linear, outputs="probabilities").logits(X)


def test_a_probability_of_zero_becomes_the_smallest_float():
    hard = open_model(lambda batch: np.eye(3)[np.arange(len(batch)) % 3], outputs="probabilities")
    logits = hard.logits(X)
    assert np.isfinite(logits).all()
    assert logits.min() == np.float32(np.log(SMALLEST_PROBABILITY))


def test_one_column_is_a_binary_model():
    two = open_model(lambda batch: batch[:, 0] * 5).logits(X)
    assert two.shape == (40, 2)
    np.testing.assert_allclose(two[:, 1] - two[:, 0], X[:, 0] * 5, rtol=1e-6)
    sigmoid = open_model(lambda batch: 1 / (1 + np.exp(-batch[:, :1])), outputs="probabilities").logits(X)
    np.testing.assert_allclose(sigmoid[:, 1] - sigmoid[:, 0], X[:, 0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match="single column lies in"):
        open_model(lambda batch: 1 / (1 + np.exp(-batch[:, 0]))).logits(X)


def test_unusable_answers_name_the_row():
    def broken(batch):
        out = linear(batch).copy()
        out[batch[:, 0] == X[30, 0]] = np.nan
        return out

    with pytest.raises(ModelError, match="row 30 holds NaN"):
        open_model(broken, batch_size=8).logits(X)
    masked = open_model(lambda b: np.where(np.arange(3) == 1, -np.inf, linear(b)))
    assert np.isneginf(masked.logits(X)[:, 1]).all(), "-inf is a masked class"
    with pytest.raises(ModelError, match=r"must answer \(n, classes\)"):
        open_model(lambda batch: np.zeros((len(batch), 2, 2))).logits(X)
    with pytest.raises(ModelError, match=r"answered 2. Wrap it"):
        open_model(lambda batch: (linear(batch), linear(batch))).logits(X)
    assert open_model(lambda batch: {"logits": linear(batch), "aux": 1}).logits(X).shape == (40, 3)


def test_a_failing_model_says_what_it_was_given():
    with pytest.raises(ModelError, match=r"failed on a batch of shape \(16, 6\).*ZeroDivisionError.*layout"):
        open_model(lambda batch: 1 / 0).logits(X)

    def hungry(batch):
        if len(batch) > 4:
            raise MemoryError
        return linear(batch)

    with pytest.raises(ModelError, match=r"does not fit into memory.*batch_size=8"):
        open_model(hungry, batch_size=32).logits(X)


# inputs and batches


def test_batches_are_fixed_positions():
    seen = []

    def spy(batch):
        seen.append(len(batch))
        return linear(batch)

    model = open_model(spy, batch_size=16).prepare(X)
    seen.clear()
    logits = model.logits(X)
    assert seen == [16, 16, 8]
    assert np.array_equal(logits, linear(X))
    assert model.logits(X[:0]).shape == (0, 3)


def test_batch_size_is_found_and_the_same_again():
    model = open_model(linear).prepare(X)
    assert model.batch_size == 256
    large = open_model(lambda batch: batch.mean(axis=(1, 2)) @ np.eye(3) - 2)
    size = large.prepare(np.zeros((2, 512, 512, 3), np.float32)).batch_size
    assert 1 <= size <= 256
    assert size & (size - 1) == 0
    with pytest.raises(ModelError, match="prepare"):
        _ = open_model(linear).batch_size
    with pytest.raises(ModelError, match="prepare"):
        _ = open_model(linear).n_classes


def test_wrong_inputs():
    model = open_model(linear)
    with pytest.raises(ImagesError, match="uint8"):
        model.logits(np.zeros((2, 4, 4, 3), np.uint8))
    with pytest.raises(ImagesError, match=r"images \(n, H, W, C\) or features"):
        model.logits(np.zeros((2, 4, 4), np.float32))
    with pytest.raises(ImagesError, match="at least one row"):
        model.logits(X[:0])
    with pytest.raises(InputError, match="batch_size must be a number"):
        open_model(linear, batch_size=0)
    with pytest.raises(InputError, match="threads must be at least 1"):
        open_model(linear, threads=0)
    with pytest.raises(UnknownName, match="kind of outputs"):
        open_model(linear, outputs="probs")  # type: ignore[arg-type]


# fingerprints of callables


def test_callables_are_known_by_name_or_by_their_answers():
    a = open_model(linear).prepare(X)
    b = open_model(lambda batch: batch @ W).prepare(X)
    c = open_model(lambda batch: batch @ (W + 1e-4)).prepare(X)
    assert a.fingerprint == b.fingerprint != c.fingerprint
    assert open_model(linear, name="v1").fingerprint == open_model(lambda b: b * 0, name="v1").fingerprint
    assert open_model(linear, name="v1").fingerprint != open_model(linear, name="v2").fingerprint
    with pytest.raises(ModelError, match="prepare"):
        _ = open_model(linear).fingerprint


# scikit-learn


def test_sklearn_outputs():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC

    names = np.array(["cat", "dog", "eel"])[Y]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, names)
    model = open_model(pipeline)
    np.testing.assert_allclose(model.logits(X), pipeline.decision_function(X), atol=1e-5)
    assert model.classes == ("cat", "dog", "eel")

    binary = LogisticRegression().fit(X, Y == 0)
    np.testing.assert_allclose(open_model(binary).logits(X)[:, 1], binary.decision_function(X), atol=1e-5)

    svm = LinearSVC().fit(X, Y)
    np.testing.assert_allclose(open_model(svm).logits(X), svm.decision_function(X), atol=1e-5)
    with pytest.raises(ModelError, match="gives no probabilities"):
        open_model(svm, outputs="probabilities").logits(X)
    four = np.arange(40) % 4
    with pytest.raises(ModelError, match="neither probabilities nor one score per class"):
        open_model(SVC(decision_function_shape="ovo").fit(X, four)).logits(X)

    forest = RandomForestClassifier(10, random_state=0).fit(X, Y)
    with pytest.raises(ModelError, match=r'exactly 0.*outputs="probabilities"'):
        open_model(forest).logits(X)
    np.testing.assert_allclose(
        np.exp(open_model(forest, outputs="probabilities").logits(X)), forest.predict_proba(X), atol=1e-6
    )
    with pytest.raises(ModelError, match="fitted classifier"):
        open_model(LogisticRegression())


def test_sklearn_fingerprints_follow_the_fit():
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    for kind in (
        LogisticRegression(),
        RandomForestClassifier(3, random_state=0),
        HistGradientBoostingClassifier(max_iter=2, random_state=0),
        KNeighborsClassifier(),
    ):
        prints = [
            open_model(type(kind)(**kind.get_params()).fit(X[:rows], Y[:rows]), outputs="probabilities").fingerprint
            for rows in (40, 40, 30)
        ]
        assert prints[0] == prints[1] != prints[2], type(kind).__name__


# names, files, factories


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


def test_factories(factories, tmp_path):
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


def test_safetensors_weights_fill_a_factory(factories, tmp_path):
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


def test_files_that_are_not_there_or_not_models(tmp_path):
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


def test_onnx_shapes_and_errors(tmp_path):
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
    with pytest.raises(ModelError, match="must have one input; it has 2"):
        open_model(graph(["n", 6], inputs=2))
    with pytest.raises(ModelError, match="one called 'logits'"):
        open_model(graph(["n", 6], outputs=2))
    with pytest.raises(ModelError, match="must take floats"):
        open_model(graph(["n", 6], kind=TensorProto.INT64))
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


# preprocessing


def test_layouts_agree_for_a_convolution():
    import torch

    conv = torch.nn.Conv2d(3, 4, 3)
    images = np.random.default_rng(0).random((5, 9, 7, 3), np.float32)
    kernel = conv.weight.detach().numpy()

    def same(batch):  # NHWC by hand
        windows = np.lib.stride_tricks.sliding_window_view(batch, (3, 3), axis=(1, 2))
        return np.einsum("nhwcij,ocij->no", windows, kernel) / (7 * 5) + conv.bias.detach().numpy()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x):
            return self.conv(x).mean((2, 3))

    steps = {"mean": [103.9, 116.8, 123.7], "scale": 255.0, "channels": "BGR", "std": [50, 60, 70]}
    torch_logits = open_model(Net(), preprocessing={**steps, "layout": "NCHW"}).logits(images)
    np.testing.assert_allclose(torch_logits, open_model(same, preprocessing=steps).logits(images), atol=1e-4)
    expected = same(((images[..., ::-1] * 255 - [103.9, 116.8, 123.7]) / [50, 60, 70]).astype(np.float32))
    np.testing.assert_allclose(torch_logits, expected, atol=1e-4)


def test_resize_keeps_constants_means_and_agrees_with_pillow():
    from PIL import Image

    images = np.random.default_rng(0).random((2, 12, 16, 3), np.float32)
    for size in ((6, 8), (24, 20), (5, 5)):
        ours = Preprocessing(size=size)(images)
        for image, mine in zip(images, ours, strict=True):
            for channel in range(3):
                picture = Image.fromarray(image[..., channel]).resize(size[::-1], Image.Resampling.BILINEAR)
                np.testing.assert_allclose(mine[..., channel], np.asarray(picture), atol=1e-5)
    assert Preprocessing(size=(12, 16))(images) is not None


def test_preprocessing_errors_and_round_trip():
    steps = Preprocessing(mean=(0.1, 0.2, 0.3), std=(1, 2, 3), layout="NCHW", size=(32, 16), channels="BGR", scale=255)
    assert Preprocessing.from_dict(json.loads(json.dumps(steps.to_dict()))) == steps
    with pytest.raises(UnknownName, match="layout 'NWHC'; did you mean"):
        Preprocessing(layout="NWHC")
    with pytest.raises(UnknownName, match="channel order"):
        Preprocessing(channels="RBG")
    with pytest.raises(UnknownName, match="preprocessing step 'means'"):
        Preprocessing.from_dict({"means": [1]})
    with pytest.raises(InputError, match="std and scale not 0"):
        Preprocessing(std=(0.0,))
    with pytest.raises(InputError, match="must be numbers"):
        Preprocessing(mean=("a",))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 1 pixel"):
        Preprocessing(size=(0, 4))
    with pytest.raises(ImagesError, match="mean has 3 values but inputs have 1"):
        Preprocessing(mean=(1, 2, 3))(np.zeros((1, 2, 2, 1), np.float32))
