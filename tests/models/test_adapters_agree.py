"""One tiny network with the same weights gives the same logits through every adapter."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")

from driftcal.errors import InputError, ModelError, UnknownName
from driftcal.models import Model, Preprocessing, open_model

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
NCHW = Preprocessing(mean=MEAN, std=STD, layout="NCHW")
NHWC = Preprocessing(mean=MEAN, std=STD, layout="NHWC")
FLAT = Preprocessing(mean=MEAN, std=STD, layout="flat")

rng = np.random.default_rng(3)
# A dense net on the flattened image in (height, width, channel) order, so that scikit-learn can run it too.
W1, B1 = rng.normal(0, 0.2, (6 * 6 * 3, 16)).astype(np.float32), rng.normal(0, 0.2, 16).astype(np.float32)
W2, B2 = rng.normal(0, 0.7, (16, 5)).astype(np.float32), rng.normal(0, 0.2, 5).astype(np.float32)
IMAGES = rng.random((23, 6, 6, 3), np.float32)


def by_hand(images):
    x = ((images.astype(np.float64) - MEAN) / STD).reshape(len(images), -1)
    return np.maximum(x @ W1 + B1, 0) @ W2 + B2


def torch_net():
    import torch

    class Tiny(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = torch.nn.Linear(108, 16)
            self.drop = torch.nn.Dropout(0.5)
            self.head = torch.nn.Linear(16, 5)

        def forward(self, x):
            x = x.permute(0, 2, 3, 1).flatten(1)
            return self.head(self.drop(torch.relu(self.hidden(x))))

    net = Tiny()
    with torch.no_grad():
        for layer, weight, bias in ((net.hidden, W1, B1), (net.head, W2, B2)):
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
    return net


def onnx_net(batch="n"):
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Transpose", ["x"], ["nhwc"], perm=[0, 2, 3, 1]),
        helper.make_node("Flatten", ["nhwc"], ["flat"], axis=1),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 6, 6])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(a, n) for a, n in ((W1, "w1"), (B1, "b1"), (W2, "w2"), (B2, "b2"))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def keras_net():
    import keras

    net = keras.Sequential(
        [
            keras.Input((6, 6, 3)),
            keras.layers.Flatten(name="flat"),
            keras.layers.Dense(16, name="hidden"),
            keras.layers.ReLU(name="active"),
            keras.layers.Dense(5, name="head"),
        ]
    )
    net.set_weights([W1, B1, W2, B2])
    return net


def sklearn_net():
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one step of training only makes the shapes
        net = MLPClassifier((16,), max_iter=1, random_state=0).fit(IMAGES.reshape(23, -1), np.arange(23) % 5)
    net.coefs_, net.intercepts_ = [W1, W2], [B1, B2]
    return make_pipeline(FunctionTransformer(), net)


def make(kind, tmp_path) -> Model:
    if kind == "torch":
        return open_model(torch_net(), preprocessing=NCHW, batch_size=8)
    if kind == "torchscript":
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.jit.trace(torch_net().eval(), torch.rand(2, 3, 6, 6)).save(str(tmp_path / "net.pt"))
        return open_model(tmp_path / "net.pt", preprocessing=NCHW, batch_size=8, trust=True)
    if kind in ("export", "export-fixed"):
        import torch

        free = ({0: torch.export.Dim("n", min=1, max=4096)},) if kind == "export" else None
        program = torch.export.export(torch_net().eval(), (torch.rand(4, 3, 6, 6),), dynamic_shapes=free)
        torch.export.save(program, tmp_path / "net.pt2")
        return open_model(str(tmp_path / "net.pt2"), preprocessing=NCHW)
    if kind in ("onnx", "onnx-fixed"):
        path = tmp_path / "net.onnx"
        path.write_bytes(onnx_net("n" if kind == "onnx" else 4).SerializeToString())
        return open_model(str(path), preprocessing=NCHW)
    if kind == "keras":
        return open_model(keras_net(), preprocessing=NHWC, batch_size=8)
    if kind == "keras-file":
        with warnings.catch_warnings():
            # Keras 3.15 saves its variables through an __array__ without numpy 2's copy keyword.
            warnings.filterwarnings("ignore", message="__array__ implementation", category=DeprecationWarning)
            keras_net().save(tmp_path / "net.keras")
        return open_model(str(tmp_path / "net.keras"), preprocessing=NHWC, batch_size=8)
    if kind == "sklearn":
        return open_model(sklearn_net(), preprocessing=FLAT, batch_size=8)
    if kind == "callable":
        return open_model(lambda x: np.maximum(x @ W1 + B1, 0) @ W2 + B2, preprocessing=FLAT, batch_size=8)
    raise AssertionError(kind)


KINDS = [
    "torch",
    "torchscript",
    "export",
    "export-fixed",
    "onnx",
    "onnx-fixed",
    "keras",
    "keras-file",
    "sklearn",
    "callable",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_adapter_gives_the_same_logits(kind, tmp_path):
    model = make(kind, tmp_path)
    logits = model.logits(IMAGES)
    assert logits.dtype == np.float32
    assert logits.shape == (23, 5)
    assert model.n_classes == 5
    expected = by_hand(IMAGES)
    if kind == "sklearn":  # it gives log-probabilities: the same up to one constant per sample
        expected = expected - np.log(np.exp(expected).sum(1, keepdims=True))
    np.testing.assert_allclose(logits, expected, atol=1e-5, rtol=1e-5)
    assert np.array_equal(model.logits(IMAGES), logits)
    assert model.metadata()["preprocessing"] == model.preprocessing.to_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_is_stable_and_includes_the_preprocessing(kind, tmp_path):
    model = make(kind, tmp_path).prepare(IMAGES)
    again = make(kind, tmp_path).prepare(IMAGES)
    assert model.fingerprint == model.fingerprint
    if "export" not in kind and kind != "torchscript" and "file" not in kind:  # those write a new archive each time
        assert again.fingerprint == model.fingerprint
    again.preprocessing = Preprocessing(mean=MEAN, layout=model.preprocessing.layout)
    assert again.fingerprint != model.fingerprint


def test_features_agree_between_torch_onnx_and_keras(tmp_path):
    expected = ((IMAGES.astype(np.float64) - MEAN) / STD).reshape(23, -1) @ W1 + B1
    for kind in ("torch", "onnx", "keras"):
        model = make(kind, tmp_path)
        assert "hidden" in model.layers
        features = model.features(IMAGES, ["hidden"])
        assert features["hidden"].shape == (23, 16)
        np.testing.assert_allclose(features["hidden"], expected, atol=1e-5, rtol=1e-5)
    torch_model = make("torch", tmp_path)
    with pytest.raises(UnknownName, match="layer 'hiden'; did you mean 'hidden'"):
        torch_model.features(IMAGES, ["hiden"])
    for kind in ("torchscript", "export", "sklearn", "callable"):
        with pytest.raises(ModelError, match="no intermediate layers"):
            make(kind, tmp_path).features(IMAGES, ["hidden"])


def test_fixed_batches_are_padded_and_cut(tmp_path):
    model = make("onnx-fixed", tmp_path)
    assert model.batch_size == 4
    assert model.logits(IMAGES[:1]).shape == (1, 5)
    assert make("export-fixed", tmp_path).batch_size == 4


def test_exported_programs_may_limit_their_batch(tmp_path):
    import torch

    free = ({0: torch.export.Dim("n", min=2, max=10)},)
    torch.export.save(
        torch.export.export(torch_net().eval(), (torch.rand(4, 3, 6, 6),), dynamic_shapes=free), tmp_path / "net.pt2"
    )
    model = open_model(tmp_path / "net.pt2", preprocessing=NCHW)
    np.testing.assert_allclose(model.logits(IMAGES), by_hand(IMAGES), atol=1e-5, rtol=1e-5)
    assert model.batch_size == 10
    with pytest.raises(InputError, match="at most 10"):
        open_model(tmp_path / "net.pt2", batch_size=11)


def test_logits_do_not_depend_on_the_batch(tmp_path):
    for kind in ("torch", "onnx", "keras", "sklearn", "callable"):
        model = make(kind, tmp_path)
        np.testing.assert_allclose(model.logits(IMAGES)[9:12], model.logits(IMAGES[9:12]), atol=1e-5)


def test_the_fingerprint_depends_on_the_weights():
    import torch

    net = torch_net()
    model = open_model(net, preprocessing=NCHW)
    before = model.fingerprint
    with torch.no_grad():
        net.head.bias[0] += 1e-3
    assert model.fingerprint != before, "the fingerprint changes when training continues"


def test_a_module_in_training_mode_runs_in_evaluation_mode():
    net = torch_net().train()
    model = open_model(net, preprocessing=NCHW)
    np.testing.assert_allclose(model.logits(IMAGES), by_hand(IMAGES), atol=1e-5, rtol=1e-5)


def test_half_precision_modules_get_half_precision_inputs():
    import torch

    logits = open_model(torch_net().to(torch.bfloat16), preprocessing=NCHW).logits(IMAGES)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, by_hand(IMAGES), atol=0.5)


def test_the_number_of_threads_is_restored():
    import torch

    before = torch.get_num_threads()
    open_model(torch_net(), preprocessing=NCHW, threads=1).logits(IMAGES)
    assert torch.get_num_threads() == before
