"""Patches of two photographs that scikit-learn contains, so that every machine has them."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from sklearn.datasets import load_sample_images


@cache
def patches(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """(count, height, width, 3) uint8: random crops of a Chinese temple and a flower."""
    rng = np.random.default_rng(seed)
    photographs = load_sample_images().images
    crops = []
    for i in range(count):
        photograph = photographs[i % 2]
        y, x = rng.integers(0, photograph.shape[0] - height), rng.integers(0, photograph.shape[1] - width)
        crops.append(photograph[y : y + height, x : x + width])
    return np.stack(crops)


def statistics(images: np.ndarray) -> dict[str, list[float]]:
    """Mean and deviation over all pixels of RGB, and log10 of the mean power in rings of spatial frequency.

    `images` are (n, side, side, 3) in [0, 1].
    """
    planes = [images[..., colour].astype(np.float64) for colour in range(3)]  # numpy is slow at sums of three
    grey = sum(planes) / 3
    side = grey.shape[1]
    window = np.hanning(side)[:, None] * np.hanning(side)
    centred = (grey - grey.mean(axis=(1, 2), keepdims=True)) * window
    power = (np.abs(np.fft.rfft2(centred)) ** 2).mean(axis=0)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    edges = np.array([1.5 / side, 0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.5])
    rings = [power[(frequency >= a) & (frequency < b)].mean() for a, b in pairwise(edges)]
    return {
        "mean": [float(plane.mean()) for plane in planes],
        "deviation": [float(plane.std()) for plane in planes],
        "spectrum": np.log10(rings).tolist(),
    }
