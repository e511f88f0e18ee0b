"""What the network shows of an image beside its logits, for the research benchmark: pooled features.

Columns of every array: the logits, then the pooled features of three layers. So it is for networks of driftcal's zoo too, whose
logits are the first columns of the same arrays: one pass gives both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.drift.research_data import CLASSES, NETWORKS, Arrays, Data
from benchmarks.drift.research_tried import fit
from driftcal.bench import resnets
from driftcal.bench.through_onnx import to_onnx
from driftcal.bench.zoo import cifar10_network
from driftcal.calibrators import density, make_calibrator
from driftcal.calibrators.rungs import rung_weights
from driftcal.models import open_model
from driftcal.models.pytorch import load_weights
from driftcal.sources import cifar10

#: Channels at the ends of a CIFAR-10 ResNet's three stages.
WIDTHS = (16, 32, 64)
#: Training images that DAC compares with.
REFERENCE = 3_000
LOGITS, FEATURES = slice(0, CLASSES), slice(CLASSES, None)


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

    dtype = np.float32  # as they are kept: wide layers of many conditions are gigabytes

    def get(self, name: str) -> Arrays:
        return super().get(f"inside-{name}")

    def ladder(self, kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        return *super().ladder(kind, seed), self.training()

    def training(self) -> list[np.ndarray]:
        """The features of training images, layer by layer."""
        known = self.get("training")
        return layers_of(known["features"], known.get("widths", WIDTHS))

    def _compute(self, name: str) -> Arrays:
        name = name.removeprefix("inside-")
        if name != "training":
            return super()._compute(name)
        images = np.asarray(Image.open(self.cifar10 / "data_batch_1.png").convert("RGB")).reshape(-1, 32, 32, 3)
        return {"features": self._model()((images[:REFERENCE] / np.float32(255)).astype(np.float32))}

    def _model(self) -> Callable[[np.ndarray], np.ndarray]:
        return look_inside(self.network, self.weights / f"cifar10_{self.network}.safetensors")


class Trained(Inside):
    """As `Inside`, for a network that `driftcal paper train` wrote: it looks where the network's last three stages end."""

    def _compute(self, name: str) -> Arrays:
        if name != "inside-training":
            return super()._compute(name)
        found = cifar10_network(self.network, self.weights)
        images = found.learnt(cifar10(self.cifar10, part="train")).inputs()[:REFERENCE]
        seen = found.model.features(images[:1], found.layers)
        widths = [seen[layer].shape[1] for layer in found.layers]
        return {"features": self._model()(images), "widths": np.array(widths)}

    def _model(self) -> Callable[[np.ndarray], np.ndarray]:
        found = cifar10_network(self.network, self.weights)

        def look(images: np.ndarray) -> np.ndarray:
            rows = []
            for part in np.array_split(images, -(-len(images) // 250)):
                seen = found.model.features(part, ("logits", *found.layers))
                pooled = [seen[layer].mean((2, 3)) for layer in found.layers]
                rows.append(np.concatenate([seen["logits"], *pooled], axis=1))
            return np.concatenate(rows)

        return look


class TrainedLogits(Data):
    """The logits among the columns of `Trained`."""

    def _compute(self, name: str) -> Arrays:
        found = Trained(*self.given).get(name)
        return {key: value[..., LOGITS] if value.ndim == 3 else value for key, value in found.items()}


def data_of(network: str, *given) -> Data:
    """The logits of one of the two ResNets, or of a trained network."""
    return (Data if network in NETWORKS else TrainedLogits)(network, *given)


def inside_of(data: Data) -> Inside:
    """The same network with features."""
    return (Trained if isinstance(data, TrainedLogits) else Inside)(*data.given)


def layers_of(rows: np.ndarray, widths: Sequence[int]) -> list[np.ndarray]:
    """The features of rows (n, columns), layer by layer."""
    return np.split(rows[:, FEATURES].astype(np.float32), np.cumsum(widths)[:-1], axis=1)


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
        self.calibrator = fit(name, rungs[..., LOGITS].astype(np.float64), labels, clean_weight)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self.calibrator.predict_proba(rows[:, LOGITS].astype(np.float64))


class Looking:
    """A calibrator of driftcal's that looks inside the network, on all rungs; its rows are logits and features."""

    def __init__(self, name: str, rungs, labels, training, clean_weight: float | None = None, **options) -> None:
        weights, n, rows = rung_weights(len(rungs), clean_weight), len(labels), np.concatenate(rungs)
        self.calibrator, self.widths = make_calibrator(name, **options), [layer.shape[1] for layer in training]
        self.calibrator.fit(
            rows[:, LOGITS].astype(np.float64), np.tile(labels, len(rungs)), levels=np.repeat(np.arange(len(rungs)), n),
            sample_weight=None if weights is None else np.repeat(weights, n), features=layers_of(rows, self.widths),
            **({"reference": training} if self.calibrator.needs_reference else {}),
        )  # fmt: skip

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self.calibrator.predict_proba(*self.seen(rows))

    def seen(self, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        return rows[:, LOGITS].astype(np.float64), layers_of(rows, self.widths)


class Both:
    """A calibrator on the log-probabilities of `dac`, both on the same rungs."""

    def __init__(self, name: str, rungs, labels, training, clean_weight: float | None) -> None:
        self.first = Looking("dac", rungs, labels, training, clean_weight)
        self.second = fit(name, [self._log(one) for one in rungs], labels, clean_weight)

    def _log(self, rows: np.ndarray) -> np.ndarray:
        return self.first.calibrator.predict_log_proba(*self.first.seen(rows))

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self.second.predict_proba(self._log(rows))
