"""torch: modules, TorchScript files, torch.export files, and safetensors weights for a module."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.errors import ModelError, need
from driftcal.files import fingerprint, sha256_file
from driftcal.models.answers import scores
from driftcal.models.pt2 import load_exported
from driftcal.types import Array


class TorchBackend:
    """Runs a torch module in evaluation mode, without gradients, on one device."""

    framework = "torch"
    layout = "NCHW"
    fixed_batch: int | None = None
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None

    def __init__(
        self, module: Any, *, device: str = "auto", threads: int | None = None, file: Path | None = None
    ) -> None:
        torch = need("torch", "torch")
        self.device = _device(torch, device)
        self._threads = threads
        self._file = file
        self._is_graph = not hasattr(module, "named_modules") or "GraphModule" in type(module).__name__
        self.module = module.to(self.device)
        parameters = [p.dtype for p in module.parameters() if p.dtype.is_floating_point]
        self._dtype = parameters[0] if parameters else torch.float32
        self._torch = torch

    def run(self, batch: Array) -> Array:
        """Outputs of the module for a preprocessed batch."""
        with self._ready():
            return self._numpy(scores(self.module(self._tensor(batch))))

    def layers(self) -> tuple[str, ...]:
        """Names of the submodules, except in compiled files, which have none to listen to."""
        if self._is_graph or isinstance(self.module, self._torch.jit.ScriptModule):
            return ()
        return tuple(name for name, _ in self.module.named_modules() if name)

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """What the named submodules gave, caught by hooks; a module that runs twice gives its last result."""
        found: dict[str, Array] = {}
        handles = []
        try:
            for name in layers:

                def keep(_module: Any, _inputs: Any, output: Any, name: str = name) -> None:
                    found[name] = self._numpy(scores(output))

                handles.append(self.module.get_submodule(name).register_forward_hook(keep))
            self.run(batch)
        finally:
            for handle in handles:
                handle.remove()
        silent = [name for name in layers if name not in found]
        if silent:
            raise ModelError(
                f"layer {silent[0]!r} did not run for these inputs, so it has no features. Choose another."
            )
        return found

    def digest(self, run: Callable[[], Array]) -> str:
        """Over the file, or over all parameters, buffers and the printed architecture."""
        if self._file is not None:
            return sha256_file(self._file)
        state = {
            name: self._exact(value) for name, value in self.module.state_dict().items() if hasattr(value, "dtype")
        }
        kind = f"{type(self.module).__module__}.{type(self.module).__qualname__}"
        return fingerprint(
            {"kind": kind, "architecture": repr(self.module), **{f"state/{k}": v for k, v in state.items()}}
        )

    @contextmanager
    def _ready(self) -> Iterator[None]:
        if not self._is_graph and any(module.training for module in self.module.modules()):
            self.module.eval()  # dropout and batch statistics would make logits depend on chance and on neighbours
        before = self._torch.get_num_threads()
        if self._threads:
            self._torch.set_num_threads(self._threads)
        try:
            with self._torch.inference_mode():
                yield
        finally:
            if self._threads:
                self._torch.set_num_threads(before)

    def _tensor(self, batch: Array) -> Any:
        return self._torch.from_numpy(batch).to(self.device, self._dtype)

    def _numpy(self, tensor: Any) -> Array:
        values: Array = tensor.detach().float().cpu().numpy()
        return values

    def _exact(self, tensor: Any) -> Array:
        plain = tensor.detach().cpu()
        if plain.dtype == self._torch.bfloat16:  # numpy has none; its bits tell as much
            plain = plain.view(self._torch.int16)
        values: Array = np.asarray(plain.numpy())
        return values


def _device(torch: Any, wish: str) -> str:
    if wish != "auto":
        try:
            return str(torch.device(wish))
        except RuntimeError as error:
            raise ModelError(
                f'device must be "auto" or a torch device such as "cpu" or "cuda:0"; it is {wish!r}.'
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def from_module(module: Any, *, device: str = "auto", threads: int | None = None, weights: str | os.PathLike[str] | None = None) -> TorchBackend:  # fmt: skip
    """A torch module, with the weights of a safetensors file if one is given."""
    if weights is not None:
        load_weights(module, Path(weights))
    return TorchBackend(module, device=device, threads=threads)


def load_weights(module: Any, path: Path) -> None:
    """Fill a module from a safetensors file; every name and shape must fit."""
    if path.suffix != ".safetensors":
        raise ModelError(
            f"weights must be a .safetensors file, because loading anything else may run code from it; got {path.name!r}. "
            "Convert once with safetensors.torch.save_file(module.state_dict(), path)."
        )
    need("torch", "torch")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        module.load_state_dict(load_file(path))
    except FileNotFoundError as error:
        raise ModelError(f"there is no weights file {str(path)!r}.") from error
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ModelError(
            f"weights {str(path)!r} do not fit the module: {' '.join(str(error).split())[:600]}"
        ) from error


def from_file(path: Path, *, device: str = "auto", threads: int | None = None) -> TorchBackend:
    """A TorchScript or a torch.export file. Pickled checkpoints are refused: opening one runs what is in it."""
    need("torch", "torch")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise ModelError(f"{str(path)!r} is neither TorchScript nor torch.export: {error}. {_HOW}") from error
    inner = [name.split("/", 1)[-1] for name in names]
    if any(name.startswith("models/") for name in inner):
        program = load_exported(path)
        backend = TorchBackend(program.module(check_guards=False), device=device, threads=threads, file=path)
        backend.fixed_batch, backend.largest_batch = _exported_batch(program)
        return backend
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        return TorchBackend(_load_script(path), device=device, threads=threads, file=path)
    raise ModelError(
        f"{str(path)!r} is a pickled checkpoint; opening it could run code from the file. {_HOW} If you have the module in "
        'Python: open_model("package.module:factory", weights="weights.safetensors").'
    )


_HOW = "Save the network with torch.export.save (.pt2) or as ONNX."


def _load_script(path: Path) -> Any:
    torch = need("torch", "torch")
    with warnings.catch_warnings():
        # torch advises against TorchScript since 2.9; users still have such files.
        warnings.filterwarnings("ignore", message=r".*torch\.jit.*deprecated", category=DeprecationWarning)
        try:
            return torch.jit.load(str(path), map_location="cpu").eval()
        except RuntimeError as error:
            raise ModelError(
                f"{str(path)!r} is not intact TorchScript: {str(error).splitlines()[0]}. {_HOW}"
            ) from error


def _exported_batch(program: Any) -> tuple[int | None, int | None]:
    """The batch size an exported graph was frozen to, and the most rows it takes where its first axis is free."""
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
