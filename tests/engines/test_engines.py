"""Engines: every task has one result, failures are retried or named, and results do not depend on the engine."""

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
from driftcal.engines import RetryPolicy, open_engine
from driftcal.engines.ray import _connect
from driftcal.engines.remote_passes import RemotePasses, Segment, StoredLogits, StoredSamples, stack
from driftcal.errors import EngineError, InputError, UnknownName, WorkFailed
from driftcal.pipeline.collecting.collect import Collector
from driftcal.shifts import get_shift

HELPERS = Path(__file__).parents[1] / "helpers"
sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.measure import PeakMemory  # noqa: E402  (not a package that is installed)

QUICK = RetryPolicy(straggler_seconds=0.3, max_tries=2, max_worker_failures=3)


@pytest.fixture(scope="module")
def ray():
    """A cluster of two workers on this machine's loopback interface, stopped afterwards."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # Ray warns while it starts
        patch.setenv("RAY_worker_niceness", "0")  # or other tests would take the time of its workers
        engine = open_engine("ray", workers=2, address="local", retry_policy=QUICK)
    yield engine
    engine.close()
    import ray

    assert not ray.is_initialized()


@pytest.fixture(scope="module", params=["one worker", "threads", "processes", "ray"])
def engine(request):
    """Every kind of engine, and whether its workers are processes."""
    if request.param == "ray":
        return request.getfixturevalue("ray"), False
    engine = open_engine("local", workers=1 if request.param == "one worker" else 2, retry_policy=QUICK)
    return engine, request.param == "processes"


def test_every_task_has_one_result(engine):
    engine, processes = engine
    reports = []
    results = engine.map(
        ray_tasks.square,
        list(range(9)),
        engine.share(100),
        report=lambda *progress: reports.append(progress),
        holds_gil=processes,
    )
    assert sorted(results) == [(k, 100 + k * k) for k in range(9)]
    assert sorted(reports) == [("squared", k) for k in range(9)]
    assert list(engine.map(ray_tasks.square, [], engine.share(1))) == []


@pytest.mark.parametrize("processes", [False, True])
def test_the_local_engine_retries_tasks_and_names_those_that_fail(tmp_path, processes):
    engine = open_engine("local", workers=2, retry_policy=QUICK)
    results = engine.map(ray_tasks.flaky, [0, 1, 2], engine.share(str(tmp_path)), holds_gil=processes)
    assert sorted(results) == [(0, 0), (1, 1), (2, 2)]
    results = []
    with pytest.raises(WorkFailed, match=r"1 of 5 tasks failed.*3: image 'cat/3.jpg' cannot be decoded.*4 others"):
        results.extend(engine.map(ray_tasks.poisoned, [0, 1, 2, 3, 4], holds_gil=processes))
    assert sorted(results) == [(k, k) for k in (0, 1, 2, 4)]


def test_a_process_that_dies_is_replaced(tmp_path):
    engine = open_engine("local", workers=2, retry_policy=QUICK)
    results = engine.map(ray_tasks.kill_worker, [0, 1, 2, 3], engine.share(str(tmp_path)), holds_gil=True)
    assert sorted(results) == [(k, k) for k in range(4)]


def test_ray_retries_tasks_and_names_those_that_fail(ray, tmp_path):
    assert sorted(ray.map(ray_tasks.flaky, [0, 1, 2], ray.share(str(tmp_path)))) == [(0, 0), (1, 1), (2, 2)]
    results = []
    with pytest.raises(WorkFailed, match=r"3: image 'cat/3.jpg' cannot be decoded"):
        results.extend(ray.map(ray_tasks.poisoned, [0, 1, 2, 3, 4]))
    assert sorted(results) == [(k, k) for k in (0, 1, 2, 4)]


def test_ray_replaces_a_worker_that_dies(ray, tmp_path):
    assert sorted(ray.map(ray_tasks.kill_worker, [0, 1, 2, 3], ray.share(str(tmp_path)))) == [(k, k) for k in range(4)]
    with pytest.raises(WorkFailed, match=r"2: its worker died"):  # a task that kills every worker comes to an end
        list(ray.map(ray_tasks.kill_worker, [0, 1, 2, 3], ray.share(None)))


def test_ray_starts_a_second_copy_of_a_slow_task(ray, tmp_path):
    started = time.monotonic()
    assert sorted(ray.map(ray_tasks.straggling, [0, 1, 2], ray.share(str(tmp_path)))) == [(0, 0), (1, 1), (2, 2)]
    assert time.monotonic() - started < 60


def test_ray_stops_a_task_after_the_timeout(ray, tmp_path):
    policy = ray.retry_policy
    ray.retry_policy = RetryPolicy(timeout=4.0, straggler_seconds=1e9)  # long enough for a worker to start
    try:
        assert sorted(ray.map(ray_tasks.straggling, [0, 1], ray.share(str(tmp_path)))) == [(0, 0), (1, 1)]
    finally:
        ray.retry_policy = policy


def test_ray_listens_on_the_loopback_interface_only(ray):
    import ray as cluster

    assert [node["NodeManagerAddress"] for node in cluster.nodes()] == ["127.0.0.1"]


def test_ray_workers_share_the_cores_and_serve_several_maps(ray):
    threads = dict(ray.map(ray_tasks.threads_of, list(range(4))))
    assert set(threads.values()) == {(1, "1")}
    processes = {process for _ in range(3) for _, process in ray.map(ray_tasks.process, list(range(8)))}
    assert len(processes) <= 2
    assert os.getpid() not in processes


def test_closing_a_map_early_stops_its_tasks(ray):
    results = ray.map(ray_tasks.process, list(range(50)))
    next(results)
    results.close()
    assert len(dict(ray.map(ray_tasks.process, [1, 2]))) == 2


def test_bad_options_are_refused():
    with pytest.raises(UnknownName, match="'ray'"):
        open_engine("rae")
    with pytest.raises(InputError, match="workers must be at least 1"):
        open_engine("local", workers=0)
    with pytest.raises(InputError, match="are for engine 'ray'"):
        open_engine("local", address="127.0.0.1:1")


# digits, end to end


@pytest.fixture(scope="module")
def digits():
    source = driftcal.open_source("digits")
    validation, test, _ = source.split(300, 200, random_state=1)
    return validation, test


def labelled(source, net):
    """The source with labels of which the net predicts four out of five."""
    labels = net.logits(source.inputs()).argmax(axis=1)
    labels[::5] = (labels[::5] + 1) % 10
    return driftcal.data.from_arrays(source.inputs(), labels, class_names=[str(k) for k in range(10)])


def whole_run(folder, engine, digits, shards=None, order=None):
    """Tune and evaluate; every file that is written, as bytes."""
    net = driftcal.open_model("ray_tasks:make", batch_size=16)
    validation, test = (labelled(part, net) for part in digits)
    with pytest.MonkeyPatch.context() as patch:
        if shards is not None:
            patch.setattr(Collector, "__init__", _with_shards(shards))
        if order is not None:
            patch.setattr(engine, "map", _in_order(engine, order))
        run = driftcal.Run(folder / "cache", engine)
        tuned = driftcal.tune(net, validation, method="ets", n_levels=4, run=run)
        results = driftcal.evaluate(tuned, test, suite="h-tuning", run=run)
    tuned.save(folder / "cal.safetensors")
    results.save(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _with_shards(shards, plain=Collector.__init__):
    def init(self, *args, **kwargs):
        plain(self, *args, **{**kwargs, "n_shards": shards})

    return init


def _in_order(engine, seed):
    plain = engine.map

    def shuffled(function, tasks, *shared, **options):
        order = random.Random(seed).sample(range(len(tasks)), len(tasks))
        for number, result in plain(function, [tasks[k] for k in order], *shared, **options):
            yield order[number], result

    return shuffled


@pytest.fixture(scope="module")
def expected(digits, tmp_path_factory):
    return whole_run(tmp_path_factory.mktemp("local"), open_engine("local"), digits)


@pytest.mark.parametrize(("shards", "order"), [(1, None), (3, 6)])
def test_ray_gives_the_same_bits_for_any_shards_and_order(ray, digits, expected, tmp_path, shards, order):
    assert whole_run(tmp_path, ray, digits, shards, order) == expected
    assert len([name for name in expected if name.startswith("cache/logits/")]) > 10


def test_processes_give_the_same_bits(digits, expected, tmp_path):
    assert whole_run(tmp_path, open_engine("local", workers=2), digits, 2) == expected


def test_ten_killed_workers_change_no_bit(ray, digits, expected, tmp_path):
    policy, ray.retry_policy = ray.retry_policy, RetryPolicy(max_worker_failures=10)
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
        ray.retry_policy = policy
    assert len(killed) == 10


def worker_processes():
    """Processes of our actors, as Ray names them: children of a raylet that this process has started."""
    workers = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                is_actor = (entry / "cmdline").read_bytes().startswith(b"ray::_Worker")
                if is_actor and parent(parent(int(entry.name))) == os.getpid():
                    workers.append(int(entry.name))
            except OSError:
                pass
    return workers


def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_corrupt_image_is_named_and_the_other_results_are_stored(ray, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for k in range(40):
        folder = tmp_path / "photos" / "ab"[k % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(folder / f"{k:02}.png")
    corrupt = tmp_path / "photos" / "b" / "31.png"
    content = corrupt.read_bytes()
    corrupt.write_bytes(content[:60])
    cache = LogitCache(tmp_path / "cache")
    net = driftcal.open_model("ray_tasks:make", batch_size=4)

    def collector():
        source = driftcal.open_source(tmp_path / "photos", grey=True)
        return Collector(net, source, run=driftcal.Run(cache, ray), n_shards=10)

    failing = collector()
    with pytest.raises(WorkFailed, match=r"clean, samples 3.*31\.png"):
        failing.gather([(get_shift("gaussian"), 0)])
    assert cache.missing(failing.key(get_shift("gaussian"), 0), 40) == [(32, 36)]
    corrupt.write_bytes(content)
    assert collector().condition(get_shift("gaussian"), 0).shape == (40, 10)


# passes over shards


def stored_parts(folder, engine, n=3000, n_classes=40, parts=8):
    rng, cache = np.random.default_rng(0), LogitCache(folder)
    labels = rng.integers(0, n_classes, n)
    arrays, stored = [], []
    for k in range(parts):
        logits = rng.normal(size=(n, n_classes)).astype(np.float32) * 2
        logits[np.arange(n), labels] += 4 - k / 3
        key = CacheKey("m", "s", level=k)
        cache.put(key, logits=logits, labels=labels)
        arrays.append(logits)
        stored.append(StoredLogits(cache, key, n, n_classes, engine))
    return arrays, stored, labels


@pytest.mark.parametrize("method", ["ts", "ets", "ir", "irm", "ps"])
def test_a_fit_on_stored_logits_equals_one_on_an_array(ray, tmp_path, method):
    arrays, stored, labels = stored_parts(tmp_path, ray)
    local = make_calibrator(method).fit(np.concatenate(arrays), np.tile(labels, 8))
    remote = make_calibrator(method).fit(*stack(stored, labels))
    for name in local.fitted:
        np.testing.assert_allclose(getattr(remote, name), getattr(local, name), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(getattr(remote, name), getattr(local, name))
    selected = np.arange(len(labels)) % 5 != 0
    local = make_calibrator(method).fit(*stack(arrays, labels, selected))
    remote = make_calibrator(method).fit(*stack(stored, labels, selected))
    for name in local.fitted:
        np.testing.assert_array_equal(getattr(remote, name), getattr(local, name))


@pytest.mark.parametrize("method", ["ts", "ets", "ir", "irm"])
def test_more_tasks_than_accumulators_change_the_last_digits_only(tmp_path, monkeypatch, method):
    monkeypatch.setattr(driftcal.core.blocks, "BLOCK_SCORES", 1 << 12)
    monkeypatch.setattr(driftcal.engines.remote_passes, "MAX_BLOCKS_PER_TASK", 2)
    arrays, stored, labels = stored_parts(tmp_path, open_engine("local"), n=1000)
    local, remote = (make_calibrator(method).fit(*stack(parts, labels)) for parts in (arrays, stored))
    first = stored[0]
    samples = StoredSamples(first.cache, tuple(Segment(part.key, len(part)) for part in stored), first.shape[1])
    assert len(RemotePasses(samples, first.engine).tasks()) > 30
    for name in local.fitted:
        np.testing.assert_allclose(getattr(remote, name), getattr(local, name), rtol=1e-9, atol=1e-9)


def test_the_memory_of_the_caller_does_not_grow_with_the_logits(ray, tmp_path):
    peaks = {}
    for n in (50, 500, 5000):  # the first loads what every fit loads; the last are 32 MB of logits
        stored, labels = stored_parts(tmp_path / str(n), ray, n=n, n_classes=400, parts=4)[1:]
        for method in ("ts", "ets", "irm"):
            with PeakMemory() as memory:
                make_calibrator(method).fit(*stack(stored, labels))
            peaks[method, n] = memory.megabytes
    # some megabytes belong to the interpreter; IRM stores numbers for 20,000 samples, but not for 8 million scores
    for method, margin in (("ts", 8), ("ets", 8), ("irm", 12)):
        assert peaks[method, 5000] < peaks[method, 500] + margin, peaks


def test_an_interrupted_run_resumes(ray, digits, expected, tmp_path):
    """Ctrl-C in the middle of the run of another program on the same cluster."""
    import ray as cluster

    ray.stop_workers()  # leave the cores to the other program
    address = cluster.get_runtime_context().gcs_address
    code = f"""
import signal, sys; sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(HELPERS)!r}]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
import test_engines as t, driftcal, pathlib
from driftcal.engines import open_engine
source = driftcal.open_source("digits")
engine = open_engine("ray", workers=1, address={address!r})
print("ready", flush=True)
t.whole_run(pathlib.Path({str(tmp_path)!r}), engine, source.split(300, 200, random_state=1)[:2], 3)
"""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HELPERS), *sys.path])},
    )  # fmt: skip
    assert child.stdout.readline() == "ready\n", child.stderr.read()
    while not list((tmp_path / "cache" / "logits").glob("*")) and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not (tmp_path / "results.json").exists()
    stored = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "logits").glob("*.safetensors")}
    assert whole_run(tmp_path, open_engine("local"), digits) == expected
    afterwards = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "logits").glob("*.safetensors")}
    assert stored.items() <= afterwards.items()


class _NoCluster:
    """Ray where no cluster runs, without the minute that it waits first."""

    @staticmethod
    def is_initialized():
        return False

    @staticmethod
    def init(address, **_):
        raise ConnectionError(f"Could not find any running Ray instance.\nAsked at {address}.")


def test_a_missing_cluster_is_named_with_the_way_out():
    with pytest.raises(EngineError, match=r"no Ray cluster at 'auto': Could not find.*`ray start --head`"):
        _connect(_NoCluster, "auto", None, 1, 0)


def test_a_worker_that_cannot_start_is_named_with_the_way_out(ray, monkeypatch):
    import ray as cluster

    class BrokenWorker:
        def __init__(self, *_):
            raise OSError("no such library")

    ray.stop_workers()
    monkeypatch.setattr(ray, "actor_class", cluster.remote(num_cpus=1, max_restarts=0)(BrokenWorker))
    with pytest.raises(
        EngineError, match=r"2 workers of 1 CPUs must start; .* in a row died as they started: OSError: no such library"
    ):
        list(ray.map(ray_tasks.process, [1, 2]))
    monkeypatch.undo()
    ray.stop_workers()
    assert len(dict(ray.map(ray_tasks.process, [1, 2]))) == 2
