"""How a network is trained: the step sizes, the split and the augmentation, each a pure function of seed and step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from driftcal.data import Source
from driftcal.errors import InputError
from driftcal.types import Array

if TYPE_CHECKING:
    import torch

#: The paper's split of CIFAR-10: 45,000 images to train on, 5,000 to calibrate with.
TRAIN_SHARE = 0.9
_ROTATION, _SHIFT = 15.0, 0.1  # degrees; share of the side


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent with Nesterov's momentum; the step size rises for `warm_up` of the steps, then falls.

    Smith & Topin 2019: one cycle, here a line up from a tenth of the peak and half a cosine down to zero.

    >>> recipe = Recipe(peak=0.1, warm_up=0.25)
    >>> [round(recipe.step_size(step, 101), 4) for step in (0, 25, 100)]
    [0.01, 0.1, 0.0]
    """

    peak: float = 0.1
    batch: int = 128
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warm_up: float = 0.25
    longest_gradient: float = 1.0
    bfloat16: bool = False  # layers multiply in bfloat16; weights, sums and the loss stay float32

    def step_size(self, step: int, steps: int) -> float:
        """The step size of `step` out of `steps`."""
        done = step / max(1, steps - 1)
        if done < self.warm_up:
            return self.peak * (0.1 + 0.9 * done / self.warm_up)
        return self.peak * 0.5 * (1 + math.cos(math.pi * (done - self.warm_up) / (1 - self.warm_up)))


#: Where the usual recipe is not the right one. VGG19 has no batch normalisation: larger steps make it diverge.
RECIPES = {"vgg19": Recipe(peak=0.03)}


def split_training(source: Source, *, seed: int = 0) -> tuple[Source, Source]:
    """The images to train on and those kept for calibration, fixed by `seed`: 45,000 and 5,000 of CIFAR-10's 50,000.

    >>> from driftcal.data import digits
    >>> [len(part) for part in split_training(digits())]
    [1617, 180]
    """
    if len(source) < 2:
        raise InputError(f"there must be at least 2 images to train on; {source.name} has {len(source)}.")
    train, held_out = source.split(TRAIN_SHARE, seed=seed)
    return train, held_out


def rows_of_step(seed: int, step: int, rows: int, batch: int) -> Array:
    """Which rows step number `step` sees: a new order in every epoch, the last few rows of it left out.

    >>> np.sort(np.concatenate([rows_of_step(0, step, 6, 2) for step in (3, 4, 5)]))
    array([0, 1, 2, 3, 4, 5])
    """
    epoch, position = divmod(step, max(1, rows // batch))
    order = np.random.default_rng([seed, epoch]).permutation(rows)
    return order[position * batch : (position + 1) * batch]


def augment(images: torch.Tensor, seed: int, step: int) -> torch.Tensor:
    """Turned by up to 15°, moved by up to a tenth of the side, every other one mirrored; edge pixels are repeated.

    `images` (n, channels, height, width) are all sampled once, bilinearly, at the positions that the three together give.
    """
    import torch
    from torch.nn import functional

    chance = np.random.default_rng([seed, step, 1])
    n = len(images)
    angle = np.deg2rad(chance.uniform(-_ROTATION, _ROTATION, n))
    moved = chance.uniform(-_SHIFT, _SHIFT, (n, 2)) * 2  # affine_grid counts from -1 to 1
    mirror = np.where(chance.random(n) < 0.5, -1.0, 1.0)
    maps = np.empty((n, 2, 3), np.float32)
    maps[:, 0] = np.stack([np.cos(angle) * mirror, -np.sin(angle), moved[:, 0]], 1)
    maps[:, 1] = np.stack([np.sin(angle) * mirror, np.cos(angle), moved[:, 1]], 1)
    grid = functional.affine_grid(torch.from_numpy(maps), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
