"""Preprocessing: from images in [0, 1] to the inputs that a model was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from driftcal.errors import ImagesError, InputError, UnknownName
from driftcal.types import Array

LAYOUTS = ("NCHW", "NHWC", "flat")
#: The same for series.
_OF_SERIES = {"NCL": "NCHW", "NLC": "NHWC"}
CHANNELS = ("RGB", "BGR")


@dataclass(frozen=True)
class Preprocessing:
    """The steps from float32 (n, H, W, C) in [0, 1] to the model's input: size, channels, scale, mean and std, layout.

    Feature matrices (n, F) take scale, mean and std only, series (n, length, channels) these and the layout.

    Parameters
    ----------
    mean, std
        Subtracted and divided by, per channel, in the model's order of channels and after scaling. () for none.
    layout
        "NCHW", "NHWC", or "flat" (one vector per image). "NCL" and "NLC" say the same of series. None: the usual one of
        the model's framework.
    size
        (height, width) to scale to, bilinear, smoothed when shrinking. None: images keep their size.
    channels
        "RGB", or "BGR", which reverses the last axis.
    scale
        A factor: 255 for models that take values from 0 to 255.

    >>> Preprocessing(mean=(0.5,), std=(0.25,), layout="NCHW")(np.ones((2, 8, 8, 1), np.float32)).shape
    (2, 1, 8, 8)
    >>> Preprocessing.from_dict(Preprocessing(scale=255).to_dict()) == Preprocessing(scale=255)
    True
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    layout: str | None = None
    size: tuple[int, int] | None = None
    channels: str = "RGB"
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", _OF_SERIES.get(self.layout or "", self.layout))
        if self.layout not in (None, *LAYOUTS):
            raise UnknownName.of("layout", self.layout, LAYOUTS)
        if self.channels not in CHANNELS:
            raise UnknownName.of("channel order", self.channels, CHANNELS)
        try:
            object.__setattr__(self, "mean", tuple(float(value) for value in np.atleast_1d(self.mean)))
            object.__setattr__(self, "std", tuple(float(value) for value in np.atleast_1d(self.std)))
            object.__setattr__(self, "scale", float(self.scale))
            if self.size is not None:
                height, width = (self.size, self.size) if isinstance(self.size, int) else self.size
                object.__setattr__(self, "size", (int(height), int(width)))
        except (TypeError, ValueError) as error:
            raise InputError(f"mean, std and scale must be numbers, size (height, width); {error}.") from error
        if not np.isfinite([*self.mean, *self.std, self.scale]).all() or 0 in self.std or self.scale == 0:
            raise InputError(
                f"mean, std and scale must be finite, std and scale not 0; they are {self.mean}, {self.std}, {self.scale}."
            )
        if self.size is not None and min(self.size) < 1:
            raise InputError(f"size must be at least 1 pixel; it is {self.size}.")

    @property
    def channels_first(self) -> bool:
        """Whether channels are the second axis of the model's feature maps, and not the last."""
        return self.layout not in (None, "NHWC")

    def with_usual_layout(self, layout: str) -> Preprocessing:
        """The same steps, with this layout if none was given."""
        return replace(self, layout=layout) if self.layout is None else self

    def __call__(self, inputs: Array, dtype: Any = np.float32) -> Array:
        """The model's input for a batch."""
        x: Array = np.asarray(inputs, dtype)
        if x.ndim not in (2, 3, 4):
            raise ImagesError(
                f"inputs must be images (n, H, W, C), series (n, length, channels) or features (n, F); their shape is {x.shape}."
            )
        if x.ndim == 3 and (self.size is not None or self.channels != "RGB"):
            raise ImagesError(
                f"size and channels are for images; the inputs are series of shape {x.shape}. Leave both out."
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) > 1 and len(values) != x.shape[-1]:
                raise ImagesError(f"{name} has {len(values)} values but inputs have {x.shape[-1]} channels.")
        if x.ndim == 4:
            if self.size is not None:
                x = resize(x, self.size)
            if self.channels == "BGR":
                x = x[..., ::-1]
        if self.scale != 1:
            x = x * np.float32(self.scale)
        if self.mean and any(self.mean):
            x = x - np.array(self.mean, np.float32)
        if self.std and any(value != 1 for value in self.std):
            x = x / np.array(self.std, np.float32)
        if x.ndim > 2 and self.layout == "NCHW":
            x = np.moveaxis(x, -1, 1)
        elif self.layout == "flat":
            x = x.reshape(len(x), -1)
        return np.ascontiguousarray(x)

    def to_dict(self) -> dict[str, Any]:
        """The steps as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Preprocessing from JSON values, such as a user's file."""
        steps = [item.name for item in fields(cls)]
        for name in values:
            if name not in steps:
                raise UnknownName.of("preprocessing step", name, steps)
        arguments: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**arguments)


def resize(images: Array, size: tuple[int, int]) -> Array:
    """Bilinear scaling of (n, H, W, C); shrinking averages the pixels that are merged.

    >>> resize(np.ones((1, 4, 4, 1), np.float32), (2, 3)).ravel()
    array([1., 1., 1., 1., 1., 1.], dtype=float32)
    """
    if images.shape[1:3] == tuple(size):
        return images
    down, across = _weights(images.shape[1], size[0]), _weights(images.shape[2], size[1])
    scaled = np.einsum("ah,nhwc->nawc", down, images, optimize=True)
    return np.ascontiguousarray(np.einsum("bw,nawc->nabc", across, scaled, optimize=True), np.float32)


def _weights(old: int, new: int) -> Array:
    """(new, old) weights of a triangle filter, as wide as a pixel of the smaller image."""
    ratio = old / new
    reach = max(ratio, 1.0)
    centre = (np.arange(new)[:, None] + 0.5) * ratio - 0.5
    weights = np.clip(1 - np.abs(np.arange(old)[None, :] - centre) / reach, 0, None)
    normalised: Array = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normalised
