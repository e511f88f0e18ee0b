"""A case: one network with the data it is tuned and tested on, and the shifts it is tested under."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.data import Source, cifar10, digits, imagenet, objectnet
from driftcal.errors import InputError, UnknownName
from driftcal.models import Model, open_model
from driftcal.paper.corrupted_files import cifar10_c_on_disk, imagenet_c_on_disk
from driftcal.paper.digits import SPLIT, greyed, permuted_pixels, train_digits, write_small_objectnet
from driftcal.paper.networks.registry import (
    default_networks,
    network_label,
    open_cifar10_network,
    open_imagenet_network,
)
from driftcal.shifts import get_suite
from driftcal.shifts.shift import Shift

#: What --data may name: data sets with networks, then data that add to one of them.
DATA = ("digits", "cifar10", "imagenet", "cifar10-c", "imagenet-c", "objectnet")
#: How they are written in tables.
LABELS = {"digits": "Digits", "cifar10": "CIFAR-10", "imagenet": "ImageNet"}
#: It resembles the tuning noise: the paper's means leave it out, and so does every column here.
_TOO_NEAR = "gaussian_noise"
#: Training images that calibrators compare others with.
_TRAINING = 3_000


@dataclass(frozen=True, eq=False)
class Case:
    """`objectnet` holds known and unknown classes; `ood` names data for which no answer is right.

    `layers` are where calibrators may look inside the model, `training` reads some of the images it learnt from: () and None
    where that is not known.
    """

    network: str
    data: str
    model: Model
    validation: Source
    test: Source
    suite: str
    shifts: Sequence[Shift]
    objectnet: Source | None = None
    ood: Mapping[str, Source] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    training: Callable[[], Source] | None = None

    @property
    def name(self) -> str:
        """For file names."""
        usual = self.suite in ("affine", "imagenet-c")
        return self.network if usual else f"{self.network}-{self.suite}"

    @property
    def label(self) -> str:
        """For tables."""
        other = "" if self.suite in ("affine", "imagenet-c") else f", {self.suite}"
        return f"{LABELS[self.data]} {network_label(self.network)}{other}"

    @property
    def left_out(self) -> tuple[str, ...]:
        """Shifts that no mean counts."""
        return (_TOO_NEAR,) if any(shift.name == _TOO_NEAR for shift in self.shifts) else ()

    def describe(self) -> dict[str, Any]:
        """What to record beside results."""
        return {
            "network": self.network, "data": self.data, "suite": self.suite, "model": self.model.metadata(),
            "validation": self.validation.metadata(), "test": self.test.metadata(),
        }  # fmt: skip


@dataclass(frozen=True)
class Wish:
    """What the user asked for: data sets by name with their folders, networks, and how many images of each half."""

    data: Mapping[str, str]
    networks: Sequence[str] = ()
    weights: Path | None = None
    images: int | None = None
    scratch: Path = Path("runs/paper")


def open_cases(wish: Wish) -> list[Case]:
    """Every network that was asked for on every data set that was given."""
    for name in wish.data:
        if name not in DATA:
            raise UnknownName.of("data set", name, DATA)
    asked = [name for name in OPENERS if name in wish.data]
    if not asked:
        raise InputError(
            f"--data must name data with networks: {', '.join(OPENERS)}; it names {', '.join(wish.data) or 'nothing'}. "
            "cifar10-c goes with cifar10; imagenet-c and objectnet go with imagenet."
        )
    return [case for name in asked for case in OPENERS[name](wish)]


def _digits(wish: Wish) -> list[Case]:
    train, validation, test = digits().split(*SPLIT, seed=0)
    # far outside [0, 1], where noise is not clipped, some of its probabilities are exactly 0
    model = open_model(train_digits(train), outputs="probabilities", name="small neural network")
    tree = write_small_objectnet(test, wish.scratch / "small-objectnet")
    small = greyed(objectnet(tree, size=8, crop=1.0))
    return [
        Case(
            "mlp", "digits", model, _first(validation, wish.images), _first(test, wish.images),
            "affine", get_suite("affine").shifts, small, {"pixels permuted": permuted_pixels(_first(test, wish.images))},
        )
    ]  # fmt: skip


def _cifar10(wish: Wish) -> list[Case]:
    folder = wish.data["cifar10"]
    cases = []
    half, test = cifar10(folder).split(0.5, seed=0)[:2]
    suites: dict[str, Sequence[Shift]] = {"affine": get_suite("affine").shifts}
    if "cifar10-c" in wish.data:
        suites["cifar10-c"] = cifar10_c_on_disk(wish.data["cifar10-c"])
    for name in wish.networks or default_networks("cifar10", wish.weights):
        network = open_cifar10_network(name, wish.weights)
        # networks that saw all training images can only be tuned on test images
        validation = half if network.held_out is None else network.held_out(cifar10(folder, part="train"))
        parts = _first(validation, wish.images), _first(test, wish.images)
        cases += [
            Case(
                network.name, "cifar10", network.model, *parts, suite, shifts,
                ood={"pixels permuted": permuted_pixels(parts[1])}, layers=network.layers,
                training=None if network.trained_on is None else partial(_learnt, network.trained_on, folder),
            )
            for suite, shifts in suites.items()
        ]  # fmt: skip
    return cases


def _learnt(choose: Callable[[Source], Source], folder: str) -> Source:
    return _first(choose(cifar10(folder, part="train")), _TRAINING)


def _imagenet(wish: Wish) -> list[Case]:
    cases = []
    for name in wish.networks or default_networks("imagenet", wish.weights):
        network = open_imagenet_network(name, wish.weights)
        source = imagenet(wish.data["imagenet"], size=network.image_size)
        validation, test = (_first(part, wish.images) for part in source.split(0.5, seed=0)[:2])
        shifts: Sequence[Shift] = get_suite("imagenet-c").shifts
        if "imagenet-c" in wish.data:
            shifts = imagenet_c_on_disk(wish.data["imagenet-c"], network.image_size)
        other = objectnet(wish.data["objectnet"], size=network.image_size) if "objectnet" in wish.data else None
        ood = (
            {"pixels permuted": permuted_pixels(test)}
            if other is None
            else {"ObjectNet, other classes": other.unlabelled()}
        )
        cases.append(Case(network.name, "imagenet", network.model, validation, test, "imagenet-c", shifts, other, ood))
    return cases


def _first(source: Source, rows: int | None) -> Source:
    if rows is None or rows >= len(source):
        return source
    return source.subset(np.arange(rows), selection={"first": rows})


OPENERS: dict[str, Callable[[Wish], list[Case]]] = {"digits": _digits, "cifar10": _cifar10, "imagenet": _imagenet}
