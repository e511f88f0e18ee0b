"""Many conditions in one folder, finished ones and others that are still being collected."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftcal.cache.entries import FORMAT, VERSION, checked_rows, cut, digest_of, gaps, note_of, write
from driftcal.cache.key import CacheEntry, CacheKey
from driftcal.errors import StoreError
from driftcal.io import paths, safetensors
from driftcal.io.atomic import remove_leftovers, write_atomic
from driftcal.io.fingerprint import canonical_json
from driftcal.io.safetensors import TensorFile, read_tensors
from driftcal.types import AnyArray, Array, Logits


class LogitCache:
    """A folder of logits, on this machine or at a URL, that many runs and machines may share.

    >>> import tempfile
    >>> import numpy as np
    >>> store = LogitCache(tempfile.mkdtemp())
    >>> key = CacheKey(model="m", source="s", shift="gaussian", level=0.01)
    >>> entry = store.put(key, logits=np.zeros((3, 2), np.float32), labels=np.array([0, 1, 1]))
    >>> len(store.get(key)), store.get(CacheKey(model="other", source="s")) is None
    (3, True)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = paths.as_path(path)
        self._checked: dict[Path, tuple[int, int, int]] = {}  # files whose digest this process has already verified
        try:
            if not paths.is_remote(self.path):  # object stores have no folders
                for name in ("logits", "parts"):
                    (self.path / name).mkdir(parents=True, exist_ok=True)
            self._mark()
            for folder in (self.path, self.path / "logits", *paths.list_folder(self.path / "parts")):
                remove_leftovers(folder)
        except OSError as error:
            raise StoreError(f"store {str(self.path)!r} must be a folder that can be written; {error}") from error

    def __reduce__(self) -> tuple[type[LogitCache], tuple[Path]]:
        return LogitCache, (self.path,)  # another process opens it anew

    def _mark(self) -> None:
        marker = self.path / "store.json"
        try:
            version = int(json.loads(marker.read_text())["version"])
        except FileNotFoundError:
            version = 0
        except (ValueError, KeyError, TypeError):
            version = 0  # a damaged marker is only a marker: write it again
        if version > VERSION:
            raise StoreError(
                f"store {str(self.path)!r} has format {version}, this driftcal reads up to {VERSION}. Update driftcal, "
                "or choose another folder."
            )
        if version < VERSION:
            write_atomic(marker, canonical_json({"format": "driftcal-store", "version": VERSION}).encode())

    # finished conditions

    def file(self, key: CacheKey) -> Path:
        """Where the finished rows of `key` are or would be."""
        return self.path / "logits" / f"{key.digest}.safetensors"

    def get(self, key: CacheKey) -> CacheEntry | None:
        """The finished rows of `key`, or None when they are absent, damaged or belong to another key."""
        found = self._open(self.file(key), key)
        return None if found is None else CacheEntry(key, found.arrays, str(found.metadata["digest"]))

    def read_rows(self, key: CacheKey, name: str, low: int, high: int) -> Array:
        """The rows [low, high) of one array of `key`, which is finished; of a remote file only their bytes are fetched.

        The digest is not checked: whoever finished the file has done that.
        """
        try:
            return safetensors.read_rows(self.file(key), name, low, high)
        except FileNotFoundError as error:
            raise StoreError(
                f"store {str(self.path)!r} holds no rows for shift {key.shift!r}, level {key.level!r}. Collect them first; if "
                "they were collected on other machines, the store must be where all of them see it."
            ) from error

    def __contains__(self, key: CacheKey) -> bool:
        return self.get(key) is not None

    def put(
        self, key: CacheKey, *, logits: Logits, labels: AnyArray, indices: AnyArray | None = None, **more: Array
    ) -> CacheEntry:
        """Write all rows of `key` at once; `more` are further arrays of as many rows (features, groups)."""
        return self._write_whole(key, [checked_rows(logits, labels, indices, 0, more)])

    def remove(self, key: CacheKey) -> None:
        """Forget `key`, finished or not."""
        with contextlib.suppress(FileNotFoundError):
            self.file(key).unlink()
        paths.remove_folder(self._parts_folder(key))

    # a condition that is being collected

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
        """Write the rows [start, start + len(logits)) of `key`; `start` must begin a batch."""
        if start < 0 or start % key.batch_size:
            raise StoreError(f"start must be a multiple of the batch size {key.batch_size}; it is {start}.")
        rows = checked_rows(logits, labels, indices, start, more)
        stop = start + len(rows["logits"])
        folder = self._parts_folder(key)
        path = folder / f"{start:012d}-{stop:012d}.safetensors"
        with self._writing(path):
            for attempt in range(5):
                try:
                    if not paths.is_remote(folder):
                        folder.mkdir(exist_ok=True)
                    write(path, [rows], {**note_of(key), "start": start, "stop": stop})
                    return
                except FileNotFoundError:  # another process finished this key and took the folder away
                    if key in self:
                        return
                    if attempt == 4:
                        raise

    def parts(self, key: CacheKey) -> list[tuple[int, int]]:
        """The row ranges [start, stop) of `key` that are on disk and intact, in order, overlaps removed."""
        return [(start, stop) for start, stop, _ in self._cover(key)]

    def missing(self, key: CacheKey, n: int) -> list[tuple[int, int]]:
        """The row ranges of `key` that still have to be computed, [] when it is finished."""
        if key in self:
            return []
        return gaps(self.parts(key), n)

    def finish(self, key: CacheKey, n: int) -> CacheEntry:
        """Merge the parts of `key` into one file and drop them. The bytes do not depend on how the rows were cut."""
        done = self.get(key)
        if done is None:
            cover = self._cover(key)
            open_ranges = gaps([(start, stop) for start, stop, _ in cover], n)
            done = self.get(key)  # another process may have finished in between and dropped the parts
            if done is None and open_ranges:
                raise StoreError(
                    f"rows {open_ranges[0][0]}..{open_ranges[0][1] - 1} of {n} are not in store {str(self.path)!r} for shift "
                    f"{key.shift!r}, level {key.level!r}. Run the collection again: it computes only what is missing."
                )
            if done is None:
                done = self._write_whole(key, [cut(rows, 0, n - start) for start, _, rows in cover if start < n])
        paths.remove_folder(self._parts_folder(key))
        return done

    # the whole folder

    def keys(self) -> Iterator[CacheKey]:
        """The keys of all finished, intact conditions, in the order of their file names."""
        for found in self._all():
            yield CacheKey.from_dict(found.metadata["key"])

    def describe(self) -> list[dict[str, Any]]:
        """One plain row per finished condition: its key, rows, classes and bytes."""
        return [
            {**found.metadata["key"], "rows": len(found.arrays["logits"]), "classes": int(found.arrays["logits"].shape[1]),
             "bytes": found.path.stat().st_size}
            for found in self._all()
        ]  # fmt: skip

    def _all(self) -> Iterator[TensorFile]:
        for path in paths.list_folder(self.path / "logits", ".safetensors"):
            found = self._open(path, None)
            with contextlib.suppress(KeyError, TypeError, ValueError):  # a damaged key belongs to nobody
                if found is not None and CacheKey.from_dict(found.metadata["key"]).digest == path.stem:
                    yield found

    # inside

    def _parts_folder(self, key: CacheKey) -> Path:
        return self.path / "parts" / key.digest

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"store {str(self.path)!r} could not write {path.name!r}: {error.strerror or error}. What was stored "
                "before is intact; make room or choose another folder, then run again to go on from there."
            ) from error

    def _write_whole(self, key: CacheKey, pieces: list[dict[str, Array]]) -> CacheEntry:
        path = self.file(key)
        with self._writing(path):
            write(path, pieces, note_of(key))
        entry = self.get(key)
        if entry is None:
            raise StoreError(f"store file {str(path)!r} could not be read back after writing; check the disk.")
        return entry

    def _open(self, path: Path, key: CacheKey | None) -> TensorFile | None:
        """The file when it is intact and, if a key is given, belongs to it."""
        found = read_tensors(path)
        if found is None or found.metadata.get("format") != FORMAT or found.metadata.get("version") != VERSION:
            return None
        if key is not None and found.metadata.get("key") != json.loads(key.canonical):
            return None
        state = found.version
        if self._checked.get(path) != state:
            if digest_of([found.arrays]) != found.metadata.get("digest"):
                return None
            self._checked[path] = state
        return found

    def _cover(self, key: CacheKey) -> list[tuple[int, int, dict[str, Array]]]:
        """Intact parts without overlap: (start, stop, rows). Parts of other shapes than the first are left out."""
        found = []
        for path in paths.list_folder(self._parts_folder(key), ".safetensors"):
            named = re.fullmatch(r"(\d{12})-(\d{12})", path.stem)
            part = self._open(path, key) if named else None
            if (
                named
                and part
                and [part.metadata.get("start"), part.metadata.get("stop")] == [int(named[1]), int(named[2])]
            ):
                found.append((int(named[1]), int(named[2]), part.arrays))
        cover: list[tuple[int, int, dict[str, Array]]] = []
        position, shape = 0, None
        for start, stop, rows in sorted(found, key=lambda item: (item[0], -item[1])):
            kind = {name: (array.dtype, array.shape[1:]) for name, array in rows.items()}
            shape = shape or kind
            if stop > position and kind == shape:
                begin = max(start, position)
                cover.append((begin, stop, cut(rows, begin - start, stop - start)))
                position = stop
        return cover
