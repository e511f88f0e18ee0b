"""Tables (CSV, Parquet) as data and as recorded scores, files of calibrated models, the windows of a windowed object."""

from __future__ import annotations

import contextlib
import json
import random
import warnings
from pathlib import Path

import numpy as np

import driftcal
from driftcal.calibrators import make_calibrator
from driftcal.calibrators.serialization import save
from driftcal.data.score_files import read_scores
from driftcal.decisions import CoverageCurve, choose_threshold
from driftcal.decisions.metadata import decisions_to_metadata
from driftcal.drift.reference import DriftReference
from driftcal.errors import DriftcalError
from driftcal.monitor.monitor import Monitor
from driftcal.pipeline.describe_file import describe, lines_of
from tools.fuzz.mutation import HOSTILE, mutate_value

_COLUMNS = {"a": [0.5, 1.5, -2.0, 3.0], "b": [1, 2, 3, 4], "shop": ["x", "y", "x", None], "label": [0, 1, 0, 1]}
#: The notes for pandas that a Parquet file holds.
_NOTES = {
    "index_columns": [{"kind": "range", "name": None, "start": 0, "stop": 4, "step": 1}],
    "column_indexes": [{"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": {"encoding": "UTF-8"}}],
    "columns": [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": kind, "metadata": None}
        for name, kind in (("a", "float64"), ("b", "int64"), ("shop", "object"), ("label", "int64"))
    ],
    "creator": {"library": "pyarrow", "version": "17.0.0"},
    "pandas_version": "2.2.2",
}  # fmt: skip


def write_tables(seeds: Path) -> list[Path]:
    """A CSV file and a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (seeds / "a.csv").write_text("a,b,shop,label\n0.5,1,x,0\n1.5,2,y,1\n-2.0,3,x,0\n3.0,4,,1\n")
    notes = {b"pandas": json.dumps(_NOTES).encode()}
    pq.write_table(pa.table(_COLUMNS).replace_schema_metadata(notes), seeds / "a.parquet", compression="none")
    return [seeds / "a.csv", seeds / "a.parquet"]


def mutate_parquet(rng: random.Random, _: Path, target: Path) -> bool:
    """Write a Parquet file with other notes for pandas, values, names or types; False if pyarrow writes none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    notes = mutate_value(rng, _NOTES) if rng.random() < 0.6 else _NOTES
    columns = dict(_COLUMNS) if rng.random() < 0.5 else mutate_value(rng, _COLUMNS)
    try:
        table = pa.table(columns)
        if rng.random() < 0.3:
            name = rng.choice(table.column_names)
            kinds = [
                pa.string(),
                pa.binary(),
                pa.float16(),
                pa.date32(),
                pa.timestamp("ns", "UTC"),
                pa.decimal128(10, 2),
                pa.bool_(),
            ]
            table = table.set_column(table.column_names.index(name), name, table.column(name).cast(rng.choice(kinds)))
        encoded = (
            json.dumps(notes).encode() if rng.random() < 0.9 else repr(rng.choice(HOSTILE)).encode("utf-8", "ignore")
        )
        pq.write_table(table.replace_schema_metadata({b"pandas": encoded}), target)
    except Exception:
        return False
    return True


def use_table(path: Path) -> None:
    """Read a file as a table and as scores. Its beginning says what it is."""
    ending = ".parquet" if path.read_bytes()[:4] == b"PAR1" else ".csv"
    file = path.with_name(f"named{ending}")
    file.write_bytes(path.read_bytes())
    with contextlib.suppress(DriftcalError):
        read_scores(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = driftcal.open_source(file)
        source.inputs(), source.fingerprint, len(source.labels)


class Windows:
    """A windowed object whose state is in a file."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        logits = rng.normal(size=(90, 3)) * np.repeat([4, 2, 1], 30)[:, None]
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        self.calibrator = make_calibrator("window-ts").fit(logits, labels, levels=np.repeat([0, 1, 2], 30))
        self.logits, self.labels = logits, labels

    def write(self, seeds: Path) -> list[Path]:
        """Windows of two keys."""
        live = self.calibrator.windowed(50)
        live.predict_proba(self.logits[:40]), live.predict_proba(self.logits[:60], key="camera 7")
        return [live.save(seeds / "windows.safetensors")]

    def use(self, path: Path) -> None:
        """Continue from the file."""
        live = self.calibrator.windowed(50)
        live.restore(path)
        for key in [*live.keys, "new"]:
            p = live.predict_proba(self.logits[:7], key=key)
            if not (np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1)):
                raise AssertionError(f"the window {key!r} gives {p.tolist()}")
            live.window_state(key)
        live.save(path.with_name("again.safetensors"))


class SavedModel:
    """A calibrated model in a file: two forms, a drift reference, a threshold and what `tune` records."""

    def __init__(self) -> None:
        self.windows = Windows()
        logits, labels = self.windows.logits, self.windows.labels
        calibrator = make_calibrator("ts").fit(logits, labels)
        curve = CoverageCurve.of(calibrator.predict_proba(logits).max(axis=1), logits.argmax(axis=1) == labels)
        threshold = choose_threshold(curve, coverage=0.5)
        levels = [logits[:30], logits[30:60], logits[60:]]
        reference = DriftReference.of(levels, labels[:30], calibrator, temperature=1.2).to_dict()
        preprocessing = {
            "mean": [0.5],
            "std": [0.25],
            "layout": "flat",
            "size": [8, 8],
            "channels": "RGB",
            "scale": 1.0,
        }
        model = {"name": "m", "framework": "scores", "outputs": "logits", "device": "cpu", "classes": 3, "class_names": None,
                 "batch_size": 256, "preprocessing": preprocessing, "fingerprint": "0" * 64}  # fmt: skip
        self.metadata = {
            "model": model, "method": "ts", "tuned_on": "gaussian", "explanation": "", "class_names": ["a", "b", "c"],
            "perturbation": {"shift": "gaussian", "levels": [0, 0.1, 0.2], "solver": "curve", "notes": []},
            "drift_reference": reference, "accuracy": 0.8, "random_state": 0,
            "validation": {"name": "v", "fingerprint": "0" * 64, "samples": 30, "classes": 3, "input_shape": [8, 8, 1]},
            **decisions_to_metadata(curve, threshold),
        }  # fmt: skip
        self.calibrator = calibrator

    def write(self, seeds: Path) -> list[Path]:
        """The file."""
        others = {"windowed": self.windows.calibrator}
        return [save(self.calibrator, seeds / "model.safetensors", metadata=self.metadata, others=others)]

    def use(self, path: Path) -> None:
        """Predict, abstain, evaluate a window, describe and monitor."""
        lines_of(describe(path))
        logits = np.random.default_rng(0).normal(size=(60, 3))
        with contextlib.suppress(DriftcalError):
            monitor = Monitor(path, window_size=20)
            monitor.update(logits)
            repr(monitor.windows()), monitor.summary()
        with contextlib.suppress(DriftcalError):
            driftcal.CalibratedModel.load(path, lambda batch: batch, force=True)
        calibrated = driftcal.CalibratedModel.load(path)
        repr(calibrated), calibrated.name
        forms = [calibrated.predict_proba(logits)]
        if calibrated.windowed_calibrator is not None:
            forms.append(calibrated.windowed(50).predict_proba(logits))
        for p in forms:
            if not (np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1)):
                raise AssertionError(f"probabilities {p[:3].tolist()}")
        if calibrated.decision_threshold is not None:
            calibrated.predict_or_abstain(logits)
