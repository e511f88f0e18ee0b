"""Training: the paper's split, schedule and augmentation as pure functions, and runs that resume."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from driftcal.data import from_arrays
from driftcal.errors import DidNotConverge, InputError, ModelError
from driftcal.io.safetensors import read_tensors
from driftcal.paper.training import train_network as module
from driftcal.paper.training.train_network import Budget, train_network
from driftcal.paper.training.trainer import Trainer
from driftcal.paper.training.training_data import augment, batch_of_step, split_training
from driftcal.paper.training.training_settings import TrainingSettings

SETTINGS = TrainingSettings(batch_size=16)


class Tiny(nn.Module):
    """Convolution, batch normalisation, linear: every kind of state."""

    def __init__(self, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(4 * 3 * 3, classes)

    def forward(self, x):
        return self.head(self.layers(x))


@pytest.fixture(autouse=True)
def tiny_networks(monkeypatch):
    def make(name, classes=10, *, seed=0):
        torch.manual_seed(seed)
        return Tiny(classes)

    monkeypatch.setattr(module, "make_network", make)


def coloured(n=200, seed=0):
    """Images whose class is their brightest channel."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    images = rng.uniform(0, 0.6, (n, 8, 8, 3)).astype(np.float32)
    images[np.arange(n), :, :, labels] += 0.4
    return from_arrays(images, labels, class_names=("r", "g", "b"), name="coloured")


def run(folder, **changes):
    options = {"budget": Budget(epochs=6), "seed": 3, "settings": SETTINGS, **changes}
    return train_network("tiny", coloured(), coloured(60, seed=1), folder, **options)


def weights(folder):
    return read_tensors(folder / "weights.safetensors").arrays


def test_an_interrupted_run_ends_with_the_same_weights(tmp_path):
    card = run(tmp_path / "whole")

    class Interrupted(Exception):
        pass

    messages = []

    def interrupt(message, n_images):
        messages.append(message)
        if len(messages) in (9, 20, 21, 47):
            raise Interrupted

    for _ in range(4):
        with pytest.raises(Interrupted):
            run(tmp_path / "parts", save_every=0, on_progress=interrupt)
        assert (tmp_path / "parts" / "checkpoint.safetensors").exists()
        assert not (tmp_path / "parts" / "card.json").exists()
    resumed = run(tmp_path / "parts", save_every=0, on_progress=interrupt)
    assert "resumed" in messages
    uninterrupted, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert sorted(uninterrupted) == sorted(parts)
    assert all(np.array_equal(uninterrupted[name], parts[name]) for name in uninterrupted)
    assert resumed["test_accuracy"] == card["test_accuracy"] > 0.9
    assert not (tmp_path / "parts" / "checkpoint.safetensors").exists()


def test_the_card_records_the_training(tmp_path):
    card = run(tmp_path)
    assert card == json.loads((tmp_path / "card.json").read_text())
    assert card["epochs"] == pytest.approx(6 * (180 // 16) * 16 / 180)
    assert (card["split"]["train"], card["split"]["held_out"], card["seed"]) == (180, 20, 3)
    assert card["seconds"] > 0
    assert card["versions"]["torch"] == torch.__version__


def test_bfloat16_learns_as_much_with_weights_in_float32(tmp_path):
    card = run(tmp_path / "half", settings=replace(SETTINGS, bfloat16=True))
    assert card["settings"]["bfloat16"]
    assert card["test_accuracy"] > 0.8
    run(tmp_path / "whole")
    bfloat16, float32 = weights(tmp_path / "half"), weights(tmp_path / "whole")
    assert all(bfloat16[name].dtype == float32[name].dtype for name in float32)
    assert any((bfloat16[name] != float32[name]).any() for name in float32)


def test_a_finished_training_is_not_repeated(tmp_path):
    first = run(tmp_path)
    assert run(tmp_path, on_progress=lambda message, n_images: pytest.fail("trained again")) == first


def test_a_card_of_version_0_1_is_recognised(tmp_path):
    card = run(tmp_path)
    settings = card.pop("settings")
    recipe = {"peak": settings.pop("peak_learning_rate"), "batch": settings.pop("batch_size")}
    recipe |= {"longest_gradient": settings.pop("max_gradient_norm"), **settings}
    (tmp_path / "card.json").write_text(json.dumps({**card, "recipe": recipe}))
    assert run(tmp_path)["recipe"] == recipe


@pytest.mark.parametrize(
    "changes", [{"seed": 4}, {"budget": Budget(epochs=7)}, {"settings": TrainingSettings(batch_size=20)}]
)
def test_another_training_in_the_same_folder_is_refused(tmp_path, changes):
    run(tmp_path)
    with pytest.raises(ModelError, match="another training"):
        run(tmp_path, **changes)


def test_another_plan_does_not_resume(tmp_path):
    def interrupt(message, n_images):
        if message.startswith("epoch 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, save_every=0, on_progress=interrupt)
    with pytest.raises(ModelError, match="another training"):
        run(tmp_path, seed=9)


def test_a_damaged_checkpoint_raises(tmp_path):
    (tmp_path / "checkpoint.safetensors").write_bytes(b"half a file")
    with pytest.raises(ModelError, match="intact checkpoint"):
        run(tmp_path)


def test_minutes_become_steps_before_the_first_one(tmp_path):
    card = run(tmp_path, budget=Budget(minutes=0.002))
    assert card["steps"] >= 1
    assert card["budget"] == {"epochs": None, "minutes": 0.002}


@pytest.mark.parametrize("arguments", [{}, {"epochs": 1, "minutes": 1.0}, {"minutes": -1.0}, {"epochs": 0}])
def test_impossible_budgets_raise(arguments):
    with pytest.raises(InputError, match=r"epochs or minutes|above 0"):
        Budget(**arguments)


def test_divergence_is_an_error():
    trainer = Trainer(Tiny(3), coloured(), TrainingSettings(1e30, 16, max_gradient_norm=1e30), seed=0, n_steps=50)
    with pytest.raises(DidNotConverge, match="lower learning rate"):
        [trainer.advance() for _ in range(50)]


def test_the_split_is_the_papers_and_depends_on_its_seed_only():
    train, held_out = split_training(coloured(), seed=5)
    assert (len(train), len(held_out)) == (180, 20)
    assert not set(train.indices) & set(held_out.indices)
    assert np.array_equal(held_out.indices, split_training(coloured(), seed=5)[1].indices)
    assert not np.array_equal(held_out.indices, split_training(coloured(), seed=6)[1].indices)


def test_every_epoch_has_every_sample_in_a_new_order():
    epochs = [np.concatenate([batch_of_step(1, 4 * epoch + i, 40, 10) for i in range(4)]) for epoch in (0, 1)]
    assert all(np.array_equal(np.sort(samples), np.arange(40)) for samples in epochs)
    assert not np.array_equal(*epochs)


def test_the_learning_rate_rises_and_falls_once():
    rates = [SETTINGS.learning_rate(step, 100) for step in range(100)]
    top = int(np.argmax(rates))
    assert max(rates) == pytest.approx(SETTINGS.peak_learning_rate, rel=0.01)
    assert np.all(np.diff(rates[:top]) > 0)
    assert np.all(np.diff(rates[top:]) < 0)
    assert rates[-1] == pytest.approx(0, abs=1e-9)


def test_augmentation_stays_in_the_range_of_the_pixels():
    images = torch.rand(64, 3, 16, 16)
    changed = augment(images, 0, 7)
    assert changed.shape == images.shape
    assert torch.equal(changed, augment(images, 0, 7))
    assert not torch.equal(changed, augment(images, 0, 8))
    assert changed.min() >= images.min()
    assert changed.max() <= images.max()


def test_augmentation_rotates_and_moves_as_far_as_the_paper():
    # every pixel holds its position, so the result holds the positions it was sampled at
    side = 33
    axis = torch.arange(side, dtype=torch.float32) - (side - 1) / 2
    rows, columns = torch.meshgrid(axis, axis, indexing="ij")
    images = torch.stack([rows, columns, rows]).expand(400, 3, side, side)
    result = augment(images, 0, 0)
    middle = (side - 1) // 2
    moved = result[:, :2, middle, middle].abs().max(0).values
    assert torch.all(moved <= 0.1 * side + 1e-3)
    assert torch.all(moved > 0.09 * side)
    step_right = (
        result[:, :2, middle, middle + 1] - result[:, :2, middle, middle - 1]
    ) / 2  # one step right, in the source
    angle = torch.rad2deg(torch.atan(step_right[:, 0] / step_right[:, 1]))
    assert 14 < angle.abs().max() <= 15.01
    assert 0.4 < (step_right[:, 1] < 0).float().mean() < 0.6  # mirrored
