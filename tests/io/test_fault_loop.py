"""The n-th write, flush, rename or read of a small run fails, for every n: files are old or new, and a rerun ends well."""

import builtins
import contextlib
import errno
import os

import numpy as np
import pytest
from report_fixture import digits_results

import driftcal
from driftcal.cache import CacheKey, LogitCache
from driftcal.calibrators import make_calibrator
from driftcal.errors import DriftcalError
from driftcal.monitor.monitor import Monitor
from driftcal.pipeline.evaluating.results import Results

LOGITS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = (LOGITS.argmax(axis=1) + (np.arange(40) % 5 == 0)) % 3
OLD, NEW = (make_calibrator("ts").fit(LOGITS * scale, LABELS) for scale in (1, 2))
KEY = CacheKey(model="m", source="s", batch_size=20)
RESULTS = digits_results()


def small_run(folder):
    """Cache logits in two parts, then write a calibrator, a monitor and results, and read all of it."""
    cache = LogitCache(folder / "cache")
    for start in (0, 20):
        cache.put_part(KEY, start, logits=LOGITS[start : start + 20], labels=LABELS[start : start + 20])
    cache.finish(KEY, 40)
    NEW.save(folder / "cal.safetensors")
    monitor = Monitor(driftcal.load(folder / "cal.safetensors"), window_size=20)
    monitor.update(LOGITS)
    monitor.save(folder / "monitor.safetensors")
    RESULTS.save(folder / "run")
    Results.load(folder / "run")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Faults:
    """Counts the calls that touch the disk, and lets the n-th of them fail."""

    def __init__(self, monkeypatch, folder, n):
        self.count, self.n, self.folder = 0, n, str(folder)
        real_open = builtins.open
        for name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, self.failing(getattr(os, name)))

        def counted_open(file, *arguments, **options):
            stream = real_open(file, *arguments, **options)
            return FaultyFile(stream, self) if str(file).startswith(self.folder) else stream

        monkeypatch.setattr(builtins, "open", counted_open)

    def failing(self, function):
        def call(*arguments, **options):
            self.count += 1
            if self.count == self.n:
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments, **options)

        return call


class FaultyFile:
    def __init__(self, stream, faults):
        self.stream = stream
        for name in ("write", "flush", "read"):
            setattr(self, name, faults.failing(getattr(stream, name)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def __getattr__(self, name):
        return getattr(self.stream, name)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    small_run(folder)
    return contents(folder)


def test_every_fault_leaves_old_or_new_files(tmp_path, monkeypatch, expected):
    n, ended = 0, False
    while not ended:
        n += 1
        folder = tmp_path / str(n)
        old = OLD.save(folder / "cal.safetensors").read_bytes()
        with monkeypatch.context() as patch:
            faults = Faults(patch, folder, n)
            with contextlib.suppress(OSError, DriftcalError):
                small_run(folder)
            ended = faults.count < n
        for name, content in contents(folder).items():
            assert not name.endswith(".tmp"), (n, name)
            if not name.startswith("cache/parts/"):
                assert content in (old, expected[name]), (n, name)
        small_run(folder)
        assert contents(folder) == expected, n
    assert n > 30, "the run touches the disk often enough"
