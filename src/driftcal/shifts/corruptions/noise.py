"""Noise, value by value: Gaussian, speckle, shot and impulse noise.

The functions of all corruptions fill `out` from `images`, both (n, height, width, channels). `keys` holds one random
key for each image. The other arguments are the parameters of `severities`, in their order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftcal.core.numerics import ieee
from driftcal.core.random import bits, normal
from driftcal.shifts.corruptions.filters import Keys
from driftcal.types import Images

#: (n, values of an image)
Flat = NDArray[np.float32]


def gaussian(images: Images, out: Images, keys: Keys, variance: float, clip: bool) -> None:
    """x + sqrt(variance) * N(0, 1), the same draw for every variance."""
    _add_normal(_flat(images), _flat(out), keys, np.float32(np.sqrt(variance)), np.float32(0), clip)


def gaussian_noise(images: Images, out: Images, keys: Keys, deviation: float) -> None:
    """x + deviation * N(0, 1)."""
    _add_normal(_flat(images), _flat(out), keys, np.float32(deviation), np.float32(0), True)


def speckle_noise(images: Images, out: Images, keys: Keys, deviation: float) -> None:
    """x + x * deviation * N(0, 1)."""
    _add_normal(_flat(images), _flat(out), keys, np.float32(0), np.float32(deviation), True)


def shot_noise(images: Images, out: Images, keys: Keys, photons: float) -> None:
    """Poisson(photons * x) / photons."""
    _poisson(_flat(images), _flat(out), keys, photons, *_poisson_tables(photons))


def impulse_noise(images: Images, out: Images, keys: Keys, share: float) -> None:
    """A share of the values become 0 or 1, both equally often."""
    _salt_and_pepper(_flat(images), _flat(out), keys, np.uint64(share * 2.0**64))


def _flat(images: Images) -> Flat:
    return images.reshape(len(images), -1)


@ieee
def _add_normal(images: Flat, out: Flat, keys: Keys, absolute: np.float32, relative: np.float32, clip: bool) -> None:
    for i in range(images.shape[0]):
        key = keys[i]
        for j in range(images.shape[1]):
            x = images[i, j]
            x += (absolute + relative * x) * np.float32(normal(key, j))
            if clip:
                x = min(max(x, np.float32(0)), np.float32(1))
            out[i, j] = x


@ieee
def _salt_and_pepper(images: Flat, out: Flat, keys: Keys, limit: np.uint64) -> None:
    half = limit >> np.uint64(1)
    for i in range(images.shape[0]):
        key = keys[i]
        for j in range(images.shape[1]):
            b = bits(key, j)
            x = images[i, j]
            if b < limit:
                x = np.float32(0) if b < half else np.float32(1)
            out[i, j] = x


@lru_cache(maxsize=16)
def _poisson_tables(photons: float) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.int32]]:
    """For each 8-bit value: the cumulative distribution in units of 2^-32, the count of its first entry, and a guide.

    The guide holds, for the upper 8 bits of a random number, the entry at which the search begins. A value between two
    8-bit values needs a small second draw, because Poisson(a + b) = Poisson(a) + Poisson(b).
    """
    from scipy.stats import poisson

    means = photons * np.arange(256) / 255
    # eight standard deviations on each side: the rest has a probability below 2^-32
    first = np.maximum(0, means - 8 * np.sqrt(means) - 8).astype(np.int32)
    length = int(np.max(means + 8 * np.sqrt(means) + 24 - first)) + 1
    counts = first[:, None] + np.arange(length)
    cumulative = np.minimum(poisson.cdf(counts, means[:, None]) * 2.0**32, 2.0**32 - 1).astype(np.uint32)
    cumulative[:, -1] = 2**32 - 1
    smallest = (np.arange(256, dtype=np.uint64) << np.uint64(24)).astype(np.uint32)  # numbers with these upper 8 bits
    guide = np.stack([np.searchsorted(entries, smallest, side="left") for entries in cumulative]).astype(np.int32)
    return cumulative, first, guide


@ieee
def _poisson(images: Flat, out: Flat, keys: Keys, photons: float, cumulative: Any, first: Any, guide: Any) -> None:
    for i in range(images.shape[0]):
        key = keys[i]
        for j in range(images.shape[1]):
            x = np.float64(images[i, j])
            below = int(x * 255 + 1e-3)  # the 8-bit value below x; in float32, k/255 may be a little less than k/255
            b = bits(key, j)
            u = np.uint32(b >> np.uint64(32))
            k = guide[below, np.int64(b >> np.uint64(56))]
            while cumulative[below, k] < u:
                k += 1
            count = first[below] + k
            rest = photons * (x - below / 255)
            if rest > 1e-5 * photons:
                v = np.int64(b & np.uint64(0xFFFFFFFF)) * 2.0**-32
                term = np.exp(-rest)
                total = term
                extra = 0
                while v > total and extra < 64:
                    extra += 1
                    term *= rest / extra
                    total += term
                count += extra
            out[i, j] = min(np.float32(count / photons), np.float32(1))
