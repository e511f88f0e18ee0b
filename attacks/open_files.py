"""``python -m attacks.open_files FOLDER``: open every hostile file, and print the error, seconds and megabytes of each."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np

import driftcal
from driftcal.data.image_files import ImageDecoder
from driftcal.errors import DriftcalError
from driftcal.pipeline.evaluating.results import Results


def open_file(path: Path) -> Any:
    """Open a file with the reader of its ending."""
    if path.suffix == ".png":
        return ImageDecoder(size=224)(path)
    if path.suffix in (".npz", ".csv", ".parquet"):
        return driftcal.open_source(str(path)).inputs()
    if path.suffix == ".safetensors":
        return driftcal.load(path).predict_proba(np.eye(3))
    if path.suffix == ".json":
        return Results.load(path)
    return driftcal.open_model(path).logits(np.ones((2, 4, 4, 1), np.float32))


def main(folder: Path) -> None:
    """Print one JSON object per file."""
    import keras  # noqa: F401  so that the memory of imports is not counted
    import onnxruntime  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import torch  # noqa: F401

    for path in sorted(folder.iterdir()):
        memory, begun = _peak(), time.monotonic()
        try:
            open_file(path)
            error, message = "none", ""
        except DriftcalError as refused:
            error, message = type(refused).__name__, str(refused)
        except BaseException as foreign:
            error, message = f"foreign {type(foreign).__name__}", str(foreign)
        row = {"file": path.name, "error": error, "seconds": round(time.monotonic() - begun, 2),
               "megabytes": round(_peak() - memory), "message": message[:200]}  # fmt: skip
        print(json.dumps(row), flush=True)


def _peak() -> float:
    """The peak memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/attacks"))
