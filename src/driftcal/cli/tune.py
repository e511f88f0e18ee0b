"""driftcal tune"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Talk


@options.with_engine_options
@options.with_model_options
def tune(
    model: Annotated[
        str,
        typer.Argument(help="net.onnx, net.pt2, net.pt, net.keras, or package.module:factory.", metavar="MODEL"),
    ],
    validation: Annotated[
        str,
        typer.Argument(
            help="Labelled validation data: val.npz, a folder with one folder per class, digits, cifar10=DIR, …",
            metavar="VALIDATION",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the calibrator goes.")] = Path(
        "cal.safetensors"
    ),
    method: Annotated[
        str,
        typer.Option(
            help="auto (compares and explains), base, ts, ets, ts-ir, ir, irm, ps, hb, pbmc, vs, svs, dirichlet, "
            "beta, spline, hts, pts, ladder-ts, ladder-irm, ladder-ec, ladder-pts, atc-ec, doc-ec; dac, dac-pts and md-ts look at --layers; auto tries them too where layers are named."
        ),
    ] = "auto",
    shift: Annotated[
        str,
        typer.Option(
            help="What perturbs the validation data: gaussian, varied, h_mixture, …; none tunes on clean rows."
        ),
    ] = "gaussian",
    levels: Annotated[int, typer.Option(min=1, help="Levels from clean down to chance.")] = 10,
    keep_accuracy: Annotated[
        bool, typer.Option("--keep-accuracy", help="auto: only calibrators that never change the predicted class.")
    ] = False,
    adaptive: Annotated[
        bool, typer.Option(help="auto: also calibrators that follow windows of unlabelled inputs.")
    ] = True,
    focus: Annotated[str, typer.Option(help="auto: what matters most: in-domain, drift or both.")] = "both",
    t_max: options.TMax = None,
    clean_weight: Annotated[
        float | None,
        typer.Option(
            help="Share of the clean rows in all weight: 0.5 to 0.9 buy calibration in domain with some under drift.",
            show_default="1/levels",
        ),
    ] = None,
    solver: Annotated[str, typer.Option(help="How levels are found: curve, or nelder-mead as in the paper.")] = "curve",
    classes: Annotated[
        str | None,
        typer.Option(
            help="All classes in the order of the model's outputs, where the data name only some of them.",
            metavar="A,B,…",
        ),
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Feature matrices: columns that hold categories, from 0.", metavar="I,J,…")
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            help="auto, dac, dac-pts, md-ts: layers of the model to look at, by their names.", metavar="A,B,…"
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(help="auto, dac, dac-pts: training data to compare with, a few thousand inputs.", metavar="DATA"),
    ] = None,
    seed: options.Seed = 0,
    store: options.StoreDir = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
    engine_options: dict[str, Any],
) -> None:
    """Tune a calibrator that stays honest under drift.

    The validation data are perturbed with noise at levels that step the model's accuracy evenly down to chance
    (Tomani et al. 2021, Algorithm 1), and the calibrator is fitted on all of them. The model itself is not changed.

    \b
    Let the data decide, and say why:
      driftcal tune model.onnx val.npz -o cal.safetensors
    \b
    Isotonic regression for all classes together, which keeps the accuracy:
      driftcal tune model.onnx val.npz --method irm --levels 10
    \b
    A torch network of yours with ImageNet's preprocessing; what would it take?
      driftcal tune nets.resnet:make photos/ --weights w.safetensors --size 224 \\
        --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --dry-run
    """
    from driftcal.cli.tables import levels_table, plan_lines
    from driftcal.data import open_source
    from driftcal.models import open_model
    from driftcal.pipeline.plan import TuningRun

    talk = Talk(as_json, quiet)
    run = TuningRun(
        open_model(model, **model_options),
        open_source(validation, class_names=options.words(classes)) if classes else open_source(validation),
        {
            "method": method, "shift": None if shift == "none" else shift, "levels": levels, "seed": seed, "t_max": t_max,
            "clean_weight": clean_weight,
            "solver": solver, "keep_accuracy": keep_accuracy, "focus": focus, "adaptive": adaptive,
            "categorical": [int(column) for column in options.numbers(categorical, "--categorical")],
            "layers": layers.split(",") if layers else [],
            "reference": open_source(reference) if reference else None,
        },
        store,
    )  # fmt: skip
    if dry_run:
        plan = run.plan()
        talk.give({**plan.to_dict(), "calibrator": str(output)}, *plan_lines(plan), f"would write {output}")
        return
    with options.engine_of(engine_options) as engine, talk.progress("tune", 2 * levels * len(run.validation)) as bar:
        tuned = run.run(on_progress=bar, engine=engine)
    path = tuned.save(output)
    if tuned.ladder is not None:
        talk.show(levels_table(tuned.ladder))
    talk.say(tuned.explanation or f"{tuned.method.upper()} was tuned.")
    talk.give(
        {
            "calibrator": str(path),
            "method": tuned.method,
            "explanation": tuned.explanation,
            "ladder": tuned.ladder,
            "temperature": getattr(tuned.calibrator, "temperature_", None),
            "inputs": bar.done,
        },
        str(path),
    )
