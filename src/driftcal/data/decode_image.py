"""Decoding one image file to pixels in [0, 1], at the depth that the file has.

Pillow reads 8 bits per channel, and 16 or 32 bits or floats for grey images. Its own conversion to 8 bits clips deeper
images at 255, which turns them white. They are therefore divided by the largest number of their format instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from driftcal.errors import DataError, DriftcalError
from driftcal.io.limits import IMAGE_PIXELS
from driftcal.types import Array

#: The formats that Pillow may use, whatever a file is called. Others start programs (EPS: ghostscript) or are rare.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")

_TIFF_BITS, _TIFF_PHOTOMETRIC, _TIFF_SAMPLE_FORMAT = 258, 262, 339
_WHITE_IS_ZERO, _SIGNED = 0, 2


def decode_image(path: Path, *, grey: bool) -> Any:
    """The image in a file as a Pillow image: of mode L or RGB, or of mode F with values in [0, 1] if it is deeper."""
    from PIL import Image

    limit = IMAGE_PIXELS.value()
    if Image.MAX_IMAGE_PIXELS is not None and limit > Image.MAX_IMAGE_PIXELS:  # the user raised the limit
        Image.MAX_IMAGE_PIXELS = limit
    try:
        with path.open("rb") as stream, Image.open(stream, formats=FORMATS) as file:
            check_pixel_count(path, *file.size)
            if is_deep(file):
                return Image.fromarray(deep_pixels(file, path))
            return file.convert("L" if grey else "RGB")
    except FileNotFoundError as error:
        raise DataError(
            f"there is no image {str(path)!r} any more; it existed when the folder was listed. Open the source again."
        ) from error
    except DriftcalError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"image {str(path)!r} is too large: {error} {IMAGE_PIXELS.way_out()}") from error
    except Exception as error:  # damaged files fail in many ways, inside Pillow's decoders and its parsers of tags
        raise DataError(f"image {str(path)!r} cannot be decoded: {error}. Replace the file, or remove it.") from error


def check_pixel_count(path: Path, width: int, height: int) -> None:
    """Refuse an image with more pixels than the limit, before any of them is decoded."""
    limit = IMAGE_PIXELS.value()
    if width * height > limit:
        raise DataError(
            f"image {str(path)!r} must have at most {limit:,} pixels; it has {width:,} x {height:,}. {IMAGE_PIXELS.way_out()}"
        )


def is_deep(file: Any) -> bool:
    """Whether an open image has more than 8 bits per channel; Pillow reads such images in grey only."""
    return str(file.mode).startswith(("I", "F"))


def deep_pixels(file: Any, path: Path | str) -> Array:
    """The pixels of a deep image as float32 in [0, 1]."""
    tags = getattr(file, "tag_v2", {})
    bits = int(tags.get(_TIFF_BITS, (16,))[0])  # deep PNG and PGM images have 16
    is_signed = _SIGNED in tags.get(_TIFF_SAMPLE_FORMAT, ())
    pixels: Array = np.asarray(file)
    if file.mode == "F":
        low, high = float(pixels.min()), float(pixels.max())
        if not (low >= 0 and high <= 1):
            raise DataError(
                f"image {str(path)!r} holds floats, which must lie in [0, 1]; they span {low:.6g} to {high:.6g}. Divide them by the "
                "largest value that your sensor can give, or save whole numbers of 16 bits."
            )
    else:
        if not file.format and file.mode == "I" and pixels.max() >= 2**16:
            raise DataError(
                f"image {str(path)!r} must say how many bits its numbers have; they reach {pixels.max()} and come from no file. "
                "Divide them by the largest number that they can have, and pass floats."
            )
        if bits == 32 and not is_signed:
            pixels = pixels.view(np.uint32)  # Pillow reads them as signed numbers
        if pixels.min() < 0:
            raise DataError(
                f"image {str(path)!r} must not hold negative numbers; the smallest is {pixels.min()}. Shift the values so that 0 is "
                "black, and save them without sign."
            )
        pixels = pixels / (2 ** (bits - is_signed) - 1)
    if tags.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO:
        pixels = 1 - pixels
    return (
        np.clip(pixels, 0, 1, dtype=np.float32)
        if pixels.dtype == np.float32
        else np.clip(pixels, 0, 1).astype(np.float32)
    )
