"""driftcal demo"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console, Sentences


@options.with_model_options
def demo(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder for report, results and calibrator.", callback=options.output_folder
        ),
    ] = Path("driftcal-demo"),
    data: Annotated[
        str,
        typer.Option(help="fashion-mnist, digits, or your data with --model: cifar10=DIR, data.npz, a folder, …"),
    ] = "fashion-mnist",
    model: Annotated[
        str | None,
        typer.Option(
            help="Your model: a file or package.module:factory.", show_default="the network that comes with the data"
        ),
    ] = None,
    n_samples: Annotated[
        int | None, typer.Option(min=1, help="Only this many validation and test samples.", show_default="all")
    ] = None,
    n_bins: options.Bins = 15,
    random_state: options.RandomState = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
) -> None:
    """Run the whole pipeline on real data and write a report.

    A small convolutional network was trained on photographs of clothes (Fashion-MNIST). The demo tunes it on 1,000
    images and tests it on 1,000 others, clean and under nine affine shifts. One table compares the uncalibrated model,
    temperature scaling, the best method of the paper (-P) and driftcal, per sample and windowed. The folder then holds
    the model, the data, the calibrator, a calibrated ONNX model, a drifting stream and the report.

    \b
      driftcal demo
    \b
    On CIFAR-10 with your network; half of the test images are for validation:
      driftcal demo --data cifar10=DIR --model nets:resnet20 \\
        --weights resnet20.safetensors \\
        --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010
    """
    from driftcal.cli.tables import levels_table, main_table, plan_lines
    from driftcal.paper.demo import Demo
    from driftcal.report.headline import report_text

    console = Console(as_json, quiet)
    if model is None and model_options:
        raise typer.BadParameter(
            f"{', '.join(model_options)} are options of your own model.", param_hint="without --model,"
        )
    if not dry_run:
        console.message(f"opening {model or data}")
    run = Demo.open(
        output, data=data, model=model, n_samples=n_samples, seed=random_state, n_bins=n_bins, model_options=model_options
    )  # fmt: skip
    plan = run.plan(measure_time=dry_run)
    if dry_run:
        console.output(
            {**plan.to_dict(), "folder": str(output)}, *plan_lines(plan), f"would write {output / 'report.html'}"
        )
        return
    console.message(
        "tuning, then testing under shift: about a minute; after an install, half of it goes into compiling"
        if model is None
        else "tuning, then testing under shift"
    )
    with console.progress("demo", plan.n_inputs + 10 * len(run.validation)) as bar, console.plain_warnings():
        outcome = run.run(on_progress=bar, metadata={"command": context.obj})
    if outcome.calibrated.perturbation is not None:
        console.show(levels_table(outcome.calibrated.perturbation))
    console.message(outcome.calibrated.explanation)
    headline = report_text(outcome.results).headline
    console.output(
        {
            "report": str(outcome.report),
            "folder": str(run.folder),
            "headline": headline,
            "chosen": outcome.calibrated.name,
            "explanation": outcome.calibrated.explanation,
            "inputs": bar.done,
            "next_commands": list(outcome.next_commands),
            "summary": [asdict(line) for line in outcome.results.summary()],
        },
        Sentences(headline),
        "",
        f"{outcome.results.suite}: {len(outcome.results.shifts)} shifts, each pooled over its levels; ECE with {n_bins} bins",
        main_table(outcome.results),
        *(
            ["", "Try next:", *(f"  {command}" for command in outcome.next_commands), ""]
            if outcome.next_commands
            else []
        ),
        str(outcome.report),
    )
