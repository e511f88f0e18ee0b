"""driftcal evaluate"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console, Sentences

if TYPE_CHECKING:
    from driftcal.pipeline.evaluating.results import Results


@options.with_engine_options
@options.with_model_options
@options.with_score_options
def evaluate(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            help="The model that the calibrator was tuned for; left out with --scores.",
            metavar="MODEL",
            show_default=False,
        ),
    ] = None,
    calibrator: Annotated[
        Path | None, typer.Argument(help="The file that tune or fit wrote.", metavar="CALIBRATOR", show_default=False)
    ] = None,
    test: Annotated[
        str | None,
        typer.Argument(
            help="Labelled test data: test.npz, 'test.csv?label=NAME', 'test.parquet?label=NAME', a folder, cifar10=DIR, …",
            metavar="TEST",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for results.json.", callback=options.output_folder)
    ] = Path("run"),
    scores: Annotated[
        str | None,
        typer.Option(
            "--scores",
            help="Evaluate labelled scores in place of a model, without shifts: a .npz, .csv or .parquet file.",
            metavar="SCORES",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(help="Shifts to test under: {suites}.", show_default="affine; tabular for feature matrices"),
    ] = None,
    validation: Annotated[
        str | None, typer.Option(help="The data of tune, for --compare.", metavar="VALIDATION")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="Further methods, or all of the paper's: each is tuned on clean samples and with -P.",
            metavar="TS,IR,…",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Also results by group: class, or an array of the .npz file with the group of each sample (site, …)."
        ),
    ] = None,
    window_size: options.WindowSize = 100,
    n_bins: options.Bins = 15,
    random_state: options.RandomState = 0,
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="DIR or URL",
            help="Keep the model's logits here: a killed run continues from there.",
            show_default="OUTPUT/cache",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if the calibrator was tuned for another model.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
    engine_options: dict[str, Any],
    score_options: dict[str, Any],
) -> None:
    """Measure a calibrated model in domain and under shift.

    All metrics and their intervals are computed for every shift and level of the suite. The uncalibrated model and
    plain temperature scaling are evaluated as well. Results are written to OUTPUT/results.json, the model's logits to
    OUTPUT/cache. After an interruption, run the same command again. Preprocessing is taken from the calibrator file.

    \b
      driftcal evaluate model.onnx cal.safetensors test.npz --suite affine -o run
    \b
    How many passes of the model, and how long?
      driftcal evaluate model.onnx cal.safetensors test.npz --dry-run
    \b
    Is another method better? Tune some on the same data, with and without -P:
      driftcal evaluate model.onnx cal.safetensors test.npz \\
        --validation val.npz --compare ts,ets,ir
    \b
    Recorded scores without a model and without shifts:
      driftcal evaluate --scores test.csv cal.safetensors -o run
    """
    import driftcal
    from driftcal.calibrators import PAPER_CALIBRATORS
    from driftcal.cli.tables import plan_lines
    from driftcal.pipeline.collecting.labelled_logits import open_with_data
    from driftcal.pipeline.evaluating.compare import compare_methods, validation_source
    from driftcal.pipeline.plan import plan_evaluation

    console = Console(as_json, quiet)
    if scores is not None:
        if model is None or calibrator is not None or compare or suite:
            raise typer.BadParameter(
                "goes with the calibrator file alone: no model, suite or --compare.", param_hint="--scores"
            )
        _evaluate_scores(
            console, Path(model), scores, output, score_options, dry_run=dry_run, n_bins=n_bins,
            metadata={"command": context.obj, "files": {"calibrator": model}},
        )  # fmt: skip
        return
    if model is None or calibrator is None or test is None:
        raise typer.BadParameter("give MODEL CALIBRATOR TEST, or CALIBRATOR with --scores SCORES.")
    if bool(compare) != (validation is not None):
        raise typer.BadParameter("--compare and --validation go together: methods are tuned on the data of tune.")
    group_is_array = group not in (None, "class", "group") and test.endswith(".npz")
    model_with_data = open_with_data(
        calibrator,
        model,
        test,
        force=force,
        model_options=model_options,
        **({"group": group} if group_is_array else {}),
    )
    calibrated, source = model_with_data.calibrated, model_with_data.source
    tuning_data = None if validation is None else validation_source(calibrated, validation)
    cache_folder = cache or str(output / "cache")
    plan = plan_evaluation(
        calibrated, source, suite=suite, validation=tuning_data, random_state=random_state,
        run=driftcal.Run(cache=cache_folder), timed=dry_run,
    )  # fmt: skip
    if dry_run:
        path = output / "results.json"
        console.output({**plan.to_dict(), "results": str(path)}, *plan_lines(plan), f"would write {path}")
        return
    with options.engine_of(engine_options) as engine, console.progress("evaluate", plan.n_inputs) as bar:
        run = driftcal.Run(cache_folder, engine, bar)
        candidates = None
        if tuning_data is not None:
            methods = PAPER_CALIBRATORS if compare == "all" else options.names(compare)
            candidates = compare_methods(calibrated, tuning_data, methods=methods, window_size=window_size, run=run)
        results = driftcal.evaluate(
            calibrated, source, suite=suite, candidates=candidates, window_size=window_size, n_bins=n_bins, group=group,
            random_state=random_state, run=run,
            metadata={"command": context.obj, "files": {"model": model, "calibrator": str(calibrator)}},
        )  # fmt: skip
    _print_results(console, results, output, inputs=bar.done)


def _evaluate_scores(
    console: Console,
    calibrator: Path,
    scores: str,
    output: Path,
    score_options: dict[str, Any],
    *,
    dry_run: bool,
    **settings: Any,
) -> None:
    """Evaluate a file of scores with a calibrator file."""
    import driftcal
    from driftcal.data.score_files import read_scores

    score_type = score_options.pop("score_type")
    file = read_scores(scores, **score_options)
    calibrated = driftcal.CalibratedModel.load(calibrator, score_type=score_type or file.score_type)
    if dry_run:
        path = output / "results.json"
        console.output({"samples": len(file.scores), "results": str(path)}, f"would write {path}")
        return
    if file.levels is not None:
        console.message(
            "warning: The file has levels, which evaluate does not use: its samples are evaluated together."
        )
    results = driftcal.evaluate(calibrated, file.scores, file.labels, **settings)
    _print_results(console, results, output, inputs=len(file.scores))


def _print_results(console: Console, results: Results, output: Path, *, inputs: int) -> None:
    from driftcal.cli.tables import summary_table
    from driftcal.report.headline import report_text
    from driftcal.report.result_tables import headline_title

    path, headline = results.save(output), report_text(results).headline
    console.output(
        {
            "results": str(path),
            "headline": headline,
            "inputs": inputs,
            "summary": [asdict(line) for line in results.summary()],
        },
        Sentences(headline),
        "",
        headline_title(results),
        summary_table(results),
        str(path),
    )
