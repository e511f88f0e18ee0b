"""The key of stored logits: everything that the logits depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftcal.errors import CacheError
from driftcal.io.fingerprint import canonical_json, sha256_bytes


@dataclass(frozen=True, eq=False)
class CacheKey:
    """Everything that the logits of one condition depend on. Two keys are equal if their canonical JSON texts are.

    Parameters
    ----------
    model, source
        Fingerprints.
    split
        A name for a part of the source, if its fingerprint is that of the whole.
    shift, level
        The condition; clean samples have the shift ``"none"`` and the level 0.
    seed
        The seed of the shift.
    batch_size
        Samples per call of the model. Outputs of some models depend on it in the last digits.
    extra
        Other settings that change the logits, such as the options of a shift.

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
        """The key as JSON values."""
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
        """The canonical JSON text of this key."""
        try:
            return canonical_json(self.to_dict())
        except (TypeError, ValueError, OverflowError) as error:
            raise CacheError(f"a key must hold plain JSON values (text, finite numbers, lists); {error}") from error

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON text: the name of the file."""
        return sha256_bytes(self.canonical.encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheKey) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)
