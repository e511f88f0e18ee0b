"""driftcal recalibrate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console


@options.with_model_options
def recalibrate(
    calibrator: Annotated[Path, typer.Argument(help="The calibrator file to refit.", metavar="CALIBRATOR")],
    data: Annotated[
        str,
        typer.Argument(
            help="New labelled samples: a .npz file with logits and y, JSON lines as of a monitor, or inputs with --model.",
            metavar="DATA",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write; if that is CALIBRATOR, the old one is kept under the next free name.",
            show_default="CALIBRATOR-2, -3, …",
            callback=options.output_file,
        ),
    ] = None,
    weight: Annotated[
        str, typer.Option(help="Share of the new samples, from 0 (the old map) to 1 (new samples alone), or auto.")
    ] = "0.5",
    old: Annotated[
        str | None,
        typer.Option(
            "--with",
            help="Labelled samples of the old fit, in the same form.",
            metavar="OLD_DATA",
            show_default="the probabilities of the calibrator",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model, if the files hold inputs and not logits.", metavar="MODEL")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if the calibrator was tuned for another model.")] = False,
    n_bins: options.Bins = 15,
    random_state: options.RandomState = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
) -> None:
    """Refit a calibrator with new labels, and check on held-out samples that it is no worse.

    New and old samples are weighted, and the old calibrator is kept. Both calibrators are compared on the new samples
    by 5-fold cross-validation. If the Brier score or the log-likelihood gets worse, or the ECE or the accuracy
    significantly so, nothing is written and the exit code is 1. With --dry-run both are compared and nothing is
    written.

    \b
    Logits and labels from production:
      driftcal recalibrate cal.safetensors new_labelled.npz
    \b
    The stream of a monitor, with a label in the line or later under the id:
      driftcal recalibrate cal.safetensors predictions.jsonl
    \b
    Inputs and labels, and the old validation data:
      driftcal recalibrate cal.safetensors new.npz --model model.onnx \\
        --with val.npz --weight auto
    """
    from driftcal.cli.tables import change_table
    from driftcal.monitor.reading.labelled_stream import JSON_LINES, read_labelled_stream
    from driftcal.pipeline.collecting.labelled_logits import LabelledFile, collect_labelled, read_labelled
    from driftcal.pipeline.recalibrating.recalibrate import recalibrate as refit
    from driftcal.pipeline.recalibrating.recalibrate_file import next_name, recalibrate_file

    def read_logits(path: str) -> Any:
        if model is None and path.endswith(JSON_LINES):
            stream = read_labelled_stream(path)
            console.message(f"{path}: {stream}.")
            return LabelledFile(stream.logits, stream.labels)
        if model is None:
            return read_labelled(path)
        return collect_labelled(path, calibrator, model, force=force, **model_options)

    console = Console(as_json, quiet)
    new, old_samples = read_logits(data), None if old is None else read_logits(old)
    settings: dict[str, Any] = {
        "weight": weight, "groups": new.groups, "n_bins": n_bins, "random_state": random_state,
        "old": None if old_samples is None else (old_samples.logits, old_samples.labels),
    }  # fmt: skip
    if dry_run:
        result = refit(calibrator, new.logits, new.labels, **settings)
        target = output or next_name(calibrator)
        line = f"would refuse: {', '.join(result.worse)}" if result.worse else f"would write {target}"
        outputs = [] if result.worse else [str(target)]
        console.output({**result.to_dict(), "would_write": outputs}, change_table(result), line)
        return
    written = recalibrate_file(
        calibrator,
        new.logits,
        new.labels,
        output,
        on_compared=lambda result: console.show(change_table(result)),
        **settings,
    )
    paths = {"calibrator": str(written.path), "old_calibrator": str(written.old_path)}
    console.output({**written.result.to_dict(), **paths}, str(written.path))
    console.message(written.explanation)
    console.message(f"The old calibrator is in {written.old_path}.")
