"""Random numbers as a pure function of (seed, shift, sample index, counter).

A sample's key is a hash of the first three. Its n-th random number is a hash of the key and n (SplitMix64, Steele et
al. 2014). Nothing is drawn in sequence, so batches, order, threads and processes do not change a number. Normal numbers
use a ziggurat of 256 layers (Marsaglia & Tsang 2000). It is exact, and 99 % of them need one hash only.
"""

from __future__ import annotations

import zlib
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from driftcal.core.numerics import ieee, inlined
from driftcal.core.scalars import is_whole
from driftcal.errors import InputError
from driftcal.types import Indices

# All constants are uint64: mixed with a signed integer, numpy and numba would compute in float64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # odd, 2^64 / golden ratio: SplitMix64's step
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)  # the shifts of SplitMix64's finaliser
_LAYER_MASK = np.uint64(255)  # bits 0 to 7 choose the layer
_SIGN_BIT = np.uint64(8)
_MANTISSA_BIT = np.uint64(12)  # bits 12 to 63 are the position within the layer
_ONE = np.uint64(1)
_11 = np.uint64(11)  # 64 - 11 = 53 bits fill the mantissa of a float64

_TAIL = 3.6541528853610088  # where the tail begins when 256 layers have equal area
_AREA = 0.00492867323399  # the area of each layer


def _layers() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The right edge of each layer of the ziggurat, and the unnormalised density there."""
    edges = np.zeros(257)
    edges[0], edges[1] = _AREA / np.exp(-0.5 * _TAIL**2), _TAIL
    for i in range(1, 255):
        edges[i + 1] = np.sqrt(-2 * np.log(_AREA / edges[i] + np.exp(-0.5 * edges[i] ** 2)))
    return edges, np.exp(-0.5 * edges**2)


_EDGE, _DENSITY = _layers()
_WIDTH = _EDGE[:256] / 2.0**52  # of one step of the mantissa
_ACCEPT = np.floor(_EDGE[1:] / _EDGE[:256] * 2.0**52).astype(np.int64)  # mantissas below lie in the rectangle


@inlined
def mix64(z: Any) -> Any:
    """The finaliser of SplitMix64: 64 bits, of which each depends on all bits of `z`."""
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


_mix_array: Any = cast(Any, mix64).py_func  # the same on numpy arrays


def keys_of(name: str, seed: int, indices: Indices) -> NDArray[np.uint64]:
    """One key for each sample: a hash of the shift's name, the seed and the sample's index."""
    with np.errstate(over="ignore"):
        start = _mix_array(np.array([zlib.crc32(name.encode())], np.uint64) * _GOLDEN ^ np.uint64(seed))
        keys: NDArray[np.uint64] = _mix_array(start + (indices.astype(np.uint64) + _ONE) * _GOLDEN)
    return keys


def first_uniforms(keys: NDArray[np.uint64], count: int) -> NDArray[np.float64]:
    """(n, count): what :func:`uniform` gives for counters 0 to count - 1."""
    with np.errstate(over="ignore"):
        z: NDArray[np.uint64] = _mix_array(keys[:, None] + (np.arange(count, dtype=np.uint64) + _ONE) * _GOLDEN)
    return (z >> _11).astype(np.float64) * 2.0**-53


@inlined
def bits(key: Any, counter: Any) -> Any:
    """64 random bits."""
    return mix64(key + (np.uint64(counter) + _ONE) * _GOLDEN)


@inlined
def uniform(key: Any, counter: Any) -> Any:
    """A number in [0, 1) with 53 random bits."""
    return np.int64(bits(key, counter) >> _11) * 2.0**-53


@inlined
def normal(key: Any, counter: Any) -> Any:
    """A standard-normal number."""
    b = bits(key, counter)
    layer = np.int64(b & _LAYER_MASK)
    mantissa = np.int64(b >> _MANTISSA_BIT)
    x = mantissa * _WIDTH[layer]
    if mantissa >= _ACCEPT[layer]:
        x = _outside_rectangle(bits(key ^ _MIX_1, counter), layer, x)
    return x * (1 - 2 * np.int64((b >> _SIGN_BIT) & _ONE))  # a branch here would be mispredicted every other time


@ieee
def _outside_rectangle(key: Any, layer: Any, x: Any) -> Any:
    """The 1 % outside the rectangles: the wedge above, the tail, or another try with the numbers of a new key."""
    counter = 0
    while True:
        if layer == 0:
            while True:
                beyond = -np.log(1 - uniform(key, counter)) / _TAIL
                height = -np.log(1 - uniform(key, counter + 1))
                counter += 2
                if 2 * height > beyond * beyond:
                    return _TAIL + beyond
        y = _DENSITY[layer] + uniform(key, counter) * (_DENSITY[layer + 1] - _DENSITY[layer])
        if y < np.exp(-0.5 * x * x):
            return x
        b = bits(key, counter + 1)
        counter += 2
        layer = np.int64(b & _LAYER_MASK)
        mantissa = np.int64(b >> _MANTISSA_BIT)
        x = mantissa * _WIDTH[layer]
        if mantissa < _ACCEPT[layer]:
            return x


def as_seed(seed: Any, name: str = "seed") -> int:
    """A seed: a whole number from 0 to 2**64 - 1."""
    if not is_whole(seed) or not 0 <= int(seed) < 2**64:
        raise InputError(f"{name} must be a whole number from 0 to 2**64 - 1; got {seed!r}. Try {name}=0.")
    return int(seed)
