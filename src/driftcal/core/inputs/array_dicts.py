"""Dictionaries of arrays as inputs: several named arrays with one entry per sample, such as tokens and their mask."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.validation import NUMBER_KINDS, as_array
from driftcal.errors import InputError
from driftcal.types import Array, Indices


@dataclass(frozen=True, eq=False)
class ArrayDict:
    """Named arrays whose first axis is that of the samples; `len` is the number of samples, and slices select some.

    >>> tokens = ArrayDict({"input_ids": np.arange(6).reshape(3, 2), "mask": np.ones((3, 2), bool)})
    >>> len(tokens), tokens[1:].arrays["input_ids"].tolist(), str(tokens)
    (3, [[2, 3], [4, 5]], 'input_ids int64 (n, 2), mask bool (n, 2)')
    """

    arrays: dict[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, indices: Indices | slice) -> ArrayDict:
        return ArrayDict({name: values[indices] for name, values in self.arrays.items()})

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {values.dtype} ({', '.join(['n', *map(str, values.shape[1:])])})"
            for name, values in self.arrays.items()
        )

    @property
    def shape(self) -> tuple[int]:
        """(n,): a sample is an entry of every array."""
        return (len(self),)

    @property
    def holds_integers(self) -> bool:
        """Whether an array holds whole numbers, such as tokens, on which noise means nothing."""
        return any(values.dtype.kind in "iub" for values in self.arrays.values())

    def copy(self) -> ArrayDict:
        """The same with arrays of its own."""
        return ArrayDict({name: values.copy() for name, values in self.arrays.items()})

    def tobytes(self) -> bytes:
        """Names, dtypes, shapes and values of all arrays, for digests."""
        parts = [f"{self}".encode()] + [np.ascontiguousarray(values).tobytes() for values in self.arrays.values()]
        return b"\0".join(parts)

    @property
    def digest(self) -> str:
        """SHA-256 over names, dtypes and values."""
        return hashlib.sha256(self.tobytes()).hexdigest()

    def fixed_samples(self) -> ArrayDict:
        """Four samples of the same shapes whose values never change: 1, 1, 0, … for integers, random numbers for floats."""
        rng, fixed = np.random.default_rng(0), {}
        for name, values in self.arrays.items():
            shape = (4, *values.shape[1:])
            numbers = (
                rng.random(shape) if values.dtype.kind == "f" else np.arange(np.prod(shape)).reshape(shape) % 3 < 2
            )
            fixed[name] = numbers.astype(values.dtype)
        return ArrayDict(fixed)

    @classmethod
    def concatenated(cls, parts: Sequence[ArrayDict]) -> ArrayDict:
        """The samples of all parts in one."""
        return cls({name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays})


def is_array_dict(inputs: Any) -> bool:
    """Whether these are a dictionary of arrays, also one of transformers' encodings."""
    return isinstance(inputs, ArrayDict | Mapping)


def as_array_dict(inputs: Any, argument: str = "x") -> ArrayDict:
    """A dictionary of arrays, checked: names as text, numbers, and one entry per sample in each."""
    if isinstance(inputs, ArrayDict):
        return inputs
    if not inputs or not all(isinstance(name, str) for name in inputs):
        raise InputError(
            f"a dictionary for {argument} must hold named arrays; it holds {', '.join(map(repr, inputs)) or 'nothing'}. "
            'Write {"input_ids": array, "attention_mask": array}.'
        )
    arrays = {name: as_array(values, f"{argument}[{name!r}]") for name, values in inputs.items()}
    for name, values in arrays.items():
        if values.ndim == 0 or values.dtype.kind not in NUMBER_KINDS:
            raise InputError(
                f"{argument}[{name!r}] must hold numbers, one entry per sample; it is {values.dtype} of shape {values.shape}. "
                "Pad sequences to one length; pass texts as a list of str."
            )
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        raise InputError(f"the arrays of {argument} must have one entry per sample each; {described}. Cut them alike.")
    if not next(iter(lengths.values())):
        raise InputError(f"{argument} must have at least one sample; it has none. Check the filter.")
    return ArrayDict(arrays)
