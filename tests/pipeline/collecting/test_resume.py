"""A run that is killed at any moment continues from its cache and ends with the same bytes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import driftcal
from driftcal.cache import LogitCache
from driftcal.pipeline.collecting.collect import Collector
from driftcal.shifts import get_shift

HELPERS = Path(__file__).parents[2] / "helpers"
KILLS = 20
ONE_THREAD = dict.fromkeys(("DRIFTCAL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def arguments(model="kill_server:make", output="run"):
    """Paths are relative, so that the recorded command is the same in every folder."""
    return [
        "evaluate", model, "cal.safetensors", "test.npz", "--suite", "h-tuning", "--batch-size", "8", "-o", output, "-q",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def inputs_folder(tmp_path_factory):
    """A calibrator for the tiny model, and test data."""
    folder = tmp_path_factory.mktemp("inputs")
    sys.path.insert(0, str(HELPERS))
    try:
        import kill_server
    finally:
        sys.path.remove(str(HELPERS))
    rng = np.random.default_rng(1)
    x = rng.random((40, 8, 8, 1), np.float32)
    y = (x.reshape(40, -1) @ kill_server.WEIGHTS).argmax(axis=1)
    y[::4] = (y[::4] + 1) % 4
    np.savez(folder / "test.npz", x=x, y=y, class_names=list("abcd"))
    model = driftcal.open_model("kill_server:make", batch_size=8)
    driftcal.tune(model, folder / "test.npz", method="ts", n_levels=3).save(folder / "cal.safetensors")
    return folder


class Runner:
    """A server that forks a process for each command."""

    def __init__(self, folder, warm_up):
        code = f"import os, sys; os.chdir({str(folder)!r}); sys.argv = ['', {json.dumps(warm_up)!r}]; import kill_server; kill_server.serve(__import__('json').loads(sys.argv[1]))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])},
        )  # fmt: skip
        while (line := self.process.stdout.readline()) != "ready\n":
            assert line, "the fork server died"

    def run(self, command, until=None):
        """The exit status of one command, which is killed when `until` returns."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        if until is not None:
            until()
            os.kill(child, signal.SIGKILL)
        self.process.stdin.write("wait\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


def contents(run):
    """The bytes of results and of everything in the cache, without hidden files that a killed writer left."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def test_twenty_kills_end_with_the_same_bytes(inputs_folder, tmp_path):
    os.symlink(inputs_folder / "test.npz", tmp_path / "test.npz")
    os.symlink(inputs_folder / "cal.safetensors", tmp_path / "cal.safetensors")
    command = arguments()
    runner = Runner(tmp_path, command)
    try:
        expected = contents(tmp_path / "run")
        assert len([name for name in expected if name.startswith("cache/logits/")]) == 21
        (tmp_path / "run").rename(tmp_path / "uninterrupted")
        begun = time.monotonic()
        assert runner.run(command) == 0
        seconds = time.monotonic() - begun
        assert contents(tmp_path / "run") == expected
        rng, killed, runs_with_parts, runs_with_logits = random.Random(0), 0, 0, 0

        def until():
            """Wait for a random moment of the run, by the files on disk: a busy machine may be slower than before."""
            n_conditions, deadline = rng.randrange(21), time.monotonic() + 60
            while len(list((tmp_path / "run" / "cache" / "logits").glob("*.safetensors"))) < n_conditions:
                assert time.monotonic() < deadline, "the run does not continue"
                time.sleep(0.001)
            time.sleep(rng.random() * seconds / 21)

        for trial in range(KILLS):
            (tmp_path / "run").rename(tmp_path / f"trial{trial}")
            while (status := runner.run(command, until)) == 0:
                (tmp_path / "run").rename(tmp_path / f"faster{trial}-{time.monotonic_ns()}")  # it ended before the kill
            killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            files = contents(tmp_path / "run")
            runs_with_parts += any(name.startswith("cache/parts/") for name in files)
            runs_with_logits += any(name.startswith("cache/logits/") for name in files)
            assert runner.run(command) == 0
            assert contents(tmp_path / "run") == expected, f"kill {trial} left {sorted(files)}"
        assert killed == KILLS
        assert runs_with_logits >= KILLS // 4, "the kills came too early to test anything"
        assert runs_with_parts >= 1, "no kill left a half-done condition"
    finally:
        runner.close()


def test_logits_of_another_model_are_never_reused(inputs_folder, tmp_path):
    sys.path.insert(0, str(HELPERS))
    try:
        import kill_server
    finally:
        sys.path.remove(str(HELPERS))
    run = driftcal.Run(LogitCache(tmp_path))
    source, shift = driftcal.open_source(inputs_folder / "test.npz"), get_shift("shear")
    first = Collector(driftcal.open_model(kill_server.make(), batch_size=8), source, run=run)
    other = Collector(driftcal.open_model(kill_server.make_other(), batch_size=8), source, run=run)
    conditions = [(shift, level) for level in range(4)]
    logits = first.logits(shift, 3)
    assert first.missing(conditions) == 3
    assert other.missing(conditions) == 4
    assert not np.array_equal(other.logits(shift, 3), logits)
    assert other.passes == 1
    again = Collector(driftcal.open_model(kill_server.make(), batch_size=8), source, run=run)
    assert np.array_equal(again.logits(shift, 3), logits)
    assert again.passes == 0


def test_the_calibrator_of_another_model_is_refused(inputs_folder, tmp_path, monkeypatch, capsys):
    from driftcal.cli import main

    monkeypatch.chdir(inputs_folder)
    monkeypatch.syspath_prepend(str(HELPERS))
    with pytest.raises(SystemExit) as end:
        main(arguments("kill_server:make_other", str(tmp_path / "run")))
    assert end.value.code == 1
    assert "was tuned for another model" in capsys.readouterr().err
    assert not (tmp_path / "run" / "results.json").exists()
