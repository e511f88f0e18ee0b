"""Setups by name: weights files, data in the published layouts, and messages for missing files."""

import json
import re

import numpy as np
import onnx
import pytest
import torch
from functional_resnet import load_resnet
from onnx import TensorProto, helper
from PIL import Image
from safetensors.torch import save_file

from driftcal.data import cifar10
from driftcal.errors import InputError, ModelError, UnknownName
from driftcal.paper.networks import cifar_resnet, make_network
from driftcal.paper.networks.registry import default_networks, open_cifar10_network
from driftcal.paper.setups import SetupOptions, open_setups
from driftcal.paper.training.training_data import split_training

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (24, 32, 32, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    """CIFAR-10 in its PNG form, 24 images in each part."""
    home = tmp_path / "cifar10"
    home.mkdir()
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        Image.fromarray(IMAGES.reshape(24, 1024, 3)).save(home / f"{name}.png")
    (home / "train_lables.json").write_text(json.dumps([k % 10 for k in range(120)]))
    (home / "test_lables.json").write_text(json.dumps([k % 10 for k in range(24)]))
    return home


@pytest.fixture
def tiny(tmp_path):
    """A model file: a linear map of the mean colour to ten classes."""
    weights = RNG.normal(size=(3, 10)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["m"], keepdims=0),
        helper.make_node("MatMul", ["m", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(np.array([2, 3], np.int64), "axes")],
    )  # fmt: skip
    path = tmp_path / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.mark.parametrize("name", ["resnet20", "resnet44"])
def test_resnets_compute_the_plain_formula(tmp_path, name):
    torch.manual_seed(0)
    module = getattr(cifar_resnet, name)()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
    save_file(module.state_dict(), tmp_path / f"cifar10_{name}.safetensors")
    network = open_cifar10_network(name, tmp_path)
    images = IMAGES[:5] / np.float32(255)
    expected = load_resnet(tmp_path / f"cifar10_{name}.safetensors")(images)
    np.testing.assert_allclose(network.model.logits(images), expected, rtol=1e-3, atol=1e-4)
    assert network.held_out is None, "they were trained on every training image"
    assert open_cifar10_network(name, tmp_path).model.fingerprint == network.model.fingerprint
    assert default_networks("cifar10", tmp_path) == [name]


def test_a_trained_network_is_calibrated_on_held_out_images(tmp_path, folder):
    home = tmp_path / "nets" / "mobilenetv2"
    home.mkdir(parents=True)
    save_file(
        {k: v.contiguous() for k, v in make_network("mobilenetv2").state_dict().items()}, home / "weights.safetensors"
    )
    (home / "card.json").write_text(json.dumps({"seed": 3}))
    (setup,) = open_setups(SetupOptions({"cifar10": str(folder)}, ["mobilenetv2"], tmp_path / "nets"))
    train, held_out = split_training(cifar10(folder, part="train"), seed=3)
    assert np.array_equal(setup.validation.indices, held_out.indices)
    assert not set(setup.validation.indices) & set(train.indices)
    assert setup.test.name.startswith("cifar10-test")
    assert setup.label == "CIFAR-10 MobileNetV2"
    assert setup.model.logits(setup.test.inputs()[:2]).shape == (2, 10)


def test_cifar10_c_on_disk_has_the_same_images(tmp_path, folder, tiny):
    corrupted = RNG.integers(0, 256, (5 * 24, 32, 32, 3), np.uint8)
    home = tmp_path / "c"
    home.mkdir()
    np.save(home / "fog.npy", corrupted)
    np.save(home / "gaussian_noise.npy", corrupted)
    np.save(home / "labels.npy", np.tile(np.arange(24) % 10, 5))
    affine, disk = open_setups(SetupOptions({"cifar10": str(folder), "cifar10-c": str(home)}, [f"mine={tiny}"]))
    assert affine.suite == "affine"
    assert disk.suite == "cifar10-c"
    assert disk.label == "CIFAR-10 mine, cifar10-c"
    fog = next(shift for shift in disk.shifts if shift.name == "fog")
    samples = disk.test.indices[:3]
    foggy = fog(disk.test.inputs(samples), 2, indices=samples)
    np.testing.assert_array_equal(foggy, corrupted[24 + samples] / np.float32(255))
    np.testing.assert_array_equal(fog(disk.test.inputs(samples), 0, indices=samples), disk.test.inputs(samples))


def test_imagenet_with_its_corruptions_and_objectnet_on_disk(tmp_path, tiny):
    wnids = ["n01440764", "n01443537", "n02119789", "n07749582"]
    synset_words = "".join(f"{wnid} name{k}\n" for k, wnid in enumerate(wnids))
    for number in range(8):
        for folder in ("val", "c/fog/1", "c/fog/2", "c/fog/3", "c/fog/4", "c/fog/5"):
            file = tmp_path / folder / wnids[number % 4] / f"ILSVRC2012_val_{number:08d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((30, 30, 3), 20 * number + (folder != "val"), np.uint8)).save(file)
    for folder in (tmp_path / "val", tmp_path / "c"):
        (folder / "synset_words.txt").write_text(synset_words)
    objectnet = tmp_path / "objectnet"
    for name in ("lemon", "towel"):
        (objectnet / "images" / name).mkdir(parents=True)
        Image.fromarray(np.full((20, 20, 3), 99, np.uint8)).save(objectnet / "images" / name / "1.png")
    maps = objectnet / "mappings"
    maps.mkdir()
    (maps / "folder_to_objectnet_label.json").write_text(json.dumps({"lemon": "Lemon", "towel": "Towel"}))
    (maps / "objectnet_to_imagenet_1k.json").write_text(json.dumps({"Lemon": "name3"}))
    (maps / "pytorch_to_imagenet_2012_id.json").write_text(json.dumps({str(k): k for k in range(4)}))
    (maps / "imagenet_to_label_2012_v2").write_text("name0\nname1\nname2\nname3\n")
    data = {"imagenet": str(tmp_path / "val"), "imagenet-c": str(tmp_path / "c"), "objectnet": str(objectnet)}
    (setup,) = open_setups(SetupOptions(data, [f"mine={tiny}"]))
    assert [shift.name for shift in setup.shifts] == ["fog"]
    assert len(setup.validation) == len(setup.test) == 4
    samples = setup.test.indices
    clean, foggy = setup.test.inputs(samples), setup.shifts[0](setup.test.inputs(samples), 4, indices=samples)
    np.testing.assert_allclose(foggy - clean, 1 / 255, atol=1e-6)
    assert setup.objectnet is not None
    assert setup.objectnet.labelled().labels.tolist() == [3]
    assert [len(source) for source in setup.ood.values()] == [1]
    (simulated,) = open_setups(SetupOptions({"imagenet": data["imagenet"]}, [f"mine={tiny}"]))
    assert len(simulated.shifts) == 19, "corruptions are computed if there is no folder"


@pytest.fixture
def labelled_images(tmp_path):
    """A flat folder with labels.csv: three images of each of ten classes."""
    home = tmp_path / "labelled"
    home.mkdir()
    lines = ["file,label"]
    for number in range(30):
        name = f"{number:08d}.png"
        Image.fromarray(RNG.integers(0, 256, (30, 30, 3), np.uint8)).save(home / name)
        lines.append(f"{name},{number % 10}")
    (home / "labels.csv").write_text("\n".join(lines))
    return home


def test_imagenet_with_as_many_tuning_images_of_each_class(labelled_images, tiny):
    def opened(**options):
        data = {"imagenet": str(labelled_images)}
        (setup,) = open_setups(SetupOptions(data, [f"mine={tiny}"], tune_per_class=2, **options))
        return setup

    setup = opened()
    assert np.bincount(setup.validation.labels, minlength=10)[:10].tolist() == [2] * 10
    assert sorted(setup.test.labels.tolist()) == list(range(10))
    assert not set(setup.validation.indices) & set(setup.test.indices)
    fewer = opened(n_test_images=4)
    assert len(fewer.validation) == 20
    assert np.array_equal(fewer.test.indices, setup.test.indices[:4]), "more images only add to them"
    assert setup.block_size == 250
    assert len(setup.left_out_classes) == 100, "a tenth of the 1,000 classes of the outputs"


def test_errors_name_the_way_out(tmp_path, folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownName, match="'cifar'"):
        open_setups(SetupOptions({"cifar": "x"}))
    with pytest.raises(InputError, match="cifar10-c goes with cifar10"):
        open_setups(SetupOptions({"cifar10-c": "x"}))
    with pytest.raises(UnknownName, match="did you mean 'resnet20'"):
        open_setups(SetupOptions({"cifar10": str(folder)}, ["resnet21"]))
    with pytest.raises(ModelError, match=re.escape("--networks resnet20=FILE.safetensors")):
        open_setups(SetupOptions({"cifar10": str(folder)}, ["resnet20"]))
    with pytest.raises(ModelError, match="driftcal paper train"):
        open_setups(SetupOptions({"cifar10": str(folder)}))
