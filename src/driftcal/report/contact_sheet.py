"""The contact sheet: a picture of one image under all shifts and levels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftcal.errors import DataError
from driftcal.io.atomic import write_atomic
from driftcal.shifts.shift import Shift
from driftcal.types import Images

#: The levels that are drawn for a shift without a table, such as gaussian noise.
VARIANCES = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)

#: Pixels: the side of a cell, the margin between cells, the room for names on the left and for levels at the top.
_CELL, _MARGIN, _LEFT, _TOP = 112, 4, 150, 26
#: Pixels: larger images are shrunk first, since a cell is much smaller.
_MAX_SIDE = 512


def contact_sheet(image: Images, shifts: Sequence[Shift], *, seed: int = 0) -> NDArray[np.uint8]:
    """The sheet as an array (height, width, 3): one row per shift with its name, one column per level."""
    from PIL import Image, ImageDraw, ImageFont

    rows = [(shift, VARIANCES if shift.levels is None else shift.levels) for shift in shifts]
    columns = max(len(levels) for _, levels in rows)
    size = (_LEFT + columns * (_CELL + _MARGIN), _TOP + len(rows) * (_CELL + _MARGIN))
    sheet = Image.new("RGB", size, "white")
    draw, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(15), ImageFont.load_default(12)
    for column in range(columns):
        draw.text((_LEFT + column * (_CELL + _MARGIN) + _CELL // 2, 4), str(column), "black", font, anchor="mt")
    for row, (shift, levels) in enumerate(rows):
        top = _TOP + row * (_CELL + _MARGIN)
        draw.text((6, top + _CELL // 2), shift.name, "black", font, anchor="lm")
        for column, level in enumerate(levels):
            left = _LEFT + column * (_CELL + _MARGIN)
            sheet.paste(_cell(shift(image[None], level, seed=seed)[0]), (left, top))
            if shift.levels is None:
                draw.text(
                    (left + 4, top + 4), f"variance {level:g}", "white", small, stroke_width=1, stroke_fill="black"
                )
    return np.asarray(sheet)


def _cell(image: Images) -> Any:
    """An image scaled to the size of a cell; the pixels of a small image stay visible."""
    from PIL import Image

    pixels = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).convert("RGB")
    factor = _CELL / max(picture.size)
    size = (max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
    return picture.resize(size, Image.Resampling.NEAREST if factor > 1 else Image.Resampling.LANCZOS)


def read_image(path: str | Path) -> Images:
    """An image file as an array (height, width, channels) in [0, 1], grey or RGB, of at most 512 pixels per side."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            grey = picture.mode in ("1", "L", "LA", "I", "I;16", "F")
            picture.load()
            plain = picture.convert("L" if grey else "RGB")
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r} as an image: {error}. Pass a PNG or JPEG file.") from error
    plain.thumbnail((_MAX_SIDE, _MAX_SIDE))
    array = np.asarray(plain, np.float32) / np.float32(255)
    return array[..., None] if grey else array


def save_contact_sheet(image: str | Path, output: str | Path, shifts: Sequence[Shift], *, seed: int = 0) -> Path:
    """Draw the contact sheet of an image file and write it as PNG."""
    from PIL import Image

    sheet = Image.fromarray(contact_sheet(read_image(image), shifts, seed=seed))
    png = io.BytesIO()
    sheet.save(png, format="PNG")
    try:
        return write_atomic(output, png.getvalue())
    except OSError as error:
        raise DataError(f"cannot write {str(output)!r}: {error}. Choose another folder.") from error
