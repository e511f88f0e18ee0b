"""driftcal threshold"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console


@options.with_score_options
def threshold(
    calibrator: Annotated[Path, typer.Argument(help="The file that tune or fit wrote.", metavar="CALIBRATOR")],
    accuracy: Annotated[
        float | None, typer.Option(help="Accepted predictions have at least this accuracy, with probability 1 - delta.")
    ] = None,
    coverage: Annotated[float | None, typer.Option(help="At least this share of the predictions is accepted.")] = None,
    cost: Annotated[float | None, typer.Option(help="The cost of an abstention if an error costs 1.")] = None,
    delta: Annotated[float, typer.Option(help="The probability that the bound of the accuracy does not hold.")] = 0.05,
    scores: Annotated[
        str | None,
        typer.Option(
            help="Labelled scores that the calibrator was not tuned on: a .npz, .csv or .parquet file.",
            metavar="SCORES",
            show_default="the validation predictions in the file",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write.", show_default="CALIBRATOR", callback=options.output_file
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    score_options: dict[str, Any],
) -> None:
    """Choose the confidence above which predictions are accepted, and store it in the calibrator file.

    Give one of --accuracy, --coverage and --cost. The file already holds predictions of validation samples by
    calibrators that were not fitted on them, so no data are needed. The report shows what the threshold keeps.

    \b
      driftcal threshold cal.safetensors --accuracy 0.95
      driftcal evaluate model.onnx cal.safetensors test.npz
    """
    import driftcal
    from driftcal.data.score_files import read_scores

    console = Console(as_json, quiet)
    data: tuple[Any, ...] = ()
    score_type = score_options.pop("score_type")
    if scores is not None:
        file = read_scores(scores, **score_options)
        data, score_type = (file.scores, file.labels), score_type or file.score_type
        if file.levels is not None:
            console.message("warning: The file has levels, which threshold does not use: all its samples count alike.")
    calibrated = driftcal.CalibratedModel.load(calibrator, score_type=score_type)
    chosen = calibrated.threshold(*data, accuracy=accuracy, coverage=coverage, cost=cost, delta=delta)
    target = output or calibrator
    if not dry_run:
        calibrated.with_threshold(chosen).save(target)
    console.message(str(chosen))
    console.output(
        {**chosen.to_dict(), ("would_write" if dry_run else "calibrator"): [str(target)] if dry_run else str(target)},
        f"would write {target}" if dry_run else str(target),
    )
