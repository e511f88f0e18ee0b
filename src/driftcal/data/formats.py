"""The formats of data sets by name, and `open_source`, which opens each of them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl

from driftcal.core.inputs.frames import is_frame
from driftcal.data.arrays import digits, from_arrays, npz
from driftcal.data.bundled import fashion_mnist
from driftcal.data.hugging_face import from_hugging_face, hugging_face_kind
from driftcal.data.image_folder import image_folder
from driftcal.data.published.cifar10 import cifar10, cifar10_c
from driftcal.data.published.imagenet import imagenet, imagenet_c
from driftcal.data.published.objectnet import objectnet
from driftcal.data.source import Source
from driftcal.data.tables import csv, from_frame, parquet
from driftcal.data.torch_data import from_torch, torch_kind
from driftcal.errors import DataError, InputError, UnknownName
from driftcal.io.paths import as_path, is_url

#: Sources that driftcal or scikit-learn contain: they have no path.
WITHOUT_PATH = ("digits", "fashion-mnist")
#: Name -> function that opens the format. ``open_source("name=PATH")`` and the command line use these names.
SOURCES: dict[str, Callable[..., Source]] = {
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "npz": npz,
    "folder": image_folder,
    "cifar10": cifar10,
    "cifar10-c": cifar10_c,
    "imagenet": imagenet,
    "imagenet-c": imagenet_c,
    "objectnet": objectnet,
    "csv": csv,
    "parquet": parquet,
}

#: Ending of a file -> its format.
_ENDINGS = {".npz": "npz", ".csv": "csv", ".parquet": "parquet"}

#: Options of formats whose value is text, also if it looks like a number.
_TEXT_OPTIONS = ("label", "separator", "x", "y", "group")


def open_source(
    source: Any,
    *,
    class_names: Sequence[Any] | None = None,
    categorical: Sequence[int | str] | None = None,
    **options: Any,
) -> Source:
    """Open labelled data.

    Parameters
    ----------
    source
        ``"digits"``, ``"fashion-mnist"``, ``"cifar10=DIR"``, ``"val.npz"``, ``"photos/"`` (one sub-folder per class),
        ``(x, y)`` or a `Source`. A table is ``"val.csv"``, ``"val.parquet"`` or a data frame, with ``label="column"``. A torch `DataLoader`
        or `Dataset` and a Hugging Face `datasets.Dataset` are opened as they are. Files and folders may be URLs:
        ``"s3://bucket/val.npz"``, ``"imagenet=gs://bucket/val"``.
    class_names
        All classes in the order of the model's outputs.
    categorical
        The columns of features that hold categories: numbers, or names if x is a data frame.
    **options
        Options of the format. In text all options may follow a question mark: ``"cifar10=DIR?part=train"``,
        ``"val.csv?label=risk&categorical=shop"``.

    >>> open_source("digits").input_shape
    (8, 8, 1)
    """
    if isinstance(source, tuple) and len(source) == 2:
        return from_arrays(
            *source, class_names=class_names, categorical=() if categorical is None else categorical, **options
        )
    if isinstance(source, Source):
        if options:
            raise InputError(f"an open source takes no options; got {', '.join(options)}. Leave them out.")
        opened = source if class_names is None else source.with_classes(class_names)
    elif is_data_set(source):
        if class_names is not None:
            options["class_names"] = class_names
        opened = _call("frame" if is_frame(source) else "data set", _opener(source), (source,), options)
        opened = opened if class_names is None else opened.with_classes(class_names)
    elif isinstance(source, str | os.PathLike):
        text, query = _split_query(os.fspath(source))
        if class_names is not None:
            options["class_names"] = class_names
        options = {**query, **options}
        categorical = options.pop("categorical", None) if categorical is None else categorical
        opened = _open_text(text, options)
    else:
        raise InputError(
            "a source must be a name, a path, (x, y), a data frame with label=..., a torch DataLoader or Dataset, a Hugging Face "
            f"Dataset or a Source; it is {type(source).__name__}. Pass arrays as a pair (x, y)."
        )
    return opened if categorical is None else opened.with_categorical(categorical)


def is_data_set(data: Any) -> bool:
    """Whether this object holds inputs and labels: a data frame, or data of torch or Hugging Face."""
    return is_frame(data) or torch_kind(data) is not None or hugging_face_kind(data) is not None


def _opener(data: Any) -> Callable[..., Source]:
    if is_frame(data):
        return from_frame
    # a stream of Hugging Face is an IterableDataset of torch as well
    return from_hugging_face if hugging_face_kind(data) is not None else from_torch


def _open_text(text: str, options: dict[str, Any]) -> Source:
    """Open a name, ``name=PATH`` or a path."""
    name, equals, path = text.partition("=")
    if text in SOURCES:
        return _open_format(text, (), options)
    if equals and name in SOURCES:  # the path may be a URL as well
        return _open_format(name, (path,), options)
    file = as_path(text)
    if file.is_dir():
        return _open_format("folder", (file,), options)
    if file.suffix in _ENDINGS and (file.suffix == ".npz" or file.exists()):
        return _open_format(_ENDINGS[file.suffix], (file,), options)
    if file.exists():
        raise DataError(
            f"{text!r} must be a .npz, .csv or .parquet file or a folder; it is {file.suffix or 'a file without ending'}."
        )
    if equals and not any(separator in name for separator in "./\\"):  # not a path
        raise UnknownName.of("source", name, SOURCES)
    raise DataError(
        f"there is no file or folder {text!r}, nor a source of that name. Give a .npz file, a folder, or one of: "
        f"{', '.join(f'{name}=DIR' if name not in WITHOUT_PATH else name for name in SOURCES)}."
    )


def _open_format(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Source:
    """Call the function of a format, with an error that lists its options if they do not fit."""
    usage = "" if name in WITHOUT_PATH else f" Write {name}=DIR;"
    return _call(name, SOURCES[name], arguments, options, usage)


def _call(
    name: str, opener: Callable[..., Source], arguments: tuple[Any, ...], options: dict[str, Any], usage: str = ""
) -> Source:
    signature = inspect.signature(opener)
    # Formats with a fixed order of classes take no class_names: their labels are renumbered afterwards.
    class_names = None if "class_names" in signature.parameters else options.pop("class_names", None)
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        allowed = ", ".join(str(p) for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY)
        raise InputError(f"source {name!r}: {error}.{usage} its options: {allowed or 'none'}.") from error
    source = opener(*arguments, **options)
    return source if class_names is None else source.with_classes(class_names)


def _split_query(text: str) -> tuple[str, dict[str, Any]]:
    """``path?a=1&b=fog`` as path and options; a question mark in the name of an existing file is part of the name."""
    if "?" not in text or (not is_url(text) and os.path.exists(text)):
        return text, {}
    path, _, query = text.rpartition("?")
    return path, {key: _option_value(key, value) for key, value in parse_qsl(query, keep_blank_values=True)}


def _option_value(key: str, text: str) -> Any:
    """Text as a value: a number, ``224x224`` as a pair, true or false; `class_names`, `categorical`, `drop` are lists."""
    if key in _TEXT_OPTIONS:
        return text
    if key in ("class_names", "categorical", "drop"):
        return [int(item) if key == "categorical" and item.isdecimal() else item for item in text.split(",")]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    height, times, width = text.partition("x")
    if times and height.isdecimal() and width.isdecimal():
        return int(height), int(width)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
