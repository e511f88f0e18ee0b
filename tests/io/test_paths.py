"""Stores and sources on URLs: the same bytes and the same rows as on this machine's disk."""

import io

import fsspec
import numpy as np
import pytest
from PIL import Image

import driftcal
from driftcal.cache import CacheKey, LogitCache
from driftcal.errors import StoreError
from driftcal.io import files, paths

KEY = CacheKey("m", "s", shift="gaussian", level=0.1, batch_size=4)
RNG = np.random.default_rng(0)
LOGITS, LABELS = RNG.normal(size=(20, 5)).astype(np.float32), RNG.integers(0, 5, 20)


@pytest.fixture
def url():
    memory = fsspec.filesystem("memory")
    yield "memory://bucket/run"
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)


def fill(store, cuts=((0, 8), (8, 20))):
    for start, stop in cuts:
        store.put_part(KEY, start, logits=LOGITS[start:stop], labels=LABELS[start:stop])


def test_a_remote_store_holds_the_same_bytes(tmp_path, url):
    here, there = LogitCache(tmp_path), LogitCache(url)
    for store in (here, there):
        fill(store)
        assert store.missing(KEY, 20) == []
        assert len(store.finish(KEY, 20)) == 20
    assert there.file(KEY).read_bytes() == here.file(KEY).read_bytes()
    again = LogitCache(url)
    np.testing.assert_array_equal(again.get(KEY).logits, LOGITS)
    assert list(again.keys()) == [KEY]
    assert again.describe() == here.describe()
    assert files.listed(again.path / "parts") == []


@pytest.mark.parametrize("form", ["file://{}", "{}"])
def test_a_file_url_is_a_folder(tmp_path, form):
    store = LogitCache(form.format(tmp_path / "store"))
    fill(store)
    store.finish(KEY, 20)
    assert (tmp_path / "store" / "store.json").is_file()
    np.testing.assert_array_equal(LogitCache(tmp_path / "store").get(KEY).logits, LOGITS)


def test_what_is_damaged_or_missing_there_is_computed_again(url):
    store = LogitCache(url)
    fill(store, [(0, 8)])
    assert LogitCache(url).missing(KEY, 20) == [(8, 20)]
    with pytest.raises(StoreError, match=r"rows 8\.\.19 of 20"):
        store.finish(KEY, 20)
    part = files.listed(store._parts_folder(KEY))[0]
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(bytes(content))
    assert LogitCache(url).missing(KEY, 20) == [(0, 20)]
    store.remove(KEY)
    assert store.parts(KEY) == []


@pytest.mark.parametrize("place", ["local", "remote"])
def test_rows_are_read_by_range(tmp_path, url, place, monkeypatch):
    store = LogitCache(tmp_path if place == "local" else url)
    store.put(KEY, logits=LOGITS, labels=LABELS)
    asked = []
    real = paths.read_range
    monkeypatch.setattr(paths, "read_range", lambda path, a, b: asked.append(b - a) or real(path, a, b))
    np.testing.assert_array_equal(store.read_rows(KEY, "logits", 3, 7), LOGITS[3:7])
    np.testing.assert_array_equal(store.read_rows(KEY, "labels", 18, 99), LABELS[18:])
    if place == "remote":
        assert 4 * 5 * 4 in asked
        assert 2 * 8 in asked
    with pytest.raises(StoreError, match="Collect them first"):
        store.read_rows(CacheKey("m", "other"), "logits", 0, 1)


def test_a_writer_that_fails_leaves_nothing(url):
    def blocks():
        yield b"first"
        raise OSError("the line is dead")

    path = paths.as_path(f"{url}/x.bin")
    with pytest.raises(OSError, match="the line is dead"):
        files.write_atomic(path, blocks())
    assert not path.exists()


def test_npz_files_and_folders_of_images_by_url(tmp_path, url):
    memory = fsspec.filesystem("memory")
    x = RNG.integers(0, 256, (6, 8, 8, 3), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, x=x, y=np.arange(6) % 2)
    memory.pipe_file("/bucket/val.npz", stream.getvalue())
    (tmp_path / "val.npz").write_bytes(stream.getvalue())
    near, far = driftcal.open_source(tmp_path / "val.npz"), driftcal.open_source("memory://bucket/val.npz?x=x")
    assert near.fingerprint == far.fingerprint
    for i, image in enumerate(x):
        png = io.BytesIO()
        Image.fromarray(image).save(png, "png")
        folder = tmp_path / "photos" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").write_bytes(png.getvalue())
        memory.pipe_file(f"/bucket/photos/{'ab'[i % 2]}/{i}.png", png.getvalue())
    near, far = driftcal.open_source(tmp_path / "photos"), driftcal.open_source("memory://bucket/photos")
    assert near.fingerprint == far.fingerprint
    np.testing.assert_array_equal(near.inputs(), far.inputs())
