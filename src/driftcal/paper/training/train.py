"""Training a network of the paper, cut off at any time and resumed to the same weights."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal._version import __version__
from driftcal.data import Source
from driftcal.errors import DidNotConverge, InputError, ModelError, need
from driftcal.io.atomic import write_atomic
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.paper.networks import CIFAR10_MEAN, CIFAR10_STD, make_network
from driftcal.paper.training.schedule import RECIPES, Recipe, augment, rows_of_step, split_training
from driftcal.types import Array, Labels

if TYPE_CHECKING:
    import torch
    from torch import nn

WEIGHTS, CARD, CHECKPOINT = "weights.safetensors", "card.json", "checkpoint.safetensors"
_TRIAL = 3  # steps that are timed to turn minutes into steps
_ROWS = 500  # images in a batch of an evaluation

#: what is going on, and how many more images were seen
OnProgress = Callable[[str, int], None]


@dataclass(frozen=True)
class Budget:
    """How long to train: whole passes over the images, or minutes, which become steps by timing a few of them first."""

    epochs: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.minutes is None):
            raise InputError(
                "say either epochs or minutes; " + ("neither" if self.epochs is None else "both") + " is given."
            )
        if (self.epochs or self.minutes or 0) <= 0:
            raise InputError(
                f"a budget must be more than 0; it is {self.epochs if self.minutes is None else self.minutes}."
            )


class Trainer:
    """One network in training. All chance is a pure function of (seed, step), so weights, momenta and step are all its state."""

    def __init__(self, network: nn.Module, data: Source, recipe: Recipe, *, seed: int, steps: int) -> None:
        torch = need("torch", "torch")
        self.network, self.data, self.recipe, self.seed, self.steps = network, data, recipe, seed, steps
        self.step = 0
        self.seconds = 0.0
        self.optimiser = torch.optim.SGD(
            network.parameters(),
            lr=recipe.peak,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            nesterov=True,
        )

    def advance(self) -> tuple[float, int]:
        """One step; the loss and how many of its images were right."""
        import torch
        from torch.nn import functional

        begun = time.perf_counter()
        rows = self.data.indices[rows_of_step(self.seed, self.step, len(self.data), self.recipe.batch)]
        labels = torch.from_numpy(self.data.all_labels[rows])
        images = augment(_tensor(self.data.inputs(rows)), self.seed, self.step)
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.step_size(self.step, self.steps)
        self.network.train()
        self.optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.bfloat16):
            logits = self.network(images.contiguous(memory_format=torch.channels_last)).float()
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.longest_gradient)
        self.optimiser.step()
        value = float(loss.detach())
        if not np.isfinite(value):
            raise DidNotConverge(
                f"training diverged at step {self.step} of {self.steps}: the loss is {value}. Use a smaller step size than "
                f"{self.recipe.peak:g}, or another seed."
            )
        self.step += 1
        self.seconds += time.perf_counter() - begun
        return value, int((logits.argmax(1) == labels).sum())

    def save(self, path: Path, plan: dict[str, Any]) -> None:
        """Weights, momenta and step, whole or not at all."""
        arrays = {f"weights/{name}": _array(value) for name, value in self.network.state_dict().items()}
        for name, weight in self.network.named_parameters():
            arrays[f"momenta/{name}"] = _array(self.optimiser.state[weight]["momentum_buffer"])
        write_tensors(path, [arrays], {"plan": plan, "step": self.step, "seconds": self.seconds})

    def load(self, path: Path) -> None:
        """Go on where `save` was called."""
        import torch

        file = read_tensors(path)
        if file is None:
            raise ModelError(f"{str(path)!r} is not an intact checkpoint. Remove it to begin again.")
        state = self.network.state_dict()
        with torch.no_grad():
            for name, value in state.items():
                value.copy_(_like(file.arrays[f"weights/{name}"], value))
            for name, weight in self.network.named_parameters():
                buffer = torch.empty_like(weight).copy_(_like(file.arrays[f"momenta/{name}"], weight))
                self.optimiser.state[weight]["momentum_buffer"] = buffer
        self.step, self.seconds = int(file.metadata["step"]), float(file.metadata["seconds"])


def train_network(
    name: str,
    images: Source,
    test: Source,
    output: Path,
    *,
    budget: Budget,
    seed: int = 0,
    recipe: Recipe | None = None,
    save_every: float = 180.0,
    on_progress: OnProgress = lambda what, rows: None,
) -> dict[str, Any]:
    """Train network `name` on nine tenths of `images`; weights, a results card and checkpoints go to `output`.

    Called again with the same arguments it goes on at the last checkpoint (at most `save_every` seconds are lost) and
    ends with the same weights, bit by bit, as if it had never been cut. Returns the card.
    """
    train, held_out = split_training(images, seed=seed)
    chosen = recipe or RECIPES.get(name, Recipe())
    if len(train) < chosen.batch:
        raise InputError(f"{images.name} must have {chosen.batch} images to train on, one batch; it has {len(train)}.")
    network = make_network(name, images.n_classes, seed=seed)
    output.mkdir(parents=True, exist_ok=True)
    plan = {
        "network": name, "seed": seed, "budget": asdict(budget), "recipe": asdict(chosen), "images": images.fingerprint,
    }  # fmt: skip
    finished = _finished(output, plan)
    if finished is not None:
        return finished
    steps = _planned_steps(output, plan)
    checkpoint = output / CHECKPOINT
    trainer = Trainer(network, train, chosen, seed=seed, steps=steps or 1)
    if steps is None:
        trainer.steps = steps_for(budget, name, train, chosen, seed=seed)
    else:
        trainer.load(checkpoint)
    plan["steps"] = trainer.steps
    if trainer.step:
        on_progress("resumed", trainer.step * chosen.batch)
    _run(trainer, checkpoint, plan, save_every, on_progress)
    card = _card(trainer, plan, train, held_out, test, images)
    save_weights(network, output / WEIGHTS)
    write_atomic(output / CARD, (json.dumps(card, indent=2) + "\n").encode())
    checkpoint.unlink(missing_ok=True)
    return card


def save_weights(network: nn.Module, path: Path) -> None:
    """Weights and running statistics as safetensors, for ``open_model(make_network(NAME), weights=path)``."""
    write_tensors(path, [{name: _array(value) for name, value in network.state_dict().items()}], {})


def steps_for(budget: Budget, name: str, train: Source, recipe: Recipe, *, seed: int) -> int:
    """How many steps a budget buys. Minutes are measured on a throw-away copy, so that the schedule is fixed beforehand."""
    per_epoch = len(train) // recipe.batch
    if budget.epochs is not None:
        return budget.epochs * per_epoch
    assert budget.minutes is not None
    trial = Trainer(make_network(name, train.n_classes, seed=seed), train, recipe, seed=seed, steps=1)
    trial.advance()  # the first one prepares memory
    trial.seconds = 0.0
    for _ in range(_TRIAL):
        trial.advance()
    return max(1, round(budget.minutes * 60 / (trial.seconds / _TRIAL)))


def accuracy(network: nn.Module, data: Source) -> float:
    """The share of `data` that `network`, as it is, gets right."""
    import torch

    network.eval()
    right = 0
    with torch.inference_mode():
        for images, labels, _ in data.batches(_ROWS):
            right += _right(network(_tensor(images)), labels)
    return right / len(data)


def _run(trainer: Trainer, checkpoint: Path, plan: dict[str, Any], save_every: float, on_progress: OnProgress) -> None:
    saved = time.monotonic()
    per_epoch = max(1, len(trainer.data) // trainer.recipe.batch)
    loss, right = 0.0, 0.0
    while trainer.step < trainer.steps:
        value, hits = trainer.advance()
        # about the last hundred batches
        keep = 0.99 if trainer.step > 1 and loss else 0.0
        loss = keep * loss + (1 - keep) * value
        right = keep * right + (1 - keep) * hits / trainer.recipe.batch
        epoch = (trainer.step - 1) // per_epoch + 1
        on_progress(
            f"epoch {epoch} of {-(-trainer.steps // per_epoch)}, loss {loss:.3f}, {right:.1%} right",
            trainer.recipe.batch,
        )
        if time.monotonic() - saved >= save_every and trainer.step < trainer.steps:
            trainer.save(checkpoint, plan)
            saved = time.monotonic()


def _card(
    trainer: Trainer, plan: dict[str, Any], train: Source, held_out: Source, test: Source, images: Source
) -> dict[str, Any]:
    import torch

    return {
        **plan,
        "epochs": trainer.step * trainer.recipe.batch / len(train),
        "validation_accuracy": accuracy(trainer.network, held_out),
        "test_accuracy": accuracy(trainer.network, test),
        "seconds": trainer.seconds,
        "split": {
            "seed": plan["seed"], "train": len(train), "held_out": len(held_out), "held_out_fingerprint": held_out.fingerprint,
        },
        "data": {"train": images.name, "test": test.name, "classes": list(images.class_names)},
        "preprocessing": {"mean": list(CIFAR10_MEAN), "std": list(CIFAR10_STD)},
        "versions": {"driftcal": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "threads": torch.get_num_threads(),
    }  # fmt: skip


def _finished(output: Path, plan: dict[str, Any]) -> dict[str, Any] | None:
    """The card of the same training, if it came to its end here; a card of another one is an error."""
    try:
        card: dict[str, Any] = json.loads((output / CARD).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{str(output / CARD)!r} is not a results card: {error}. Remove it to train again.") from error
    _same_plan(output, card, plan)
    return card


def _planned_steps(output: Path, plan: dict[str, Any]) -> int | None:
    """How many steps the checkpoint here is on its way to; None where there is none."""
    file = read_tensors(output / CHECKPOINT)
    if file is None:
        if (output / CHECKPOINT).exists():
            raise ModelError(f"{str(output / CHECKPOINT)!r} is not an intact checkpoint. Remove it to begin again.")
        return None
    _same_plan(output, file.metadata.get("plan", {}), plan)
    return int(file.metadata["plan"]["steps"])


def _same_plan(output: Path, there: dict[str, Any], plan: dict[str, Any]) -> None:
    for key, wish in plan.items():
        if there.get(key) != wish:
            raise ModelError(
                f"{str(output)!r} holds another training: its {key} is {there.get(key)}, not {wish}. Choose another output "
                "folder, or remove this one."
            )


def _tensor(images: Array) -> torch.Tensor:
    """Images (n, height, width, channels) in [0, 1] as the networks want them: a view, hence channels last in memory."""
    import torch

    return torch.from_numpy((images - np.array(CIFAR10_MEAN, np.float32)) / np.array(CIFAR10_STD, np.float32)).permute(
        0, 3, 1, 2
    )


def _right(logits: torch.Tensor, labels: Labels) -> int:
    return int((logits.argmax(1).numpy() == labels).sum())


def _array(value: torch.Tensor) -> Array:
    array: Array = value.detach().contiguous().numpy()
    return np.atleast_1d(array)


def _like(array: Array, value: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.array(array)).reshape(value.shape)
