"""What the network shows of an image beside its logits, for the research benchmark: pooled features.

Columns of every array: the logits, then the pooled features of three layers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.drift.research_data import CLASSES, Arrays, Data
from benchmarks.drift.research_tried import fit
from driftcal.bench import resnets
from driftcal.bench.through_onnx import to_onnx
from driftcal.calibrators import density, make_calibrator
from driftcal.calibrators.rungs import rung_weights
from driftcal.models import open_model
from driftcal.models.pytorch import load_weights

WIDTHS = (16, 32, 64)
#: Training images that DAC compares with.
REFERENCE = 3_000
LOGITS, FEATURES = slice(0, CLASSES), slice(CLASSES, CLASSES + sum(WIDTHS))


class _Inside(torch.nn.Module):
    def __init__(self, net: resnets.CifarResNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = []
        x = torch.relu(self.net.bn1(self.net.conv1(x)))
        for stage in (self.net.layer1, self.net.layer2, self.net.layer3):
            x = stage(x)
            pooled.append(x.mean((2, 3)))
        return torch.cat([self.net.linear(pooled[-1]), *pooled], dim=1)


def look_inside(network: str, weights: Path) -> Callable[[np.ndarray], np.ndarray]:
    """images (n, 32, 32, 3) in [0, 1] -> (n, 122): logits, then features."""
    net = getattr(resnets, network)()
    load_weights(net, weights)
    steps = {"mean": resnets.MEAN, "std": resnets.STD}
    model = open_model(to_onnx(_Inside(net.eval()), (3, 32, 32)), preprocessing=steps, threads=1, batch_size=250)
    return lambda images: model.logits(np.asarray(images, np.float32))


class Inside(Data):
    """As `Data`, with these columns; a ladder brings the features of training images, for those that compare with them."""

    def get(self, name: str) -> Arrays:
        return super().get(f"inside-{name}")

    def ladder(self, kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return *super().ladder(kind, seed), self.get("training")["features"]

    def _compute(self, name: str) -> Arrays:
        name = name.removeprefix("inside-")
        if name != "training":
            return super()._compute(name)
        images = np.asarray(Image.open(self.cifar10 / "data_batch_1.png").convert("RGB")).reshape(-1, 32, 32, 3)
        return {"features": self._model()((images[:REFERENCE] / np.float32(255)).astype(np.float32))}

    def _model(self) -> Callable[[np.ndarray], np.ndarray]:
        return look_inside(self.network, self.weights / f"cifar10_{self.network}.safetensors")


def layers_of(rows: np.ndarray) -> list[np.ndarray]:
    """The features of rows (n, columns), layer by layer."""
    return np.split(rows[:, FEATURES].astype(np.float32), np.cumsum(WIDTHS)[:-1], axis=1)


_distances, _known = density.kth_distances, {}


def _remembered(rows: np.ndarray, reference: np.ndarray, k: int) -> np.ndarray:
    """The same rows meet the same training images again and again, whatever is made of their distances."""
    key = hashlib.sha1(rows.tobytes() + reference.tobytes()).digest(), k
    if key not in _known:
        _known[key] = _distances(rows, reference, k)
    return _known[key]


density.kth_distances = _remembered


class Plain:
    """A calibrator of driftcal's that needs logits only, for the same rows."""

    def __init__(self, name: str, rungs, labels, clean_weight: float | None = None) -> None:
        self.calibrator = fit(name, rungs[..., LOGITS], labels, clean_weight)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self.calibrator.predict_proba(rows[:, LOGITS])


class Looking:
    """A calibrator of driftcal's that looks inside the network, on all rungs; its rows are logits and features."""

    def __init__(self, name: str, rungs, labels, training, clean_weight: float | None = None, **options) -> None:
        weights, n, rows = rung_weights(len(rungs), clean_weight), len(labels), np.concatenate(rungs)
        self.calibrator = make_calibrator(name, **options)
        self.calibrator.fit(
            rows[:, LOGITS], np.tile(labels, len(rungs)), levels=np.repeat(np.arange(len(rungs)), n),
            sample_weight=None if weights is None else np.repeat(weights, n), features=layers_of(rows),
            **({"reference": layers_of(training)} if self.calibrator.needs_reference else {}),
        )  # fmt: skip

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self.calibrator.predict_proba(rows[:, LOGITS], layers_of(rows))


class Both:
    """A calibrator on the log-probabilities of `dac`, both on the same rungs."""

    def __init__(self, name: str, rungs, labels, training, clean_weight: float | None) -> None:
        self.first = Looking("dac", rungs, labels, training, clean_weight)
        self.second = fit(name, [self._log(one) for one in rungs], labels, clean_weight)

    def _log(self, rows: np.ndarray) -> np.ndarray:
        return self.first.calibrator.predict_log_proba(rows[:, LOGITS], layers_of(rows))

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self.second.predict_proba(self._log(rows))
