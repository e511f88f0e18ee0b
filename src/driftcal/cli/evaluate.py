"""driftcal evaluate"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Prose, Talk


@options.with_engine_options
@options.with_model_options
def evaluate(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The model that the calibrator was tuned for.", metavar="MODEL")],
    calibrator: Annotated[Path, typer.Argument(help="What tune wrote.", metavar="CALIBRATOR")],
    test: Annotated[str, typer.Argument(help="Labelled test data: test.npz, a folder, cifar10=DIR, …", metavar="TEST")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.json.")] = Path("run"),
    suite: Annotated[
        str | None,
        typer.Option(
            help="Shifts to test under: affine, imagenet-c, cifar10-c, h-tuning or all; tabular for features.",
            show_default="affine, or tabular",
        ),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(help="The data of tune: the method is then also tuned on clean rows alone, and compared."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="With --validation: further methods, or all of the paper's; each tuned clean and with -P.",
            metavar="TS,IR,…",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Results by group as well: class, or the array of the .npz file that names them (site, …)."),
    ] = None,
    bins: options.Bins = 15,
    t_max: options.TMax = None,
    seed: options.Seed = 0,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="DIR or URL",
            help="Keep the model's answers here: a killed run goes on where it was.",
            show_default="OUTPUT/store",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if the calibrator was tuned for another model.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
    engine_options: dict[str, Any],
) -> None:
    """Measure a calibrator in domain and under drift.

    Every shift of the suite at every level, none of them used for tuning, with all metrics and their intervals, beside the
    model as it was. Results go to
    OUTPUT/results.json, the model's answers to OUTPUT/store: run the same command again after an interruption.
    Preprocessing is taken from the calibrator file.

    \b
      driftcal evaluate model.onnx cal.safetensors test.npz --suite affine -o run
    \b
    How many passes through the model, and how long?
      driftcal evaluate model.onnx cal.safetensors test.npz --dry-run
    \b
    Is another method better? Tune some on the same data, with and without -P:
      driftcal evaluate model.onnx cal.safetensors test.npz \\
        --validation val.npz --compare ts,ets,ir
    """
    from driftcal.calibrators import PAPER_CALIBRATORS
    from driftcal.cli.tables import plan_lines, summary_table
    from driftcal.pipeline.plan import EvaluationRun
    from driftcal.report.headline import report_text
    from driftcal.report.result_tables import headline_title

    talk = Talk(as_json, quiet)
    if compare and validation is None:
        raise typer.BadParameter("needs --validation, the data to tune the methods on.", param_hint="--compare")
    run = EvaluationRun.open(
        model, calibrator, test,
        validation=validation, methods=PAPER_CALIBRATORS if compare == "all" else options.words(compare), suite=suite,
        seed=seed, n_bins=bins, group=group, t_max=t_max, store=store or output / "store", force=force,
        model_options=model_options,
    )  # fmt: skip
    plan = run.plan(clock=dry_run)
    if dry_run:
        talk.give(
            {**plan.to_dict(), "results": str(output / "results.json")},
            *plan_lines(plan),
            f"would write {output / 'results.json'}",
        )
        return
    with options.engine_of(engine_options) as engine, talk.progress("evaluate", plan.inputs) as bar:
        results = run.run(on_progress=bar, about={"command": context.obj}, engine=engine)
    path, headline = results.save(output), report_text(results).headline
    talk.give(
        {
            "results": str(path),
            "headline": headline,
            "inputs": bar.done,
            "summary": [asdict(line) for line in results.summary()],
        },
        Prose(headline),
        "",
        headline_title(results),
        summary_table(results),
        str(path),
    )
