"""Training: the paper's split, a schedule and augmentation that are pure functions, and runs that survive being cut."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from driftcal.data import from_arrays
from driftcal.errors import DidNotConverge, InputError, ModelError
from driftcal.io.safetensors import read_tensors
from driftcal.paper.training import train
from driftcal.paper.training.schedule import Recipe, augment, rows_of_step, split_training
from driftcal.paper.training.train import Budget, Trainer, train_network

RECIPE = Recipe(batch=16)


class Tiny(nn.Module):
    """Convolution, batch normalisation, linear: every kind of state there is."""

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

    monkeypatch.setattr(train, "make_network", make)


def coloured(n=200, seed=0):
    """Images whose class is their brightest channel."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, 3, n)
    images = chance.uniform(0, 0.6, (n, 8, 8, 3)).astype(np.float32)
    images[np.arange(n), :, :, labels] += 0.4
    return from_arrays(images, labels, class_names=("r", "g", "b"), name="coloured")


def run(folder, **changes):
    options = {"budget": Budget(epochs=6), "seed": 3, "recipe": RECIPE, **changes}
    return train_network("tiny", coloured(), coloured(60, seed=1), folder, **options)


def weights(folder):
    return read_tensors(folder / "weights.safetensors").arrays


def test_a_run_that_is_cut_ends_with_the_same_weights(tmp_path):
    card = run(tmp_path / "whole")

    class Cut(Exception):
        pass

    seen = []

    def cut(what, rows):
        seen.append(what)
        if len(seen) in (9, 20, 21, 47):
            raise Cut

    for _ in range(4):
        with pytest.raises(Cut):
            run(tmp_path / "cut", save_every=0, on_progress=cut)
        assert (tmp_path / "cut" / "checkpoint.safetensors").exists()
        assert not (tmp_path / "cut" / "card.json").exists()
    resumed = run(tmp_path / "cut", save_every=0, on_progress=cut)
    assert "resumed" in seen
    whole, cut_off = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert sorted(whole) == sorted(cut_off)
    assert all(np.array_equal(whole[name], cut_off[name]) for name in whole)
    assert resumed["test_accuracy"] == card["test_accuracy"] > 0.9
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()


def test_the_card_says_how_it_went(tmp_path):
    card = run(tmp_path)
    assert card == json.loads((tmp_path / "card.json").read_text())
    assert card["epochs"] == pytest.approx(6 * (180 // 16) * 16 / 180)
    assert (card["split"]["train"], card["split"]["held_out"], card["seed"]) == (180, 20, 3)
    assert card["seconds"] > 0
    assert card["versions"]["torch"] == torch.__version__


def test_bfloat16_learns_as_much_with_weights_in_float32(tmp_path):
    card = run(tmp_path / "half", recipe=replace(RECIPE, bfloat16=True))
    assert card["recipe"]["bfloat16"]
    assert card["test_accuracy"] > 0.8
    run(tmp_path / "whole")
    half, whole = weights(tmp_path / "half"), weights(tmp_path / "whole")
    assert all(half[name].dtype == whole[name].dtype for name in whole)
    assert any((half[name] != whole[name]).any() for name in whole)


def test_a_finished_training_is_not_repeated(tmp_path):
    first = run(tmp_path)
    assert run(tmp_path, on_progress=lambda what, rows: pytest.fail("trained again")) == first


@pytest.mark.parametrize("changes", [{"seed": 4}, {"budget": Budget(epochs=7)}, {"recipe": Recipe(batch=20)}])
def test_another_training_in_the_same_folder_is_refused(tmp_path, changes):
    run(tmp_path)
    with pytest.raises(ModelError, match="another training"):
        run(tmp_path, **changes)


def test_another_plan_does_not_resume(tmp_path):
    def cut(what, rows):
        if what.startswith("epoch 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, save_every=0, on_progress=cut)
    with pytest.raises(ModelError, match="another training"):
        run(tmp_path, seed=9)


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "checkpoint.safetensors").write_bytes(b"half a file")
    with pytest.raises(ModelError, match="intact checkpoint"):
        run(tmp_path)


def test_minutes_become_steps_before_the_first_one(tmp_path):
    card = run(tmp_path, budget=Budget(minutes=0.002))
    assert card["steps"] >= 1
    assert card["budget"] == {"epochs": None, "minutes": 0.002}


@pytest.mark.parametrize("wish", [{}, {"epochs": 1, "minutes": 1.0}, {"minutes": -1.0}])
def test_impossible_budgets(wish):
    with pytest.raises(InputError, match=r"epochs or minutes|more than 0"):
        Budget(**wish)


def test_divergence_is_an_error():
    trainer = Trainer(Tiny(3), coloured(), Recipe(batch=16, peak=1e30, longest_gradient=1e30), seed=0, steps=50)
    with pytest.raises(DidNotConverge, match="smaller step size"):
        [trainer.advance() for _ in range(50)]


def test_the_split_is_the_papers_and_fixed_by_its_seed():
    train, held_out = split_training(coloured(), seed=5)
    assert (len(train), len(held_out)) == (180, 20)
    assert not set(train.indices) & set(held_out.indices)
    assert np.array_equal(held_out.indices, split_training(coloured(), seed=5)[1].indices)
    assert not np.array_equal(held_out.indices, split_training(coloured(), seed=6)[1].indices)


def test_every_epoch_sees_every_row_in_an_order_of_its_own():
    epochs = [np.concatenate([rows_of_step(1, 4 * epoch + i, 40, 10) for i in range(4)]) for epoch in (0, 1)]
    assert all(np.array_equal(np.sort(rows), np.arange(40)) for rows in epochs)
    assert not np.array_equal(*epochs)


def test_the_step_size_rises_and_falls_once():
    sizes = [RECIPE.step_size(step, 100) for step in range(100)]
    top = int(np.argmax(sizes))
    assert max(sizes) == pytest.approx(RECIPE.peak, rel=0.01)
    assert np.all(np.diff(sizes[:top]) > 0)
    assert np.all(np.diff(sizes[top:]) < 0)
    assert sizes[-1] == pytest.approx(0, abs=1e-9)


def test_augmentation_moves_pixels_a_little_and_invents_none():
    images = torch.rand(64, 3, 16, 16)
    changed = augment(images, 0, 7)
    assert changed.shape == images.shape
    assert torch.equal(changed, augment(images, 0, 7))
    assert not torch.equal(changed, augment(images, 0, 8))
    assert changed.min() >= images.min()
    assert changed.max() <= images.max()


def test_augmentation_turns_and_shifts_as_far_as_the_paper():
    # every pixel says where it is, so the result says where it came from
    side = 33
    axis = torch.arange(side, dtype=torch.float32) - (side - 1) / 2
    rows, columns = torch.meshgrid(axis, axis, indexing="ij")
    images = torch.stack([rows, columns, rows]).expand(400, 3, side, side)
    result = augment(images, 0, 0)
    middle = (side - 1) // 2
    moved = result[:, :2, middle, middle].abs().max(0).values
    assert torch.all(moved <= 0.1 * side + 1e-3)
    assert torch.all(moved > 0.09 * side)
    right = (result[:, :2, middle, middle + 1] - result[:, :2, middle, middle - 1]) / 2  # one step right, in the source
    angle = torch.rad2deg(torch.atan(right[:, 0] / right[:, 1]))
    assert 14 < angle.abs().max() <= 15.01
    assert 0.4 < (right[:, 1] < 0).float().mean() < 0.6  # mirrored
