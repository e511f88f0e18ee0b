"""The cache never gives an incorrect sample: not after a kill, not with two writers, not from a damaged disk."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from driftcal.cache import CacheKey, LogitCache
from driftcal.errors import CacheError
from driftcal.io import atomic

KEY = CacheKey(model="m" * 64, source="s" * 64, split="test", shift="gaussian", level=0.01, seed=3, batch_size=8)
N = 50
LOGITS = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
LABELS = np.arange(N) % 5
INDICES = np.arange(N)[::-1].copy()


def put_samples(cache, start, stop, key=KEY):
    cache.put_part(key, start, logits=LOGITS[start:stop], labels=LABELS[start:stop], indices=INDICES[start:stop])


def assert_holds_all_samples(entry):
    assert np.array_equal(entry.logits, LOGITS)
    assert np.array_equal(entry.labels, LABELS)
    assert np.array_equal(entry.indices, INDICES)


def test_stored_samples_are_read_back(tmp_path):
    cache = LogitCache(tmp_path / "cache")
    assert cache.get(KEY) is None
    assert KEY not in cache
    assert_holds_all_samples(cache.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES))
    reopened = LogitCache(tmp_path / "cache")
    assert_holds_all_samples(reopened.get(KEY))
    assert isinstance(reopened.get(KEY).logits.base, np.memmap)
    assert list(reopened.keys()) == [KEY]
    (condition,) = reopened.metadata()
    assert {**KEY.to_dict(), "samples": N, "classes": 5}.items() <= condition.items()
    assert np.array_equal(load_file(cache.file(KEY))["logits"], LOGITS), "any safetensors reader can open it"
    cache.remove(KEY)
    assert cache.get(KEY) is None


@given(
    st.fixed_dictionaries(
        {
            "model": st.text(),
            "source": st.text(),
            "split": st.text(),
            "shift": st.text(),
            "level": st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            "seed": st.integers(0, 2**63),
            "batch_size": st.integers(1, 4096),
            "extra": st.dictionaries(st.text(), st.none() | st.booleans() | st.text() | st.integers()),
        }
    )
)
def test_keys_round_trip_through_json(values):
    key = CacheKey(**values)
    assert CacheKey.from_dict(key.to_dict()) == key
    assert hash(CacheKey.from_dict(key.to_dict())) == hash(key)
    assert len(key.digest) == 64


def test_every_field_makes_another_key():
    changes = [
        {"model": "x"}, {"source": "x"}, {"split": "x"}, {"shift": "x"}, {"level": 0.02}, {"level": "0.01"},
        {"seed": 4}, {"batch_size": 9}, {"extra": {"clip": False}},
    ]  # fmt: skip
    keys = {KEY.digest, *(CacheKey.from_dict({**KEY.to_dict(), **change}).digest for change in changes)}
    assert len(keys) == len(changes) + 1
    with pytest.raises(CacheError, match="plain JSON"):
        _ = CacheKey("m", "s", extra={"a": np.zeros(2)}).digest
    with pytest.raises(CacheError, match="plain JSON"):
        _ = CacheKey("m", "s", level=float("nan")).digest


def test_a_file_under_the_name_of_another_key_is_ignored(tmp_path):
    cache = LogitCache(tmp_path)
    other = CacheKey(model="other", source="s", batch_size=8)
    cache.put(KEY, logits=LOGITS, labels=LABELS)
    os.rename(cache.file(KEY), cache.file(other))
    assert cache.get(other) is None
    assert list(cache.keys()) == []


@settings(max_examples=25)
@given(st.data())
def test_any_cut_and_any_order_give_the_same_bytes(tmp_path_factory, data):
    whole = LogitCache(tmp_path_factory.mktemp("whole"))
    whole.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES)
    expected = whole.file(KEY).read_bytes()
    cache = LogitCache(tmp_path_factory.mktemp("parts"))
    batches = list(range(0, N, 8))
    cuts = sorted(data.draw(st.sets(st.sampled_from(batches[1:]))))
    edges = [0, *cuts, N]
    parts = data.draw(st.permutations(list(pairwise(edges))))
    overlap = data.draw(st.booleans())
    for start, stop in parts:
        put_samples(cache, start, stop)
    if overlap:
        put_samples(cache, 8, min(N, 40))
    assert cache.missing(KEY, N) == []
    assert_holds_all_samples(cache.finish(KEY, N))
    assert cache.file(KEY).read_bytes() == expected
    assert not list((cache.path / "parts").iterdir())


def test_missing_samples_are_listed(tmp_path):
    cache = LogitCache(tmp_path)
    assert cache.missing(KEY, N) == [(0, N)]
    put_samples(cache, 8, 24)
    put_samples(cache, 40, N)
    assert cache.parts(KEY) == [(8, 24), (40, N)]
    assert cache.missing(KEY, N) == [(0, 8), (24, 40)]
    with pytest.raises(CacheError, match=r"samples 0\.\.7 of 50 are not in cache.*Run the collection again"):
        cache.finish(KEY, N)
    put_samples(cache, 0, 8)
    put_samples(cache, 24, 40)
    assert_holds_all_samples(cache.finish(KEY, N))
    assert cache.missing(KEY, N) == []
    assert_holds_all_samples(cache.finish(KEY, N))


@settings(max_examples=60)
@given(st.data())
def test_damaged_files_count_as_missing(tmp_path_factory, data):
    cache = LogitCache(tmp_path_factory.mktemp("cache"))
    cache.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES)
    put_samples(cache, 0, 16)
    path = data.draw(st.sampled_from([cache.file(KEY), *cache._parts_folder(KEY).iterdir()]))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    fresh = LogitCache(cache.path)
    entry = fresh.get(KEY)
    if path == cache.file(KEY):
        if entry is not None:  # a flipped blank or version text in the header changes no sample
            assert_holds_all_samples(entry)
        put_samples(fresh, 16, N)
        assert_holds_all_samples(fresh.finish(KEY, N))
    else:
        assert_holds_all_samples(entry)
        for start, stop in fresh.parts(KEY):
            assert (start, stop) == (0, 16)


@pytest.mark.parametrize("field", [b"start", b"stop", b"key", b"seed", b"digest"])
def test_files_with_a_damaged_header_count_as_missing(tmp_path, field):
    cache = LogitCache(tmp_path)
    cache.put(KEY, logits=LOGITS, labels=LABELS)
    put_samples(cache, 0, 16)
    for path in (cache.file(KEY), *cache._parts_folder(KEY).iterdir()):
        path.write_bytes(path.read_bytes().replace(field, field[:-1] + b"!", 1))
    fresh = LogitCache(tmp_path)
    assert fresh.parts(KEY) == []
    assert list(fresh.keys()) == ([KEY] if field in (b"start", b"stop") else [])


def test_an_open_cache_notices_damage(tmp_path):
    cache = LogitCache(tmp_path)
    cache.put(KEY, logits=LOGITS, labels=LABELS)
    assert cache.get(KEY) is not None
    content = cache.file(KEY).read_bytes()
    time.sleep(0.01)
    cache.file(KEY).write_bytes(content[:-4] + b"\0\0\0\1")
    assert cache.get(KEY) is None


def test_a_full_disk_raises_and_leaves_the_cache_readable(tmp_path, monkeypatch):
    cache = LogitCache(tmp_path)
    put_samples(cache, 0, 16)
    other = CacheKey(model="other", source="s", batch_size=8)
    cache.put(other, logits=LOGITS, labels=LABELS)

    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", fail)
        with pytest.raises(CacheError, match=r"No space left on device.*intact; make room"):
            put_samples(cache, 16, 32)
        with pytest.raises(CacheError, match="No space left"):
            cache.put(KEY, logits=LOGITS, labels=LABELS)
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".tmp")]
    fresh = LogitCache(tmp_path)
    assert fresh.parts(KEY) == [(0, 16)]
    assert fresh.get(other) is not None


def test_a_write_that_fails_half_way_leaves_the_cache_usable(tmp_path):
    """A limit on file size stands for a full disk."""
    cache = LogitCache(tmp_path)
    big = np.zeros((4096, 64), np.float32)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        with pytest.raises(CacheError, match="could not write"):
            cache.put(KEY, logits=big, labels=np.zeros(4096))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert cache.get(KEY) is None
    assert_holds_all_samples(cache.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES))


WRITER = textwrap.dedent(
    """
    import sys, time
    import numpy as np
    from driftcal.cache import CacheKey, LogitCache
    path, pause = sys.argv[1], float(sys.argv[2])
    cache = LogitCache(path)
    n = 400
    logits = np.random.default_rng(1).normal(size=(n, 200)).astype(np.float32)
    for level in (0.1, 0.2):
        key = CacheKey("m", "s", level=level, batch_size=10)
        for start, stop in cache.missing(key, n):
            for low in range(start, stop, 10):
                cache.put_part(key, low, logits=logits[low:low + 10] + np.float32(level), labels=np.zeros(10))
                time.sleep(pause)
        cache.finish(key, n)
    """
)


def run_writer(path, pause=0.0):
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(pause)])


def count_parts(path):
    """Number of parts that were written, merged ones included."""
    parts = sum(name.endswith(".safetensors") for _, _, names in os.walk(path / "parts") for name in names)
    return parts + 40 * len(contents(path))


def contents(path):
    if not (path / "logits").is_dir():
        return {}
    return {
        item.name: item.read_bytes() for item in sorted((path / "logits").iterdir()) if not item.name.startswith(".")
    }


def test_killed_writers_resume_to_the_same_bytes(tmp_path):
    assert run_writer(tmp_path / "undisturbed").wait() == 0
    expected = contents(tmp_path / "undisturbed")
    assert len(expected) == 2
    random = np.random.default_rng(0)
    kills = 0
    for _ in range(12):
        before = count_parts(tmp_path / "killed")
        process = run_writer(tmp_path / "killed", 0.002)
        more = int(random.integers(0, 8))
        while process.poll() is None and count_parts(tmp_path / "killed") < before + more:
            time.sleep(0.001)
        time.sleep(random.random() * 0.01)
        process.kill()
        kills += process.wait() != 0
        for name, data in contents(tmp_path / "killed").items():
            assert data == expected[name], "finished files are complete"
    assert kills >= 8
    assert run_writer(tmp_path / "killed").wait() == 0
    assert contents(tmp_path / "killed") == expected
    for leftover in (tmp_path / "killed").rglob(".*.tmp"):
        os.utime(leftover, (0, 0))
    LogitCache(tmp_path / "killed")
    assert not list((tmp_path / "killed").rglob(".*.tmp"))
    assert not [item for item in (tmp_path / "killed" / "parts").rglob("*") if item.is_file()]


def test_concurrent_processes_write_the_same_bytes(tmp_path):
    assert run_writer(tmp_path / "undisturbed").wait() == 0
    processes = [run_writer(tmp_path / "both", pause) for pause in (0.001, 0.0015, 0.0)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert contents(tmp_path / "both") == contents(tmp_path / "undisturbed")


def test_only_old_temporary_files_of_writers_are_removed(tmp_path):
    cache = LogitCache(tmp_path)
    recent, old = tmp_path / "logits" / ".a.1-0000000f.tmp", tmp_path / "logits" / ".b.2-0123abcd.tmp"
    others = [tmp_path / ".mine.tmp", tmp_path / ".vimrc.tmp", tmp_path / "logits" / ".notes.tmp"]
    for path in (recent, old, *others):
        path.write_bytes(b"half")
    for path in (old, *others):
        os.utime(path, (0, 0))
    assert list(LogitCache(cache.path).keys()) == []
    assert recent.exists()
    assert not old.exists()
    assert all(path.exists() for path in others), "files of others are never removed"


def test_further_arrays_are_stored_and_unusable_ones_refused(tmp_path):
    cache = LogitCache(tmp_path)
    entry = cache.put(KEY, logits=LOGITS, labels=LABELS, features=np.ones((N, 3, 2), np.float16), correct=LABELS > 2)
    assert entry.arrays["features"].shape == (N, 3, 2)
    assert np.array_equal(entry.arrays["correct"], LABELS > 2)
    assert np.array_equal(entry.indices, np.arange(N))
    with pytest.raises(CacheError, match=r"logits must be floats of shape \(n, C\)"):
        cache.put(KEY, logits=LABELS, labels=LABELS)
    with pytest.raises(CacheError, match=r"labels must have 50 samples"):
        cache.put(KEY, logits=LOGITS, labels=LABELS[:3])
    with pytest.raises(CacheError, match="'names' must hold numbers"):
        cache.put(KEY, logits=LOGITS, labels=LABELS, names=np.array(["a"] * N))
    with pytest.raises(CacheError, match="multiple of the batch size 8; it is 3"):
        put_samples(cache, 3, 8)


def test_folders_that_cannot_be_a_cache_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CacheError, match="must be a folder that can be written"):
        LogitCache(tmp_path / "file")
    LogitCache(tmp_path / "new")
    (tmp_path / "new" / "store.json").write_text('{"version": 99}')
    with pytest.raises(CacheError, match=r"format 99, this driftcal reads up to 1. Update"):
        LogitCache(tmp_path / "new")
    (tmp_path / "new" / "store.json").write_text('{"vers')
    LogitCache(tmp_path / "new")


@pytest.mark.parametrize(
    "content", ['{"shop": "mine"}', '{"version": 0, "format": "shop"}', '{"version": "1"}', "[1]", "a = 1"]
)
def test_a_marker_of_another_program_is_not_replaced(tmp_path, content):
    (tmp_path / "store.json").write_text(content)
    for open_cache in (LogitCache, LogitCache.read_only):
        with pytest.raises(CacheError, match=r"its store\.json is that of another program.*Choose another folder"):
            open_cache(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("store.json", content)]


def test_looking_at_a_cache_changes_nothing(tmp_path):
    cache = LogitCache(tmp_path)
    put_samples(cache, 0, 8)
    (tmp_path / "store.json").write_text('{"vers')
    leftover = tmp_path / ".a.1-0000000f.tmp"
    leftover.write_bytes(b"half")
    os.utime(leftover, (0, 0))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert LogitCache.read_only(tmp_path).metadata() == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
