"""driftcal paper train"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftcal.cli import options
from driftcal.cli.console import Talk, duration
from driftcal.paper.networks import CIFAR10_NETWORKS


def train(
    network: Annotated[str, typer.Argument(help=f"{', '.join(CIFAR10_NETWORKS)}.", metavar="NETWORK")],
    data: Annotated[str, typer.Option(help="Where CIFAR-10 lies: cifar10=DIR.", metavar="NAME=DIR")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Weights go to OUTPUT/NETWORK.", metavar="DIR")] = Path(
        "runs/networks"
    ),
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the 45,000 images.", show_default="10 without --minutes")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Train about so long instead; the schedule is planned beforehand.")
    ] = None,
    bfloat16: Annotated[
        bool,
        typer.Option("--bfloat16", help="Multiply in bfloat16: about twice as fast on processors that know it."),
    ] = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Train one of the paper's CIFAR-10 networks; cut off, the same command goes on where it was.

    45,000 images to train on and 5,000 for calibration, turned by up to 15°, moved by up to a tenth, mirrored; one cycle
    of step sizes. A run that was cut ends with the same weights as one that was not.

    \b
      driftcal paper train mobilenetv2 --data cifar10=data/cifar10 --epochs 10
    """
    from dataclasses import replace

    from driftcal.data import cifar10
    from driftcal.errors import UnknownName
    from driftcal.paper.training.schedule import RECIPES, Recipe
    from driftcal.paper.training.train import Budget, train_network

    talk = Talk(as_json, quiet)
    if network not in CIFAR10_NETWORKS:
        raise UnknownName.of("network", network, CIFAR10_NETWORKS)
    name, _, folder = data.partition("=")
    if name != "cifar10" or not folder:
        raise typer.BadParameter(f"must be cifar10=DIR; it is {data!r}.", param_hint="--data")
    budget = Budget(10 if epochs is None and minutes is None else epochs, minutes)
    home = output / network
    if dry_run:
        length = f"{budget.epochs} epochs" if budget.minutes is None else f"about {budget.minutes:g} minutes"
        talk.give({"network": network, "epochs": budget.epochs, "minutes": budget.minutes, "output": str(home)},
                  f"would train {network} for {length} and write {home}")  # fmt: skip
        return
    images, test = cifar10(folder, part="train"), cifar10(folder, part="test")
    with talk.progress(f"train {network}", 45_000 * (budget.epochs or 0)) as bar:
        recipe = replace(RECIPES.get(network, Recipe()), bfloat16=bfloat16)
        card = train_network(network, images, test, home, budget=budget, seed=seed, recipe=recipe, on_progress=bar)
    talk.say(
        f"{network}: {card['test_accuracy']:.1%} of the test images right, {card['validation_accuracy']:.1%} of those held "
        f"out, after {card['epochs']:.1f} epochs in {duration(card['seconds'])}."
    )
    talk.give(card, str(home / "weights.safetensors"))
