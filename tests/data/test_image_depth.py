"""Images keep their depth, only listed formats are decoded, and no image takes memory without limit."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import driftcal
from driftcal.data.image_files import ImageDecoder
from driftcal.errors import DataError

RAMP = np.linspace(0, 1, 64).reshape(8, 8)
_TIFF_TYPES = {"u": 1, "i": 2, "f": 3}


def tiff(pixels, order="<", photometric=1):
    """The bytes of a grey TIFF file without compression, of any dtype."""
    pixels = pixels.astype(pixels.dtype.newbyteorder(order))
    tags = [
        (256, 4, pixels.shape[1]), (257, 4, pixels.shape[0]), (258, 3, 8 * pixels.dtype.itemsize), (259, 3, 1),
        (262, 3, photometric), (273, 4, 0), (277, 3, 1), (278, 4, pixels.shape[0]), (279, 4, pixels.nbytes),
        (339, 3, _TIFF_TYPES[pixels.dtype.kind]),
    ]  # fmt: skip
    start = 8 + 2 + 12 * len(tags) + 4
    entries = b""
    for tag, kind, value in tags:
        value = start if tag == 273 else value
        packed = struct.pack(f"{order}HH", value, 0) if kind == 3 else struct.pack(f"{order}I", value)
        entries += struct.pack(f"{order}HHI", tag, kind, 1) + packed
    mark = b"II" if order == "<" else b"MM"
    return mark + struct.pack(f"{order}HIH", 42, 8, len(tags)) + entries + bytes(4) + pixels.tobytes()


def png16(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def pgm(pixels, largest):
    return f"P5 {pixels.shape[1]} {pixels.shape[0]} {largest}\n".encode() + pixels.astype(">u2").tobytes()


DEEP = {
    "16.png": (png16((RAMP * 65535).astype(np.uint16)), 1 / 65535),
    "16.tif": (tiff((RAMP * 65535).astype(np.uint16)), 1 / 65535),
    "16-big-endian.tif": (tiff((RAMP * 65535).astype(np.uint16), ">"), 1 / 65535),
    "16-signed.tif": (tiff((RAMP * 32767).astype(np.int16)), 1 / 32767),
    "16-white-is-zero.tif": (tiff(((1 - RAMP) * 65535).astype(np.uint16), photometric=0), 1 / 65535),
    "32.tif": (tiff((RAMP * (2**32 - 1)).astype(np.uint32)), 1e-7),
    "32-signed.tif": (tiff((RAMP * (2**31 - 1)).astype(np.int32)), 1e-7),
    "float.tif": (tiff(RAMP.astype(np.float32)), 1e-7),
    "16.pgm": (pgm((RAMP * 65535).astype(np.uint16), 65535), 1 / 65535),
    "12.pgm": (pgm((RAMP * 4095).astype(np.uint16), 4095), 1 / 4095),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_images_keep_their_depth(tmp_path, name):
    content, error = DEEP[name]
    (tmp_path / name).write_bytes(content)
    image = ImageDecoder()(tmp_path / name)
    assert (image.shape, image.dtype) == ((8, 8, 3), np.float32)
    for channel in range(3):
        np.testing.assert_allclose(image[..., channel], RAMP, atol=1.01 * error)
    grey = ImageDecoder(grey=True)(tmp_path / name)
    np.testing.assert_array_equal(grey, image[..., :1])
    scaled = ImageDecoder(size=16, crop=0.8)(tmp_path / name)
    assert scaled.shape == (16, 16, 3)
    assert scaled.min() >= 0
    assert scaled.max() <= 1
    assert len(np.unique(scaled)) > 64


def test_a_folder_of_deep_images_is_a_source(tmp_path):
    for label in "ab":
        (tmp_path / "g" / label).mkdir(parents=True)
        (tmp_path / "g" / label / "0.png").write_bytes(DEEP["16.png"][0])
    assert len(np.unique(driftcal.open_source(tmp_path / "g").inputs()[0])) == 64


def test_cached_logits_of_clipped_images_are_not_used(tmp_path, monkeypatch):
    """Earlier versions clipped deep images, so these must have another fingerprint; others keep theirs."""
    from driftcal.data import image_files

    fingerprints = {}
    for name, content in {"deep": DEEP["16.png"][0], "plain": png16((RAMP * 255).astype(np.uint8))}.items():
        for label in "ab":
            (tmp_path / name / label).mkdir(parents=True)
            (tmp_path / name / label / "0.png").write_bytes(content)
        now = driftcal.open_source(tmp_path / name).fingerprint
        with monkeypatch.context() as patch:
            patch.setattr(image_files, "is_deep", lambda file: False)
            fingerprints[name] = (now, driftcal.open_source(tmp_path / name).fingerprint)
    assert fingerprints["deep"][0] != fingerprints["deep"][1]
    assert fingerprints["plain"][0] == fingerprints["plain"][1]


@pytest.mark.parametrize(
    ("pixels", "match"),
    [
        (RAMP * 255, r"floats, which must lie in \[0, 1\]; they span 0 to 255\. Divide them"),
        (RAMP - 0.5, r"they span -0\.5 to 0\.5"),
        (np.where(RAMP > 0.9, np.nan, RAMP), r"must lie in \[0, 1\]"),
        (np.where(RAMP > 0.9, np.inf, RAMP), r"must lie in \[0, 1\]"),
    ],
)
def test_floats_outside_the_range_are_refused(tmp_path, pixels, match):
    (tmp_path / "x.tif").write_bytes(tiff(pixels.astype(np.float32)))
    with pytest.raises(DataError, match=match):
        ImageDecoder()(tmp_path / "x.tif")


def test_negative_pixels_are_refused(tmp_path):
    (tmp_path / "x.tif").write_bytes(tiff((RAMP * 100 - 50).astype(np.int16)))
    with pytest.raises(DataError, match="must not hold negative numbers; the smallest is -50"):
        ImageDecoder()(tmp_path / "x.tif")


def test_only_listed_formats_are_decoded(tmp_path, monkeypatch):
    """Pillow recognises a format by its content: EPS under the name of a PNG would start ghostscript."""
    ran = tmp_path / "ran"
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "x.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    )
    with pytest.raises(DataError, match="cannot be decoded"):
        ImageDecoder()(tmp_path / "x.png")
    assert not ran.exists()


def black_png(width, height):
    """A PNG that declares width x height grey pixels, almost all of them missing."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(64))) + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("side", [9_000, 10_000, 13_000, 60_000])
def test_images_with_too_many_pixels_are_refused(tmp_path, side):
    (tmp_path / "x.png").write_bytes(black_png(side, side))
    with pytest.raises(DataError, match=r"DRIFTCAL_MAX_IMAGE_PIXELS"):
        ImageDecoder(size=32)(tmp_path / "x.png")


def test_the_limit_of_pixels_can_be_raised(tmp_path, monkeypatch):
    Image.new("L", (40, 30)).save(tmp_path / "x.png")
    monkeypatch.setenv("DRIFTCAL_MAX_IMAGE_PIXELS", "1000")
    with pytest.raises(DataError, match="must have at most 1,000 pixels; it has 40 x 30"):
        ImageDecoder()(tmp_path / "x.png")
    monkeypatch.setenv("DRIFTCAL_MAX_IMAGE_PIXELS", "1200")
    assert ImageDecoder()(tmp_path / "x.png").shape == (30, 40, 3)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow's own limit is raised with ours
    assert ImageDecoder()(tmp_path / "x.png").shape == (30, 40, 3)


def test_a_narrow_image_is_not_scaled_to_a_huge_one(tmp_path):
    Image.new("L", (1, 100_000)).save(tmp_path / "x.png")
    with pytest.raises(DataError, match="must have at most"):
        ImageDecoder(size=224)(tmp_path / "x.png")
