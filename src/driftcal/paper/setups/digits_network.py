"""The paper's experiments in small: scikit-learn's digits, a network trained on the spot, and stand-ins for larger data."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.data import Source
from driftcal.errors import DataError
from driftcal.io.fingerprint import fingerprint
from driftcal.types import Array, Indices

#: Rows of the digits: what the classifier learns from, what calibrators are tuned on, what they are tested on.
SPLIT = (597, 600, 600)

#: Digits that are also classes of the network in the small ObjectNet; the others are unknown to it there.
_SHARED = {"zero": (0,), "one": (1,), "three or eight": (3, 8), "seven": (7,)}
_UNKNOWN = {"upside-down two": 2, "upside-down four": 4}
#: Images of each class in the small ObjectNet, and the side of the square they are drawn on.
_EACH, _SIDE = 30, 32


def train_digits(train: Source) -> Any:
    """A small neural network for scikit-learn's digits: right in domain, and far too sure of itself when they drift."""
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    network = MLPClassifier((64,), learning_rate_init=0.005, max_iter=120, tol=0, n_iter_no_change=120, random_state=0)
    inputs = train.inputs().reshape(len(train), -1).astype(np.float64)
    # one thread: these matrices are small, and the same network comes out on a busy machine
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # it stops after a fixed number of epochs, and that is meant
        return network.fit(inputs, train.labels)


def permuted_pixels(source: Source) -> Source:
    """The same images with their pixels in another order, one order for all: no class is right, the histogram is the same.

    >>> from driftcal.data import digits
    >>> jumbled = permuted_pixels(digits())
    >>> bool((jumbled.labels == -1).all()), float(jumbled.inputs()[0].sum()) == float(digits().inputs()[0].sum())
    (True, True)
    """
    height, width, _ = source.input_shape
    order = np.random.default_rng(0).permutation(height * width)

    def read(rows: Indices) -> Array:
        images = source.read(rows)
        jumbled: Array = images.reshape(len(images), height * width, -1)[:, order].reshape(images.shape)
        return jumbled

    return replace(
        source,
        name=f"{source.name}, pixels permuted",
        read=read,
        all_labels=np.full(len(source.all_labels), -1, np.int64),
        content=lambda: fingerprint({"permuted": order, "of": source.content()}),
        correct_outputs={},
    )


def write_small_objectnet(source: Source, folder: Path) -> Path:
    """A tree in ObjectNet's published layout, made from digits: red border, mapping files, classes the network lacks.

    Shared classes are digits seen from aside (turned a little, moved, darker); "three or eight" has two right answers. The
    other classes are digits upside down, which are out of distribution.
    """
    from PIL import Image

    marker = folder / "mappings" / "imagenet_to_label_2012_v2"
    if marker.is_file():
        return folder
    rng = np.random.default_rng(0)
    turns = {name: (outputs, 25) for name, outputs in _SHARED.items()}
    turns |= {name: ((digit,), 180) for name, digit in _UNKNOWN.items()}
    for name, (outputs, angle) in turns.items():
        place = folder / "images" / name.replace(" ", "_")
        place.mkdir(parents=True, exist_ok=True)
        rows = np.flatnonzero(np.isin(source.labels, outputs))[:_EACH]
        if not len(rows):
            raise DataError(f"{source.name} must hold every digit to make a small ObjectNet; {name!r} has none.")
        for number, image in enumerate(source.inputs(source.indices[rows])):
            grey = Image.fromarray(np.uint8(np.rint(image[..., 0] * 200)))
            turned = grey.resize((_SIDE, _SIDE), Image.Resampling.BILINEAR).rotate(
                angle + rng.uniform(-10, 10), Image.Resampling.BILINEAR
            )
            framed = Image.new("RGB", (_SIDE + 4, _SIDE + 4), (255, 0, 0))  # the border that marks ObjectNet's images
            framed.paste(turned.convert("RGB"), (2, 2))
            framed.save(place / f"{number:03d}.png")
    _write_mappings(folder / "mappings", list(turns), marker)
    return folder


def _write_mappings(folder: Path, names: list[str], marker: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    digits = [str(digit) for digit in range(10)]
    contents: dict[str, Any] = {
        "folder_to_objectnet_label.json": {name.replace(" ", "_"): name for name in names},
        "objectnet_to_imagenet_1k.json": {name: "; ".join(map(str, outputs)) for name, outputs in _SHARED.items()},
        "pytorch_to_imagenet_2012_id.json": {digit: int(digit) for digit in digits},
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    marker.write_text("\n".join(digits) + "\n", encoding="utf-8")  # last: it says that the tree is whole


def greyed(source: Source) -> Source:
    """Colour images as grey ones, for a network that was trained on those."""

    def read(rows: Indices) -> Array:
        grey: Array = source.read(rows).mean(axis=3, keepdims=True, dtype=np.float32)
        return grey

    return replace(source, read=read, content=lambda: fingerprint({"grey": True, "of": source.content()}))
