"""Checks of images."""

from __future__ import annotations

import numpy as np

from driftcal.errors import ImagesError
from driftcal.types import AnyArray, Array, Images

#: Shortest side of an image: corruptions use the neighbours of a pixel, and a smaller image has too few.
SMALLEST_SIDE = 8


def image_array(images: AnyArray) -> Array:
    """`images` as an array (n, height, width, channels) of uint8 or floats; values are checked block by block."""
    array = np.asarray(images)
    if array.dtype != np.uint8 and array.dtype.kind != "f":
        raise ImagesError(
            f"images must be uint8 (0 to 255) or floats in [0, 1]; these are {array.dtype}. "
            "Whole numbers from 0 to 255: images.astype('uint8')."
        )
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise ImagesError(
            f"images must have shape (n, height, width, channels) with 1 or 3 channels; got {array.shape}. {_shape_hint(array)}"
        )
    if array.shape[0] and min(array.shape[1:3]) < SMALLEST_SIDE:
        raise ImagesError(
            f"images must be at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels; these are "
            f"{array.shape[1]} x {array.shape[2]}. Enlarge them, or use 'tabular_noise' on the pixels as features."
        )
    return array


def _shape_hint(array: Array) -> str:
    """The way out for an array of the wrong shape."""
    if array.ndim == 4 and array.shape[1] in (1, 3):
        return "Channels first? Move them: np.moveaxis(images, 1, -1)."
    if array.ndim == 3 and array.shape[2] in (1, 3):
        return "One image? Add an axis: images[None]."
    if array.ndim == 3:
        return "Grey images? Add a channel: images[..., None]."
    if array.ndim == 2:
        return "A feature matrix? For features there are get_shift('tabular_noise').fit(x_val) and the suite 'tabular'."
    return "Only grey and RGB images can be shifted."


def as_block(array: Array, first: int) -> Images:
    """Part of an image array as contiguous float32 in [0, 1]; `first` is the number of its first image."""
    if array.dtype == np.uint8:
        return np.divide(array, np.float32(255), dtype=np.float32)
    block = np.ascontiguousarray(array, np.float32)
    check_pixels(block, first)
    return block


def check_images(images: Array) -> None:
    """Refuse (n, height, width, channels) that are no grey or RGB images: other channels, dtypes or values outside [0, 1]."""
    if images.shape[-1] not in (1, 3):
        hint = ""
        if images.shape[1] in (1, 3):
            hint = " It looks like (n, channels, H, W): move the axis with x.transpose(0, 2, 3, 1)."
        raise ImagesError(f"images must have 1 or 3 channels on the last axis; the shape is {images.shape}.{hint}")
    if images.dtype == np.uint8:
        return
    if images.dtype.kind != "f":
        raise ImagesError(
            f"images must be uint8 (0..255) or floats in [0, 1]; they are {images.dtype}. Convert them first."
        )
    check_pixels(images)


def check_pixels(images: Array, first: int = 0) -> None:
    """Refuse float images with NaN, infinity or values outside [0, 1]; `first` is the number of the first image."""
    if not images.size or (images.min() >= 0 and images.max() <= 1):
        return
    position = int(np.argmax([not (image.min() >= 0 and image.max() <= 1) for image in images]))
    image, number = images[position], first + position
    not_finite = np.argwhere(~np.isfinite(image))
    if len(not_finite):
        where = tuple(int(i) for i in not_finite[0])
        value = "NaN" if np.isnan(image[where]) else "infinity" if image[where] > 0 else "minus infinity"
        raise ImagesError(
            f"images must hold finite numbers; image {number} holds {value} at (row, column, channel) {where}. "
            "Repair or drop it."
        )
    low, high = float(image.min()), float(image.max())
    if low >= 0 and high > 2:
        remedy = "Values from 0 to 255: pass uint8, or divide by 255."
    elif low < -0.01 or high > 1.01:
        remedy = "Already normalised for a model? Undo that, and give open_model the preprocessing."
    else:
        remedy = "Clip them: np.clip(images, 0, 1)."
    raise ImagesError(f"images must lie in [0, 1]; image {number} spans {low:.6g} to {high:.6g}. {remedy}")
