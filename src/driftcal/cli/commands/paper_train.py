"""driftcal paper train"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftcal.cli import options
from driftcal.cli.console import Console
from driftcal.core.progress import duration
from driftcal.paper.networks import CIFAR10_NETWORKS


def train(
    network: Annotated[str, typer.Argument(help=f"{', '.join(CIFAR10_NETWORKS)}.", metavar="NETWORK")],
    data: Annotated[str, typer.Option(help="Folder of CIFAR-10: cifar10=DIR.", metavar="NAME=DIR")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Weights are written to OUTPUT/NETWORK.",
            metavar="DIR",
            callback=options.output_folder,
        ),
    ] = Path("runs/networks"),
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the 45,000 images.", show_default="10 without --minutes")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Train for about this many minutes instead; the number of steps is fixed at the start."),
    ] = None,
    bfloat16: Annotated[
        bool,
        typer.Option("--bfloat16", help="Multiply in bfloat16: about twice as fast on processors that support it."),
    ] = False,
    random_state: options.RandomState = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Train one of the paper's CIFAR-10 networks; after an interruption the same command continues.

    45,000 images are for training and 5,000 for calibration. Images are rotated by up to 15°, moved by up to a tenth of
    their size, and mirrored. The learning rate follows one cycle. An interruption does not change the final weights.

    \b
      driftcal paper train mobilenetv2 --data cifar10=data/cifar10 --epochs 10
    """
    from dataclasses import replace

    from driftcal.data import cifar10
    from driftcal.errors import UnknownName
    from driftcal.paper.training.train_network import Budget, train_network
    from driftcal.paper.training.training_settings import SETTINGS, TrainingSettings

    console = Console(as_json, quiet)
    if network not in CIFAR10_NETWORKS:
        raise UnknownName.of("network", network, CIFAR10_NETWORKS)
    name, _, folder = data.partition("=")
    if name != "cifar10" or not folder:
        raise typer.BadParameter(f"must be cifar10=DIR; it is {data!r}.", param_hint="--data")
    budget = Budget(10 if epochs is None and minutes is None else epochs, minutes)
    network_folder = output / network
    if dry_run:
        length = f"{budget.epochs} epochs" if budget.minutes is None else f"about {budget.minutes:g} minutes"
        console.output({"network": network, "epochs": budget.epochs, "minutes": budget.minutes, "output": str(network_folder)},
                  f"would train {network} for {length} and write {network_folder}")  # fmt: skip
        return
    images, test = cifar10(folder, part="train"), cifar10(folder, part="test")
    with console.progress(f"train {network}", 45_000 * (budget.epochs or 0)) as bar:
        settings = replace(SETTINGS.get(network, TrainingSettings()), bfloat16=bfloat16)
        card = train_network(
            network, images, test, network_folder, budget=budget, seed=random_state, settings=settings, on_progress=bar
        )
    console.message(
        f"{network}: accuracy {card['test_accuracy']:.1%} on test images, {card['validation_accuracy']:.1%} on held-out "
        f"images, after {card['epochs']:.1f} epochs in {duration(card['seconds'])}."
    )
    console.output(card, str(network_folder / "weights.safetensors"))
