"""Where files are: a path of this machine, or any URL that fsspec knows (``s3://``, ``gs://``, ``memory://``, …).

Object stores have no rename and need none: an object is written whole or not at all, and a finished write is seen by every
reader. Elsewhere (``sftp://``, …) bytes go to a name of their own first and are then moved.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from driftcal.errors import need
from driftcal.types import Array

Place: TypeAlias = str | os.PathLike[str]

#: Protocols whose writes appear whole or not at all.
_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory"}
_LOCAL = ("file://", "local://")
_BLOCK = 1 << 24


def as_path(place: Place) -> Path:
    """A path that behaves like `pathlib.Path`, whether `place` is a path or a URL.

    >>> as_path("val.npz").name, as_path("file:///data/val.npz").parent.name, as_path("memory://bucket/val.npz").suffix
    ('val.npz', 'data', '.npz')
    """
    if isinstance(place, Path) or is_remote(place):
        return cast(Path, place)
    text = os.fspath(place)
    for start in _LOCAL:
        if text.startswith(start):
            return Path(text.removeprefix(start))
    if is_url(text):
        return cast(Path, need("upath", "remote").UPath(text))
    return Path(text).expanduser()


def is_url(place: object) -> bool:
    """Whether this names something by URL.

    >>> is_url("s3://bucket/x"), is_url("C:/x"), is_url("cifar10=DIR")
    (True, False, False)
    """
    scheme, sign, _ = str(place).partition("://")
    return bool(sign) and scheme.replace("+", "").replace("-", "").isalnum()


def is_remote(path: object) -> bool:
    """Whether this is a path that is not on this machine's file system."""
    return hasattr(path, "fs") and hasattr(path, "protocol")


def put_object(path: Any, blocks: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write a remote file so that readers see all of it or none."""
    whole = path.protocol in _WHOLE
    target = path.path if whole else f"{path.path}.{secrets.token_hex(4)}.tmp"
    if not whole:
        path.fs.makedirs(path.parent.path, exist_ok=True)
    try:
        with tempfile.TemporaryFile() as spool:  # an object store wants the length, and memory may not hold all blocks
            for block in blocks:
                spool.write(block)
            size = spool.tell()
            spool.seek(0)
            if size <= _BLOCK:
                path.fs.pipe_file(target, spool.read())
            else:
                with path.fs.open(target, "wb") as file:
                    while block := spool.read(_BLOCK):
                        file.write(block)
        if not whole:
            path.fs.mv(target, path.path)
    except BaseException:
        if not whole:
            with contextlib.suppress(Exception):
                path.fs.rm_file(target)
        raise


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted; [] when it is not there. What a listing said before is not believed."""
    if not is_remote(folder):
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
    remote = cast(Any, folder)
    remote.fs.invalidate_cache(remote.path)
    try:
        found = remote.fs.ls(remote.path, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted({name.rstrip("/").rsplit("/", 1)[-1] for name in found})


def remove_folder(folder: Path) -> None:
    """Remove a folder and what is in it, if it is there; others may be at it too."""
    if not is_remote(folder):
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        return
    remote = cast(Any, folder)
    remote.fs.invalidate_cache(remote.path)
    with contextlib.suppress(FileNotFoundError):
        remote.fs.rm(remote.path, recursive=True)


def read_range(path: Any, start: int, stop: int) -> bytes:
    """The bytes [start, stop) of a remote file, and nothing else."""
    return bytes(path.fs.cat_file(path.path, start=start, end=stop))


def fetch(path: Any) -> tuple[Array, tuple[int, int, int]]:
    """A remote file as a map of a nameless copy on this machine's disk, and what tells its versions apart."""
    path.fs.invalidate_cache(path.path)
    about = path.fs.info(path.path)
    with tempfile.TemporaryFile() as copy:
        with path.fs.open(path.path, "rb") as file:
            while block := file.read(_BLOCK):
                copy.write(block)
        copy.flush()
        size = copy.tell()
        data = np.memmap(copy, np.uint8, mode="r") if size else np.zeros(0, np.uint8)
    version = about.get("ETag") or about.get("etag") or about.get("md5Hash") or about.get("created") or ""
    return data, (hash(str(version)), size, hash(str(about.get("LastModified") or about.get("mtime") or "")))
