"""Where inputs come from: arrays, ``.npz`` files, image folders and the published data sets.

Every source is a :class:`Source`; a format is one function that makes one. `SOURCES` lists them by the name that
``open_source("name=PATH")`` and the command line use.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from driftcal.data.arrays import digits, from_arrays, npz
from driftcal.data.cifar10 import cifar10, cifar10_c, cifar10_corruptions
from driftcal.data.download import DOWNLOADS, fetch
from driftcal.data.image_folder import image_folder
from driftcal.data.imagenet import imagenet, imagenet_c, imagenet_corruptions
from driftcal.data.objectnet import objectnet
from driftcal.data.source import Source
from driftcal.errors import DataError, InputError, UnknownName
from driftcal.io.paths import as_path, is_url

SOURCES: dict[str, Callable[..., Source]] = {
    "digits": digits,
    "npz": npz,
    "folder": image_folder,
    "cifar10": cifar10,
    "cifar10-c": cifar10_c,
    "imagenet": imagenet,
    "imagenet-c": imagenet_c,
    "objectnet": objectnet,
}

__all__ = [
    "DOWNLOADS",
    "SOURCES",
    "Source",
    "cifar10",
    "cifar10_c",
    "cifar10_corruptions",
    "digits",
    "fetch",
    "from_arrays",
    "image_folder",
    "imagenet",
    "imagenet_c",
    "imagenet_corruptions",
    "npz",
    "objectnet",
    "open_source",
]


def open_source(what: Any, **options: Any) -> Source:
    """Open labelled data by name, path or arrays.

    ``"digits"``, ``"cifar10=DIR"``, ``"val.npz"``, ``"photos/"`` (one sub-folder per class), ``(x, y)`` or a `Source`.
    Files and folders may be URLs: ``"s3://bucket/val.npz"``, ``"imagenet=gs://bucket/val"``.
    Options of the format follow as keywords, or in text after a question mark: ``"cifar10=DIR?part=train"``. Every format
    takes `class_names`: all classes, in the order of the model's outputs.

    >>> open_source("digits").input_shape
    (8, 8, 1)
    """
    if isinstance(what, Source):
        names = options.pop("class_names", None)
        if options:
            raise InputError(f"an open source takes no options; {', '.join(options)} were given.")
        return what if names is None else what.with_classes(names)
    if isinstance(what, tuple) and len(what) == 2:
        return from_arrays(*what, **options)
    if not isinstance(what, str | os.PathLike):
        raise InputError(
            f"a source must be a name, a path, (x, y) or a Source; it is {type(what).__name__}. Pass arrays as a pair (x, y)."
        )
    text = os.fspath(what)
    if "?" in text and (is_url(text) or not Path(text).exists()):
        text, _, query = text.rpartition("?")
        options = {**_parse(query), **options}
    name, equals, path = text.partition("=")
    if text in SOURCES:
        return _call(text, (), options)
    if equals and name in SOURCES:  # the path may be a URL as well
        return _call(name, (path,), options)
    place = as_path(text)
    if place.is_dir():
        return _call("folder", (place,), options)
    if place.suffix == ".npz":
        return _call("npz", (place,), options)
    if place.exists():
        raise DataError(f"{text!r} must be a .npz file or a folder; it is {place.suffix or 'a file without ending'}.")
    if equals and not any(sign in name for sign in "./\\"):
        raise UnknownName.of("source", name, SOURCES)
    raise DataError(
        f"there is no file or folder {text!r}, nor a source of that name. Give a .npz file, a folder, or one of: "
        f"{', '.join(f'{known}=DIR' if known != 'digits' else known for known in SOURCES)}."
    )


def _call(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Source:
    opener = SOURCES[name]
    names = None if "class_names" in inspect.signature(opener).parameters else options.pop("class_names", None)
    try:
        inspect.signature(opener).bind(*arguments, **options)
    except TypeError as error:
        wanted = ", ".join(str(p) for p in inspect.signature(opener).parameters.values() if p.kind is p.KEYWORD_ONLY)
        place = "" if name == "digits" else f" Write {name}=DIR;"
        raise InputError(f"source {name!r}: {error}.{place} its options: {wanted or 'none'}.") from error
    source = opener(*arguments, **options)
    return source if names is None else source.with_classes(names)


def _parse(query: str) -> dict[str, Any]:
    """``a=1&b=fog`` as options: numbers become numbers, ``224x224`` a pair, true and false themselves."""
    return {key: _value(text) for key, text in parse_qsl(query, keep_blank_values=True)}


def _value(text: str) -> Any:
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
