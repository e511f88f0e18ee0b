"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from driftcal.engines import Engine

PathOrText = TypeVar("PathOrText", Path, str, Path | None, str | None)

Json = Annotated[bool, typer.Option("--json", help="Print data as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No messages and no progress on stderr, only errors.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
RandomState = Annotated[int, typer.Option(min=0, help="Seed of noise, shifts and resampling.")]
Bins = Annotated[int, typer.Option("--n-bins", min=1, help="Equal-width bins of the ECE.")]
Cache = Annotated[
    str | None,
    typer.Option(metavar="DIR or URL", help="Keep the model's logits here: a killed run continues from there."),
]
WindowSize = Annotated[int, typer.Option(min=1, help="Samples in a window of the windowed form.")]


#: Arguments of commands that are files to write, and further ones that are files to read.
_OUTPUTS, _INPUTS = ("output", "state", "report", "prometheus"), {"scores", "validation", "old", "weights"}
#: Commands that may replace the calibrator that they read.
_IN_PLACE = ("threshold", "recalibrate")


def output_file(path: PathOrText) -> PathOrText:
    """The callback of an option that names a file to write: a command ends before its work if it cannot be written."""
    from driftcal.io.atomic import as_target

    if path is not None and str(path) != "-":
        as_target(path)
    return path


def output_folder(path: PathOrText) -> PathOrText:
    """The callback of an option that names a folder to write into."""
    from driftcal.io.atomic import as_target_folder

    if path is not None:
        as_target_folder(path)
    return path


def check_outputs(command: str, arguments: Mapping[str, Any], positional: Set[str | None]) -> None:
    """Refuse an output that is an input or another output of the same command: one would be lost."""
    from driftcal.errors import InputError

    inputs = [name for name in arguments if name in positional | _INPUTS]
    if command in _IN_PLACE:
        inputs.remove("calibrator")
    for number, name in enumerate(_OUTPUTS):
        path = arguments.get(name)
        if path is None or str(path) == "-":
            continue
        for other in (*inputs, *_OUTPUTS[:number]):
            if any(_is_same_file(path, file) for file in _files_of(arguments.get(other))):
                raise InputError(
                    f"{name} must be another file than the {other} {str(path)!r}, which would be replaced. Choose a new name."
                )


def _files_of(value: Any) -> Iterator[str]:
    """The files that the value of an argument may name: ``val.npz?x=a``, ``csv=val.csv``, a folder with results."""
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, str | os.PathLike):
            path = os.fspath(item).partition("?")[0]
            yield from (path, path.partition("=")[2], os.path.join(path, "results.json"))


def _is_same_file(path: Any, other: str) -> bool:
    return bool(other) and not os.path.isdir(path) and os.path.realpath(path) == os.path.realpath(other)


def numbers(text: str | None, option: str) -> tuple[float, ...]:
    """``0.5,0.25`` as numbers."""
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise typer.BadParameter(
            f"must be numbers with commas between, such as 0.485,0.456,0.406; it is {text!r}.", param_hint=option
        ) from None


def names(text: str | None) -> tuple[str, ...]:
    """``ts,irm`` as a tuple."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def column_names(text: str) -> list[int | str]:
    """``visits,3`` as names and numbers of columns."""
    return [int(item) if item.removeprefix("-").isdecimal() else item for item in names(text)]


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().split("x")
    try:
        height, width = (int(side) for side in (sides * 2 if len(sides) == 1 else sides))
    except ValueError:
        raise typer.BadParameter(f"must be 224 or 224x320; it is {text!r}.", param_hint="--size") from None
    return height, width


def _model_options(
    outputs: Annotated[
        str | None,
        typer.Option(help="What the model returns: logits, or probabilities after a softmax.", show_default="logits"),
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Subtracted from each channel, e.g. 0.485,0.456,0.406.", metavar="A,B,C")
    ] = None,
    std: Annotated[
        str | None, typer.Option(help="Each channel is divided by it, e.g. 0.229,0.224,0.225.", metavar="A,B,C")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(help="Axes of the model's input: NCHW, NHWC or flat.", show_default="the framework's usual one"),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Scale images to this before the model.", metavar="SIDE or HxW")
    ] = None,
    bgr: Annotated[bool, typer.Option("--bgr", help="The model expects blue first.")] = False,
    scale: Annotated[
        float | None,
        typer.Option(help="Multiply pixels in [0, 1] by this; 255 for models trained on bytes.", show_default="1"),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="Weights for the torch module that package.module:factory makes.", metavar="FILE.safetensors"
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Inputs per call of the model.", show_default="what fits memory, up to 256"),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, …; auto takes a GPU where there is one.")] = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the model's framework.", show_default="all cores")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Open a TorchScript file, which can run code while it is loaded.")
    ] = False,
) -> dict[str, Any]:
    """Options of `driftcal.open_model`, only those that were set."""
    options: dict[str, Any] = {
        "outputs": outputs, "weights": weights, "batch_size": batch_size, "threads": threads,
        "device": None if device == "auto" else device, "trust": trust or None,
    }  # fmt: skip
    steps: dict[str, Any] = {
        "mean": numbers(mean, "--mean") or None, "std": numbers(std, "--std") or None, "layout": layout,
        "size": _size(size), "channels": "BGR" if bgr else None, "scale": scale,
    }  # fmt: skip
    steps = {name: value for name, value in steps.items() if value is not None}
    if steps:
        options["preprocessing"] = steps
    return {name: value for name, value in options.items() if value is not None}


def _engine_options(
    engine: Annotated[
        str,
        typer.Option(help="Where the work is done: local, or ray for a cluster. The results are the same to the bit."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="ray: auto, ray://HOST:10001, or local to start one on this machine.",
            show_default="RAY_ADDRESS or local",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Tasks at once.", show_default="1 on this machine, as many as fit on a cluster"),
    ] = None,
    cpus: Annotated[float, typer.Option(min=0.1, help="ray: processors per worker.")] = 1.0,
    gpus: Annotated[float, typer.Option(min=0, help="ray: GPUs per worker; 0.5 lets two share one.")] = 0.0,
) -> dict[str, Any]:
    """Options of `driftcal.open_engine`."""
    return {"engine": engine, "address": address, "workers": workers, "cpus": cpus, "gpus": gpus}


def _score_options(
    score_type: Annotated[
        str | None,
        typer.Option(
            help="Type of the scores: logits or probabilities. One column needs it.",
            show_default="as the array is named, or logits",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Column or array of the labels.", metavar="NAME", show_default="y, label, …, or the last column"
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of the scores, in the order of the classes.", metavar="A,B,…", show_default="all others"
        ),
    ] = None,
) -> dict[str, Any]:
    """How a file of scores is read."""
    return {"score_type": score_type, "labels": labels, "columns": names(columns)}


def _with(shared_options: Callable[..., Any], name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Add shared options to a command, which gets them as one argument `name`. In its help they come last."""
    shared = inspect.signature(shared_options, eval_str=True).parameters
    parameters = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != name]

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        values = {key: arguments.pop(key) for key in shared}
        command(**arguments, **{name: shared_options(**values)})

    # keyword-only parameters belong to a further decorator, whose options come last
    options = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    run.__signature__ = inspect.Signature([*options, *shared.values(), *keyword_only])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    del run.__wrapped__
    return run


with_model_options = functools.partial(_with, _model_options, "model_options")
with_engine_options = functools.partial(_with, _engine_options, "engine_options")
with_score_options = functools.partial(_with, _score_options, "score_options")


@contextmanager
def engine_of(engine_options: dict[str, Any]) -> Iterator[Engine]:
    """The engine of a command. It is closed afterwards, which stops a cluster that was started for it."""
    from driftcal.engines import open_engine

    engine = open_engine(**engine_options)
    try:
        yield engine
    finally:
        engine.close()
