"""driftcal export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from driftcal.cli import options
from driftcal.cli.console import Prose, Talk

#: Of a file with rows to try a model on, these are enough.
_MOST_ROWS = 256


def export(
    model: Annotated[Path, typer.Argument(help="An ONNX classifier.", metavar="MODEL.onnx")],
    calibrator: Annotated[Path, typer.Argument(help="The calibrator that tune wrote for it.", metavar="CALIBRATOR")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the calibrated model goes.")] = Path(
        "calibrated.onnx"
    ),
    force: Annotated[bool, typer.Option("--force", help="Even if the calibrator was tuned for another model.")] = False,
    layers: Annotated[
        str | None,
        typer.Option(
            help="dac, dac-pts, md-ts: the layers in this graph, where the calibrator file names none or, with --force, others.",
            metavar="A,B,…",
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            help="What the model ends in: logits, or probabilities after a softmax.",
            show_default="what the calibrator file says, or logits",
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="Rows to try the model on, as it wants them: a .npy file, or x in a .npz file.",
            metavar="FILE",
            show_default="random ones of the declared shape",
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Write an ONNX model with its calibrator at the end.

    The new model takes the same input, keeps its outputs and also answers probabilities, label and confidence, with standard
    operators only. A calibrator that looks inside the model is joined to its layers. The new model is run and compared with the
    calibrator first: more than 1e-6 apart, and nothing is written.

    \b
      driftcal export model.onnx cal.safetensors -o calibrated.onnx

    \b
    A model that was exported with a free number of features:
      driftcal export model.onnx cal.safetensors --inputs rows.npy
    """
    from driftcal.export import append_to_onnx
    from driftcal.pipeline.labelled_logits import read_rows

    talk = Talk(as_json, quiet)
    if dry_run:
        talk.give({"would_write": [str(output)]}, f"would write {output}")
        return
    inside = layers.split(",") if layers else None
    rows = None if inputs is None else read_rows(inputs, _MOST_ROWS)
    written = append_to_onnx(
        model, calibrator, output, layers=inside, force=force, inputs=rows, outputs=cast(Any, outputs)
    )
    names = ", ".join(written.outputs)
    talk.give(
        written.to_dict(),
        f"{written.path}: new outputs {names}",
        f"largest difference from the calibrator on {written.rows} rows: {written.difference:.2g}",
        *([Prose(written.note)] if written.note else []),
    )
