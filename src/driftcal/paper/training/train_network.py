"""Trains a network of the paper. An interrupted training resumes and ends with the same weights."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from driftcal._version import __version__
from driftcal.data import Source
from driftcal.errors import InputError, ModelError
from driftcal.io.atomic import write_atomic
from driftcal.io.safetensors import read_tensors
from driftcal.paper.networks import CIFAR10_MEAN, CIFAR10_STD, make_network
from driftcal.paper.training.trainer import Trainer, accuracy, damaged_checkpoint, save_weights
from driftcal.paper.training.training_data import split_training
from driftcal.paper.training.training_settings import SETTINGS, TrainingSettings

WEIGHTS, CARD, CHECKPOINT = "weights.safetensors", "card.json", "checkpoint.safetensors"
#: Steps that are timed to turn minutes into steps.
_TIMED_STEPS = 3
#: Name of a setting in version 0.1 -> current name. There the settings were called "recipe".
_NAMES_0_1 = {"peak": "peak_learning_rate", "batch": "batch_size", "longest_gradient": "max_gradient_norm"}

#: Called with the name of the current epoch and the number of images that were just processed.
OnProgress = Callable[[str, int], None]


@dataclass(frozen=True)
class Budget:
    """How long to train: passes over the images, or minutes. A few timed steps convert minutes into steps."""

    epochs: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.minutes is None):
            count = "neither" if self.epochs is None else "both"
            raise InputError(f"give either epochs or minutes; {count} are given.")
        amount = self.epochs if self.minutes is None else self.minutes
        if amount is None or amount <= 0:
            raise InputError(f"epochs and minutes must be above 0; the budget is {amount}.")


def train_network(
    name: str,
    images: Source,
    test: Source,
    output: Path,
    *,
    budget: Budget,
    seed: int = 0,
    settings: TrainingSettings | None = None,
    save_every: float = 180.0,
    on_progress: OnProgress = lambda name, n_images: None,
) -> dict[str, Any]:
    """Train a network on nine tenths of the images; return its model card.

    After an interruption, a call with the same arguments continues from the last checkpoint. It ends with the same bits
    as a training without interruption.

    Parameters
    ----------
    name : name of the network.
    images : training images; a tenth of them is held out for calibration.
    test : test images.
    output : folder of weights, model card and checkpoint.
    budget : how long to train.
    seed : seed of the split, the initial weights, the batches and the augmentation.
    settings : optimiser and schedule; None for those of `SETTINGS`.
    save_every : seconds between checkpoints.
    on_progress : called after each step.
    """
    train, held_out = split_training(images, seed=seed)
    used_settings = settings or SETTINGS.get(name, TrainingSettings())
    if len(train) < used_settings.batch_size:
        raise InputError(
            f"a training needs at least one batch of {used_settings.batch_size} images; {images.name} has {len(train)}."
        )
    network = make_network(name, images.n_classes, seed=seed)
    output.mkdir(parents=True, exist_ok=True)
    plan = {
        "network": name, "seed": seed, "budget": asdict(budget), "settings": asdict(used_settings),
        "images": images.fingerprint,
    }  # fmt: skip
    finished = _finished_card(output, plan)
    if finished is not None:
        return finished
    n_steps = _planned_steps(output, plan)
    checkpoint = output / CHECKPOINT
    trainer = Trainer(network, train, used_settings, seed=seed, n_steps=n_steps or 1)
    if n_steps is None:
        trainer.n_steps = steps_for(budget, name, train, used_settings, seed=seed)
    else:
        trainer.load(checkpoint)
    plan["steps"] = trainer.n_steps
    if trainer.step:
        on_progress("resumed", trainer.step * used_settings.batch_size)
    _run_steps(trainer, checkpoint, plan, save_every, on_progress)
    card = {
        **plan,
        **_card(trainer, train, held_out, test),
        "data": {"train": images.name, "test": test.name, "classes": list(images.class_names)},
    }
    save_weights(network, output / WEIGHTS)
    write_atomic(output / CARD, (json.dumps(card, indent=2) + "\n").encode())
    checkpoint.unlink(missing_ok=True)
    return card


def steps_for(budget: Budget, name: str, train: Source, settings: TrainingSettings, *, seed: int) -> int:
    """The number of steps of a budget. Minutes are measured on a copy of the network before the training."""
    if budget.minutes is None:
        return (budget.epochs or 0) * (len(train) // settings.batch_size)
    trial = Trainer(make_network(name, train.n_classes, seed=seed), train, settings, seed=seed, n_steps=1)
    trial.advance()  # the first step allocates memory
    trial.seconds = 0.0
    for _ in range(_TIMED_STEPS):
        trial.advance()
    return max(1, round(budget.minutes * 60 / (trial.seconds / _TIMED_STEPS)))


def _run_steps(
    trainer: Trainer, checkpoint: Path, plan: dict[str, Any], save_every: float, on_progress: OnProgress
) -> None:
    saved = time.monotonic()
    n_epochs = -(-trainer.n_steps // trainer.steps_per_epoch)
    batch_size = trainer.settings.batch_size
    loss, share_correct = 0.0, 0.0
    while trainer.step < trainer.n_steps:
        batch_loss, n_correct = trainer.advance()
        # averages over about the last hundred batches
        momentum = 0.99 if trainer.step > 1 and loss else 0.0
        loss = momentum * loss + (1 - momentum) * batch_loss
        share_correct = momentum * share_correct + (1 - momentum) * n_correct / batch_size
        epoch = (trainer.step - 1) // trainer.steps_per_epoch + 1
        on_progress(f"epoch {epoch} of {n_epochs}, loss {loss:.3f}, accuracy {share_correct:.1%}", batch_size)
        if time.monotonic() - saved >= save_every and trainer.step < trainer.n_steps:
            trainer.save(checkpoint, plan)
            saved = time.monotonic()


def _card(trainer: Trainer, train: Source, held_out: Source, test: Source) -> dict[str, Any]:
    import torch

    return {
        "epochs": trainer.step * trainer.settings.batch_size / len(train),
        "validation_accuracy": accuracy(trainer.network, held_out),
        "test_accuracy": accuracy(trainer.network, test),
        "seconds": trainer.seconds,
        "split": {
            "seed": trainer.seed, "train": len(train), "held_out": len(held_out), "held_out_fingerprint": held_out.fingerprint,
        },
        "preprocessing": {"mean": list(CIFAR10_MEAN), "std": list(CIFAR10_STD)},
        "versions": {"driftcal": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "threads": torch.get_num_threads(),
    }  # fmt: skip


def _finished_card(output: Path, plan: dict[str, Any]) -> dict[str, Any] | None:
    """The card of a finished training with this plan; None if there is no card. A card of another plan is refused."""
    try:
        card: dict[str, Any] = json.loads((output / CARD).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{str(output / CARD)!r} is not a model card: {error}. Remove it to train again.") from error
    _check_same_plan(output, card, plan)
    return card


def _planned_steps(output: Path, plan: dict[str, Any]) -> int | None:
    """The number of steps in the plan of the checkpoint; None if there is no checkpoint."""
    file = read_tensors(output / CHECKPOINT)
    if file is None:
        if (output / CHECKPOINT).exists():
            raise damaged_checkpoint(output / CHECKPOINT)
        return None
    _check_same_plan(output, file.metadata.get("plan", {}), plan)
    return int(file.metadata["plan"]["steps"])


def _check_same_plan(output: Path, stored: dict[str, Any], plan: dict[str, Any]) -> None:
    if "recipe" in stored:
        settings = {_NAMES_0_1.get(name, name): value for name, value in stored["recipe"].items()}
        stored = {**stored, "settings": settings}
    for key, value in plan.items():
        if stored.get(key) != value:
            raise ModelError(
                f"{str(output)!r} holds another training: its {key} is {stored.get(key)}, not {value}. Choose another output "
                "folder, or remove this one."
            )
