"""JPEG compression without a file: only the losses of the codec.

Rounding and subsampling are what loses information: colours to 8-bit YCbCr, chroma halved, 8 x 8 cosine transform rounded to
the quantisation tables of Annex K (ITU-T T.81) scaled to the quality as libjpeg does, and back with smooth upsampling.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from driftcal.shifts.corruptions.filters import compiled
from driftcal.shifts.corruptions.noise import Keys
from driftcal.types import Images

_LUMA = (
    (16, 11, 10, 16, 24, 40, 51, 61), (12, 12, 14, 19, 26, 58, 60, 55), (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62), (18, 22, 37, 56, 68, 109, 103, 77), (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101), (72, 92, 95, 98, 112, 100, 103, 99),
)  # fmt: skip
_CHROMA = (
    (17, 18, 24, 47, 99, 99, 99, 99), (18, 21, 26, 66, 99, 99, 99, 99), (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99), *((99,) * 8,) * 4,
)  # fmt: skip


def jpeg_compression(images: Images, out: Images, keys: Keys, quality: float) -> None:
    """The image after JPEG at this quality (chroma 4:2:0)."""
    luma, chroma = _table(_LUMA, int(quality)), _table(_CHROMA, int(quality))
    (_colour if images.shape[3] == 3 else _grey)(images, luma, chroma, _cosines(), out)


@lru_cache(maxsize=32)
def _table(base: tuple[tuple[int, ...], ...], quality: int) -> NDArray[np.float32]:
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.asarray(np.clip((np.array(base) * percent + 50) // 100, 1, 255), np.float32)


@lru_cache(maxsize=1)
def _cosines() -> NDArray[np.float32]:
    """The orthonormal cosine transform of 8 values, and its transpose."""
    k = np.arange(8)
    matrix = np.cos(np.pi * np.outer(k, 2 * k + 1) / 16) / 2
    matrix[0] /= np.sqrt(2)
    return np.stack([matrix, matrix.T]).astype(np.float32)


_CHUNK = 64  # blocks transformed together: 64 values of 64 blocks stay in the first cache


@compiled
def _turn(a, matrix, step, b):  # type: ignore[no-untyped-def]
    """Multiply the rows (step 1) or columns (step 8) of many blocks; a[8 * row + column, block]."""
    for line in range(8):
        p = line * (8 if step == 1 else 1)
        r0, r1, r2, r3 = a[p], a[p + step], a[p + 2 * step], a[p + 3 * step]
        r4, r5, r6, r7 = a[p + 4 * step], a[p + 5 * step], a[p + 6 * step], a[p + 7 * step]
        for u in range(8):
            m, out = matrix[u], b[p + u * step]
            m0, m1, m2, m3, m4, m5, m6, m7 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
            for t in range(_CHUNK):
                first = m0 * r0[t] + m1 * r1[t] + m2 * r2[t] + m3 * r3[t]
                out[t] = first + m4 * r4[t] + m5 * r5[t] + m6 * r6[t] + m7 * r7[t]


@compiled
def _lossy(plane, table, cosines):  # type: ignore[no-untyped-def]
    """Quantise a plane of whole blocks, in place."""
    forward, back = cosines[0], cosines[1]
    a, b = np.zeros((64, _CHUNK), np.float32), np.zeros((64, _CHUNK), np.float32)
    middle, top = np.float32(128), np.float32(255)
    across = plane.shape[1] // 8
    blocks = plane.shape[0] // 8 * across
    for start in range(0, blocks, _CHUNK):
        count = min(_CHUNK, blocks - start)
        for t in range(count):
            y, x = (start + t) // across * 8, (start + t) % across * 8
            for i in range(8):
                for j in range(8):
                    a[8 * i + j, t] = plane[y + i, x + j] - middle
        _turn(a, forward, 1, b)
        _turn(b, forward, 8, a)
        for p in range(64):
            step, value = table[p // 8, p % 8], a[p]
            inverse = np.float32(1) / step
            for t in range(_CHUNK):
                value[t] = np.rint(value[t] * inverse) * step
        _turn(a, back, 8, b)
        _turn(b, back, 1, a)
        for t in range(count):
            y, x = (start + t) // across * 8, (start + t) % across * 8
            for i in range(8):
                for j in range(8):
                    plane[y + i, x + j] = min(max(np.rint(a[8 * i + j, t] + middle), np.float32(0)), top)


@compiled
def _grey(images, luma, chroma, cosines, out):  # type: ignore[no-untyped-def]
    n, height, width, _ = images.shape
    plane = np.empty(((height + 7) // 8 * 8, (width + 7) // 8 * 8), np.float32)
    for i in range(n):
        for y in range(plane.shape[0]):
            for x in range(plane.shape[1]):
                plane[y, x] = np.rint(images[i, min(y, height - 1), min(x, width - 1), 0] * np.float32(255))
        _lossy(plane, luma, cosines)
        for y in range(height):
            for x in range(width):
                out[i, y, x, 0] = plane[y, x] / np.float32(255)


@compiled
def _colour(images, luma, chroma, cosines, out):  # type: ignore[no-untyped-def]
    n, height, width, _ = images.shape
    tall, wide = (height + 15) // 16 * 16, (width + 15) // 16 * 16
    bright = np.empty((tall, wide), np.float32)
    blue, red = np.empty((tall // 2, wide // 2), np.float32), np.empty((tall // 2, wide // 2), np.float32)
    upper, lower = np.empty((2, wide // 2), np.float32), np.empty((2, wide), np.float32)
    for i in range(n):
        _to_planes(images[i], bright, blue, red)
        _lossy(bright, luma, cosines)
        _lossy(blue, chroma, cosines)
        _lossy(red, chroma, cosines)
        for y in range(height):
            _row_of(blue, y, (height + 1) // 2, (width + 1) // 2, upper[0], lower[0])
            _row_of(red, y, (height + 1) // 2, (width + 1) // 2, upper[1], lower[1])
            for x in range(width):
                b, r = lower[0, x] - np.float32(128), lower[1, x] - np.float32(128)
                value = bright[y, x]
                out[i, y, x, 0] = _byte(value + np.float32(1.402) * r)
                out[i, y, x, 1] = _byte(value - np.float32(0.344136) * b - np.float32(0.714136) * r)
                out[i, y, x, 2] = _byte(value + np.float32(1.772) * b)


@compiled
def _byte(value):  # type: ignore[no-untyped-def]
    return min(max(np.rint(value), np.float32(0)), np.float32(255)) * np.float32(1 / 255)


@compiled
def _to_planes(image, bright, blue, red):  # type: ignore[no-untyped-def]
    height, width, _ = image.shape
    quarter, middle = np.float32(0.25), np.float32(128)
    for v in range(blue.shape[0]):
        for u in range(blue.shape[1]):
            cb = cr = np.float32(0)
            for y in range(2 * v, 2 * v + 2):
                for x in range(2 * u, 2 * u + 2):
                    pixel = image[min(y, height - 1), min(x, width - 1)]
                    r, g = np.rint(pixel[0] * np.float32(255)), np.rint(pixel[1] * np.float32(255))
                    b = np.rint(pixel[2] * np.float32(255))
                    bright[y, x] = np.rint(np.float32(0.299) * r + np.float32(0.587) * g + np.float32(0.114) * b)
                    cb += np.float32(0.5) * b - np.float32(0.168736) * r - np.float32(0.331264) * g
                    cr += np.float32(0.5) * r - np.float32(0.418688) * g - np.float32(0.081312) * b
            blue[v, u], red[v, u] = np.rint(quarter * cb + middle), np.rint(quarter * cr + middle)


@compiled
def _row_of(plane, y, rows, columns, mixed, out):  # type: ignore[no-untyped-def]
    """One full row of halved chroma: 3/4 of the nearer and 1/4 of the farther value, down and across."""
    near = y // 2
    far = min(max(near - 1 + 2 * (y % 2), 0), rows - 1)
    for x in range(columns):
        mixed[x] = np.float32(0.75) * plane[near, x] + np.float32(0.25) * plane[far, x]
    for x in range(columns):
        before, after = mixed[max(x - 1, 0)], mixed[min(x + 1, columns - 1)]
        out[2 * x] = np.rint(np.float32(0.75) * mixed[x] + np.float32(0.25) * before)
        out[2 * x + 1] = np.rint(np.float32(0.75) * mixed[x] + np.float32(0.25) * after)
