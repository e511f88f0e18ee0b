"""Logits on disk: one safetensors file per condition, named by what produced it.

::

    store/
      store.json                       what this folder is
      logits/<sha256 of key>.safetensors     one finished condition
      parts/<sha256 of key>/<start>-<stop>.safetensors     rows of one that is still being collected

A file is whole or absent, carries its key and a digest of its rows, and counts as missing when either does not fit. So
a killed writer, a second process or a damaged disk cost time, never a wrong number.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from driftcal import files
from driftcal._version import __version__
from driftcal.errors import StoreError
from driftcal.files import TensorFile, array_blocks, read_tensors, write_tensors
from driftcal.types import AnyArray, Array, Indices, Labels, Logits

_FORMAT = "driftcal-logits"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Key:
    """Everything that decides a row of logits. Two keys are equal when their canonical JSON is.

    `model` and `source` are fingerprints; `extra` holds whatever else changes the numbers (clipping, a suite's options).

    >>> Key("m", "s", level=1) == Key("m", "s", level=1.0)
    True
    >>> Key("m", "s", seed=1) == Key("m", "s", seed=2)
    False
    """

    model: str
    source: str
    split: str = "all"
    shift: str = "none"
    level: float | str = 0.0
    seed: int = 0
    batch_size: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The key as plain JSON values."""
        level = self.level if isinstance(self.level, str) else float(self.level)
        return {
            "model": str(self.model), "source": str(self.source), "split": str(self.split), "shift": str(self.shift),
            "level": level, "seed": int(self.seed), "batch_size": int(self.batch_size), "extra": dict(self.extra),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Key:
        """The key that `to_dict` wrote."""
        return cls(**values)

    @property
    def canonical(self) -> str:
        """The one JSON text of this key."""
        try:
            return files.canonical_json(self.to_dict())
        except (TypeError, ValueError) as error:
            raise StoreError(f"a key must hold plain JSON values (text, finite numbers, lists); {error}") from error

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: the name of the file."""
        return files.sha256_bytes(self.canonical.encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)


@dataclass(frozen=True, eq=False)
class Entry:
    """The rows of one condition; arrays are memory maps, so opening one costs nothing but its check."""

    key: Key
    arrays: Mapping[str, Array]
    digest: str

    @property
    def logits(self) -> Logits:
        """(n, C) as the model gave them."""
        return self.arrays["logits"]

    @property
    def labels(self) -> Labels:
        """int64 (n,); -1 where there is no right answer among the classes."""
        return self.arrays["labels"]

    @property
    def indices(self) -> Indices:
        """int64 (n,): position of each sample in its data set."""
        return self.arrays["indices"]

    def __len__(self) -> int:
        return len(self.arrays["logits"])


class Store:
    """A folder of logits that many runs may share.

    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> key = Key(model="m", source="s", shift="gaussian", level=0.01)
    >>> entry = store.put(key, logits=np.zeros((3, 2), np.float32), labels=np.array([0, 1, 1]))
    >>> len(store.get(key)), store.get(Key(model="other", source="s")) is None
    (3, True)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._checked: dict[Path, tuple[int, int, int]] = {}  # files whose digest this process has already verified
        try:
            for name in ("logits", "parts"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            self._mark()
            for folder in (self.path, self.path / "logits", *files.listed(self.path / "parts")):
                files.remove_leftovers(folder)
        except OSError as error:
            raise StoreError(f"store {str(self.path)!r} must be a folder that can be written; {error}") from error

    def _mark(self) -> None:
        marker = self.path / "store.json"
        try:
            version = int(json.loads(marker.read_text())["version"])
        except FileNotFoundError:
            version = 0
        except (ValueError, KeyError, TypeError):
            version = 0  # a damaged marker is only a marker: write it again
        if version > _VERSION:
            raise StoreError(
                f"store {str(self.path)!r} has format {version}, this driftcal reads up to {_VERSION}. Update driftcal, "
                "or choose another folder."
            )
        if version < _VERSION:
            files.write_atomic(marker, files.canonical_json({"format": "driftcal-store", "version": _VERSION}).encode())

    # finished conditions

    def file(self, key: Key) -> Path:
        """Where the finished rows of `key` are or would be."""
        return self.path / "logits" / f"{key.digest}.safetensors"

    def get(self, key: Key) -> Entry | None:
        """The finished rows of `key`, or None when they are absent, damaged or belong to another key."""
        found = self._open(self.file(key), key)
        return None if found is None else Entry(key, found.arrays, str(found.note["digest"]))

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def put(
        self, key: Key, *, logits: Logits, labels: AnyArray, indices: AnyArray | None = None, **more: Array
    ) -> Entry:
        """Write all rows of `key` at once; `more` are further arrays of as many rows (features, groups)."""
        return self._write_whole(key, [_rows(logits, labels, indices, 0, more)])

    def remove(self, key: Key) -> None:
        """Forget `key`, finished or not."""
        with contextlib.suppress(FileNotFoundError):
            self.file(key).unlink()
        shutil.rmtree(self._parts_folder(key), ignore_errors=True)

    # a condition that is being collected

    def put_part(
        self,
        key: Key,
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
        rows = _rows(logits, labels, indices, start, more)
        stop = start + len(rows["logits"])
        folder = self._parts_folder(key)
        path = folder / f"{start:012d}-{stop:012d}.safetensors"
        with self._writing(path):
            for attempt in range(5):
                try:
                    folder.mkdir(exist_ok=True)
                    _write(path, [rows], {**_note(key), "start": start, "stop": stop})
                    return
                except FileNotFoundError:  # another process finished this key and took the folder away
                    if key in self:
                        return
                    if attempt == 4:
                        raise

    def parts(self, key: Key) -> list[tuple[int, int]]:
        """The row ranges [start, stop) of `key` that are on disk and intact, in order, overlaps removed."""
        return [(start, stop) for start, stop, _ in self._cover(key)]

    def missing(self, key: Key, n: int) -> list[tuple[int, int]]:
        """The row ranges of `key` that still have to be computed, [] when it is finished."""
        if key in self:
            return []
        return _gaps(self.parts(key), n)

    def finish(self, key: Key, n: int) -> Entry:
        """Merge the parts of `key` into one file and drop them. The bytes do not depend on how the rows were cut."""
        done = self.get(key)
        if done is None:
            cover = self._cover(key)
            gaps = _gaps([(start, stop) for start, stop, _ in cover], n)
            done = self.get(key)  # another process may have finished in between and dropped the parts
            if done is None and gaps:
                raise StoreError(
                    f"rows {gaps[0][0]}..{gaps[0][1] - 1} of {n} are not in store {str(self.path)!r} for shift "
                    f"{key.shift!r}, level {key.level!r}. Run the collection again: it computes only what is missing."
                )
            if done is None:
                done = self._write_whole(key, [_slice(rows, 0, n - start) for start, _, rows in cover if start < n])
        shutil.rmtree(self._parts_folder(key), ignore_errors=True)
        return done

    # the whole folder

    def keys(self) -> Iterator[Key]:
        """The keys of all finished, intact conditions, in the order of their file names."""
        for found in self._all():
            yield Key.from_dict(found.note["key"])

    def describe(self) -> list[dict[str, Any]]:
        """One plain row per finished condition: its key, rows, classes and bytes."""
        return [
            {**found.note["key"], "rows": len(found.arrays["logits"]), "classes": int(found.arrays["logits"].shape[1]),
             "bytes": found.path.stat().st_size}
            for found in self._all()
        ]  # fmt: skip

    def _all(self) -> Iterator[TensorFile]:
        for path in files.listed(self.path / "logits", ".safetensors"):
            found = self._open(path, None)
            if found is not None and Key.from_dict(found.note["key"]).digest == path.stem:
                yield found

    # inside

    def _parts_folder(self, key: Key) -> Path:
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

    def _write_whole(self, key: Key, pieces: list[dict[str, Array]]) -> Entry:
        path = self.file(key)
        with self._writing(path):
            _write(path, pieces, _note(key))
        entry = self.get(key)
        if entry is None:
            raise StoreError(f"store file {str(path)!r} could not be read back after writing; check the disk.")
        return entry

    def _open(self, path: Path, key: Key | None) -> TensorFile | None:
        """The file when it is intact and, if a key is given, belongs to it."""
        found = read_tensors(path)
        if found is None or found.note.get("format") != _FORMAT or found.note.get("version") != _VERSION:
            return None
        if key is not None and found.note.get("key") != json.loads(key.canonical):
            return None
        state = found.state
        if self._checked.get(path) != state:
            if _digest([found.arrays]) != found.note.get("digest"):
                return None
            self._checked[path] = state
        return found

    def _cover(self, key: Key) -> list[tuple[int, int, dict[str, Array]]]:
        """Intact parts without overlap: (start, stop, rows). Parts of other shapes than the first are left out."""
        found = []
        for path in files.listed(self._parts_folder(key), ".safetensors"):
            part = self._open(path, key)
            if part is not None and path.stem == f"{part.note['start']:012d}-{part.note['stop']:012d}":
                found.append((int(part.note["start"]), int(part.note["stop"]), part.arrays))
        cover: list[tuple[int, int, dict[str, Array]]] = []
        position, shape = 0, None
        for start, stop, rows in sorted(found, key=lambda item: (item[0], -item[1])):
            kind = {name: (array.dtype, array.shape[1:]) for name, array in rows.items()}
            shape = shape or kind
            if stop > position and kind == shape:
                begin = max(start, position)
                cover.append((begin, stop, _slice(rows, begin - start, stop - start)))
                position = stop
        return cover


def _note(key: Key) -> dict[str, Any]:
    return {"format": _FORMAT, "version": _VERSION, "driftcal": __version__, "key": key.to_dict()}


def _gaps(parts: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    gaps, position = [], 0
    for start, stop in [*parts, (n, n)]:
        if start > position:
            gaps.append((position, min(start, n)))
        position = max(position, stop)
    return gaps


def _slice(rows: Mapping[str, Array], start: int, stop: int) -> dict[str, Array]:
    return {name: array[start:stop] for name, array in rows.items()}


def _rows(
    logits: Logits, labels: AnyArray, indices: AnyArray | None, start: int, more: Mapping[str, Array]
) -> dict[str, Array]:
    scores = np.asarray(logits)
    if scores.ndim != 2 or scores.dtype.kind != "f":
        raise StoreError(f"logits must be floats of shape (n, C); they are {scores.dtype} of shape {scores.shape}.")
    positions = np.arange(start, start + len(scores)) if indices is None else indices
    rows = {"indices": np.asarray(positions, np.int64), "labels": np.asarray(labels, np.int64), "logits": scores}
    for name, array in more.items():
        if array.dtype.kind not in "fiub":
            raise StoreError(f"array {name!r} must hold numbers; its dtype is {array.dtype}. Store codes, not names.")
        rows[name] = np.asarray(array)
    for name, array in rows.items():
        if array.ndim < 1 or len(array) != len(scores):
            raise StoreError(f"{name} must have {len(scores)} rows as logits do; its shape is {array.shape}.")
    return rows


def _digest(pieces: list[dict[str, Array]]) -> str:
    """SHA-256 over the joined rows, the same for any cut into pieces."""
    total = hashlib.sha256()
    for name in sorted(pieces[0]):
        first = pieces[0][name]
        shape = (sum(len(rows[name]) for rows in pieces), *first.shape[1:])
        total.update(f"{name}{first.dtype.newbyteorder('<').str}{shape}".encode())
        for block in array_blocks([rows[name] for rows in pieces]):
            total.update(block)
    return total.hexdigest()


def _write(path: Path, pieces: list[dict[str, Array]], note: dict[str, Any]) -> None:
    write_tensors(path, pieces, {**note, "digest": _digest(pieces)})
