"""The bootstrap over images: each replicate is a vector of weights, not a copy of logits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.core.parallel import n_threads, run_in_threads
from driftcal.core.random import bits, mix64, uniform
from driftcal.core.validation import as_array
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64, Weights


def image_numbers(groups: AnyArray, kept: Array, n_samples: int) -> Array:
    """The number of the image that each kept sample belongs to. Without `groups`, each sample is an image."""
    if groups is None:
        return np.arange(len(kept))
    names = as_array(groups, "groups")
    if names.ndim == 0 or names.size != n_samples:
        raise InputError(
            f"groups must name the image of each sample; there are {n_samples} samples and it has shape {names.shape}. "
            "Repeat an image's name for each of its samples."
        )
    flat = names.reshape(-1)[kept]
    numbers: Array = np.unique(flat.astype(str) if flat.dtype == object else flat, return_inverse=True)[1]
    return numbers


@kernel
def resample_counts(seed: int, replicate: int, counts: Float64) -> None:
    """Write how often each of n images is drawn in n draws with replacement: a pure function of (seed, replicate)."""
    n = np.uint64(counts.shape[0])
    counts[:] = 0.0
    key = mix64(mix64(np.uint64(seed)) + np.uint64(replicate))
    for i in range(counts.shape[0]):
        counts[np.int64(((bits(key, i) >> np.uint64(32)) * n) >> np.uint64(32))] += 1.0


@kernel
def uniforms(seed: int, stream: int, out: Float64) -> None:
    """Write numbers in [0, 1), a pure function of (seed, stream)."""
    key = mix64(mix64(np.uint64(seed)) + np.uint64(stream))
    for i in range(out.shape[0]):
        out[i] = uniform(key, i)


@kernel
def resample_weights(
    seed: int, replicate: int, images: Array, sample_weights: Weights, counts: Float64, weights: Weights
) -> None:
    """Write the weights of a replicate: the sample weight times the number of draws of the sample's image."""
    resample_counts(seed, replicate, counts)
    for i in range(images.shape[0]):
        weights[i] = sample_weights[i] * counts[images[i]]


def for_each_replicate_range(run: Callable[[int, int], None], n_resamples: int) -> None:
    """Call ``run(first, last)`` for ranges that cover all replicates, on all cores."""
    step = max(1, -(-n_resamples // (4 * n_threads())))
    run_in_threads(lambda first: run(first, min(first + step, n_resamples)), range(0, n_resamples, step))
