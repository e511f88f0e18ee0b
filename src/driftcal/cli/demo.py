"""driftcal demo"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Prose, Talk


@options.with_model_options
def demo(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for report, results and calibrator.")] = Path(
        "driftcal-demo"
    ),
    data: Annotated[
        str, typer.Option(help="digits, or your data with --model: cifar10=DIR, data.npz, a folder, …")
    ] = "digits",
    model: Annotated[
        str | None,
        typer.Option(help="Your model: a file or package.module:factory.", show_default="trained on the spot"),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only so many validation and so many test rows.", show_default="all")
    ] = None,
    bins: options.Bins = 15,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
) -> None:
    """Run the whole pipeline on real data and write a report.

    Takes scikit-learn's handwritten digits, trains a small network on them, tunes every calibrator on clean and on
    perturbed validation data (-P, Algorithm 1), tests them under nine affine shifts, and prints the ECE of each in
    domain and under shift, beside temperature scaling. The last line is the path of the report.

    \b
      driftcal demo
    \b
    The same on CIFAR-10 with a network of yours; the test images are halved:
      driftcal demo --data cifar10=DIR --model nets:resnet20 \\
        --weights resnet20.safetensors \\
        --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010
    """
    from driftcal.cli.tables import levels_table, plan_lines, summary_table
    from driftcal.paper.demo import Demo
    from driftcal.report.headline import report_text
    from driftcal.report.result_tables import headline_title

    talk = Talk(as_json, quiet)
    if model is None and model_options:
        raise typer.BadParameter(
            f"{', '.join(model_options)} describe a model of yours.", param_hint="without --model,"
        )
    if not dry_run:
        talk.say("training a small network on handwritten digits" if model is None else f"opening {model}")
    run = Demo.open(
        output, data=data, model=model, n_samples=rows, seed=seed, n_bins=bins, model_options=model_options
    )  # fmt: skip
    plan = run.plan(measure_time=dry_run)
    if dry_run:
        talk.give({**plan.to_dict(), "folder": str(output)}, *plan_lines(plan), f"would write {output / 'report.html'}")
        return
    talk.say(
        "tuning, then testing under drift: about a minute" if model is None else "tuning, then testing under drift"
    )
    with talk.progress("demo", plan.inputs + 10 * len(run.validation)) as bar:
        outcome = run.run(on_progress=bar, metadata={"command": context.obj})
    if outcome.calibrated.ladder is not None:
        talk.show(levels_table(outcome.calibrated.ladder))
    talk.say(outcome.calibrated.explanation)
    headline = report_text(outcome.results).headline
    talk.give(
        {
            "report": str(outcome.report),
            "folder": str(run.folder),
            "headline": headline,
            "chosen": f"{outcome.calibrated.method}-p",
            "explanation": outcome.calibrated.explanation,
            "inputs": bar.done,
            "summary": [asdict(line) for line in outcome.results.summary()],
        },
        Prose(headline),
        "",
        headline_title(outcome.results),
        summary_table(outcome.results),
        str(outcome.report),
    )
