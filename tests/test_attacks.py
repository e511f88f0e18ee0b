"""Every hostile file of attacks/ is refused with an error of driftcal; nothing is written, and memory is bounded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Bounds for one file. The limits of driftcal.io.limits allow more only for files of their size.
MAX_SECONDS, MAX_MEGABYTES = 20, 600


@pytest.mark.slow
def test_hostile_files_are_refused(tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "KERAS_BACKEND": "torch",
    }
    (tmp_path / "empty").mkdir()

    def run(script):
        command = [sys.executable, "-m", f"attacks.{script}", str(tmp_path / "files")]
        done = subprocess.run(
            command, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.splitlines()

    made = [line.partition(": ")[0] for line in run("make_files")]
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "files").iterdir()}
    opened = [json.loads(line) for line in run("open_files") if line.startswith("{")]
    assert sorted(row["file"] for row in opened) == sorted(made)
    for row in opened:
        assert row["error"] in ("ModelError", "DataError", "ArtefactError"), row
        assert row["seconds"] < MAX_SECONDS, row
        assert row["megabytes"] < MAX_MEGABYTES, row
    assert os.listdir(tmp_path / "empty") == []
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "files").iterdir()} == before
