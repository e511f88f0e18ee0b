"""Downloads of published data sets, with checksum and resume. Only :func:`fetch` downloads."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from driftcal.errors import DataError, UnknownName
from driftcal.io.paths import AnyPath

_BLOCK = 1 << 20  # bytes
_TIMEOUT = 60.0  # seconds without data

#: Called with (bytes so far, total bytes or None).
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Download:
    """A published archive: its address, its checksum ("md5:…" or "sha256:…") and its size in bytes."""

    url: str
    checksum: str
    size: int | None = None

    @property
    def file(self) -> str:
        """The archive's file name."""
        return Path(urlsplit(self.url).path).name


_ZENODO = "https://zenodo.org/records"

#: Addresses and checksums as published.
DOWNLOADS: dict[str, Download] = {
    "cifar10": Download(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530", 170052171
    ),
    "cifar10-c": Download(
        f"{_ZENODO}/2535967/files/CIFAR-10-C.tar", "md5:56bf5dcef84df0e2308c6dcbcbbd8499", 2918471680
    ),
    **{
        f"imagenet-c/{part}": Download(f"{_ZENODO}/2235448/files/{part}.tar", f"md5:{md5}", size)
        for part, md5, size in (
            ("blur", "2d8e81fdd8e07fef67b9334fa635e45c", 7112704951),
            ("digital", "89157860d7b10d5797849337ca2e5c03", 7757510705),
            ("extra", "d492dfba5fc162d8ec2c3cd8ee672984", 15789490144),
            ("noise", "e80562d7f6c3f8834afb1ecf27252745", 22565673785),
            ("weather", "33ffea4db4d93fe4a428c40a6ce0c25d", 12797438995),
        )
    },
}

#: Data sets that cannot be downloaded without an account or terms.
_MANUAL = {
    "imagenet": "ImageNet's validation images need an account at https://image-net.org; download them there.",
    "objectnet": "ObjectNet must be downloaded by hand from https://objectnet.dev, which shows its terms and its password.",
}


def fetch(name: str, folder: AnyPath, *, progress: Progress | None = None) -> Path:
    """Download the data set `name` into `folder`, check and unpack it; returns the folder for ``open_source``.

    An interrupted download is resumed; a finished one is not repeated. `DOWNLOADS` lists the names.
    """
    if name in _MANUAL:
        raise DataError(_MANUAL[name])
    if name not in DOWNLOADS:
        raise UnknownName.of("data set to fetch", name, [*DOWNLOADS, *_MANUAL])
    return fetch_archive(DOWNLOADS[name], folder, progress=progress)


def fetch_archive(source: Download, folder: AnyPath, *, progress: Progress | None = None) -> Path:
    """Download, check and unpack one tar archive into `folder`."""
    target = Path(os.path.expanduser(folder))
    marker = target / f".{source.file}.unpacked"
    if marker.is_file() and marker.read_text() == source.checksum:
        return target
    try:
        target.mkdir(parents=True, exist_ok=True)
        archive = fetch_file(source, target, progress=progress)
        _unpack(archive, target)
        marker.write_text(source.checksum)
        archive.unlink()
    except OSError as error:
        raise DataError(
            f"{source.file} could not be stored in {str(folder)!r}: {error.strerror or error}. Make room, or choose another folder."
        ) from error
    return target


def fetch_file(source: Download, folder: Path, *, progress: Progress | None = None) -> Path:
    """Download one file and check it. A file ``<name>.part`` of an interrupted download is continued."""
    target, part = folder / source.file, folder / f"{source.file}.part"
    if target.is_file() and _checksum(target, source.checksum) == source.checksum:
        return target
    if not (part.is_file() and source.size is not None and part.stat().st_size == source.size):
        _download(source, part, progress)
    checksum = _checksum(part, source.checksum)
    if checksum != source.checksum:
        part.unlink()
        raise DataError(
            f"{source.url} must have the checksum {source.checksum}; the downloaded file has {checksum}. It was removed: "
            "try again, and if it happens again the published file has changed."
        )
    os.replace(part, target)
    return target


def _download(source: Download, part: Path, progress: Progress | None) -> None:
    """Download into the file `part`, from its end on if it exists."""
    start = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(source.url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            resumed = start > 0 and response.status == 206
            position = start if resumed else 0
            length = response.headers.get("Content-Length")
            total = position + int(length) if length else source.size
            with open(part, "ab" if resumed else "wb") as file:
                while block := response.read(_BLOCK):
                    file.write(block)
                    position += len(block)
                    if progress is not None:
                        progress(position, total)
        if total is not None and position < total:
            raise DataError(
                f"{source.url} broke off after {position} of {total} bytes. Try again: the download continues there."
            )
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:  # no bytes after `start`: the file is complete, or another file
            if source.size is None or start == source.size:
                return
            part.unlink()
        raise DataError(
            f"{source.url} answered {error.code} {error.reason}. Try again later, or {_manual_download(source, part)}"
        ) from error
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"{source.url} cannot be reached ({reason}). Downloading needs a network; without one, {_manual_download(source, part)}"
        ) from error


def _manual_download(source: Download, part: Path) -> str:
    return f"fetch {source.file} elsewhere and put it into {str(part.parent)!r}, then run this again."


def _checksum(file: Path, expected: str) -> str:
    """The checksum of a file, with the algorithm of `expected`."""
    algorithm = expected.partition(":")[0]
    with open(file, "rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


def _unpack(archive: Path, target: Path) -> None:
    """Unpack into a temporary folder, then move its contents: a killed process leaves no incomplete folder."""
    temporary = target / f".unpacking-{secrets.token_hex(4)}"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(temporary, filter="data")  # refuses links and paths that lead out of the folder
        _move_contents(temporary, target)
    except tarfile.TarError as error:
        raise DataError(f"{archive.name} is not a plain tar archive: {error}.") from error
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(temporary)


def _move_contents(folder: Path, target: Path) -> None:
    """Move everything in `folder` into `target`. Other files in existing folders stay."""
    for item in sorted(folder.iterdir()):
        destination = target / item.name
        if item.is_dir() and destination.is_dir():
            _move_contents(item, destination)
        else:
            os.replace(item, destination)
