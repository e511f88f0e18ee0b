"""What decides a row of logits, and the rows that were decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftcal.errors import StoreError
from driftcal.io.fingerprint import canonical_json, sha256_bytes
from driftcal.types import Array, Indices, Labels, Logits


@dataclass(frozen=True, eq=False)
class CacheKey:
    """Everything that decides a row of logits. Two keys are equal when their canonical JSON is.

    `model` and `source` are fingerprints; `extra` holds whatever else changes the numbers (clipping, a suite's options).

    >>> CacheKey("m", "s", level=1) == CacheKey("m", "s", level=1.0)
    True
    >>> CacheKey("m", "s", seed=1) == CacheKey("m", "s", seed=2)
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
    def from_dict(cls, values: Mapping[str, Any]) -> CacheKey:
        """The key that `to_dict` wrote."""
        return cls(**values)

    @property
    def canonical(self) -> str:
        """The one JSON text of this key."""
        try:
            return canonical_json(self.to_dict())
        except (TypeError, ValueError) as error:
            raise StoreError(f"a key must hold plain JSON values (text, finite numbers, lists); {error}") from error

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: the name of the file."""
        return sha256_bytes(self.canonical.encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheKey) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)


@dataclass(frozen=True, eq=False)
class CacheEntry:
    """The rows of one condition; arrays are memory maps, so opening one costs nothing but its check."""

    key: CacheKey
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
