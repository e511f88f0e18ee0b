"""Stored logits stay usable: fingerprints and cache keys are those of version 0.1.

Every digest in ``data/cache_keys.json`` was computed with that version. A change of one of them makes users compute
their logits again, so it needs a reason; ``python tests/test_cache_keys.py`` writes the file anew.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import driftcal
from driftcal.models import Preprocessing, open_model
from driftcal.pipeline.collecting.collect import Collector
from driftcal.shifts import SUITES, get_shift

FILE = Path(__file__).parent / "data" / "cache_keys.json"

#: Small numbers that every computer gives the same.
IMAGES = (np.arange(12 * 8 * 8 * 3) * 37 % 256).astype(np.uint8).reshape(12, 8, 8, 3)
LABELS = np.arange(12) % 3
FEATURES = np.column_stack([np.arange(8.0) * 2, np.arange(8) % 2, np.full(8, 3.0), np.arange(8)[::-1]])
WEIGHTS = (np.arange(8 * 8 * 3 * 3) % 7 - 3).astype(np.float32).reshape(192, 3)


class Linear(ClassifierMixin, BaseEstimator):
    """A classifier whose state does not depend on the version of scikit-learn, nor its name on who imports this file."""

    __module__ = "linear"

    def __init__(self) -> None:
        self.coef_, self.classes_ = WEIGHTS, np.arange(3)

    def decision_function(self, x: Any) -> Any:
        return np.asarray(x) @ self.coef_

    def predict(self, x: Any) -> Any:
        return self.decision_function(x).argmax(axis=1)


def torch_module() -> Any:
    import torch

    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3))
    with torch.no_grad():
        module[1].weight.copy_(torch.from_numpy(WEIGHTS.T.copy()))
        module[1].bias.zero_()
    return module


def onnx_file(folder: Path, *, external: bool = False) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["flat"], axis=1), helper.make_node("MatMul", ["flat", "w"], ["logits"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    where = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0} if external else {}
    onnx.save_model(model, folder / "net.onnx", **where)
    return folder / "net.onnx"


def image_folder(folder: Path) -> Path:
    """Three classes of plain PPM files, whose bytes no encoder decides."""
    for number, image in enumerate(IMAGES):
        path = folder / "abc"[number % 3] / f"{number:02d}.ppm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"P6\n8 8\n255\n" + image.tobytes())
    return folder


def sources(folder: Path) -> Iterator[tuple[str, driftcal.Source]]:
    yield "digits", driftcal.open_source("digits")
    yield "digits, a split", driftcal.open_source("digits").split(100, 50, random_state=3)[1]
    np.savez(folder / "images.npz", x=IMAGES, y=LABELS, class_names=np.array(["a", "b", "c"]))
    yield "npz", driftcal.open_source(folder / "images.npz")
    np.savez(folder / "features.npz", x=FEATURES, y=np.arange(8) % 2)
    yield "npz of features", driftcal.open_source(folder / "features.npz")
    yield "arrays", driftcal.open_source((IMAGES / np.float32(255), LABELS))
    yield "folder", driftcal.open_source(image_folder(folder / "images"))
    yield "folder, scaled", driftcal.open_source(folder / "images", size=(4, 6), crop=0.875, grey=True)


def models(folder: Path) -> Iterator[tuple[str, driftcal.Model]]:
    options: dict[str, Any] = {"batch_size": 4, "device": "cpu"}
    yield "torch", open_model(torch_module(), **options)
    yield (
        "torch, normalised",
        open_model(torch_module(), preprocessing=Preprocessing(mean=(0.5,), std=(0.25,), layout="NCHW"), **options),
    )
    yield "onnx", open_model(onnx_file(folder / "onnx"), **options)
    yield "onnx, external weights", open_model(onnx_file(folder / "external", external=True), **options)
    yield "scikit-learn", open_model(Linear(), batch_size=4)
    yield "callable", open_model(lambda batch: batch.reshape(len(batch), -1)[:, :3] * 4 - 1, batch_size=4)
    yield "named callable", open_model(lambda batch: batch, batch_size=4, name="v1")


def conditions() -> Iterator[tuple[str, Any, float]]:
    for suite in SUITES.values():
        inputs = FEATURES[..., None] if suite.name == "series" else FEATURES
        for shift in suite.fit(inputs, categorical=[1]).shifts:
            yield f"{suite.name}, {shift.name}", shift, 2
    yield "clean", get_shift("gaussian"), 0
    yield "gaussian", get_shift("gaussian"), 0.0025
    yield "gaussian, not clipped", get_shift("gaussian", clip=False), 0.0025
    yield "h_mixture", get_shift("h_mixture"), 3
    yield "varied", get_shift("varied"), 0.01
    yield "tabular_noise", get_shift("tabular_noise").fit(FEATURES, categorical=[1]), 0.5


def digests(folder: Path) -> dict[str, dict[str, str]]:
    """Every digest by name, as the installed version computes it."""
    found = {"sources": {}, "models": {}, "cache keys": {}, "pixels": {}}
    opened = dict(sources(folder))
    for name, source in opened.items():
        found["sources"][name] = source.fingerprint
        found["pixels"][name] = hashlib.sha256(source.inputs().tobytes()).hexdigest()
    for name, model in models(folder):
        found["models"][name] = (model if "named" in name else model.prepare(opened["npz"].inputs())).fingerprint
    collector = Collector(open_model(torch_module(), batch_size=4, device="cpu"), opened["npz"], random_state=7)
    for name, shift, level in conditions():
        found["cache keys"][name] = collector.key(shift, level).digest
    found["cache keys"]["features"] = collector.features_key(get_shift("gaussian"), 0.01, ["1"]).digest
    return found


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    return digests(tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("kind", ["sources", "models", "cache keys", "pixels"])
def test_digests_are_those_of_version_0_1(kind: str, computed: dict[str, dict[str, str]]) -> None:
    stored = json.loads(FILE.read_text())[kind]
    assert computed[kind].keys() >= stored.keys()
    assert {name: computed[kind][name] for name in stored} == stored


def test_the_key_of_clean_samples_does_not_depend_on_the_shift() -> None:
    model = open_model(lambda batch: batch.reshape(len(batch), -1)[:, :3] * 4 - 1, batch_size=4)
    collector = Collector(model, driftcal.open_source((IMAGES, LABELS)), random_state=7)
    shifts = [get_shift("gaussian"), get_shift("gaussian", clip=False), get_shift("fog"), get_shift("h_mixture")]
    assert len({collector.key(shift, 0).digest for shift in shifts}) == 1
    assert len({collector.features_key(shift, 0, ["1"]).digest for shift in shifts}) == 1
    assert collector.key(shifts[0], 0).shift == "none"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        FILE.write_text(json.dumps(digests(Path(made)), indent=1, sort_keys=True) + "\n")
