"""Opens networks with their data by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from driftcal.data import Source, cifar10, digits, imagenet, objectnet
from driftcal.errors import InputError, UnknownName
from driftcal.paper.networks.registry import (
    default_networks,
    open_cifar10_network,
    open_imagenet_network,
)
from driftcal.paper.setups.corrupted_files import cifar10_c_on_disk, imagenet_c_on_disk
from driftcal.paper.setups.digits_network import open_digits_network, split_digits
from driftcal.paper.setups.permuted_pixels import permuted_pixels
from driftcal.paper.setups.setup import Setup
from driftcal.paper.setups.small_objectnet import open_small_objectnet
from driftcal.shifts import get_suite
from driftcal.shifts.shift import Shift

#: The names for ``--data``: data sets with networks, then data that belong to one of them.
DATA = ("digits", "cifar10", "imagenet", "cifar10-c", "imagenet-c", "objectnet")
#: Batches of ImageNet images that are cached under one key: a run with more images goes on from those of an earlier one.
_BATCHES_PER_BLOCK = 25
#: The share of ImageNet's classes that is left out for the comparison with unknown classes: one in so many.
_LEFT_OUT = 10
#: The number of training images that calibrators compare inputs with.
_N_TRAINING = 3_000


@dataclass(frozen=True)
class SetupOptions:
    """The networks and data to open.

    Parameters
    ----------
    data : names of data sets with their folders.
    networks : names of networks; () for all with weights in the folder.
    weights : folder of weights.
    n_images : take only the first `n_images` validation and test images; None for all.
    n_test_images : take only the first `n_test_images` test images; None for `n_images`.
    tune_per_class : how many images of each ImageNet class are validation images; None for half of all images.
    scratch : folder for data that are generated.
    download : whether weights may be downloaded; if not, networks without weights get random ones.
    """

    data: Mapping[str, str]
    networks: Sequence[str] = ()
    weights: Path | None = None
    n_images: int | None = None
    n_test_images: int | None = None
    tune_per_class: int | None = None
    scratch: Path = Path("runs/paper")
    download: bool = True


def open_setups(options: SetupOptions) -> list[Setup]:
    """Every network on every data set that the options name."""
    for name in options.data:
        if name not in DATA:
            raise UnknownName.of("data set", name, DATA)
    with_networks = [name for name in OPENERS if name in options.data]
    if not with_networks:
        raise InputError(
            f"--data must name data with networks: {', '.join(OPENERS)}; it names {', '.join(options.data) or 'nothing'}. "
            "cifar10-c goes with cifar10; imagenet-c and objectnet go with imagenet."
        )
    return [setup for name in with_networks for setup in OPENERS[name](options)]


def first_samples(source: Source, n_samples: int | None) -> Source:
    """The first samples of a source; all of them for None."""
    if n_samples is None or n_samples >= len(source):
        return source
    return source.subset(np.arange(n_samples), selection={"first": n_samples})


def _digits(options: SetupOptions) -> list[Setup]:
    train, validation, test = split_digits(digits())
    small_objectnet = open_small_objectnet(test, options.scratch / "small-objectnet")
    validation, test = (first_samples(part, options.n_images) for part in (validation, test))
    ood = {"pixels permuted": permuted_pixels(test)}
    shifts = get_suite("affine").shifts
    return [
        Setup(open_digits_network(train), "digits", validation, test, "affine", shifts, small_objectnet, ood),
    ]


def _cifar10(options: SetupOptions) -> list[Setup]:
    folder = options.data["cifar10"]
    first_half, second_half = cifar10(folder).split(0.5, random_state=0)[:2]
    test = first_samples(second_half, options.n_images)
    suites: dict[str, Sequence[Shift]] = {"affine": get_suite("affine").shifts}
    if "cifar10-c" in options.data:
        suites["cifar10-c"] = cifar10_c_on_disk(options.data["cifar10-c"])
    setups = []
    for name in options.networks or default_networks("cifar10", options.weights):
        network = open_cifar10_network(name, options.weights)
        # networks that were trained on all training images can only be tuned on test images
        held_out = first_half if network.held_out is None else network.held_out(cifar10(folder, part="train"))
        validation = first_samples(held_out, options.n_images)
        training = None if network.trained_on is None else partial(_training_images, network.trained_on, folder)
        setups += [
            Setup(
                network, "cifar10", validation, test, suite, shifts,
                ood={"pixels permuted": permuted_pixels(test)}, training=training,
            )
            for suite, shifts in suites.items()
        ]  # fmt: skip
    return setups


def _training_images(trained_on: Callable[[Source], Source], folder: str) -> Source:
    return first_samples(trained_on(cifar10(folder, part="train")), _N_TRAINING)


def _imagenet(options: SetupOptions) -> list[Setup]:
    setups = []
    for name in options.networks or default_networks("imagenet", options.weights):
        network = open_imagenet_network(name, options.weights, download=options.download)
        source = imagenet(options.data["imagenet"], size=network.image_size)
        validation, test = _split_imagenet(source, options)
        shifts: Sequence[Shift] = get_suite("imagenet-c").shifts
        if "imagenet-c" in options.data:
            shifts = imagenet_c_on_disk(options.data["imagenet-c"], network.image_size)
        objectnet_images, ood = None, {"pixels permuted": permuted_pixels(test)}
        if "objectnet" in options.data:
            objectnet_images = objectnet(options.data["objectnet"], size=network.image_size)
            ood = {"ObjectNet, other classes": objectnet_images.unlabelled()}
        setups.append(
            Setup(
                network, "imagenet", validation, test, "imagenet-c", shifts, objectnet_images, ood,
                left_out_classes=_left_out_classes(source.n_classes), block_size=_BATCHES_PER_BLOCK * network.model.batch_size,
            )
        )  # fmt: skip
    return setups


def _left_out_classes(n_classes: int) -> tuple[int, ...]:
    return tuple(sorted(np.random.default_rng(0).permutation(n_classes)[: n_classes // _LEFT_OUT].tolist()))


def _split_imagenet(source: Source, options: SetupOptions) -> tuple[Source, Source]:
    if options.tune_per_class is None:
        validation, test = source.split(0.5, random_state=0)[:2]
    else:
        validation, test = source.split_classes(options.tune_per_class, random_state=0)
    n_test_images = options.n_images if options.n_test_images is None else options.n_test_images
    return first_samples(validation, options.n_images), first_samples(test, n_test_images)


#: Data set -> function that opens its setups.
OPENERS: dict[str, Callable[[SetupOptions], list[Setup]]] = {
    "digits": _digits,
    "cifar10": _cifar10,
    "imagenet": _imagenet,
}
