"""Engines: every task answered once, failures retried or named, wherever the work is done."""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import ray_tasks

import driftcal
import driftcal.core.blocks
import driftcal.engines.remote_passes
from driftcal.cache import CacheKey, LogitCache
from driftcal.calibrators import make_calibrator
from driftcal.engines import Rules, open_engine
from driftcal.engines.ray import _connect
from driftcal.engines.remote_passes import RemotePasses, Segment, StoredLogits, StoredSamples, stack
from driftcal.errors import EngineError, InputError, UnknownName, WorkFailed
from driftcal.pipeline.collect import Collector
from driftcal.shifts import get_shift

HERE = Path(__file__).parents[1] / "helpers"
sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.measure import PeakMemory  # noqa: E402  (not a package that is installed)

QUICK = Rules(patience=0.3, tries=2, deaths=3)


@pytest.fixture(scope="module")
def ray():
    """A cluster of two workers on this machine's loopback interface, stopped afterwards."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # Ray's own, while it starts
        patch.setenv("RAY_worker_niceness", "0")  # beside other tests, its workers would hardly ever run
        engine = open_engine("ray", workers=2, address="local", rules=QUICK)
    yield engine
    engine.close()
    import ray

    assert not ray.is_initialized()


@pytest.fixture(scope="module", params=["here", "threads", "processes", "ray"])
def engine(request):
    """Every kind of engine; those of one worker raise what a task raises."""
    if request.param == "ray":
        return request.getfixturevalue("ray"), False
    engine = open_engine("here", workers=1 if request.param == "here" else 2, rules=QUICK)
    return engine, request.param == "processes"


def test_every_task_is_answered_once(engine):
    engine, processes = engine
    told = []
    answers = engine.map(
        ray_tasks.square, list(range(9)), engine.keep(100), tell=lambda *words: told.append(words), holds_lock=processes
    )
    assert sorted(answers) == [(k, 100 + k * k) for k in range(9)]
    assert sorted(told) == [("squared", k) for k in range(9)]
    assert list(engine.map(ray_tasks.square, [], engine.keep(1))) == []


@pytest.mark.parametrize("processes", [False, True])
def test_here_retries_and_names_what_fails(tmp_path, processes):
    engine = open_engine("here", workers=2, rules=QUICK)
    answers = engine.map(ray_tasks.flaky, [0, 1, 2], engine.keep(str(tmp_path)), holds_lock=processes)
    assert sorted(answers) == [(0, 0), (1, 1), (2, 2)]
    seen = []
    with pytest.raises(WorkFailed, match=r"1 of 5 tasks failed.*3: image 'cat/3.jpg' cannot be decoded.*4 others"):
        seen.extend(engine.map(ray_tasks.poisoned, [0, 1, 2, 3, 4], holds_lock=processes))
    assert sorted(seen) == [(k, k) for k in (0, 1, 2, 4)]


def test_a_process_that_dies_is_replaced(tmp_path):
    engine = open_engine("here", workers=2, rules=QUICK)
    answers = engine.map(ray_tasks.suicidal, [0, 1, 2, 3], engine.keep(str(tmp_path)), holds_lock=True)
    assert sorted(answers) == [(k, k) for k in range(4)]


def test_ray_retries_what_fails_and_names_what_cannot_be_done(ray, tmp_path):
    assert sorted(ray.map(ray_tasks.flaky, [0, 1, 2], ray.keep(str(tmp_path)))) == [(0, 0), (1, 1), (2, 2)]
    seen = []
    with pytest.raises(WorkFailed, match=r"3: image 'cat/3.jpg' cannot be decoded"):
        seen.extend(ray.map(ray_tasks.poisoned, [0, 1, 2, 3, 4]))
    assert sorted(seen) == [(k, k) for k in (0, 1, 2, 4)]


def test_ray_replaces_workers_that_die(ray, tmp_path):
    assert sorted(ray.map(ray_tasks.suicidal, [0, 1, 2, 3], ray.keep(str(tmp_path)))) == [(k, k) for k in range(4)]
    with pytest.raises(WorkFailed, match=r"2: its worker died"):  # a task that kills every worker comes to an end
        list(ray.map(ray_tasks.suicidal, [0, 1, 2, 3], ray.keep(None)))


def test_ray_starts_a_straggler_again_elsewhere(ray, tmp_path):
    begun = time.monotonic()
    assert sorted(ray.map(ray_tasks.straggling, [0, 1, 2], ray.keep(str(tmp_path)))) == [(0, 0), (1, 1), (2, 2)]
    assert time.monotonic() - begun < 60


def test_ray_ends_a_task_that_is_overdue(ray, tmp_path):
    patient, ray.rules = ray.rules, Rules(timeout=4.0, patience=1e9)  # long enough for a worker to start
    try:
        assert sorted(ray.map(ray_tasks.straggling, [0, 1], ray.keep(str(tmp_path)))) == [(0, 0), (1, 1)]
    finally:
        ray.rules = patient


def test_ray_listens_on_the_loopback_interface_only(ray):
    import ray as cluster

    assert [node["NodeManagerAddress"] for node in cluster.nodes()] == ["127.0.0.1"]


def test_ray_workers_share_the_cores_and_stay(ray):
    answers = dict(ray.map(ray_tasks.threads_of, list(range(4))))
    assert set(answers.values()) == {(1, "1")}
    seen = {process for _ in range(3) for _, process in ray.map(ray_tasks.process, list(range(8)))}
    assert len(seen) <= 2
    assert os.getpid() not in seen


def test_leaving_early_stops_what_is_running(ray):
    answers = ray.map(ray_tasks.process, list(range(50)))
    next(answers)
    answers.close()
    assert len(dict(ray.map(ray_tasks.process, [1, 2]))) == 2


def test_bad_wishes_are_refused():
    with pytest.raises(UnknownName, match="'ray'"):
        open_engine("rae")
    with pytest.raises(InputError, match="workers must be at least 1"):
        open_engine("here", workers=0)
    with pytest.raises(InputError, match="are for engine 'ray'"):
        open_engine("here", address="127.0.0.1:1")


# digits, end to end


@pytest.fixture(scope="module")
def digits():
    source = driftcal.open_source("digits")
    validation, test, _ = source.split(300, 200, seed=1)
    # labels that the net is right about four times out of five
    return validation, test


def labelled(source, net):
    answers = net.logits(source.inputs()).argmax(axis=1)
    answers[::5] = (answers[::5] + 1) % 10
    return driftcal.data.from_arrays(source.inputs(), answers, class_names=[str(k) for k in range(10)])


def whole_run(folder, engine, digits, shards=None, order=None):
    """Tune and evaluate; every byte it leaves."""
    net = driftcal.open_model("ray_tasks:make", batch_size=16)
    validation, test = (labelled(part, net) for part in digits)
    with pytest.MonkeyPatch.context() as patch:
        if shards is not None:
            patch.setattr(Collector, "__init__", _with_shards(shards))
        if order is not None:
            patch.setattr(engine, "map", _in_order(engine, order))
        tuned = driftcal.tune(net, validation, method="ets", levels=4, store=folder / "store", engine=engine)
        results = driftcal.evaluate(tuned, test, suite="h-tuning", store=folder / "store", engine=engine)
    tuned.save(folder / "cal.safetensors")
    results.save(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _with_shards(shards, plain=Collector.__init__):
    def init(self, *args, **kwargs):
        plain(self, *args, **{**kwargs, "shards": shards})

    return init


def _in_order(engine, seed):
    plain = engine.map

    def shuffled(function, tasks, *given, **options):
        order = random.Random(seed).sample(range(len(tasks)), len(tasks))
        for number, answer in plain(function, [tasks[k] for k in order], *given, **options):
            yield order[number], answer

    return shuffled


@pytest.fixture(scope="module")
def expected(digits, tmp_path_factory):
    return whole_run(tmp_path_factory.mktemp("here"), open_engine("here"), digits)


@pytest.mark.parametrize(("shards", "order"), [(1, None), (3, 6)])
def test_digits_are_the_same_to_the_bit(ray, digits, expected, tmp_path, shards, order):
    assert whole_run(tmp_path, ray, digits, shards, order) == expected
    assert len([name for name in expected if name.startswith("store/logits/")]) > 10


def test_processes_are_the_same_to_the_bit(digits, expected, tmp_path):
    assert whole_run(tmp_path, open_engine("here", workers=2), digits, 2) == expected


def test_ten_killed_workers_change_no_byte(ray, digits, expected, tmp_path):
    patient, ray.rules = ray.rules, Rules(deaths=10)
    killed, done, rng = [], threading.Event(), random.Random(3)

    def chaos():
        while not done.wait(0.1 + 0.4 * rng.random()) and len(killed) < 10:
            victims = worker_processes()
            if victims:
                os.kill(rng.choice(victims), signal.SIGKILL)
                killed.append(time.monotonic())

    killer = threading.Thread(target=chaos)
    killer.start()
    try:
        for attempt in itertools.count():
            (tmp_path / str(attempt)).mkdir()
            assert whole_run(tmp_path / str(attempt), ray, digits, 3) == expected
            if len(killed) >= 10:
                break
    finally:
        done.set()
        killer.join()
        ray.rules = patient
    assert len(killed) == 10


def worker_processes():
    """Processes of our actors, as Ray names them: children of a raylet that this process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                named = (entry / "cmdline").read_bytes().startswith(b"ray::_Worker")
                if named and parent(parent(int(entry.name))) == os.getpid():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_corrupt_image_is_named_and_everything_else_is_kept(ray, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for k in range(40):
        folder = tmp_path / "photos" / "ab"[k % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(folder / f"{k:02}.png")
    bad = tmp_path / "photos" / "b" / "31.png"
    good = bad.read_bytes()
    bad.write_bytes(good[:60])
    store = LogitCache(tmp_path / "store")
    net = driftcal.open_model("ray_tasks:make", batch_size=4)

    def collector():
        return Collector(net, driftcal.open_source(tmp_path / "photos", grey=True), store=store, engine=ray, shards=10)

    spoilt = collector()
    with pytest.raises(WorkFailed, match=r"clean, rows 3.*31\.png"):
        spoilt.gather([(get_shift("gaussian"), 0)])
    assert store.missing(spoilt.key(get_shift("gaussian"), 0), 40) == [(32, 36)]
    bad.write_bytes(good)
    assert collector().part(get_shift("gaussian"), 0).shape == (40, 10)


# passes over shards


def stored_parts(folder, engine, n=3000, n_classes=40, parts=8):
    rng, store = np.random.default_rng(0), LogitCache(folder)
    labels = rng.integers(0, n_classes, n)
    arrays, stored = [], []
    for k in range(parts):
        logits = rng.normal(size=(n, n_classes)).astype(np.float32) * 2
        logits[np.arange(n), labels] += 4 - k / 3
        key = CacheKey("m", "s", level=k)
        store.put(key, logits=logits, labels=labels)
        arrays.append(logits)
        stored.append(StoredLogits(store, key, n, n_classes, engine))
    return arrays, stored, labels


@pytest.mark.parametrize("method", ["ts", "ets", "ir", "irm", "ps"])
def test_eight_shards_fit_what_one_array_fits(ray, tmp_path, method):
    arrays, stored, labels = stored_parts(tmp_path, ray)
    one = make_calibrator(method).fit(np.concatenate(arrays), np.tile(labels, 8))
    spread = make_calibrator(method).fit(*stack(stored, labels))
    for name in one.fitted:
        np.testing.assert_allclose(getattr(spread, name), getattr(one, name), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(getattr(spread, name), getattr(one, name))
    kept = np.arange(len(labels)) % 5 != 0
    one = make_calibrator(method).fit(*stack(arrays, labels, kept))
    spread = make_calibrator(method).fit(*stack(stored, labels, kept))
    for name in one.fitted:
        np.testing.assert_array_equal(getattr(spread, name), getattr(one, name))


@pytest.mark.parametrize("method", ["ts", "ets", "ir", "irm"])
def test_more_lanes_than_eight_change_the_last_digits_only(tmp_path, monkeypatch, method):
    monkeypatch.setattr(driftcal.core.blocks, "BLOCK_SCORES", 1 << 12)
    monkeypatch.setattr(driftcal.engines.remote_passes, "MAX_BLOCKS_PER_TASK", 2)
    arrays, stored, labels = stored_parts(tmp_path, open_engine("here"), n=1000)
    one, spread = (make_calibrator(method).fit(*stack(parts, labels)) for parts in (arrays, stored))
    first = stored[0]
    samples = StoredSamples(first.cache, tuple(Segment(part.key, len(part)) for part in stored), first.shape[1])
    assert len(RemotePasses(samples, first.engine).tasks()) > 30
    for name in one.fitted:
        np.testing.assert_allclose(getattr(spread, name), getattr(one, name), rtol=1e-9, atol=1e-9)


def test_the_callers_memory_does_not_grow_with_the_scores(ray, tmp_path):
    peaks = {}
    for n in (50, 500, 5000):  # the first loads what every fit loads; the last are 32 MB of logits
        stored, labels = stored_parts(tmp_path / str(n), ray, n=n, n_classes=400, parts=4)[1:]
        for method in ("ts", "ets", "irm"):
            with PeakMemory() as memory:
                make_calibrator(method).fit(*stack(stored, labels))
            peaks[method, n] = memory.megabytes
    # some megabytes are the interpreter's own; IRM keeps something of 20,000 rows, but not of 8 million scores
    for method, room in (("ts", 8), ("ets", 8), ("irm", 12)):
        assert peaks[method, 5000] < peaks[method, 500] + room, peaks


def test_an_interrupted_run_goes_on_where_it_was(ray, digits, expected, tmp_path):
    """Ctrl-C in the middle of another program's run on the same cluster."""
    import ray as cluster

    while ray._idle:  # leave the cores to the other program
        ray._end(ray._idle.pop())
    address = cluster.get_runtime_context().gcs_address
    code = f"""
import signal, sys; sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(HERE)!r}]
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
import test_engines as t, driftcal, pathlib
from driftcal.engines import open_engine
source = driftcal.open_source("digits")
engine = open_engine("ray", workers=1, address={address!r})
print("ready", flush=True)
t.whole_run(pathlib.Path({str(tmp_path)!r}), engine, source.split(300, 200, seed=1)[:2], 3)
"""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
    )  # fmt: skip
    assert child.stdout.readline() == "ready\n", child.stderr.read()
    while not list((tmp_path / "store" / "logits").glob("*")) and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not (tmp_path / "results.json").exists()
    stored = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "store" / "logits").glob("*.safetensors")}
    assert whole_run(tmp_path, open_engine("here"), digits) == expected
    again = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "store" / "logits").glob("*.safetensors")}
    assert stored.items() <= again.items()


class _NoCluster:
    """What Ray does where nothing listens, without the minute it waits first."""

    @staticmethod
    def is_initialized():
        return False

    @staticmethod
    def init(address, **_):
        raise ConnectionError(f"Could not find any running Ray instance.\nAsked at {address}.")


def test_no_cluster_there_is_said_with_the_way_out():
    with pytest.raises(EngineError, match=r"no Ray cluster at 'auto': Could not find.*`ray start --head`"):
        _connect(_NoCluster, "auto", None, 1, 0)
