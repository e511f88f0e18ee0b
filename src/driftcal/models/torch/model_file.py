"""torch model files: ``.pt2`` of torch.export, and TorchScript if the user trusts the file."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

from driftcal.core.messages import first_line
from driftcal.errors import ModelError, need, need_safe
from driftcal.models.archive_size import check_archive_size, check_one_directory
from driftcal.models.torch.export_archive import load_exported
from driftcal.models.torch.torch_backend import TorchBackend

_REMEDY = "Save the network with torch.export.save (.pt2) or as ONNX."


def from_file(path: Path, *, device: str = "auto", threads: int | None = None, trust: bool = False) -> TorchBackend:
    """A torch.export file, or with `trust` a TorchScript file. Pickled checkpoints are refused: they could run code."""
    need_safe("torch", "torch")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            check_archive_size(path, archive)
            check_one_directory(path, archive)
    except ModelError:
        raise
    except Exception as error:  # damaged archives fail in many ways
        raise ModelError(f"{str(path)!r} is neither TorchScript nor torch.export: {error}. {_REMEDY}") from error
    members = [name.split("/", 1)[-1] for name in names]
    if any(name.startswith("models/") for name in members):
        program = load_exported(path)
        backend = TorchBackend(program.module(check_guards=False), device=device, threads=threads, file=path)
        backend.fixed_batch, backend.largest_batch = _batch_limits(program)
        return backend
    if "constants.pkl" in members and any(name.startswith("code/") for name in members):
        if not trust:
            raise ModelError(
                f"{str(path)!r} is TorchScript, which can run code and write files while it is loaded. {_REMEDY} If you trust "
                "the author of the file, pass trust=True (--trust)."
            )
        return TorchBackend(_load_torchscript(path), device=device, threads=threads, file=path)
    raise ModelError(
        f"{str(path)!r} is a pickled checkpoint; opening it could run code from the file. {_REMEDY} If you have the module in "
        'Python: open_model("package.module:factory", weights="weights.safetensors").'
    )


def _load_torchscript(path: Path) -> Any:
    torch = need("torch", "torch")
    with warnings.catch_warnings():
        # torch warns about TorchScript since 2.9, but users still have such files
        warnings.filterwarnings("ignore", message=r".*torch\.jit.*deprecated", category=DeprecationWarning)
        try:
            return torch.jit.load(str(path), map_location="cpu").eval()
        except RuntimeError as error:
            raise ModelError(f"{str(path)!r} is not intact TorchScript: {first_line(error)}. {_REMEDY}") from error


def _batch_limits(program: Any) -> tuple[int | None, int | None]:
    """(only batch size, largest batch size) of an exported graph; None where there is no limit."""
    names = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"}
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in names:
            first = node.meta["val"].shape[0]
            if isinstance(first, int):
                return first, None
            bounds = program.range_constraints.get(first.node.expr)
            try:
                return None, int(bounds.upper)
            except (AttributeError, TypeError, ValueError, OverflowError):  # no bound, or an infinite one
                return None, None
    raise ModelError("the exported program takes no input. Export it with one batch of images.")
