"""driftcal tune"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console


@options.with_engine_options
@options.with_model_options
def tune(
    model: Annotated[
        str,
        typer.Argument(
            help="net.onnx, net.pt2, net.pt, net.keras; trees.txt (LightGBM), .json or .ubj (XGBoost), .cbm (CatBoost); "
            "or package.module:factory.",
            metavar="MODEL",
        ),
    ],
    validation: Annotated[
        str,
        typer.Argument(
            help="Labelled validation data: val.npz, 'val.csv?label=NAME', 'val.parquet?label=NAME', a folder with one folder per "
            "class, digits, cifar10=DIR, …",
            metavar="VALIDATION",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The calibrator file to write.", callback=options.output_file)
    ] = Path("cal.safetensors"),
    method: Annotated[
        str,
        typer.Option(help="auto (compares and explains), or one of: {methods}. Some of them read --layers."),
    ] = "auto",
    shift: Annotated[
        str,
        typer.Option(
            help="What perturbs the validation data: {tuning_shifts}, h_mixture; none: clean samples only.",
            show_default="gaussian; tables tabular_noise, texts text_noise, series series_noise",
        ),
    ] = "gaussian",
    n_levels: Annotated[int, typer.Option(min=1, help="Perturbation levels from clean down to chance.")] = 10,
    keep_accuracy: Annotated[
        bool, typer.Option(help="auto: only calibrators that never change the predicted class.")
    ] = True,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="auto: how much the in-domain ECE may exceed that of temperature scaling.",
            show_default="0.015; for tables 0.005",
        ),
    ] = None,
    clean_weight: Annotated[
        float | None,
        typer.Option(
            help="Share of the clean samples in all weight, between 0 and 1.",
            show_default="1/n-levels; auto tries several",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="All classes in the order of the model's outputs; text labels need them.", metavar="A,B,…"),
    ] = None,
    categorical: Annotated[
        str | None,
        typer.Option(
            help="Tables: further columns that hold categories, by name or by number from 0.", metavar="A,B,…"
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Layers of the model for methods that read layer features, and for auto.", metavar="A,B,…"),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Training data that such methods compare with, a few thousand inputs.", metavar="DATA"),
    ] = None,
    random_state: options.RandomState = 0,
    cache: options.Cache = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
    engine_options: dict[str, Any],
) -> None:
    """Calibrate a model in domain and under shift.

    The validation data are perturbed with noise at several levels, so that the accuracy falls in equal steps down to
    chance (Tomani et al. 2021, Algorithm 1). Calibrators are fitted on clean and perturbed samples. The model is not
    changed.

    \b
    Let driftcal choose and explain:
      driftcal tune model.onnx val.npz -o cal.safetensors
    \b
    One isotonic curve for all classes, which keeps the accuracy:
      driftcal tune model.onnx val.npz --method irm
    \b
    How long does it take for a torch network with ImageNet's preprocessing?
      driftcal tune nets.resnet:make photos/ --weights w.safetensors --size 224 \\
        --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --dry-run
    """
    import driftcal
    from driftcal.cli.tables import levels_table, plan_lines
    from driftcal.pipeline.plan import plan_tuning

    console = Console(as_json, quiet)
    class_names = options.names(classes) or None
    opened_model = driftcal.open_model(model, class_names=class_names, **model_options)
    source_options = {} if class_names is None else {"class_names": class_names}
    source = driftcal.open_source(validation, **source_options)
    if categorical:
        source = source.with_categorical(options.column_names(categorical))
    features = None
    if layers or reference:
        training = driftcal.open_source(reference) if reference else None
        features = driftcal.LayerFeatures(options.names(layers), training)
    method_or_selection: Any = (
        driftcal.Selection(keep_accuracy=keep_accuracy, tolerance=tolerance) if method == "auto" else method
    )
    settings: dict[str, Any] = {
        "shift": None if shift == "none" else shift,
        "n_levels": n_levels,
        "random_state": random_state,
        "features": features,
    }
    if dry_run:
        plan = plan_tuning(opened_model, source, run=driftcal.Run(cache=cache), **settings)
        console.output({**plan.to_dict(), "calibrator": str(output)}, *plan_lines(plan), f"would write {output}")
        return
    with (
        options.engine_of(engine_options) as engine,
        console.progress("tune", 2 * n_levels * len(source)) as bar,
        console.plain_warnings(),
    ):
        run = driftcal.Run(cache, engine, bar)
        calibrated = driftcal.tune(
            opened_model, source, method=method_or_selection, clean_weight=clean_weight, run=run, **settings
        )
    path = calibrated.save(output)
    if calibrated.perturbation is not None:
        console.show(levels_table(calibrated.perturbation))
    console.message(calibrated.explanation)
    windowed = calibrated.windowed_candidate()
    console.output(
        {
            "calibrator": str(path),
            "method": calibrated.method,
            "windowed_method": None if windowed is None else windowed.method,
            "tuned_on": calibrated.tuned_on,
            "accuracy": calibrated.metadata["accuracy"],
            "explanation": calibrated.explanation,
            "perturbation": calibrated.perturbation,
            "temperature": getattr(calibrated.calibrator, "temperature_", None),
            "inputs": bar.done,
        },
        str(path),
    )
