"""Paths: of this machine, or any URL that fsspec supports (``s3://``, ``gs://``, ``memory://``, …).

An object store writes an object completely or not at all, so it needs no rename. Elsewhere (``sftp://``, …) a file is
written under a temporary name and then moved.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from driftcal.core.messages import first_line
from driftcal.errors import DriftcalError, InputError, MissingExtra, need
from driftcal.types import Array

#: A path or a URL, as a caller may pass it.
AnyPath: TypeAlias = str | os.PathLike[str]

#: Inode or remote version, size, and time of change. The same version means the same bytes.
FileVersion: TypeAlias = tuple[int, int, int]

#: Protocols of object stores, whose files are complete or absent.
_ATOMIC_PROTOCOLS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory"}
_LOCAL_PREFIXES = ("file://", "local://")
#: Bytes of a name in a folder, on all usual file systems.
_LONGEST_NAME = 255
_BLOCK = 1 << 24  # bytes of a transfer: fewer requests than with small ones


def as_path(path: AnyPath) -> Path:
    """A path with the methods of `pathlib.Path`, from a path or a URL.

    >>> as_path("val.npz").name, as_path("file:///data/val.npz").parent.name, as_path("memory://bucket/val.npz").suffix
    ('val.npz', 'data', '.npz')
    """
    if isinstance(path, Path) or is_remote(path):
        return cast(Path, path)
    text = os.fspath(path)
    for prefix in _LOCAL_PREFIXES:
        if text.startswith(prefix):
            return Path(text.removeprefix(prefix))
    if is_url(text):
        return _remote_path(text)
    _check_length(text)
    return Path(os.path.expanduser(text))  # ~ of an unknown user stays, as in a shell


def demo_hint(path: AnyPath) -> str:
    """The way out if `path` is missing and is one of the files that `make demo` writes; empty for other paths.

    >>> demo_hint("runs/demo/model.onnx"), demo_hint("model.onnx")
    (' It is written by: make demo.', '')
    """
    return " It is written by: make demo." if "runs/demo" in Path(path).as_posix() else ""


def _check_length(text: str) -> None:
    """Refuse a path that no file system can look up, such as the content of a file in place of its name."""
    longest = max((len(part.encode(errors="surrogatepass")) for part in text.split(os.sep)), default=0)
    if longest > _LONGEST_NAME:
        raise InputError(
            f"a path must have names of at most {_LONGEST_NAME} bytes; {text[:40]!r}… has one of {longest:,}. Pass a path, not the content "
            "of a file."
        )


def _remote_path(url: str) -> Path:
    upath = need("upath", "remote")
    try:
        path = upath.UPath(url)
        _ = path.fs  # makes the file system, which may need another package
    except ImportError as error:
        raise MissingExtra(f"{url!r} needs a package that is not installed: {error}.") from error
    except Exception as error:  # file systems have many classes of errors
        raise InputError(
            f"a URL must belong to a file system that can be reached; {url!r} does not: {first_line(error)}. Check its scheme and its "
            "address."
        ) from error
    return cast(Path, path)


def is_url(path: object) -> bool:
    """Whether this is a URL.

    >>> is_url("s3://bucket/x"), is_url("C:/x"), is_url("cifar10=DIR")
    (True, False, False)
    """
    scheme, separator, _ = str(path).partition("://")
    return bool(separator) and scheme.replace("+", "").replace("-", "").isalnum()


def is_remote(path: object) -> bool:
    """Whether this is a path outside this machine's file system."""
    return hasattr(path, "fs") and hasattr(path, "protocol")


def check_regular(path: Path, argument: str, error: type[DriftcalError]) -> None:
    """Refuse what is there but no regular file: a pipe may never answer, and a device may never end."""
    if path.exists() and not path.is_file():
        raise error(
            f"{argument} must be a regular file; {str(path)!r} is a folder, a pipe or a device. Write the data to a file first."
        )


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted; [] when the folder does not exist. Cached listings are not used."""
    try:
        if not is_remote(folder):
            return sorted(os.listdir(folder))
        remote = cast(Any, folder)
        remote.fs.invalidate_cache(remote.path)
        listing = remote.fs.ls(remote.path, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted({name.rstrip("/").rsplit("/", 1)[-1] for name in listing})


def list_folder(folder: AnyPath, ending: str = "") -> list[Path]:
    """The files and folders in `folder` whose names end in `ending`, sorted, without hidden ones.

    [] when the folder does not exist, because another process may remove it at any moment.
    """
    path = as_path(folder)
    return [path / name for name in names_in(path) if name.endswith(ending) and not name.startswith(".")]


def remove_folder(folder: Path) -> None:
    """Remove a folder and its contents, if it exists. Other processes may remove it at the same time."""
    if not is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    remote = cast(Any, folder)
    remote.fs.invalidate_cache(remote.path)
    with contextlib.suppress(FileNotFoundError):
        remote.fs.rm(remote.path, recursive=True)


def write_remote(path: Any, blocks: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write a remote file so that readers get all of it or nothing."""
    atomic = path.protocol in _ATOMIC_PROTOCOLS
    target = path.path if atomic else f"{path.path}.{secrets.token_hex(4)}.tmp"
    if not atomic:
        path.fs.makedirs(path.parent.path, exist_ok=True)
    try:
        # object stores need the length first, and all blocks together may not fit into memory
        with tempfile.TemporaryFile() as spool:
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
        if not atomic:
            path.fs.mv(target, path.path)
    except BaseException:
        if not atomic:
            with contextlib.suppress(Exception):
                path.fs.rm_file(target)
        raise


def read_range(path: Any, start: int, stop: int) -> bytes:
    """The bytes [start, stop) of a remote file; nothing else is transferred."""
    return bytes(path.fs.cat_file(path.path, start=start, end=stop))


def map_remote(path: Any) -> tuple[Array, FileVersion]:
    """A memory map of a temporary local copy of a remote file, and the version of that file."""
    path.fs.invalidate_cache(path.path)
    info = path.fs.info(path.path)
    with tempfile.TemporaryFile() as copy:
        with path.fs.open(path.path, "rb") as file:
            while block := file.read(_BLOCK):
                copy.write(block)
        copy.flush()
        size = copy.tell()
        data = np.memmap(copy, np.uint8, mode="r") if size else np.zeros(0, np.uint8)
    version = info.get("ETag") or info.get("etag") or info.get("md5Hash") or info.get("created") or ""
    return data, (hash(str(version)), size, hash(str(info.get("LastModified") or info.get("mtime") or "")))
