"""A small replacement of ObjectNet made from digits: a folder in ObjectNet's published layout."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.data import Source, objectnet
from driftcal.errors import DataError
from driftcal.io.fingerprint import fingerprint
from driftcal.types import Array, Indices

#: Class -> the digits that are correct predictions of it.
_KNOWN_CLASSES = {"zero": (0,), "one": (1,), "three or eight": (3, 8), "seven": (7,)}
#: Class -> the digit that is drawn; the network has no such class.
_UNKNOWN_CLASSES = {"upside-down two": 2, "upside-down four": 4}
_IMAGES_PER_CLASS = 30
#: Pixels of the side, without the border.
_SIDE = 32


def open_small_objectnet(source: Source, folder: Path) -> Source:
    """The small ObjectNet as grey 8×8 images; its folder is written if it does not exist."""
    return _as_grey(objectnet(write_small_objectnet(source, folder), size=8, crop=1.0))


def write_small_objectnet(source: Source, folder: Path) -> Path:
    """Write images with a red border, mapping files, and classes that the network lacks.

    Classes of the network are digits that are rotated a little and darker; "three or eight" has two correct
    predictions. Other classes are digits upside down.
    """
    from PIL import Image

    last_written = folder / "mappings" / "imagenet_to_label_2012_v2"
    if last_written.is_file():
        return folder
    rng = np.random.default_rng(0)
    digits_and_angle = {name: (outputs, 25) for name, outputs in _KNOWN_CLASSES.items()}
    digits_and_angle |= {name: ((digit,), 180) for name, digit in _UNKNOWN_CLASSES.items()}
    for name, (outputs, angle) in digits_and_angle.items():
        class_folder = folder / "images" / name.replace(" ", "_")
        class_folder.mkdir(parents=True, exist_ok=True)
        positions = np.flatnonzero(np.isin(source.labels, outputs))[:_IMAGES_PER_CLASS]
        if not len(positions):
            raise DataError(f"{source.name} must hold every digit to make a small ObjectNet; {name!r} has none.")
        for number, image in enumerate(source.inputs(source.indices[positions])):
            grey = Image.fromarray(np.uint8(np.rint(image[..., 0] * 200)))
            rotated = grey.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR).rotate(
                angle + rng.uniform(-10, 10), Image.Resampling.BILINEAR
            )
            framed = Image.new("RGB", (_SIDE + 4, _SIDE + 4), (255, 0, 0))  # the border that marks ObjectNet's images
            framed.paste(rotated.convert("RGB"), (2, 2))
            framed.save(class_folder / f"{number:03d}.png")
    _write_mappings(list(digits_and_angle), last_written)
    return folder


def _write_mappings(classes: list[str], last_written: Path) -> None:
    folder = last_written.parent
    folder.mkdir(parents=True, exist_ok=True)
    digits = [str(digit) for digit in range(10)]
    contents: dict[str, Any] = {
        "folder_to_objectnet_label.json": {name.replace(" ", "_"): name for name in classes},
        "objectnet_to_imagenet_1k.json": {
            name: "; ".join(map(str, outputs)) for name, outputs in _KNOWN_CLASSES.items()
        },
        "pytorch_to_imagenet_2012_id.json": {digit: int(digit) for digit in digits},
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    last_written.write_text(
        "\n".join(digits) + "\n", encoding="utf-8"
    )  # written last, so that it exists only if all other files do


def _as_grey(source: Source) -> Source:
    """The source with grey images."""

    def read(indices: Indices) -> Array:
        grey: Array = source.read(indices).mean(axis=3, keepdims=True, dtype=np.float32)
        return grey

    return replace(source, read=read, content=lambda: fingerprint({"grey": True, "of": source.content()}))
