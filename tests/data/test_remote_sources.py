"""Sources at URLs give the same samples and fingerprints as files of this machine."""

import io

import fsspec
import numpy as np
from PIL import Image

import driftcal


def test_npz_files_and_image_folders_by_url(tmp_path):
    memory = fsspec.filesystem("memory")
    x = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, x=x, y=np.arange(6) % 2)
    memory.pipe_file("/bucket/val.npz", stream.getvalue())
    (tmp_path / "val.npz").write_bytes(stream.getvalue())
    local, remote = driftcal.open_source(tmp_path / "val.npz"), driftcal.open_source("memory://bucket/val.npz?x=x")
    assert local.fingerprint == remote.fingerprint
    for i, image in enumerate(x):
        png = io.BytesIO()
        Image.fromarray(image).save(png, "png")
        folder = tmp_path / "photos" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").write_bytes(png.getvalue())
        memory.pipe_file(f"/bucket/photos/{'ab'[i % 2]}/{i}.png", png.getvalue())
    local, remote = driftcal.open_source(tmp_path / "photos"), driftcal.open_source("memory://bucket/photos")
    assert local.fingerprint == remote.fingerprint
    np.testing.assert_array_equal(local.inputs(), remote.inputs())
    memory.rm("/bucket", recursive=True)
