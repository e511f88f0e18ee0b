"""Files that the demo leaves: the model and its data, a drifting stream for the monitor, and commands to try on them."""

from __future__ import annotations

import json
import shlex
from io import BytesIO
from pathlib import Path

import numpy as np

from driftcal.data import Source, npz
from driftcal.data.bundled import FASHION_NETWORK
from driftcal.io.atomic import write_atomic
from driftcal.models import Model
from driftcal.shifts import get_shift

MODEL, VALIDATION, TEST = "model.onnx", "val.npz", "test.npz"
CALIBRATOR, CALIBRATED, STREAM, REPORT = "calibrator.safetensors", "calibrated.onnx", "stream.jsonl", "report.html"
#: The parts of the stream: shift and level. Clean images come first; then the camera turns, step by step.
_STREAM_PARTS = (("rot_right", 0), ("rot_right", 0), ("rot_right", 3), ("rot_right", 6))
#: One sample of so many has a label.
_LABEL_EVERY = 4


def write_model_and_data(folder: Path, validation: Source, test: Source) -> tuple[Source, Source]:
    """Write ``model.onnx``, ``val.npz`` and ``test.npz``; return the data as they are read from these files."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / MODEL, FASHION_NETWORK.read_bytes())
    sources = []
    for name, source in ((VALIDATION, validation), (TEST, test)):
        images = np.rint(source.inputs() * 255).astype(np.uint8)
        archive = BytesIO()
        np.savez_compressed(archive, x=images, y=source.labels, class_names=np.array(source.class_names))
        write_atomic(folder / name, archive.getvalue())
        sources.append(npz(folder / name))
    return sources[0], sources[1]


def write_stream(folder: Path, model: Model, test: Source, *, seed: int = 0) -> Path:
    """Write logits as lines of JSON for ``driftcal monitor``: clean images, then images that are turned more and more."""
    images, labels = test.inputs(), test.labels
    lines: list[dict[str, object]] = []
    for part, (name, level) in enumerate(_STREAM_PARTS):
        indices = np.random.default_rng([seed, part]).permutation(len(images))[: max(1, len(images) // 2)]
        logits = model.logits(get_shift(name)(images[indices], level, seed=seed, indices=test.indices[indices]))
        for row, label in zip(logits.tolist(), labels[indices].tolist(), strict=True):
            line = {"id": len(lines), "logits": [round(value, 4) for value in row]}
            lines.append(line if len(lines) % _LABEL_EVERY else {**line, "label": label})
    return write_atomic(folder / STREAM, "".join(f"{json.dumps(line)}\n" for line in lines).encode())


def next_commands(folder: Path, *, window_size: int) -> list[str]:
    """Three commands that work on the files of the demo: monitor, tune and evaluate."""
    paths = {name: shlex.quote(str(folder / name)) for name in (MODEL, VALIDATION, TEST, CALIBRATOR, STREAM)}
    page, again = (shlex.quote(str(folder / name)) for name in ("monitor.html", "again"))
    return [
        f"driftcal monitor {paths[CALIBRATOR]} {paths[STREAM]} --window-size {window_size} --report {page}",
        f"driftcal tune {paths[MODEL]} {paths[VALIDATION]} -o {shlex.quote(str(folder / 'mine.safetensors'))}",
        f"driftcal evaluate {paths[MODEL]} {paths[CALIBRATOR]} {paths[TEST]} -o {again}",
    ]
