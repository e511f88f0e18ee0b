"""A network in training: its steps, and checkpoints from which training continues with the same weights."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.data import Source
from driftcal.errors import DidNotConverge, ModelError, need
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.paper.networks import CIFAR10_MEAN, CIFAR10_STD
from driftcal.paper.training.training_data import augment, batch_of_step
from driftcal.paper.training.training_settings import TrainingSettings
from driftcal.types import Array

if TYPE_CHECKING:
    import torch
    from torch import nn

#: Images of a batch without gradients.
_EVALUATION_BATCH = 500


class Trainer:
    """Trains a network. Randomness depends on (seed, step) only, so weights, momenta and step are the whole state."""

    def __init__(
        self, network: nn.Module, data: Source, settings: TrainingSettings, *, seed: int, n_steps: int
    ) -> None:
        torch = need("torch", "torch")
        self.network, self.data, self.settings, self.seed, self.n_steps = network, data, settings, seed, n_steps
        self.step = 0
        self.seconds = 0.0
        self.optimiser = torch.optim.SGD(
            network.parameters(),
            lr=settings.peak_learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=True,
        )

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one pass over the data."""
        return max(1, len(self.data) // self.settings.batch_size)

    def advance(self) -> tuple[float, int]:
        """Make one step; return the loss and the number of correct predictions of the batch."""
        import torch
        from torch.nn import functional

        start = time.perf_counter()
        settings = self.settings
        indices = self.data.indices[batch_of_step(self.seed, self.step, len(self.data), settings.batch_size)]
        labels = torch.from_numpy(self.data.all_labels[indices])
        images = augment(_as_tensor(self.data.inputs(indices)), self.seed, self.step)
        for group in self.optimiser.param_groups:
            group["lr"] = settings.learning_rate(self.step, self.n_steps)
        self.network.train()
        self.optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.bfloat16):
            logits = self.network(images.contiguous(memory_format=torch.channels_last)).float()
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), settings.max_gradient_norm)
        self.optimiser.step()
        value = float(loss.detach())
        if not np.isfinite(value):
            raise DidNotConverge(
                f"training diverged at step {self.step} of {self.n_steps}: the loss is {value}. Use a lower learning rate than "
                f"{settings.peak_learning_rate:g}, or another seed."
            )
        self.step += 1
        self.seconds += time.perf_counter() - start
        return value, int((logits.argmax(1) == labels).sum())

    def save(self, path: Path, plan: dict[str, Any]) -> None:
        """Write a checkpoint, atomically."""
        arrays = {f"weights/{name}": _as_array(value) for name, value in self.network.state_dict().items()}
        for name, weight in self.network.named_parameters():
            arrays[f"momenta/{name}"] = _as_array(self.optimiser.state[weight]["momentum_buffer"])
        write_tensors(path, [arrays], {"plan": plan, "step": self.step, "seconds": self.seconds})

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        import torch

        file = read_tensors(path)
        if file is None:
            raise damaged_checkpoint(path)
        with torch.no_grad():
            for name, value in self.network.state_dict().items():
                value.copy_(_shaped_like(value, file.arrays[f"weights/{name}"]))
            for name, weight in self.network.named_parameters():
                buffer = torch.empty_like(weight).copy_(_shaped_like(weight, file.arrays[f"momenta/{name}"]))
                self.optimiser.state[weight]["momentum_buffer"] = buffer
        self.step, self.seconds = int(file.metadata["step"]), float(file.metadata["seconds"])


def damaged_checkpoint(path: Path) -> ModelError:
    """The error for a checkpoint that cannot be read."""
    return ModelError(f"{str(path)!r} is not an intact checkpoint. Remove it to start again.")


def save_weights(network: nn.Module, path: Path) -> None:
    """Write weights and running statistics as safetensors, for ``open_model(make_network(NAME), weights=path)``."""
    write_tensors(path, [{name: _as_array(value) for name, value in network.state_dict().items()}], {})


def accuracy(network: nn.Module, data: Source) -> float:
    """The accuracy of a network."""
    import torch

    network.eval()
    correct = 0
    with torch.inference_mode():
        for images, labels, _ in data.batches(_EVALUATION_BATCH):
            correct += int((network(_as_tensor(images)).argmax(1).numpy() == labels).sum())
    return correct / len(data)


def _as_tensor(images: Array) -> torch.Tensor:
    """Images (n, height, width, channels) in [0, 1], normalised; a transposed view, so channels are last in memory."""
    import torch

    normalised = (images - np.array(CIFAR10_MEAN, np.float32)) / np.array(CIFAR10_STD, np.float32)
    return torch.from_numpy(normalised).permute(0, 3, 1, 2)


def _as_array(value: torch.Tensor) -> Array:
    array: Array = value.detach().contiguous().numpy()
    return np.atleast_1d(array)


def _shaped_like(value: torch.Tensor, array: Array) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.array(array)).reshape(value.shape)
