"""A folder of stored logits: finished conditions, and conditions that are still being computed."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driftcal.cache.entry import (
    FORMAT,
    VERSION,
    CacheEntry,
    CachePart,
    check_arrays,
    digest_of,
    is_complete,
    missing_ranges,
    write_entry,
)
from driftcal.cache.key import CacheKey
from driftcal.errors import ArtefactError, CacheError
from driftcal.io import paths, safetensors
from driftcal.io.atomic import remove_leftovers, write_atomic
from driftcal.io.fingerprint import canonical_json
from driftcal.io.json_text import parse_json
from driftcal.io.paths import AnyPath, FileVersion
from driftcal.types import AnyArray, Array, Logits

#: The file that marks a folder as a cache, and its format, by the names that version 0.1 used.
_MARKER, _STORE_FORMAT = "store.json", "driftcal-store"
#: Tries to write a part while other processes finish keys and remove their folders.
_WRITE_TRIES = 5


class LogitCache:
    """A folder of logits, on this machine or at a URL. Several processes and machines may use it at the same time.

    >>> import tempfile
    >>> import numpy as np
    >>> cache = LogitCache(tempfile.mkdtemp())
    >>> key = CacheKey(model="m", source="s", shift="gaussian", level=0.01)
    >>> entry = cache.put(key, logits=np.zeros((3, 2), np.float32), labels=np.array([0, 1, 1]))
    >>> len(cache.get(key)), cache.get(CacheKey(model="other", source="s")) is None
    (3, True)
    """

    def __init__(self, path: AnyPath) -> None:
        self._look_at(path)
        try:
            version = self._version()
            if not paths.is_remote(self.path):  # object stores have no folders
                for name in ("logits", "parts"):
                    (self.path / name).mkdir(parents=True, exist_ok=True)
            if version < VERSION:
                marker = canonical_json({"format": _STORE_FORMAT, "version": VERSION})
                write_atomic(self.path / _MARKER, marker.encode())
            for folder in (self.path, self.path / "logits", *paths.list_folder(self.path / "parts")):
                remove_leftovers(folder)
        except OSError as error:
            raise CacheError(f"cache {str(self.path)!r} must be a folder that can be written; {error}") from error

    @classmethod
    def read_only(cls, path: AnyPath) -> LogitCache:
        """The cache in a folder, to look at it: nothing is created, changed or removed."""
        cache = cls.__new__(cls)
        cache._look_at(path)
        cache._version()
        return cache

    def _look_at(self, path: AnyPath) -> None:
        self.path = paths.as_path(path)
        self._checked: dict[Path, FileVersion] = {}  # files whose digest this process has already verified

    def __repr__(self) -> str:
        return f"LogitCache({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[LogitCache], tuple[Path]]:
        return LogitCache, (self.path,)  # another process opens the folder again

    def _version(self) -> int:
        """The version of the cache; 0 if it is new, or if its marker is damaged and must be written again."""
        try:
            marker = parse_json((self.path / _MARKER).read_text())
        except FileNotFoundError:
            return 0
        except ValueError:
            marker = {"version": 0} if (self.path / "logits").is_dir() else None
        version = marker.get("version") if isinstance(marker, dict) else None
        if type(version) is not int or marker.get("format", _STORE_FORMAT) != _STORE_FORMAT:
            raise CacheError(
                f"cache {str(self.path)!r} must be a folder of its own; its {_MARKER} is that of another program, and would be "
                "replaced. Choose another folder."
            )
        if version > VERSION:
            raise CacheError(
                f"cache {str(self.path)!r} has format {version}, this driftcal reads up to {VERSION}. Update driftcal, "
                "or choose another folder."
            )
        return version

    # finished conditions

    def file(self, key: CacheKey) -> Path:
        """The path of the finished samples of `key`, whether they exist or not."""
        return self.path / "logits" / f"{key.digest}.safetensors"

    def get(self, key: CacheKey) -> CacheEntry | None:
        """The finished samples of `key`; None if they are absent, damaged or belong to another key."""
        file = self._read(self.file(key), key)
        return None if file is None else CacheEntry(key, file.arrays, str(file.metadata["digest"]))

    def read_samples(self, key: CacheKey, name: str, start: int, stop: int) -> Array:
        """The samples [start, stop) of one array of a finished `key`; a remote file transfers only these bytes.

        The digest is not checked again: the process that finished the file has checked it.

        Parameters
        ----------
        key
            The condition.
        name
            The array: "logits", "labels", "indices", or one of `more`.
        start, stop
            Positions of the samples.
        """
        try:
            return safetensors.read_slice(self.file(key), name, start, stop)
        except FileNotFoundError as error:
            raise CacheError(
                f"cache {str(self.path)!r} holds no samples for shift {key.shift!r}, level {key.level!r}. Collect them first; if "
                "other machines collected them, the cache must be in a folder that all machines share."
            ) from error

    def __contains__(self, key: CacheKey) -> bool:
        return self.get(key) is not None

    def put(
        self, key: CacheKey, *, logits: Logits, labels: AnyArray, indices: AnyArray | None = None, **more: Array
    ) -> CacheEntry:
        """Write all samples of `key` at once.

        Parameters
        ----------
        key
            The condition.
        logits, labels, indices
            Of all samples. Without `indices`, samples are numbered from 0.
        **more
            Further arrays of the same samples, such as features and groups.
        """
        return self._write_finished(key, [check_arrays(logits, labels, indices, 0, more)])

    def remove(self, key: CacheKey) -> None:
        """Remove the samples of `key`, finished or not."""
        with contextlib.suppress(FileNotFoundError):
            self.file(key).unlink()
        paths.remove_folder(self._parts_folder(key))

    # conditions that are being computed

    def put_part(
        self,
        key: CacheKey,
        start: int,
        *,
        logits: Logits,
        labels: AnyArray,
        indices: AnyArray | None = None,
        **more: Array,
    ) -> None:
        """Write the samples [start, start + len(logits)) of `key`.

        Parameters
        ----------
        key
            The condition.
        start
            The position of the first sample, a multiple of the batch size.
        logits, labels, indices
            Of these samples. Without `indices`, samples are numbered from `start`.
        **more
            Further arrays of the same samples.
        """
        if start < 0 or start % key.batch_size:
            raise CacheError(f"start must be a multiple of the batch size {key.batch_size}; it is {start}.")
        arrays = check_arrays(logits, labels, indices, start, more)
        stop = start + len(arrays["logits"])
        folder = self._parts_folder(key)
        path = folder / f"{start:012d}-{stop:012d}.safetensors"
        with self._as_cache_error(path):
            for attempt in range(_WRITE_TRIES):
                try:
                    if not paths.is_remote(folder):
                        folder.mkdir(exist_ok=True)
                    write_entry(path, key, [arrays], start=start, stop=stop)
                    return
                except FileNotFoundError:  # another process finished this key and removed the folder
                    if key in self:
                        return
                    if attempt == _WRITE_TRIES - 1:
                        raise

    def parts(self, key: CacheKey) -> list[tuple[int, int]]:
        """The ranges [start, stop) of samples of `key` that are stored and intact, in order, without overlap."""
        return [(part.start, part.stop) for part in self._intact_parts(key)]

    def missing(self, key: CacheKey, n_samples: int) -> list[tuple[int, int]]:
        """The ranges of samples of `key` that must still be computed; [] when it is finished."""
        if key in self:
            return []
        return missing_ranges(self.parts(key), n_samples)

    def finish(self, key: CacheKey, n_samples: int) -> CacheEntry:
        """Merge the parts of `key` into one file and remove them. The bytes do not depend on the cut into parts."""
        entry = self.get(key)
        if entry is None:
            parts = self._intact_parts(key)
            missing = missing_ranges([(part.start, part.stop) for part in parts], n_samples)
            entry = self.get(key)  # another process may have finished in between and removed the parts
            if entry is None and missing:
                raise CacheError(
                    f"samples {missing[0][0]}..{missing[0][1] - 1} of {n_samples} are not in cache {str(self.path)!r} for shift "
                    f"{key.shift!r}, level {key.level!r}. Run the collection again: it computes only the missing samples."
                )
            if entry is None:
                pieces = [part.cut(0, n_samples).arrays for part in parts if part.start < n_samples]
                entry = self._write_finished(key, pieces)
        paths.remove_folder(self._parts_folder(key))
        return entry

    # the whole folder

    def keys(self) -> Iterator[CacheKey]:
        """The keys of all finished, intact conditions, in the order of their file names."""
        for file in self._finished_files():
            yield CacheKey.from_dict(file.metadata["key"])

    def metadata(self) -> list[dict[str, Any]]:
        """The key, samples, classes and bytes of each finished condition."""
        return [
            {**file.metadata["key"], "samples": len(file.arrays["logits"]), "classes": int(file.arrays["logits"].shape[1]),
             "bytes": file.path.stat().st_size}
            for file in self._finished_files()
        ]  # fmt: skip

    def _finished_files(self) -> Iterator[safetensors.TensorFile]:
        for path in paths.list_folder(self.path / "logits", ".safetensors"):
            file = self._read(path, None)
            with contextlib.suppress(KeyError, TypeError, ValueError, CacheError):  # a damaged key
                if file is not None and CacheKey.from_dict(file.metadata["key"]).digest == path.stem:
                    yield file

    def _parts_folder(self, key: CacheKey) -> Path:
        return self.path / "parts" / key.digest

    @contextlib.contextmanager
    def _as_cache_error(self, path: Path) -> Iterator[None]:
        """Raise an OSError inside a ``with`` block as a CacheError that names the file."""
        try:
            yield
        except OSError as error:
            raise CacheError(
                f"cache {str(self.path)!r} could not write {path.name!r}: {error.strerror or error}. Samples that were stored "
                "before are intact; make room or choose another folder, then run again to continue."
            ) from error

    def _write_finished(self, key: CacheKey, pieces: Sequence[Mapping[str, Array]]) -> CacheEntry:
        path = self.file(key)
        with self._as_cache_error(path):
            write_entry(path, key, pieces)
        entry = self.get(key)
        if entry is None:
            raise CacheError(f"cache file {str(path)!r} could not be read back after writing; check the disk.")
        return entry

    def _read(self, path: Path, key: CacheKey | None) -> safetensors.TensorFile | None:
        """The file if it is intact and belongs to `key` (None: to any key)."""
        try:
            file = safetensors.read_tensors(path)
        except ArtefactError:  # a header above the limit: no file of a cache
            return None
        if file is None or file.metadata.get("format") != FORMAT or file.metadata.get("version") != VERSION:
            return None
        if key is not None and file.metadata.get("key") != json.loads(key.canonical):
            return None
        if self._checked.get(path) != file.version:
            if not is_complete(file.arrays) or digest_of([file.arrays]) != file.metadata.get("digest"):
                return None
            self._checked[path] = file.version
        return file

    def _intact_parts(self, key: CacheKey) -> list[CachePart]:
        """Intact parts without overlap, in order.

        Parts whose arrays differ from those of the first in name, dtype or shape per sample are left out.
        """
        parts = []
        for path in paths.list_folder(self._parts_folder(key), ".safetensors"):
            match = re.fullmatch(r"(\d{12})-(\d{12})", path.stem)
            file = self._read(path, key) if match else None
            if match and file:
                start, stop = int(match[1]), int(match[2])
                if [file.metadata.get("start"), file.metadata.get("stop")] == [start, stop]:
                    parts.append(CachePart(start, stop, file.arrays))
        without_overlap: list[CachePart] = []
        position, first_formats = 0, None
        for part in sorted(parts, key=lambda part: (part.start, -part.stop)):
            formats = {name: (array.dtype, array.shape[1:]) for name, array in part.arrays.items()}
            first_formats = first_formats or formats
            if part.stop > position and formats == first_formats:
                without_overlap.append(part.cut(position, part.stop))
                position = part.stop
        return without_overlap
