"""The table of shifts × levels for one image, as a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftcal.errors import DataError
from driftcal.shifts.shift import Shift
from driftcal.types import Images

#: Variances shown for a continuous shift, which has no table.
SHOWN = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)

_CELL, _GAP, _LEFT, _TOP = 112, 4, 150, 26
_LARGEST = 512  # sides beyond this are shrunk first: a cell could not show the difference


def contact_sheet(image: Images, shifts: Sequence[Shift], *, seed: int = 0) -> NDArray[np.uint8]:
    """A picture (height, width, 3): one row for each shift, one column for each level, the name at the left."""
    from PIL import Image, ImageDraw, ImageFont

    rows = [(shift, SHOWN if shift.levels is None else shift.levels) for shift in shifts]
    columns = max(len(levels) for _, levels in rows)
    size = (_LEFT + columns * (_CELL + _GAP), _TOP + len(rows) * (_CELL + _GAP))
    sheet = Image.new("RGB", size, "white")
    draw, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(15), ImageFont.load_default(12)
    for column in range(columns):
        draw.text((_LEFT + column * (_CELL + _GAP) + _CELL // 2, 4), str(column), "black", font, anchor="mt")
    for row, (shift, levels) in enumerate(rows):
        top = _TOP + row * (_CELL + _GAP)
        draw.text((6, top + _CELL // 2), shift.name, "black", font, anchor="lm")
        for column, level in enumerate(levels):
            left = _LEFT + column * (_CELL + _GAP)
            sheet.paste(_cell(shift(image[None], level, seed=seed)[0]), (left, top))
            if shift.levels is None:
                draw.text(
                    (left + 4, top + 4), f"variance {level:g}", "white", small, stroke_width=1, stroke_fill="black"
                )
    return np.asarray(sheet)


def _cell(image: Images) -> Any:
    """An image as a picture of 112 pixels' width: small ones with visible pixels."""
    from PIL import Image

    bytes_ = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    picture = Image.fromarray(bytes_[..., 0] if bytes_.shape[2] == 1 else bytes_).convert("RGB")
    factor = _CELL / max(picture.size)
    wide = (max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
    return picture.resize(wide, Image.Resampling.NEAREST if factor > 1 else Image.Resampling.LANCZOS)


def read_image(path: str | Path) -> Images:
    """One picture file as an image (height, width, channels) in [0, 1], grey or RGB, at most 512 pixels a side."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            grey = picture.mode in ("1", "L", "LA", "I", "I;16", "F")
            picture.load()
            plain = picture.convert("L" if grey else "RGB")
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r} as an image: {error}. PNG and JPEG files will do.") from error
    plain.thumbnail((_LARGEST, _LARGEST))
    array = np.asarray(plain, np.float32) / np.float32(255)
    return array[..., None] if grey else array


def save_contact_sheet(image: str | Path, output: str | Path, shifts: Sequence[Shift], *, seed: int = 0) -> Path:
    """Draw the sheet for an image file and write it as PNG, whole or not at all."""
    from PIL import Image

    sheet = Image.fromarray(contact_sheet(read_image(image), shifts, seed=seed))
    target = Path(output)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        sheet.save(part, format="PNG")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"cannot write {str(target)!r}: {error}.") from error
    return target
