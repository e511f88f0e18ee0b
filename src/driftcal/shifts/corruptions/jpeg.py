"""JPEG compression without a file: only the steps of the codec that lose information.

Colours are rounded to 8-bit YCbCr, and chroma is halved. The 8 x 8 cosine transform is rounded to the quantisation
tables of Annex K (ITU-T T.81), scaled to the quality as in libjpeg. The way back upsamples chroma smoothly.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from driftcal.shifts.corruptions.filters import Keys, compiled
from driftcal.types import Images

# Quantisation steps of Annex K, tables K.1 and K.2.
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
    luma, chroma = _steps(_LUMA, int(quality)), _steps(_CHROMA, int(quality))
    compress = _compress_rgb if images.shape[3] == 3 else _compress_grey
    compress(images, luma, chroma, _cosines(), out)


@lru_cache(maxsize=32)
def _steps(base: tuple[tuple[int, ...], ...], quality: int) -> NDArray[np.float32]:
    """A quantisation table scaled to a quality, as in libjpeg."""
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.asarray(np.clip((np.array(base) * percent + 50) // 100, 1, 255), np.float32)


@lru_cache(maxsize=1)
def _cosines() -> NDArray[np.float32]:
    """The orthonormal cosine transform of 8 values, and its transpose."""
    k = np.arange(8)
    matrix = np.cos(np.pi * np.outer(k, 2 * k + 1) / 16) / 2
    matrix[0] /= np.sqrt(2)
    return np.stack([matrix, matrix.T]).astype(np.float32)


_CHUNK = 64  # blocks that are transformed together: 64 values of 64 blocks stay in the first-level cache


@compiled
def _transform(values, matrix, step, out):  # type: ignore[no-untyped-def]
    """Multiply the rows (step 1) or columns (step 8) of many blocks; values[8 * row + column, block].

    The sum over eight values is written out, so that the loop over blocks is vectorised.
    """
    for line in range(8):
        p = line * (8 if step == 1 else 1)
        r0, r1, r2, r3 = values[p], values[p + step], values[p + 2 * step], values[p + 3 * step]
        r4, r5, r6, r7 = values[p + 4 * step], values[p + 5 * step], values[p + 6 * step], values[p + 7 * step]
        for u in range(8):
            m, target = matrix[u], out[p + u * step]
            m0, m1, m2, m3, m4, m5, m6, m7 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
            for t in range(_CHUNK):
                first = m0 * r0[t] + m1 * r1[t] + m2 * r2[t] + m3 * r3[t]
                target[t] = first + m4 * r4[t] + m5 * r5[t] + m6 * r6[t] + m7 * r7[t]


@compiled
def _quantise(plane, steps, cosines):  # type: ignore[no-untyped-def]
    """Quantise a plane of whole blocks, in place."""
    forward, back = cosines[0], cosines[1]
    a, b = np.zeros((64, _CHUNK), np.float32), np.zeros((64, _CHUNK), np.float32)
    middle, top = np.float32(128), np.float32(255)
    blocks_across = plane.shape[1] // 8
    n_blocks = plane.shape[0] // 8 * blocks_across
    for start in range(0, n_blocks, _CHUNK):
        count = min(_CHUNK, n_blocks - start)
        for t in range(count):
            y, x = (start + t) // blocks_across * 8, (start + t) % blocks_across * 8
            for i in range(8):
                for j in range(8):
                    a[8 * i + j, t] = plane[y + i, x + j] - middle
        _transform(a, forward, 1, b)
        _transform(b, forward, 8, a)
        for p in range(64):
            step, value = steps[p // 8, p % 8], a[p]
            inverse = np.float32(1) / step
            for t in range(_CHUNK):
                value[t] = np.rint(value[t] * inverse) * step
        _transform(a, back, 8, b)
        _transform(b, back, 1, a)
        for t in range(count):
            y, x = (start + t) // blocks_across * 8, (start + t) % blocks_across * 8
            for i in range(8):
                for j in range(8):
                    plane[y + i, x + j] = min(max(np.rint(a[8 * i + j, t] + middle), np.float32(0)), top)


@compiled
def _compress_grey(images, luma, chroma, cosines, out):  # type: ignore[no-untyped-def]
    n, height, width, _ = images.shape
    plane = np.empty(((height + 7) // 8 * 8, (width + 7) // 8 * 8), np.float32)
    for i in range(n):
        for y in range(plane.shape[0]):
            for x in range(plane.shape[1]):
                plane[y, x] = np.rint(images[i, min(y, height - 1), min(x, width - 1), 0] * np.float32(255))
        _quantise(plane, luma, cosines)
        for y in range(height):
            for x in range(width):
                out[i, y, x, 0] = plane[y, x] / np.float32(255)


@compiled
def _compress_rgb(images, luma, chroma, cosines, out):  # type: ignore[no-untyped-def]
    n, height, width, _ = images.shape
    padded_height, padded_width = (height + 15) // 16 * 16, (width + 15) // 16 * 16
    y_plane = np.empty((padded_height, padded_width), np.float32)
    cb_plane = np.empty((padded_height // 2, padded_width // 2), np.float32)
    cr_plane = np.empty((padded_height // 2, padded_width // 2), np.float32)
    # one row of Cb and Cr: between two rows of the halved plane, and at full width
    mixed, full = np.empty((2, padded_width // 2), np.float32), np.empty((2, padded_width), np.float32)
    for i in range(n):
        _to_planes(images[i], y_plane, cb_plane, cr_plane)
        _quantise(y_plane, luma, cosines)
        _quantise(cb_plane, chroma, cosines)
        _quantise(cr_plane, chroma, cosines)
        for y in range(height):
            _upsample_row(cb_plane, y, (height + 1) // 2, (width + 1) // 2, mixed[0], full[0])
            _upsample_row(cr_plane, y, (height + 1) // 2, (width + 1) // 2, mixed[1], full[1])
            for x in range(width):
                cb, cr = full[0, x] - np.float32(128), full[1, x] - np.float32(128)
                value = y_plane[y, x]
                out[i, y, x, 0] = _byte(value + np.float32(1.402) * cr)
                out[i, y, x, 1] = _byte(value - np.float32(0.344136) * cb - np.float32(0.714136) * cr)
                out[i, y, x, 2] = _byte(value + np.float32(1.772) * cb)


@compiled
def _byte(value):  # type: ignore[no-untyped-def]
    """A value in 0 to 255, rounded to a byte, as a number in [0, 1]."""
    return min(max(np.rint(value), np.float32(0)), np.float32(255)) * np.float32(1 / 255)


@compiled
def _to_planes(image, y_plane, cb_plane, cr_plane):  # type: ignore[no-untyped-def]
    """Write an RGB image as Y, and as Cb and Cr of half the size."""
    height, width, _ = image.shape
    quarter, middle = np.float32(0.25), np.float32(128)
    for v in range(cb_plane.shape[0]):
        for u in range(cb_plane.shape[1]):
            cb = cr = np.float32(0)
            for y in range(2 * v, 2 * v + 2):
                for x in range(2 * u, 2 * u + 2):
                    pixel = image[min(y, height - 1), min(x, width - 1)]
                    r, g = np.rint(pixel[0] * np.float32(255)), np.rint(pixel[1] * np.float32(255))
                    b = np.rint(pixel[2] * np.float32(255))
                    y_plane[y, x] = np.rint(np.float32(0.299) * r + np.float32(0.587) * g + np.float32(0.114) * b)
                    cb += np.float32(0.5) * b - np.float32(0.168736) * r - np.float32(0.331264) * g
                    cr += np.float32(0.5) * r - np.float32(0.418688) * g - np.float32(0.081312) * b
            cb_plane[v, u], cr_plane[v, u] = np.rint(quarter * cb + middle), np.rint(quarter * cr + middle)


@compiled
def _upsample_row(plane, y, rows, columns, mixed, out):  # type: ignore[no-untyped-def]
    """Write row y of halved chroma at full width: 3/4 of the nearer and 1/4 of the farther value, down and across."""
    near = y // 2
    far = min(max(near - 1 + 2 * (y % 2), 0), rows - 1)
    for x in range(columns):
        mixed[x] = np.float32(0.75) * plane[near, x] + np.float32(0.25) * plane[far, x]
    for x in range(columns):
        before, after = mixed[max(x - 1, 0)], mixed[min(x + 1, columns - 1)]
        out[2 * x] = np.rint(np.float32(0.75) * mixed[x] + np.float32(0.25) * before)
        out[2 * x + 1] = np.rint(np.float32(0.75) * mixed[x] + np.float32(0.25) * after)
