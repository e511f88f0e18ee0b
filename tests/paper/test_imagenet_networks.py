"""keras.applications as driftcal models: the same preprocessing, the right size, logits, and a word when offline."""

import importlib

import numpy as np
import pytest

from driftcal.bench.networks.imagenet import IMAGENET, imagenet_application, open_imagenet
from driftcal.errors import ModelError, UnknownName
from driftcal.models.keras3 import import_keras
from driftcal.models.preprocessing import Preprocessing


@pytest.mark.parametrize("name", IMAGENET)
def test_preprocessing_is_that_of_keras(name):
    import_keras()
    application = imagenet_application(name)
    keras_own = importlib.import_module(f"keras.applications.{application.module}").preprocess_input
    images = np.random.default_rng(0).integers(0, 256, (2, 5, 5, 3)).astype(np.float32)
    ours = Preprocessing.from_dict(application.steps)(images / np.float32(255))
    np.testing.assert_allclose(ours, keras_own(images.copy()), rtol=1e-4, atol=1e-4)


def check_forward(name):
    """Random weights: logits of a thousand classes, that answer to the picture."""
    model = open_imagenet(name, weights="random")
    size = imagenet_application(name).size
    assert tuple(model.preprocessing.size) == (size, size)
    network = model.backend.model
    assert network.input_shape[1:] == (size, size, 3)
    assert network.layers[-1].activation.__name__ == "linear"
    images = np.random.default_rng(0).random((2, 40, 40, 3), np.float32)
    logits = model.logits(images)
    assert logits.shape == (2, 1000)
    assert np.isfinite(logits).all()
    assert not np.array_equal(logits[0], logits[1])


def test_mobilenet_gives_logits():
    check_forward("mobilenetv2")


@pytest.mark.theory
@pytest.mark.parametrize("name", sorted(set(IMAGENET) - {"mobilenetv2"}))
def test_the_others_give_logits(name):
    check_forward(name)


def test_being_offline_is_explained(monkeypatch):
    keras = import_keras()

    def offline(**options):
        assert options == {"weights": "imagenet", "classifier_activation": None}
        raise Exception("URL fetch failure on https://…: None -- unreachable")

    monkeypatch.setattr(keras.applications, "VGG19", offline)
    with pytest.raises(ModelError, match=r"vgg19 .*cannot be fetched.*URL fetch failure.*\.keras/models"):
        open_imagenet("vgg19")


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own, when it writes weights
def test_weights_of_ones_own(tmp_path, monkeypatch):
    keras = import_keras()

    def small(weights, classifier_activation):
        assert weights is None
        assert classifier_activation is None
        return keras.Sequential(
            [keras.Input((224, 224, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)]
        )

    monkeypatch.setattr(keras.applications, "MobileNetV2", small)
    wanted = small(None, None)
    wanted.save_weights(tmp_path / "mine.weights.h5")
    model = open_imagenet("mobilenetv2", weights=tmp_path / "mine.weights.h5")
    ours, saved = (network.layers[-1].kernel.value.detach().numpy() for network in (model.backend.model, wanted))
    assert np.array_equal(ours, saved)
    with pytest.raises(ModelError, match="do not fit mobilenetv2"):
        open_imagenet("mobilenetv2", weights=tmp_path / "absent.weights.h5")


def test_unknown_names():
    with pytest.raises(UnknownName, match="resnet152"):
        open_imagenet("resnet151")
