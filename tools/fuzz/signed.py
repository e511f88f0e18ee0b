"""Hostile files whose digest is right: the author of a file can always compute it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.cache.entry import digest_of
from driftcal.io.checked_tensors import digest_of_tensors
from driftcal.io.fingerprint import canonical_json
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.pipeline.evaluating.results_file import results_text
from tools.fuzz.mutation import mutate_value


def mutate_tensors(rng: random.Random, seed: Path, target: Path, kind: str) -> bool:
    """Write a mutation of the safetensors file `seed` to `target`, with the digest of its `kind`; False if impossible."""
    file = read_tensors(seed)
    assert file is not None
    metadata = {key: value for key, value in file.metadata.items() if key != "digest"}
    arrays = {name: np.array(array) for name, array in file.arrays.items()}
    for _ in range(rng.choice((1, 1, 2, 3))):
        if arrays and rng.random() < 0.5:
            _mutate_array(rng, arrays)
        else:
            metadata = mutate_value(rng, metadata)
    try:
        canonical_json(metadata)
        if kind == "cache":
            digest = digest_of([arrays])
        else:
            used = {name: array for name, array in arrays.items() if name != "empty" or kind == "monitor"}
            digest = digest_of_tensors(metadata, used)
        write_tensors(target, [arrays], {**metadata, "digest": digest})
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError):
        return False  # nothing that a writer could write
    return True


def mutate_results(rng: random.Random, seed: Path, target: Path) -> bool:
    """Write a mutation of results.json with the right digest, or without one."""
    values = {key: value for key, value in json.loads(seed.read_text()).items() if key != "digest"}
    for _ in range(rng.choice((1, 1, 2))):
        values = mutate_value(rng, values)
    try:
        target.write_text(results_text(values) if rng.random() < 0.5 else json.dumps(values))
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _mutate_array(rng: random.Random, arrays: dict[str, Any]) -> None:
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    match rng.randrange(8):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = array[: rng.choice((0, 1, max(0, len(array) - 1)))]
        case 2:
            arrays[name] = np.concatenate([array, array])
        case 3:
            arrays[name] = array[..., None]
        case 4:
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(rng.choice(("f4", "f8", "i8", "i4", "u1", "?")), casting="unsafe")
        case 5:
            arrays[f"{name}x"] = array
        case 6:
            arrays[name] = array.reshape(-1)[: array.size // 2 * 2].reshape(2, -1) if array.size > 1 else array
        case 7:
            if array.size:
                flat = array.reshape(-1)
                values = (0, -1, 1, 2**40, 1e300, -1e300, 1e-310) if array.dtype != bool else (0, 1)
                with np.errstate(all="ignore"):
                    flat[rng.randrange(array.size)] = np.array(rng.choice(values)).astype(array.dtype)
