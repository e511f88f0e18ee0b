"""The store never gives a wrong row: not after a kill, not with two writers, not from a damaged disk."""

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
from driftcal.errors import StoreError
from driftcal.io import atomic

KEY = CacheKey(model="m" * 64, source="s" * 64, split="test", shift="gaussian", level=0.01, seed=3, batch_size=8)
N = 50
LOGITS = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
LABELS = np.arange(N) % 5
INDICES = np.arange(N)[::-1].copy()


def put_rows(store, start, stop, key=KEY):
    store.put_part(key, start, logits=LOGITS[start:stop], labels=LABELS[start:stop], indices=INDICES[start:stop])


def check(entry):
    assert np.array_equal(entry.logits, LOGITS)
    assert np.array_equal(entry.labels, LABELS)
    assert np.array_equal(entry.indices, INDICES)


def test_what_goes_in_comes_out(tmp_path):
    store = LogitCache(tmp_path / "store")
    assert store.get(KEY) is None
    assert KEY not in store
    check(store.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES))
    again = LogitCache(tmp_path / "store")
    check(again.get(KEY))
    assert isinstance(again.get(KEY).logits.base, np.memmap)
    assert list(again.keys()) == [KEY]
    (row,) = again.describe()
    assert (row["shift"], row["level"], row["rows"], row["classes"]) == ("gaussian", 0.01, N, 5)
    plain = load_file(store.file(KEY))
    assert np.array_equal(plain["logits"], LOGITS), "any safetensors reader can open it"
    store.remove(KEY)
    assert store.get(KEY) is None


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
    with pytest.raises(StoreError, match="plain JSON"):
        _ = CacheKey("m", "s", extra={"a": np.zeros(2)}).digest
    with pytest.raises(StoreError, match="plain JSON"):
        _ = CacheKey("m", "s", level=float("nan")).digest


def test_a_file_under_the_wrong_name_is_not_believed(tmp_path):
    store = LogitCache(tmp_path)
    other = CacheKey(model="other", source="s", batch_size=8)
    store.put(KEY, logits=LOGITS, labels=LABELS)
    os.rename(store.file(KEY), store.file(other))
    assert store.get(other) is None
    assert list(store.keys()) == []


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_cut_and_any_order_end_in_the_same_bytes(tmp_path_factory, data):
    whole = LogitCache(tmp_path_factory.mktemp("whole"))
    whole.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES)
    expected = whole.file(KEY).read_bytes()
    store = LogitCache(tmp_path_factory.mktemp("parts"))
    batches = list(range(0, N, 8))
    cuts = sorted(data.draw(st.sets(st.sampled_from(batches[1:]))))
    edges = [0, *cuts, N]
    parts = data.draw(st.permutations(list(pairwise(edges))))
    overlap = data.draw(st.booleans())
    for start, stop in parts:
        put_rows(store, start, stop)
    if overlap:
        put_rows(store, 8, min(N, 40))
    assert store.missing(KEY, N) == []
    check(store.finish(KEY, N))
    assert store.file(KEY).read_bytes() == expected
    assert not list((store.path / "parts").iterdir())


def test_missing_rows_are_listed(tmp_path):
    store = LogitCache(tmp_path)
    assert store.missing(KEY, N) == [(0, N)]
    put_rows(store, 8, 24)
    put_rows(store, 40, N)
    assert store.parts(KEY) == [(8, 24), (40, N)]
    assert store.missing(KEY, N) == [(0, 8), (24, 40)]
    with pytest.raises(StoreError, match=r"rows 0\.\.7 of 50 are not in store.*Run the collection again"):
        store.finish(KEY, N)
    put_rows(store, 0, 8)
    put_rows(store, 24, 40)
    check(store.finish(KEY, N))
    assert store.missing(KEY, N) == []
    check(store.finish(KEY, N))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_is_the_same_as_absence(tmp_path_factory, data):
    store = LogitCache(tmp_path_factory.mktemp("store"))
    store.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES)
    put_rows(store, 0, 16)
    path = data.draw(st.sampled_from([store.file(KEY), *store._parts_folder(KEY).iterdir()]))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    fresh = LogitCache(store.path)
    found = fresh.get(KEY)
    if path == store.file(KEY):
        if found is not None:  # a flipped blank or version text in the header changes no row
            check(found)
        put_rows(fresh, 16, N)
        check(fresh.finish(KEY, N))
    else:
        check(found)
        for start, stop in fresh.parts(KEY):
            assert (start, stop) == (0, 16)


@pytest.mark.parametrize("word", [b"start", b"stop", b"key", b"seed", b"digest"])
def test_a_damaged_word_of_the_header_is_the_same_as_absence(tmp_path, word):
    store = LogitCache(tmp_path)
    store.put(KEY, logits=LOGITS, labels=LABELS)
    put_rows(store, 0, 16)
    for path in (store.file(KEY), *store._parts_folder(KEY).iterdir()):
        path.write_bytes(path.read_bytes().replace(word, word[:-1] + b"!", 1))
    fresh = LogitCache(tmp_path)
    assert fresh.parts(KEY) == []
    assert list(fresh.keys()) == ([KEY] if word in (b"start", b"stop") else [])


def test_damage_is_seen_by_an_open_store_too(tmp_path):
    store = LogitCache(tmp_path)
    store.put(KEY, logits=LOGITS, labels=LABELS)
    assert store.get(KEY) is not None
    content = store.file(KEY).read_bytes()
    time.sleep(0.01)
    store.file(KEY).write_bytes(content[:-4] + b"\0\0\0\1")
    assert store.get(KEY) is None


def test_a_full_disk_raises_and_leaves_the_store_readable(tmp_path, monkeypatch):
    store = LogitCache(tmp_path)
    put_rows(store, 0, 16)
    other = CacheKey(model="other", source="s", batch_size=8)
    store.put(other, logits=LOGITS, labels=LABELS)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", full)
        with pytest.raises(StoreError, match=r"No space left on device.*intact; make room"):
            put_rows(store, 16, 32)
        with pytest.raises(StoreError, match="No space left"):
            store.put(KEY, logits=LOGITS, labels=LABELS)
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".tmp")]
    fresh = LogitCache(tmp_path)
    assert fresh.parts(KEY) == [(0, 16)]
    assert fresh.get(other) is not None


def test_a_really_full_file_system(tmp_path):
    """A limit on file size stands in for the disk: the write itself fails half-way."""
    store = LogitCache(tmp_path)
    big = np.zeros((4096, 64), np.float32)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        with pytest.raises(StoreError, match="could not write"):
            store.put(KEY, logits=big, labels=np.zeros(4096))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert store.get(KEY) is None
    check(store.put(KEY, logits=LOGITS, labels=LABELS, indices=INDICES))


WRITER = textwrap.dedent(
    """
    import sys, time
    import numpy as np
    from driftcal.cache import CacheKey, LogitCache
    path, pause = sys.argv[1], float(sys.argv[2])
    store = LogitCache(path)
    n = 400
    logits = np.random.default_rng(1).normal(size=(n, 200)).astype(np.float32)
    for level in (0.1, 0.2):
        key = CacheKey("m", "s", level=level, batch_size=10)
        for start, stop in store.missing(key, n):
            for at in range(start, stop, 10):
                store.put_part(key, at, logits=logits[at:at + 10] + np.float32(level), labels=np.zeros(10))
                time.sleep(pause)
        store.finish(key, n)
    """
)


def run_writer(path, pause=0.0):
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(pause)])


def written(path):
    """How many files this store has seen, parts that were merged included."""
    parts = sum(name.endswith(".safetensors") for _, _, names in os.walk(path / "parts") for name in names)
    return parts + 40 * len(contents(path))


def contents(path):
    if not (path / "logits").is_dir():
        return {}
    return {
        item.name: item.read_bytes() for item in sorted((path / "logits").iterdir()) if not item.name.startswith(".")
    }


def test_killed_writers_resume_to_the_same_bytes(tmp_path):
    assert run_writer(tmp_path / "calm").wait() == 0
    expected = contents(tmp_path / "calm")
    assert len(expected) == 2
    random = np.random.default_rng(0)
    kills = 0
    for _ in range(12):
        before = written(tmp_path / "killed")
        process = run_writer(tmp_path / "killed", 0.002)
        more = int(random.integers(0, 8))
        while process.poll() is None and written(tmp_path / "killed") < before + more:
            time.sleep(0.001)
        time.sleep(random.random() * 0.01)
        process.kill()
        kills += process.wait() != 0
        for name, data in contents(tmp_path / "killed").items():
            assert data == expected[name], "what is there is whole"
    assert kills >= 8
    assert run_writer(tmp_path / "killed").wait() == 0
    assert contents(tmp_path / "killed") == expected
    for leftover in (tmp_path / "killed").rglob(".*.tmp"):
        os.utime(leftover, (0, 0))
    LogitCache(tmp_path / "killed")
    assert not list((tmp_path / "killed").rglob(".*.tmp"))
    assert not [item for item in (tmp_path / "killed" / "parts").rglob("*") if item.is_file()]


def test_two_processes_on_one_store(tmp_path):
    assert run_writer(tmp_path / "calm").wait() == 0
    racers = [run_writer(tmp_path / "both", pause) for pause in (0.001, 0.0015, 0.0)]
    assert [process.wait() for process in racers] == [0, 0, 0]
    assert contents(tmp_path / "both") == contents(tmp_path / "calm")


def test_leftovers_of_living_writers_stay(tmp_path):
    store = LogitCache(tmp_path)
    young, old = tmp_path / "logits" / ".a.1-0000000f.tmp", tmp_path / "logits" / ".b.2-0123abcd.tmp"
    young.write_bytes(b"half")
    old.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert list(LogitCache(store.path).keys()) == []
    assert young.exists()
    assert not old.exists()


def test_further_arrays_and_wrong_ones(tmp_path):
    store = LogitCache(tmp_path)
    entry = store.put(KEY, logits=LOGITS, labels=LABELS, features=np.ones((N, 3, 2), np.float16), right=LABELS > 2)
    assert entry.arrays["features"].shape == (N, 3, 2)
    assert np.array_equal(entry.arrays["right"], LABELS > 2)
    assert np.array_equal(entry.indices, np.arange(N))
    with pytest.raises(StoreError, match=r"logits must be floats of shape \(n, C\)"):
        store.put(KEY, logits=LABELS, labels=LABELS)
    with pytest.raises(StoreError, match=r"labels must have 50 rows"):
        store.put(KEY, logits=LOGITS, labels=LABELS[:3])
    with pytest.raises(StoreError, match="'names' must hold numbers"):
        store.put(KEY, logits=LOGITS, labels=LABELS, names=np.array(["a"] * N))
    with pytest.raises(StoreError, match="multiple of the batch size 8; it is 3"):
        put_rows(store, 3, 8)


def test_places_that_are_no_store(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="must be a folder that can be written"):
        LogitCache(tmp_path / "file")
    LogitCache(tmp_path / "new")
    (tmp_path / "new" / "store.json").write_text('{"version": 99}')
    with pytest.raises(StoreError, match=r"format 99, this driftcal reads up to 1. Update"):
        LogitCache(tmp_path / "new")
    (tmp_path / "new" / "store.json").write_text("half a mar")
    LogitCache(tmp_path / "new")
