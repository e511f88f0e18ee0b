"""Safetensors files that say what they are: a format, a version, and a digest over everything in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.errors import ArtefactError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.paths import AnyPath
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.types import Array


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its format, the versions that are read (the last is written), what it holds and what writes it."""

    format: str
    versions: tuple[int, ...]
    holds: str
    writer: str

    def write(self, path: AnyPath, arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> Path:
        """Write arrays and metadata; equal values give the same bytes."""
        metadata = {"format": self.format, "version": self.versions[-1], **metadata}
        return write_tensors(path, [arrays], {**metadata, "digest": digest_of_tensors(metadata, arrays)})

    def read(self, path: AnyPath) -> tuple[dict[str, Any], dict[str, Array]]:
        """The metadata and copies of the arrays of a file that matches its digest."""
        file = read_tensors(path)
        if file is None:
            raise ArtefactError(
                f"{path} must be an intact file of {self.holds}; it is missing, truncated or of another kind. Start without it."
            )
        metadata = dict(file.metadata)
        if metadata.get("format") != self.format or metadata.get("version") not in self.versions:
            versions = " or ".join(str(version) for version in reversed(self.versions))
            raise ArtefactError(
                f"{path} must be a {self.format} file of version {versions}; its format is {metadata.get('format')!r}, its "
                f"version {metadata.get('version')!r}. Pass a file that {self.writer} wrote, or update driftcal."
            )
        digest = metadata.pop("digest", None)
        arrays = {name: np.array(value) for name, value in file.arrays.items()}
        if not is_digest(digest, metadata, arrays):
            raise ArtefactError(f"{path} must match its own digest; it was altered or damaged. Start without it.")
        return metadata, arrays


def digest_of_tensors(metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """SHA-256 over metadata and arrays."""
    # the key "note" is that of version 0.1, whose files must keep their digests
    return fingerprint({"note": dict(metadata), **{f"array {name}": value for name, value in arrays.items()}})


def is_digest(digest: Any, metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> bool:
    """Whether the digest in a file is that of its metadata and arrays."""
    try:
        return bool(digest == digest_of_tensors(metadata, arrays))
    except ValueError:  # NaN or infinity, which no writer writes
        return False
