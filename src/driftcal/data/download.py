"""Fetching published data sets, only when asked: checksum, resume, and a clear word when there is no network."""

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

_BLOCK = 1 << 20
_PATIENCE = 60.0  # seconds without a byte

#: Called with (bytes so far, bytes in all or None).
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Download:
    """A published archive: where it is, what it must hash to ("md5:…" or "sha256:…"), how many bytes it has."""

    url: str
    checksum: str
    size: int | None = None

    @property
    def file(self) -> str:
        """The archive's own name."""
        return Path(urlsplit(self.url).path).name


_ZENODO = "https://zenodo.org/records"

#: Addresses and checksums as their publishers give them.
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

_BY_HAND = {
    "imagenet": "ImageNet's validation images need an account at https://image-net.org; download them there.",
    "objectnet": "ObjectNet must be downloaded by hand from https://objectnet.dev, which shows its terms and its password.",
}


def fetch(name: str, folder: str | os.PathLike[str], *, progress: Progress | None = None) -> Path:
    """Download the data set `name` into `folder`, check it, unpack it; returns the folder for ``open_source``.

    A cut download goes on where it stopped; a finished one is not repeated. `DOWNLOADS` lists the names.
    """
    if name in _BY_HAND:
        raise DataError(_BY_HAND[name])
    if name not in DOWNLOADS:
        raise UnknownName.of("data set to fetch", name, [*DOWNLOADS, *_BY_HAND])
    return fetch_archive(DOWNLOADS[name], folder, progress=progress)


def fetch_archive(source: Download, folder: str | os.PathLike[str], *, progress: Progress | None = None) -> Path:
    """Download, check and unpack one tar archive into `folder`."""
    place = Path(folder).expanduser()
    done = place / f".{source.file}.unpacked"
    if done.is_file() and done.read_text() == source.checksum:
        return place
    try:
        place.mkdir(parents=True, exist_ok=True)
        archive = fetch_file(source, place, progress=progress)
        _unpack(archive, place)
        done.write_text(source.checksum)
        archive.unlink()
    except OSError as error:
        raise DataError(f"{source.file} could not be stored in {str(folder)!r}: {error.strerror or error}.") from error
    return place


def fetch_file(source: Download, folder: Path, *, progress: Progress | None = None) -> Path:
    """Download one file and check it; what an earlier try left in ``<name>.part`` is used."""
    target, part = folder / source.file, folder / f"{source.file}.part"
    if target.is_file() and _checksum(target, source.checksum) == source.checksum:
        return target
    if not (part.is_file() and source.size is not None and part.stat().st_size == source.size):
        _download(source, part, progress)
    found = _checksum(part, source.checksum)
    if found != source.checksum:
        part.unlink()
        raise DataError(
            f"{source.url} must have the checksum {source.checksum}; what arrived has {found}. The damaged file was removed: "
            "try again, and if it happens again the published file has changed."
        )
    os.replace(part, target)
    return target


def _download(source: Download, part: Path, progress: Progress | None) -> None:
    start = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(source.url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            resumed = start > 0 and answer.status == 206
            position = start if resumed else 0
            length = answer.headers.get("Content-Length")
            total = position + int(length) if length else source.size
            with open(part, "ab" if resumed else "wb") as file:
                while block := answer.read(_BLOCK):
                    file.write(block)
                    position += len(block)
                    if progress is not None:
                        progress(position, total)
        if total is not None and position < total:
            raise DataError(
                f"{source.url} broke off after {position} of {total} bytes. Try again: it goes on from there."
            )
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:  # nothing left to send: the file is whole, or not this one
            if source.size is None or start == source.size:
                return
            part.unlink()
        raise DataError(
            f"{source.url} answered {error.code} {error.reason}. Try again later, or {_by_hand(source, part)}"
        ) from error
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"{source.url} cannot be reached ({reason}). Downloading needs a network; without one, {_by_hand(source, part)}"
        ) from error


def _by_hand(source: Download, part: Path) -> str:
    return f"fetch {source.file} elsewhere and put it into {str(part.parent)!r}, then run this again."


def _checksum(file: Path, expected: str) -> str:
    kind = expected.partition(":")[0]
    with open(file, "rb") as stream:
        return f"{kind}:{hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()}"


def _unpack(archive: Path, place: Path) -> None:
    """Unpack beside and move in, so that a killed run leaves no half-filled folder under the right name."""
    waiting = place / f".unpacking-{secrets.token_hex(4)}"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(waiting, filter="data")  # refuses links and paths that lead out of the folder
        _move_in(waiting, place)
    except tarfile.TarError as error:
        raise DataError(f"{archive.name} is not a plain tar archive: {error}.") from error
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(waiting)


def _move_in(folder: Path, place: Path) -> None:
    """Move everything in `folder` into `place`; what else is in folders that exist already stays."""
    for item in sorted(folder.iterdir()):
        target = place / item.name
        if item.is_dir() and target.is_dir():
            _move_in(item, target)
        else:
            os.replace(item, target)
