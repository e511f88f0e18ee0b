"""First use: seconds of fresh processes that fit, load and evaluate 2,000 samples of 10 classes.

``python -m benchmarks.speed.start_up`` writes start_up.md. "After an install" is a process without any compiled kernel;
"later" has those of the first. Processor seconds are those of the process; they depend little on what else runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import driftcal
from driftcal.core import kernels

PAGE = Path(__file__).with_suffix(".md")
#: Case -> what runs after the data are there.
CASES = {
    "TS: fit, predict": "p = driftcal.TemperatureScaling().fit(logits, y).predict_proba(logits)",
    "ETS: fit, predict": "p = driftcal.EnsembleTemperatureScaling().fit(logits, y).predict_proba(logits)",
    "IRM: fit, predict": "p = driftcal.IsotonicRegressionMulticlass().fit(logits, y).predict_proba(logits)",
    "load a TS file, predict": "p = driftcal.load('ts.safetensors').predict_proba(logits)",
    "expected_calibration_error": "driftcal.expected_calibration_error(y, probabilities)",
    "metrics.evaluate": "driftcal.metrics.evaluate(y, logits)",
}
SCRIPT = """
import json, sys, time
started, processor = time.perf_counter(), time.process_time()
import numpy as np
import driftcal
rng = np.random.default_rng(0)
logits = rng.normal(scale=6, size=(2000, 10))
y = (logits / 3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
probabilities /= probabilities.sum(axis=1, keepdims=True)
{code}
print(json.dumps([time.perf_counter() - started, time.process_time() - processor, "numba" in sys.modules]))
"""


def run(code: str, folder: str, cache: str) -> tuple[float, float, bool]:
    """Seconds, processor seconds, and whether numba was imported."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(code=code)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    wall, processor, has_numba = json.loads(ran.stdout.splitlines()[-1])
    return wall, processor, has_numba


def repeated() -> list[str]:
    """Processor milliseconds of calls in a process that runs already: in numpy, as small inputs are, and compiled."""
    rng = np.random.default_rng(0)
    lines = [
        "| samples of 10 classes | TS fit | compiled | predict | compiled | ETS fit | compiled |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    small = kernels.SMALL
    for n in (100, 2000, 3200):
        logits = rng.normal(scale=6, size=(n, 10))
        y = (logits / 3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        fitted = driftcal.TemperatureScaling().fit(logits, y)
        calls: list[Callable[[], object]] = [
            lambda z=logits, y=y: driftcal.TemperatureScaling().fit(z, y),
            lambda z=logits, fitted=fitted: fitted.predict_proba(z),
            lambda z=logits, y=y: driftcal.EnsembleTemperatureScaling().fit(z, y),
        ]
        cells = []
        for call in calls:
            for size in (small, -1):
                kernels.SMALL = size
                cells.append(f"{milliseconds(call):.2f}")
        kernels.SMALL = small
        lines.append(f"| {n:,} | {' | '.join(cells)} |")
    return lines


def milliseconds(call: Callable[[], object], repeats: int = 10) -> float:
    """Processor milliseconds of a call, the best of five rounds after one that compiles."""
    call()
    rounds = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(repeats):
            call()
        rounds.append((time.process_time() - started) / repeats)
    return 1e3 * min(rounds)


def main() -> None:
    """Measure every case twice, and write the page."""
    lines = []
    for name, code in CASES.items():
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
            run("driftcal.TemperatureScaling().fit(logits, y).save('ts.safetensors')", folder, cache)
            first = run(code, folder, cache)
            later = min(run(code, folder, cache) for _ in range(3))
        lines.append(
            f"| {name} | {first[0]:.1f} | {first[1]:.1f} | {later[0]:.2f} | {later[1]:.2f} | {'yes' if later[2] else 'no'} |"
        )
        print(lines[-1], flush=True)
    load = os.getloadavg()[0]
    page = [
        "# First use",
        "",
        "Seconds from the start of a process to the result: imports, compilation if any, and the work itself, on 2,000 samples of 10",
        "classes. *After an install* nothing is compiled yet; *later* is the best of three further processes.",
        "",
        "| | after an install, s | of processor | later, s | of processor | imports numba |",
        "|---|---:|---:|---:|---:|---|",
        *lines,
        "",
        f"`python -m benchmarks.speed.start_up`, load of the machine {load:.0f} on {os.cpu_count()} cores: with a load above the number of cores,",
        "read the processor seconds. TS, ETS and their metrics need no compiler. IRM and `metrics.evaluate` compile their kernels once after an",
        "install, and a terminal says so; a numpy version of them does not exist.",
        "",
        "## What small inputs cost later",
        "",
        "Processor milliseconds of repeated calls in one process, in numpy (up to 32,768 scores) and, for comparison, compiled:",
        "",
        *repeated(),
        "",
    ]
    PAGE.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
