"""A cache at a URL holds the same bytes and gives the same samples as one on this machine's disk."""

import fsspec
import numpy as np
import pytest

from driftcal.cache import CacheKey, LogitCache
from driftcal.errors import CacheError
from driftcal.io import paths

KEY = CacheKey("m", "s", shift="gaussian", level=0.1, batch_size=4)
RNG = np.random.default_rng(0)
LOGITS, LABELS = RNG.normal(size=(20, 5)).astype(np.float32), RNG.integers(0, 5, 20)


@pytest.fixture
def url():
    memory = fsspec.filesystem("memory")
    yield "memory://bucket/run"
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)


def fill(cache, cuts=((0, 8), (8, 20))):
    for start, stop in cuts:
        cache.put_part(KEY, start, logits=LOGITS[start:stop], labels=LABELS[start:stop])


def test_a_remote_cache_holds_the_same_bytes(tmp_path, url):
    local, remote = LogitCache(tmp_path), LogitCache(url)
    for cache in (local, remote):
        fill(cache)
        assert cache.missing(KEY, 20) == []
        assert len(cache.finish(KEY, 20)) == 20
    assert remote.file(KEY).read_bytes() == local.file(KEY).read_bytes()
    reopened = LogitCache(url)
    np.testing.assert_array_equal(reopened.get(KEY).logits, LOGITS)
    assert list(reopened.keys()) == [KEY]
    assert reopened.metadata() == local.metadata()
    assert paths.list_folder(reopened.path / "parts") == []


@pytest.mark.parametrize("prefix", ["file://", ""])
def test_a_file_url_is_a_folder(tmp_path, prefix):
    cache = LogitCache(f"{prefix}{tmp_path / 'cache'}")
    fill(cache)
    cache.finish(KEY, 20)
    assert (tmp_path / "cache" / "store.json").is_file()
    np.testing.assert_array_equal(LogitCache(tmp_path / "cache").get(KEY).logits, LOGITS)


def test_damaged_and_missing_remote_samples_are_computed_again(url):
    cache = LogitCache(url)
    fill(cache, [(0, 8)])
    assert LogitCache(url).missing(KEY, 20) == [(8, 20)]
    with pytest.raises(CacheError, match=r"samples 8\.\.19 of 20"):
        cache.finish(KEY, 20)
    part = paths.list_folder(cache._parts_folder(KEY))[0]
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(bytes(content))
    assert LogitCache(url).missing(KEY, 20) == [(0, 20)]
    cache.remove(KEY)
    assert cache.parts(KEY) == []


@pytest.mark.parametrize("where", ["local", "remote"])
def test_samples_are_read_by_range(tmp_path, url, where, monkeypatch):
    cache = LogitCache(tmp_path if where == "local" else url)
    cache.put(KEY, logits=LOGITS, labels=LABELS)
    n_bytes = []
    read_range = paths.read_range
    monkeypatch.setattr(paths, "read_range", lambda path, a, b: n_bytes.append(b - a) or read_range(path, a, b))
    np.testing.assert_array_equal(cache.read_samples(KEY, "logits", 3, 7), LOGITS[3:7])
    np.testing.assert_array_equal(cache.read_samples(KEY, "labels", 18, 99), LABELS[18:])
    if where == "remote":
        assert 4 * 5 * 4 in n_bytes
        assert 2 * 8 in n_bytes
    with pytest.raises(CacheError, match="Collect them first"):
        cache.read_samples(CacheKey("m", "other"), "logits", 0, 1)
