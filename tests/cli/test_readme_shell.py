"""The README's shell lines run exactly as they are printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from tiny_model import make_onnx

README = Path(__file__).parents[2] / "README.md"
BLOCKS = [b for b in re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL) if "driftcal " in b]


def test_the_shell_lines_run(folder):
    assert len(BLOCKS) == 1
    make_onnx(folder / "model.onnx", np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32))
    demo = folder / "runs" / "demo"
    demo.mkdir(parents=True)
    for name in ("model.onnx", "val.npz", "test.npz"):
        shutil.copy(folder / name, demo / name)
    lines = np.random.default_rng(0).normal(size=(600, 4)).tolist()
    (demo / "stream.jsonl").write_text("".join(json.dumps({"logits": line}) + "\n" for line in lines))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["sh", "-ec", BLOCKS[0]],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    for page in ("report.html", "monitor.html"):
        assert (demo / page).read_text().startswith("<!doctype html>")
    assert (demo / "calibrated.onnx").exists()
