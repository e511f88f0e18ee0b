"""The command driftcal paper train; test_training.py tests the training itself."""

import json

import numpy as np
import pytest
import torch

from driftcal.cli.app import main
from driftcal.data import digits
from driftcal.paper.networks import CIFAR10_MEAN, CIFAR10_NETWORKS, CIFAR10_STD, make_network
from driftcal.paper.networks.registry import open_cifar10_network
from driftcal.paper.training.trainer import save_weights
from driftcal.paper.training.training_data import split_training


def run(*arguments):
    main(["paper", "train", *arguments])


def test_a_dry_run_prints_the_plan_and_writes_nothing(capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        run("vgg19", "--data", "cifar10=nowhere", "--minutes", "5", "-o", str(tmp_path), "--dry-run", "--json")
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out) == {
        "network": "vgg19", "epochs": None, "minutes": 5.0, "output": str(tmp_path / "vgg19"),
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vgg91", "--data", "cifar10=x"], "vgg19"),
        (["vgg19", "--data", "imagenet=x"], "cifar10=DIR"),
        (["vgg19", "--data", "cifar10=nowhere"], "nowhere"),
        (["vgg19", "--data", "cifar10=x", "--epochs", "1", "--minutes", "1"], "either epochs or minutes"),
    ],
)
def test_impossible_arguments_are_explained(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        run(*arguments)
    assert end.value.code in (1, 2)
    assert message in capsys.readouterr().err


def test_trained_networks_open_with_their_held_out_images(tmp_path):
    home = tmp_path / "mobilenetv2"
    home.mkdir()
    untrained = make_network("mobilenetv2", seed=5)
    save_weights(untrained, home / "weights.safetensors")
    (home / "card.json").write_text('{"seed": 4}')
    network = open_cifar10_network("mobilenetv2", tmp_path)
    images = np.random.default_rng(0).random((2, 32, 32, 3), np.float32)
    normal = torch.from_numpy((images - np.float32(CIFAR10_MEAN)) / np.float32(CIFAR10_STD)).permute(0, 3, 1, 2)
    with torch.inference_mode():
        expected = untrained.eval()(normal).numpy()
    np.testing.assert_allclose(network.model.logits(images), expected, rtol=1e-4, atol=1e-5)
    held_out = network.held_out(digits())
    assert list(held_out.indices) == list(split_training(digits(), seed=4)[1].indices)
    assert {"mobilenetv2", "densenet121", "resnet50", "vgg19"} <= set(CIFAR10_NETWORKS)
