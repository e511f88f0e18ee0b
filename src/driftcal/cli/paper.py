"""driftcal paper"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Talk
from driftcal.cli.paper_train import train

#: id -> what it shows, in the order of the paper; a test holds this to the registry, which is slow to import
TITLES = {
    "table1": "mean ECE under drift of every calibrator",
    "shear": "accuracy, entropy and ECE against the level of one shift",
    "per-shift": "ECE of every shift, pooled over its levels",
    "by-level": "ECE and accuracy against the level of drift",
    "teaser": "confidence against accuracy under drift",
    "examples": "images clean and drifted, and how sure each calibrator is",
    "objectnet": "ECE on ObjectNet's classes that the network knows",
    "ood": "confidence where no answer is right",
    "accuracy": "accuracy in domain, at the strongest level, and what calibrators change",
    "in-domain": "ECE on untouched images",
    "baselines": "Platt scaling and binning",
    "debiased": "mean debiased ECE under drift",
    "nll": "mean negative log-likelihood under drift",
    "brier": "mean Brier score under drift",
    "delta": "share of the ECE that tuning on noise takes away",
    "val-size": "ECE and accuracy against the number of validation images",
    "val-shift": "tuning on corruptions (-H) instead of on noise (-P)",
    "guide": "which calibrator to choose",
    "beyond": "every calibrator, in domain and under drift, beside the paper's",
    "all": "all of these that the data allow",
}

paper = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    help="""The paper's experiments: every table and figure, one command each.

    Each writes CSV, LaTeX and Markdown tables with the paper's own figures beside ours where they exist, and the matching
    figure. The model's answers are kept and shared: run the same command again after an interruption, or another experiment.

    \b
    On bundled data, in about a minute:
      driftcal paper all
    \b
    On CIFAR-10 with networks whose weights lie in DIR:
      driftcal paper table1 --data cifar10=FOLDER --networks resnet20,resnet44 --weights DIR
    """,
)


def _command(experiment: str) -> Callable[..., None]:
    def run(
        context: typer.Context,
        data: Annotated[
            list[str] | None,
            typer.Option(
                metavar="NAME=DIR",
                help="digits, cifar10=DIR or imagenet=DIR; beside them cifar10-c=DIR, imagenet-c=DIR, objectnet=DIR. Repeatable.",
                show_default="digits",
            ),
        ] = None,
        networks: Annotated[
            str | None,
            typer.Option(
                metavar="A,B=FILE,…",
                help="By name (resnet20, vgg19, …), with a file of weights or a whole model (mine=net.onnx).",
                show_default="all whose weights are there",
            ),
        ] = None,
        weights: Annotated[
            Path | None,
            typer.Option(
                metavar="DIR",
                help="Where NETWORK.safetensors lie; paper train writes there.",
                show_default="runs/networks",
            ),
        ] = None,
        as_published: Annotated[
            bool,
            typer.Option(
                "--as-published", help="10 bins, T at most 5, CIFAR-10's noise not clipped, as the paper's code has it."
            ),
        ] = False,
        images: Annotated[
            int | None,
            typer.Option(min=20, help="Only so many validation and so many test images.", show_default="all"),
        ] = None,
        output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables and figures.")] = Path(
            "runs/paper"
        ),
        store: Annotated[
            Path | None,
            typer.Option(metavar="DIR", help="Keep the model's answers here.", show_default="OUTPUT/store"),
        ] = None,
        seed: options.Seed = 0,
        as_json: options.Json = False,
        quiet: options.Quiet = False,
        dry_run: options.DryRun = False,
    ) -> None:
        from driftcal.cli.tables import plan_lines
        from driftcal.paper.reproduction import Reproduction, Written

        talk = Talk(as_json, quiet)
        given = dict(_pair(text) for text in data or ["digits"])
        reproduction = Reproduction.open(
            experiment, data=given, networks=options.words(networks), weights=weights, as_published=as_published,
            images=images, output=output, store=store, seed=seed, command=context.obj, dry=dry_run,
        )  # fmt: skip
        for reason in reproduction.skipped:
            talk.say(f"left out {reason}")
        plan = reproduction.plan(clock=dry_run)
        if dry_run:
            talk.give({**plan.to_dict(), "folder": str(output)}, *plan_lines(plan), f"would write to {output}")
            return

        def say(written: Written) -> None:
            talk.say(f"{written.outcome.experiment}: {written.outcome.title}, {len(written.files)} files")

        with talk.progress("paper", plan.inputs) as bar:
            done = reproduction.run(on_progress=bar, on_done=say)
        talk.give(
            {"folder": str(output), "inputs": bar.done, "skipped": list(reproduction.skipped), "experiments": list(map(_plain, done))},
            *(item for written in done if len(done) == 1 for item in _shown(written)),
            *(str(output / f"{written.outcome.experiment}.md") for written in done),
        )  # fmt: skip

    title = TITLES[experiment]
    run.__doc__ = f"{title[0].upper()}{title[1:]}."
    return run


def _pair(text: str) -> tuple[str, str]:
    name, _, folder = text.partition("=")
    if name != "digits" and not folder:
        raise typer.BadParameter(
            f"must be digits or NAME=DIR, such as cifar10=data; it is {text!r}.", param_hint="--data"
        )
    return name, folder


def _plain(written: Any) -> dict[str, Any]:
    outcome = written.outcome
    return {
        "experiment": outcome.experiment,
        "title": outcome.title,
        "tables": {table.name: [dict(row) for row in table.rows] for table in outcome.tables},
        "notes": list(outcome.notes),
        "files": [str(file) for file in written.files],
    }


def _shown(written: Any) -> list[Any]:
    """The tables of one experiment for a terminal."""
    from driftcal.cli.console import Prose
    from driftcal.report.table import to_terminal

    shown: list[Any] = []
    for table in written.outcome.tables:
        shown += [table.title, to_terminal(table), ""]
    return [*shown, *(Prose(note) for note in written.outcome.notes)]


for _name in TITLES:
    paper.command(_name)(_command(_name))
paper.command()(train)
