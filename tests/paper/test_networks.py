"""The CIFAR-10 networks: shapes and parameters of keras.applications, and fast convolutions with the same results."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from driftcal.errors import UnknownName
from driftcal.models.keras import import_keras
from driftcal.paper.networks import CIFAR10_NETWORKS, make_network
from driftcal.paper.networks.torch_layers import Conv1x1, Conv3x3, ConvStride2

#: Weights and running statistics of keras.applications' networks without their heads, and channels before the head.
KERAS = {
    "mobilenetv2": (2_257_984, 1280),
    "densenet121": (7_037_504, 1024),
    "resnet50": (23_587_712, 2048),
    "vgg19": (20_024_384, 512),
}


@pytest.mark.parametrize("name", KERAS)
def test_number_of_weights_is_that_of_keras(name):
    network = make_network(name)
    n_weights = sum(value.numel() for key, value in network.state_dict().items() if "num_batches" not in key)
    base, channels = KERAS[name]
    assert n_weights == base + 10 * (channels + 1)


@pytest.mark.parametrize("name", CIFAR10_NETWORKS)
def test_logits_are_finite(name):
    with torch.inference_mode():
        logits = make_network(name, 7).eval()(torch.rand(2, 3, 32, 32))
    assert logits.shape == (2, 7)
    assert torch.isfinite(logits).all()


def test_the_seed_decides_the_weights():
    first, same, other = (make_network("mobilenetv2", seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["head.linear.weight"], other["head.linear.weight"])


def test_unknown_networks_raise():
    with pytest.raises(UnknownName, match="resnet50"):
        make_network("resnet5")


def with_keras_weights(name):
    """keras.applications' network with random weights, and ours with the same weights."""
    keras = import_keras()
    make = {"mobilenetv2": "MobileNetV2", "densenet121": "DenseNet121", "resnet50": "ResNet50", "vgg19": "VGG19"}[name]
    base = getattr(keras.applications, make)(weights=None, include_top=False, input_shape=(32, 32, 3), pooling="avg")
    ours = make_network(name).eval()
    keras_layers = [layer for layer in base.layers if layer.weights]
    if name == "resnet50":  # Keras lists a block's shortcut (number 0) among its layers, our module after them
        keras_layers.sort(key=lambda layer: [int(part) if part.isdigit() else 99 for part in shortcut_last(layer.name)])
    parts = [m for m in ours.layers.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.BatchNorm2d)]
    assert len(parts) == len(keras_layers)
    rng = np.random.default_rng(0)
    for part, layer in zip(parts, keras_layers, strict=True):
        if isinstance(part, torch.nn.BatchNorm2d):
            values = [rng.uniform(0.5, 1.5, weight.shape).astype(np.float32) for weight in layer.weights]
            layer.set_weights(values)
            targets = [part.weight, part.bias, part.running_mean, part.running_var]
        else:
            values = [weight.value.detach().numpy() for weight in layer.weights]
            axes = (2, 3, 0, 1) if part.groups > 1 else (3, 2, 0, 1)
            values = [np.transpose(values[0], axes), *values[1:]]
            targets = [part.weight] if part.bias is None else [part.weight, part.bias]
        with torch.no_grad():
            for target, value in zip(targets, values, strict=True):
                target.copy_(torch.from_numpy(np.ascontiguousarray(value)))
    return base, ours


def shortcut_last(name):
    """``conv3_block1_0_bn`` as numbers that sort the shortcut behind the block."""
    parts_of_name = name.removeprefix("conv").split("_")
    if parts_of_name[1].startswith("block"):
        parts_of_name[1] = parts_of_name[1].removeprefix("block")
        parts_of_name[2] = "4" if parts_of_name[2] == "0" else parts_of_name[2]
    return [word if word.isdigit() else {"conv": "0", "bn": "1"}[word] for word in parts_of_name]


def check_features_agree(name):
    base, ours = with_keras_weights(name)
    images = np.random.default_rng(1).normal(size=(3, 32, 32, 3)).astype(np.float32)
    expected = np.asarray(base(images, training=False).detach())
    with torch.inference_mode():
        features = ours.layers(torch.from_numpy(images).permute(0, 3, 1, 2)).mean((2, 3)).numpy()
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_mobilenet_computes_the_same_as_keras():
    check_features_agree("mobilenetv2")


@pytest.mark.theory
@pytest.mark.parametrize("name", ["densenet121", "resnet50", "vgg19"])
def test_the_other_networks_compute_the_same_as_keras(name):
    check_features_agree(name)


def check_same(layer, plain, size):
    """Output and gradients of the layer equal those of torch's convolution."""
    layer = layer.double()
    x = torch.randn(3, layer.in_channels, size, size, dtype=torch.double, requires_grad=True)
    for ours, expected in zip(results(layer, x, layer), results(plain, x, layer), strict=True):
        torch.testing.assert_close(ours, expected)


def results(function, x, layer):
    y = function(x)
    return [y, *torch.autograd.grad((y**2).sum(), [x, *layer.parameters()])]


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("groups", "bias"), [(1, True), (6, False)])
def test_3x3_convolution_on_small_feature_maps(size, groups, bias):
    layer = Conv3x3(6, 6, 3, padding=1, groups=groups, bias=bias)
    check_same(layer, lambda x: functional.conv2d(x, layer.weight, layer.bias, padding=1, groups=groups), size)


@pytest.mark.parametrize("size", [2, 4])
def test_depthwise_stride_2_on_small_feature_maps(size):
    layer = ConvStride2(6, 6, 3, stride=2, groups=6, bias=False)

    def padded(x):
        return functional.conv2d(functional.pad(x, (0, 1, 0, 1)), layer.weight, stride=2, groups=6)

    check_same(layer, padded, size)


@pytest.mark.parametrize("size", [1, 4, 6])
@pytest.mark.parametrize("stride", [1, 2])
def test_1x1_convolution_as_a_matrix_product(size, stride):
    layer = Conv1x1(6, 5, 1, stride=stride)
    check_same(layer, lambda x: functional.conv2d(x, layer.weight, layer.bias, stride=stride), size)


@pytest.mark.parametrize("size", [3, 5])
def test_stride_2_pads_like_tensorflow(size):
    keras = import_keras()
    ours = ConvStride2(4, 4, size, stride=2, bias=False)
    theirs = keras.layers.Conv2D(4, size, strides=2, padding="same", use_bias=False)
    images = np.random.default_rng(0).normal(size=(2, 8, 8, 4)).astype(np.float32)
    theirs.build(images.shape)
    theirs.set_weights([ours.weight.detach().numpy().transpose(2, 3, 1, 0)])
    with torch.inference_mode():
        features = ours(torch.from_numpy(images).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(features, np.asarray(theirs(images).detach()), atol=1e-5)
