"""What is fuzzed: for each reader, files to begin with, mutations of them, and a function that opens one."""

from __future__ import annotations

import contextlib
import io
import json
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import driftcal
from driftcal.cache import CacheKey, LogitCache
from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.calibrators.serialization import load_file
from driftcal.data.image_files import ImageDecoder
from driftcal.errors import DriftcalError
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.stream_reader import json_batches
from driftcal.monitor.serving.ingest import Request
from driftcal.pipeline.describe_file import describe
from driftcal.pipeline.evaluating.results import METRICS, CalibratorInfo, ResultRow, Results, ShiftInfo
from tools.fuzz.data_targets import SavedModel, Windows, mutate_parquet, use_table, write_tables
from tools.fuzz.mutation import mutate_bytes
from tools.fuzz.serving_targets import Listener, mutate_body, write_bodies
from tools.fuzz.signed import mutate_results, mutate_tensors

_LOGITS = np.random.default_rng(0).normal(size=(60, 3)) * 2
_LABELS = (_LOGITS + np.random.default_rng(1).gumbel(size=_LOGITS.shape)).argmax(axis=1)
_FEATURES = np.random.default_rng(2).normal(size=(60, 4)).astype(np.float32)
#: Logits that an opened calibrator is used on: usual, tied, masked and extreme.
_PROBES = np.array([[1.0, 2, 3], [0, 0, 0], [-np.inf, 0, 1], [1e4, -1e4, 0], [-1e100, 0, 1e100], [-np.inf, -np.inf, 0]])


@dataclass
class Target:
    """A reader. `mutate` writes the next file; `open` opens it and raises nothing but errors of driftcal."""

    name: str
    folder: Path
    seeds: list[Path]
    open: Callable[[Path], Any]
    signed: Callable[[random.Random, Path, Path], bool] | None = None
    corpus: list[bytes] = field(default_factory=list)

    def mutate(self, rng: random.Random, path: Path) -> None:
        """Write a mutated file to `path`."""
        if self.signed is not None and rng.random() < 0.7 and self.signed(rng, rng.choice(self.seeds), path):
            return
        self.corpus = self.corpus or [seed.read_bytes() for seed in self.seeds]
        path.write_bytes(mutate_bytes(rng, rng.choice(self.corpus), self.corpus))


def make_target(name: str, folder: Path) -> Target:
    """The target `name`, with its first files in `folder`."""
    seeds = folder / "seeds"
    seeds.mkdir(parents=True, exist_ok=True)
    return _MAKERS[name](name, folder, seeds)


def _calibrators(name: str, folder: Path, seeds: Path) -> Target:
    paths = []
    levels = np.arange(60) % 3
    for method, kind in CALIBRATORS.items():
        options: dict[str, Any] = {"levels": levels} if kind.needs_levels else {}
        if kind.needs_features:
            options["features"] = {"early": _FEATURES}
        if kind.needs_reference:
            options["reference"] = {"early": _FEATURES}
        params = {"k": 5} if method in ("dac", "dac-pts") else {}
        try:
            fitted = make_calibrator(method, **params).fit(_LOGITS, _LABELS, **options)
        except DriftcalError as error:
            print(f"  {method} is not fuzzed: {error}")
            continue
        paths.append(fitted.save(seeds / f"{method}.safetensors"))
    return Target(name, folder, paths, _use_calibrator, lambda *a: mutate_tensors(*a, "calibrator"))


def _use_calibrator(path: Path) -> None:
    file = load_file(path)
    describe(path)
    for calibrator in (file.calibrator, *file.others.values()):
        n_classes = calibrator.n_features_in_
        logits = np.tile(_PROBES, (1, n_classes // 3 + 1))[:, :n_classes]
        logits[:, 0] = np.where(np.isfinite(logits).any(axis=1), logits[:, 0], 0)
        features = None
        if calibrator.needs_features:
            widths = [int(width) for width in calibrator.widths_]
            features = {str(i): np.ones((len(logits), width), np.float32) for i, width in enumerate(widths)}
        probabilities = calibrator.predict_proba(logits, features=features)
        is_right = np.isfinite(probabilities).all() and (probabilities >= 0).all()
        sums_to_one = getattr(calibrator, "normalise", True) is False or np.allclose(probabilities.sum(axis=1), 1)
        if not is_right or not sums_to_one:
            raise AssertionError(f"{type(calibrator).__name__} gives {probabilities.tolist()}")
    with contextlib.suppress(DriftcalError):
        Monitor(path)


def _cache(name: str, folder: Path, seeds: Path) -> Target:
    cache = LogitCache(folder / "cache")
    key = CacheKey(model="m", source="s", shift="gaussian", level=0.5, batch_size=10)
    seed = seeds / "entry.safetensors"
    seed.write_bytes(Path(cache.put(key, logits=_LOGITS, labels=_LABELS) and cache.file(key)).read_bytes())

    def read(path: Path) -> None:
        cache.file(key).write_bytes(path.read_bytes())
        opened = LogitCache(folder / "cache")
        entry = opened.get(key)
        if entry is not None:
            float(entry.logits.sum()), len(entry.labels), len(entry)
        list(opened.keys()), opened.metadata(), opened.missing(key, 60)
        part = opened._parts_folder(key) / "000000000000-000000000060.safetensors"
        part.parent.mkdir(exist_ok=True)
        part.write_bytes(path.read_bytes())
        opened.parts(key)

    return Target(name, folder, [seed], read, lambda *a: mutate_tensors(*a, "cache"))


def _results(name: str, folder: Path, seeds: Path) -> Target:
    bins = {"weight": [1.0, 2.0], "confidence": [0.5, 1.5], "outcome": [0.0, 1.0]}
    values: dict[str, Any] = dict.fromkeys((*METRICS, "null_ece"), 0.25)
    rows = [
        ResultRow(calibrator, "fog", level, 100, **values, clipped=0, bins=bins, intervals={"ece": (0.2, 0.3)}, group=group)
        for calibrator in ("base", "ts") for level in (0, 1.0, "all") for group in (None, "a")
    ]  # fmt: skip
    infos = [CalibratorInfo(n, n.upper(), n, "clean samples", True, 1.5, ("careful",)) for n in ("base", "ts")]
    results = Results("all", 2, infos, [ShiftInfo("fog", [0, 1.0], ["0", "1"])], rows, None, {"title": "t", "data": {}})
    path = results.save(seeds)

    def use(path: Path) -> None:
        from driftcal.report import result_table

        read = Results.load(path)
        repr(read), read.summary(), read.ratios(), result_table(read)

    return Target(name, folder, [path], use, mutate_results)


def _monitor(name: str, folder: Path, seeds: Path) -> Target:
    calibrator = make_calibrator("ts").fit(_LOGITS, _LABELS)
    monitor = Monitor(calibrator, window_size=20)
    monitor.update(_LOGITS, ids=[f"id{i}" for i in range(60)])
    monitor.add_labels(["id1", "id2"], [0, 1])
    path = monitor.save(seeds / "monitor.safetensors")

    def use(path: Path) -> None:
        loaded = Monitor.load(path, calibrator)
        loaded.update(_LOGITS[:5], ids=list("abcde"))
        loaded.add_labels(["id3", "a"], [0, 1])
        loaded.windows(), loaded.summary(), repr(loaded)
        loaded.save(folder / "again.safetensors")

    return Target(name, folder, [path], use, lambda *a: mutate_tensors(*a, "monitor"))


def _npz(name: str, folder: Path, seeds: Path) -> Target:
    images = np.random.default_rng(0).random((6, 8, 8)).astype(np.float32)
    np.savez(seeds / "a.npz", x=images, y=np.arange(6) % 2)
    np.savez_compressed(
        seeds / "b.npz", x=(images * 255).astype(np.uint8), y=np.array(list("ababab")), class_names=np.array(["a", "b"])
    )
    np.savez(seeds / "c.npz", x=_LOGITS, y=_LABELS, groups=_LABELS)

    def use(path: Path) -> None:
        source = driftcal.open_source(str(path))
        source.inputs(), source.fingerprint

    return Target(name, folder, sorted(seeds.glob("*.npz")), use)


def _pt2(name: str, folder: Path, seeds: Path) -> Target:
    import torch

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.ReLU()).eval()
    dynamic = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(torch.export.export(net, (torch.rand(2, 1, 4, 4),), dynamic_shapes=dynamic), seeds / "a.pt2")
    return Target(
        name,
        folder,
        [seeds / "a.pt2"],
        lambda path: driftcal.open_model(path).logits(np.ones((2, 4, 4, 1), np.float32)),
    )


def _onnx(name: str, folder: Path, seeds: Path) -> Target:
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n, size in (("x", 4), ("y", 3))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (seeds / "a.onnx").write_bytes(model.SerializeToString())

    def use(path: Path) -> None:
        opened = driftcal.open_model(path)
        len(opened.fingerprint), len(opened.layers)

    return Target(name, folder, [seeds / "a.onnx"], use)


def _lines(name: str, folder: Path, seeds: Path) -> Target:
    rows = [
        json.dumps({"logits": row, "id": i, "time": 1.7e9 + i, "label": 1})
        for i, row in enumerate(_LOGITS[:8].tolist())
    ]
    rows += [json.dumps({"id": 3, "label": 2}), json.dumps({"logits": _LOGITS[:3].tolist(), "id": ["a", "b", "c"]}), ""]
    (seeds / "a.jsonl").write_text("\n".join(rows))
    calibrator = make_calibrator("ts").fit(_LOGITS, _LABELS)

    def use(path: Path) -> None:
        monitor = Monitor(calibrator, window_size=20)
        for batch in json_batches(io.BytesIO(path.read_bytes()), "logits"):
            monitor.add_batch(batch)
        monitor.windows(), monitor.summary()

    return Target(name, folder, [seeds / "a.jsonl"], use)


def _requests(name: str, folder: Path, seeds: Path) -> Target:
    return Target(name, folder, write_bodies(seeds), Listener(folder).take, mutate_body)


def _journal(name: str, folder: Path, seeds: Path) -> Target:
    listener = Listener(folder)
    listener.journal_of([Request(b'{"logits": [1, 2, 3]}', {}, arrival=1.7e9).record()] * 3, seeds / "a.journal")
    return Target(name, folder, [seeds / "a.journal"], listener.replay, listener.mutate_journal)


def _images(name: str, folder: Path, seeds: Path) -> Target:
    from PIL import Image

    pixels = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
    for ending in ("png", "jpg", "gif", "bmp", "tif", "webp", "ppm"):
        Image.fromarray(pixels).save(seeds / f"a.{ending}")
    deep = (np.arange(256, dtype=np.uint16) * 250).reshape(16, 16)
    for ending in ("png", "tif"):
        Image.fromarray(deep).save(seeds / f"deep.{ending}")
    Image.fromarray(pixels[..., 0]).save(seeds / "packed.tif", compression="tiff_lzw")
    decoder = ImageDecoder(size=16)

    def use(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about odd tags
            image = decoder(path)
        assert image.min() >= 0, "an image must lie in [0, 1]"
        assert image.max() <= 1, "an image must lie in [0, 1]"

    return Target(name, folder, sorted(seeds.iterdir()), use)


def _tables(name: str, folder: Path, seeds: Path) -> Target:
    return Target(name, folder, write_tables(seeds), use_table, mutate_parquet)


def _windows(name: str, folder: Path, seeds: Path) -> Target:
    windows = Windows()
    return Target(name, folder, windows.write(seeds), windows.use, lambda *a: mutate_tensors(*a, "windows"))


def _models(name: str, folder: Path, seeds: Path) -> Target:
    saved = SavedModel()
    return Target(name, folder, saved.write(seeds), saved.use, lambda *a: mutate_tensors(*a, "calibrator"))


_MAKERS: dict[str, Callable[[str, Path, Path], Target]] = {
    "calibrator": _calibrators, "cache": _cache, "results": _results, "monitor": _monitor, "npz": _npz, "pt2": _pt2,
    "onnx": _onnx, "lines": _lines, "requests": _requests, "journal": _journal, "images": _images,
    "tables": _tables, "windows": _windows, "models": _models,
}  # fmt: skip
#: The names of all targets.
NAMES = tuple(_MAKERS)
