"""driftcal export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from driftcal.cli import options
from driftcal.cli.console import Console

#: The most inputs of a file that the model is run on to compare it with the calibrator.
_MAX_INPUTS = 256


def export(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="An ONNX classifier; left out to export the calibrator alone.",
            metavar="MODEL.onnx",
            show_default=False,
        ),
    ] = None,
    calibrator: Annotated[
        Path | None,
        typer.Argument(help="The file that tune or fit wrote for it.", metavar="CALIBRATOR", show_default=False),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The calibrated model to write.", callback=options.output_file)
    ] = Path("calibrated.onnx"),
    force: Annotated[bool, typer.Option("--force", help="Even if the calibrator was tuned for another model.")] = False,
    layers: Annotated[
        str | None,
        typer.Option(
            help="Layers of this graph, for a calibrator that reads layer features, if its file lists none or others.",
            metavar="A,B,…",
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            help="What the model returns: logits, or probabilities after a softmax.",
            show_default="as in the calibrator file, or logits",
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="Inputs to run the model on, as it takes them: a .npy file, or x in a .npz file.",
            metavar="FILE",
            show_default="random ones of the declared shape",
        ),
    ] = None,
    windowed: Annotated[
        bool,
        typer.Option(
            "--windowed",
            help="Write the windowed form, which takes and gives the sums of the window, not the per-sample form.",
        ),
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
) -> None:
    """Write an ONNX model with its calibrator at the end.

    The new model takes the same input and keeps its outputs. It also returns probabilities, label and confidence of the
    per-sample calibrator, and accept if the file has a threshold. It uses standard operators only. A calibrator that
    reads layer features is connected to those layers. The new model is first run and compared with the calibrator. If
    they differ by more than 1e-6, nothing is written.

    \b
      driftcal export model.onnx cal.safetensors -o calibrated.onnx

    \b
    A model that was exported with a free number of features:
      driftcal export model.onnx cal.safetensors --inputs inputs.npy
    \b
    The calibrator alone, from logits to probabilities:
      driftcal export cal.safetensors -o calibrator.onnx
    """
    from driftcal.export import append_to_onnx, export_file
    from driftcal.pipeline.collecting.labelled_logits import read_inputs

    console = Console(as_json, quiet)
    if model is None:
        raise typer.BadParameter("give MODEL.onnx CALIBRATOR, or CALIBRATOR alone.")
    if dry_run:
        console.output({"would_write": [str(output)]}, f"would write {output}")
        return
    examples = None if inputs is None else read_inputs(inputs, _MAX_INPUTS)
    if calibrator is None:
        if model.suffix == ".onnx":
            raise typer.BadParameter("give MODEL.onnx CALIBRATOR, or CALIBRATOR alone.")
        written = export_file(model, output, windowed=windowed)
    else:
        written = append_to_onnx(
            model,
            calibrator,
            output,
            layers=options.names(layers) or None,
            force=force,
            inputs=examples,
            outputs=cast(Any, outputs),
            windowed=windowed,
        )
    names = ", ".join([*written.outputs, *([written.accept] if written.accept else [])])
    figures = written.cross_validated_ece
    ece = (
        f", cross-validated ECE {figures['in_domain']:.3f} in domain and {figures['under_shift']:.3f} under {figures['shift']}"
        if figures
        else ""
    )
    window = ""
    if written.window_names:
        sums, mask, batch_sums = written.window_names
        window = f", {batch_sums}; new inputs {sums}, {mask}"
    console.output(
        written.to_dict(),
        f"{written.path}: new outputs {names}{window}",
        *([] if written.input is None else [f"input: {written.input}"]),
        f"calibrator: {written.calibrator.upper()}, the {written.form} form{ece}",
        f"largest difference from the calibrator on {written.n_samples} samples: {written.difference:.2g}",
    )
