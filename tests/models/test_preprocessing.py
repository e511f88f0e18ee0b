"""Preprocessing of images before the model runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from driftcal.errors import ImagesError, InputError, UnknownName
from driftcal.models import Preprocessing, open_model


def test_layouts_agree_for_a_convolution():
    import torch

    conv = torch.nn.Conv2d(3, 4, 3)
    images = np.random.default_rng(0).random((5, 9, 7, 3), np.float32)
    kernel = conv.weight.detach().numpy()

    def by_hand(batch):  # NHWC
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
    usual = open_model(Net(), preprocessing=Preprocessing(**steps))  # torch's layout, which nobody gave
    np.testing.assert_array_equal(torch_logits, usual.logits(images))
    assert usual.preprocessing.layout == "NCHW"
    np.testing.assert_allclose(torch_logits, open_model(by_hand, preprocessing=steps).logits(images), atol=1e-4)
    expected = by_hand(((images[..., ::-1] * 255 - [103.9, 116.8, 123.7]) / [50, 60, 70]).astype(np.float32))
    np.testing.assert_allclose(torch_logits, expected, atol=1e-4)


def test_resizing_agrees_with_pillow():
    from PIL import Image

    images = np.random.default_rng(0).random((2, 12, 16, 3), np.float32)
    for size in ((6, 8), (24, 20), (5, 5)):
        resized_images = Preprocessing(size=size)(images)
        for image, resized in zip(images, resized_images, strict=True):
            for channel in range(3):
                picture = Image.fromarray(image[..., channel]).resize(size[::-1], Image.Resampling.BILINEAR)
                np.testing.assert_allclose(resized[..., channel], np.asarray(picture), atol=1e-5)
    assert Preprocessing(size=(12, 16))(images) is not None


def test_preprocessing_is_restored_from_json_and_bad_steps_are_refused():
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
