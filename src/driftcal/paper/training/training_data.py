"""The data of a training: split, batches and augmentation, each a pure function of seed and step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from driftcal.data import Source
from driftcal.errors import InputError
from driftcal.types import Array

if TYPE_CHECKING:
    import torch

#: The paper's split of CIFAR-10: 45,000 images to train on, 5,000 to calibrate with.
TRAIN_SHARE = 0.9
#: Degrees of the largest rotation of the augmentation.
_MAX_ROTATION = 15.0
#: The largest translation, as a share of the side.
_MAX_TRANSLATION = 0.1


def split_training(source: Source, *, seed: int = 0) -> tuple[Source, Source]:
    """The images for training and those for calibration: 45,000 and 5,000 of CIFAR-10's 50,000.

    >>> from driftcal.data import digits
    >>> [len(part) for part in split_training(digits())]
    [1617, 180]
    """
    if len(source) < 2:
        raise InputError(f"a training needs at least 2 images; {source.name} has {len(source)}.")
    train, held_out = source.split(TRAIN_SHARE, random_state=seed)
    return train, held_out


def batch_of_step(seed: int, step: int, n_samples: int, batch_size: int) -> Array:
    """The samples of a step. Every epoch has a new order; last samples that do not fill a batch are left out.

    >>> np.sort(np.concatenate([batch_of_step(0, step, 6, 2) for step in (3, 4, 5)]))
    array([0, 1, 2, 3, 4, 5])
    """
    epoch, position = divmod(step, max(1, n_samples // batch_size))
    order = np.random.default_rng([seed, epoch]).permutation(n_samples)
    return order[position * batch_size : (position + 1) * batch_size]


def augment(images: torch.Tensor, seed: int, step: int) -> torch.Tensor:
    """Images rotated by up to 15°, moved by up to a tenth of the side, half of them mirrored; edge pixels are repeated.

    `images` has shape (n, channels, height, width). The three maps are combined, so that pixels are interpolated once.
    """
    import torch
    from torch.nn import functional

    rng = np.random.default_rng([seed, step, 1])
    n = len(images)
    angle = np.deg2rad(rng.uniform(-_MAX_ROTATION, _MAX_ROTATION, n))
    translation = (
        rng.uniform(-_MAX_TRANSLATION, _MAX_TRANSLATION, (n, 2)) * 2
    )  # affine_grid has coordinates from -1 to 1
    mirror = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    maps = np.empty((n, 2, 3), np.float32)
    maps[:, 0] = np.stack([np.cos(angle) * mirror, -np.sin(angle), translation[:, 0]], 1)
    maps[:, 1] = np.stack([np.sin(angle) * mirror, np.cos(angle), translation[:, 1]], 1)
    grid = functional.affine_grid(torch.from_numpy(maps), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
