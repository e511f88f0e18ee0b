"""driftcal paper"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.commands.paper_train import train
from driftcal.cli.console import Console
from driftcal.paper.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from driftcal.paper.paper_run import WrittenResult

paper = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    help="""Run the paper's experiments: one command for each table and figure.

    Each command writes the figure, and tables (CSV, LaTeX, Markdown) that include the published numbers. All commands share
    the cache of the models' logits. After an interruption, run the same command again.

    \b
    On bundled data, in about a minute:
      driftcal paper all
    \b
    On CIFAR-10 with networks whose weights are in DIR:
      driftcal paper table1 --data cifar10=FOLDER --networks resnet20,resnet44 --weights DIR
    """,
)


def _command(experiment: str, title: str) -> Callable[..., None]:
    def run(
        context: typer.Context,
        data: Annotated[
            list[str] | None,
            typer.Option(
                metavar="NAME=DIR",
                help="digits, cifar10=DIR or imagenet=DIR; also cifar10-c=DIR, imagenet-c=DIR, objectnet=DIR. Repeatable.",
                show_default="digits",
            ),
        ] = None,
        networks: Annotated[
            str | None,
            typer.Option(
                metavar="A,B=FILE,…",
                help="Networks by name (resnet20, vgg19, …), with a weights file, or as a whole model (mine=net.onnx).",
                show_default="all with weights",
            ),
        ] = None,
        weights: Annotated[
            Path | None,
            typer.Option(
                metavar="DIR",
                help="Folder of NETWORK.safetensors; paper train writes there.",
                show_default="runs/networks",
            ),
        ] = None,
        as_published: Annotated[
            bool,
            typer.Option(
                "--as-published",
                help="Settings of the paper's code: 10 bins, T at most 5, noise clipped on ImageNet only.",
            ),
        ] = False,
        images: Annotated[
            int | None,
            typer.Option(min=20, help="Only this many validation images, and as many test images.", show_default="all"),
        ] = None,
        test_images: Annotated[
            int | None,
            typer.Option(
                min=20, help="Only this many test images. With more of them, a later run goes on.", show_default="all"
            ),
        ] = None,
        tune_per_class: Annotated[
            int | None,
            typer.Option(
                min=1,
                help="ImageNet: tune on this many images of each class, test on the others.",
                show_default="half of the images, drawn at random",
            ),
        ] = None,
        h_images: Annotated[
            int | None,
            typer.Option(
                min=20, help="Tune -H on this many validation images, which costs 20 passes.", show_default="all"
            ),
        ] = None,
        output: Annotated[
            Path, typer.Option("--output", "-o", help="Folder for tables and figures.", callback=options.output_folder)
        ] = Path("runs/paper"),
        cache: Annotated[
            Path | None,
            typer.Option(metavar="DIR", help="Folder of cached logits.", show_default="OUTPUT/cache"),
        ] = None,
        random_state: options.RandomState = 0,
        as_json: options.Json = False,
        quiet: options.Quiet = False,
        dry_run: options.DryRun = False,
    ) -> None:
        from dataclasses import replace

        from driftcal.cli.tables import plan_lines
        from driftcal.paper.paper_run import PaperRun
        from driftcal.paper.paper_settings import AS_PUBLISHED, OURS
        from driftcal.paper.setups import SetupOptions

        console = Console(as_json, quiet)
        folders = dict(_name_and_folder(text) for text in data or ["digits"])
        paper_run = PaperRun.open(
            experiment,
            SetupOptions(folders, options.names(networks), weights, images, test_images, tune_per_class),
            settings=replace(AS_PUBLISHED if as_published else OURS, seed=random_state, h_images=h_images),
            output=output,
            cache=cache,
            command=context.obj,
            dry_run=dry_run,
        )
        for reason in paper_run.skipped:
            console.message(f"skipped {reason}")
        if paper_run.to_download:
            console.message(f"would download the weights of {', '.join(paper_run.to_download)}")
        plan = paper_run.plan(measure_time=dry_run)
        if dry_run:
            console.output({**plan.to_dict(), "folder": str(output)}, *plan_lines(plan), f"would write to {output}")
            return

        def report(written: WrittenResult) -> None:
            console.message(f"{written.result.experiment}: {written.result.title}, {len(written.files)} files")

        with console.progress("paper", plan.n_inputs) as bar:
            results = paper_run.run(on_progress=bar, on_written=report)
        console.output(
            {"folder": str(output), "inputs": bar.done, "skipped": list(paper_run.skipped), "experiments": list(map(_to_dict, results))},
            *(item for written in results if len(results) == 1 for item in _terminal_lines(written)),
            *(str(output / f"{written.result.experiment}.md") for written in results),
        )  # fmt: skip

    run.__doc__ = f"{title[0].upper()}{title[1:]}."
    return run


def _name_and_folder(text: str) -> tuple[str, str]:
    name, _, folder = text.partition("=")
    if name != "digits" and not folder:
        raise typer.BadParameter(
            f"must be digits or NAME=DIR, such as cifar10=data; it is {text!r}.", param_hint="--data"
        )
    return name, folder


def _to_dict(written: WrittenResult) -> dict[str, Any]:
    result = written.result
    return {
        "experiment": result.experiment,
        "title": result.title,
        "tables": {table.name: [dict(row) for row in table.rows] for table in result.tables},
        "notes": list(result.notes),
        "files": [str(file) for file in written.files],
    }


def _terminal_lines(written: WrittenResult) -> list[Any]:
    """The tables and notes of one experiment for a terminal."""
    from driftcal.cli.console import Sentences
    from driftcal.report.table import to_terminal

    lines: list[Any] = []
    for table in written.result.tables:
        lines += [table.title, to_terminal(table), ""]
    return [*lines, *(Sentences(note) for note in written.result.notes)]


for _name, _experiment in EXPERIMENTS.items():
    paper.command(_name)(_command(_name, _experiment.title))
paper.command("all")(_command("all", "every experiment that the data allow"))
paper.command()(train)
