"""driftcal fit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console


@options.with_score_options
def fit(
    scores: Annotated[str, typer.Argument(help="Labelled scores: a .npz, .csv or .parquet file.", metavar="SCORES")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The calibrator file to write.", callback=options.output_file)
    ] = Path("cal.safetensors"),
    method: Annotated[str, typer.Option(help="auto (compares and explains), or one of: {methods}.")] = "auto",
    keep_accuracy: Annotated[
        bool, typer.Option(help="auto: only calibrators that never change the predicted class.")
    ] = True,
    classes: Annotated[
        str | None,
        typer.Option(help="All classes in the order of the columns; text labels need them.", metavar="A,B,…"),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Column or array of the perturbation level of each sample, 0 for clean.",
            metavar="NAME",
            show_default="levels or level, if there is one",
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    score_options: dict[str, Any],
) -> None:
    """Calibrate recorded scores, without the model that made them.

    A .npz file holds logits (or probabilities, or scores) and y. A table has a header, a column per class and a column
    of labels: y, label, or the last one. A binary classifier may have one column, the score of class 1, and then needs
    --score-type. If the same samples were scored at several strengths of a shift, levels holds the level of each, 0 for
    clean. Candidates are compared by cross-validation; plain temperature scaling is always one of them.

    \b
      driftcal fit val.npz -o cal.safetensors
      driftcal evaluate --scores test.npz cal.safetensors -o run
      driftcal report run -o report.html
    \b
    A table of one binary score:
      driftcal fit val.csv --labels is_fraud --score-type probabilities
    """
    import driftcal
    from driftcal.data.score_files import read_scores

    console = Console(as_json, quiet)
    score_type = score_options.pop("score_type")
    file = read_scores(scores, levels=levels, **score_options)
    if dry_run:
        shape = " × ".join(map(str, file.scores.shape))
        console.output(
            {"samples": len(file.scores), "would_write": [str(output)]},
            f"{scores}: scores {shape}{'' if file.levels is None else f', {len(set(file.levels.tolist()))} levels'}",
            f"would write {output}",
        )
        return
    selection: Any = driftcal.Selection(keep_accuracy=keep_accuracy) if method == "auto" else method
    with console.plain_warnings():
        calibrated = driftcal.fit(
            file.scores,
            file.labels,
            method=selection,
            score_type=score_type or file.score_type,
            levels=file.levels,
            class_names=options.names(classes) or file.class_names or None,
        )
    path = calibrated.save(output)
    console.message(calibrated.explanation)
    console.output(
        {
            "calibrator": str(path),
            "method": calibrated.method,
            "accuracy": calibrated.metadata["accuracy"],
            "explanation": calibrated.explanation,
            "temperature": getattr(calibrated.calibrator, "temperature_", None),
        },
        str(path),
    )
