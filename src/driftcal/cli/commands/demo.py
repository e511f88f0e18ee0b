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
        str, typer.Option(help="digits, or your data with --model: cifar10=DIR, data.npz, a folder, …")
    ] = "digits",
    model: Annotated[
        str | None,
        typer.Option(help="Your model: a file or package.module:factory.", show_default="a small trained network"),
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

    The demo trains a small network on scikit-learn's handwritten digits. It tunes every calibrator on clean and on
    perturbed validation data (-P, Algorithm 1) and tests them under nine affine shifts. It prints the ECE of each in
    domain and under shift, and its ratio to temperature scaling. The last line is the path of the report.

    \b
      driftcal demo
    \b
    On CIFAR-10 with your network; half of the test images are for validation:
      driftcal demo --data cifar10=DIR --model nets:resnet20 \\
        --weights resnet20.safetensors \\
        --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010
    """
    from driftcal.cli.tables import levels_table, plan_lines, summary_table
    from driftcal.paper.demo import Demo
    from driftcal.report.headline import report_text
    from driftcal.report.result_tables import headline_title

    console = Console(as_json, quiet)
    if model is None and model_options:
        raise typer.BadParameter(
            f"{', '.join(model_options)} are options of your own model.", param_hint="without --model,"
        )
    if not dry_run:
        console.message("training a small network on handwritten digits" if model is None else f"opening {model}")
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
        "tuning, then testing under shift: about a minute" if model is None else "tuning, then testing under shift"
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
            "summary": [asdict(line) for line in outcome.results.summary()],
        },
        Sentences(headline),
        "",
        headline_title(outcome.results),
        summary_table(outcome.results),
        str(outcome.report),
    )
