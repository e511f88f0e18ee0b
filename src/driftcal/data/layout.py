"""The axes of arrays: grey images (n, height, width) and time series (n, length, channels) both have three."""

from __future__ import annotations

from typing import Literal

import numpy as np

from driftcal.core.inputs.images import SMALLEST_SIDE
from driftcal.errors import ImagesError, UnknownName
from driftcal.types import Array

#: N: samples, L: time or wavelength, C: channels, H: height, W: width.
Layout = Literal["NLC", "NCL", "NHW", "NHWC", "NCHW"]
LAYOUTS = ("NLC", "NCL", "NHW", "NHWC", "NCHW")


def arranged(x: Array, layout: str | None = None) -> Array:
    """Series as (n, length, channels), images as (n, height, width, channels); other arrays as they are.

    With three axes and without `layout`, a square is an image, and fewer than 8 columns under at least 8 rows are the channels of
    a series. Everything else may be both, and is refused.

    >>> arranged(np.zeros((5, 28, 28), np.float32)).shape, arranged(np.zeros((5, 128, 6))).shape
    ((5, 28, 28, 1), (5, 128, 6))
    >>> arranged(np.zeros((5, 6, 128)), "NCL").shape
    (5, 128, 6)
    """
    if layout is not None:
        if layout not in LAYOUTS:
            raise UnknownName.of("layout", layout, LAYOUTS)
        if x.ndim != len(layout):
            raise ImagesError(
                f"layout {layout!r} needs {len(layout)} axes; the shape is {x.shape}. Leave it out, or name each axis."
            )
        if layout == "NHW":
            return x[..., None]
        return np.moveaxis(x, 1, -1) if layout in ("NCL", "NCHW") else x
    if x.ndim != 3:
        return x
    rows, columns = x.shape[1:]
    if rows == columns or (x.dtype == np.uint8 and min(rows, columns) >= SMALLEST_SIDE):
        return x[..., None]
    if columns < SMALLEST_SIDE <= rows:
        return x
    raise ImagesError(
        f"inputs of shape {x.shape} may be grey images or series; nothing is guessed. Say which: layout='NHW' for images (n, height, "
        "width), 'NLC' for series (n, length, channels), 'NCL' for series (n, channels, length): "
        "driftcal.open_source((X, y), layout='NLC')."
    )


def check_series(series: Array, first: int = 0) -> None:
    """Refuse series with infinite values; `first` is the number of the first sample. NaN are missing values."""
    infinite = np.flatnonzero(np.isinf(series).any(axis=(1, 2)))
    if len(infinite):
        raise ImagesError(
            f"series must be finite, or NaN where values are missing; sample {first + int(infinite[0])} holds infinity."
        )
