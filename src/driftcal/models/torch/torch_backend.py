"""A torch module as a model, with optional weights from a safetensors file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict
from driftcal.core.messages import first_line
from driftcal.errors import ModelError, need
from driftcal.io.fingerprint import fingerprint
from driftcal.models.file_digest import file_digest
from driftcal.models.outputs import Outputs, scores
from driftcal.types import Array, Inputs


class TorchBackend:
    """Runs a torch module in evaluation mode, without gradients, on one device."""

    framework = "torch"
    layout = "NCHW"
    takes_tables = False
    takes_text = False
    takes_dictionaries = True
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
        self.module = _on_device(torch, module, self.device)
        parameters = [p.dtype for p in module.parameters() if p.dtype.is_floating_point]
        self._dtype = parameters[0] if parameters else torch.float32
        self._torch = torch

    def configured(self, *, outputs: Outputs, name: str | None) -> TorchBackend:
        """This backend: a module uses neither."""
        return self

    def run(self, batch: Inputs) -> Array:
        """Outputs of the module for a preprocessed batch; the arrays of a dictionary are arguments by name."""
        with self._inference():
            if isinstance(batch, ArrayDict):
                output = self.module(**{name: self._tensor(values) for name, values in batch.arrays.items()})
            else:
                output = self.module(self._tensor(batch))
            return self._numpy(scores(output))

    def layers(self) -> tuple[str, ...]:
        """Names of the submodules; () for compiled files, whose submodules accept no hooks."""
        if self._is_graph or isinstance(self.module, self._torch.jit.ScriptModule):
            return ()
        return tuple(name for name, _ in self.module.named_modules() if name)

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Outputs of the named submodules, by forward hooks. If a submodule runs twice, the last output is used."""
        outputs: dict[str, Array] = {}
        handles = []
        try:
            for name in layers:

                def store(_module: Any, _inputs: Any, output: Any, name: str = name) -> None:
                    outputs[name] = self._numpy(scores(output))

                handles.append(self.module.get_submodule(name).register_forward_hook(store))
            self.run(batch)
        finally:
            for handle in handles:
                handle.remove()
        missing = [name for name in layers if name not in outputs]
        if missing:
            raise ModelError(
                f"layer {missing[0]!r} did not run for these inputs, so it has no features. Choose another."
            )
        return outputs

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over the file, or over all parameters, buffers and the printed architecture."""
        if self._file is not None:
            return file_digest(self._file)
        state = {
            name: self._exact(value) for name, value in self.module.state_dict().items() if hasattr(value, "dtype")
        }
        kind = f"{type(self.module).__module__}.{type(self.module).__qualname__}"
        return fingerprint(
            {"kind": kind, "architecture": repr(self.module), **{f"state/{k}": v for k, v in state.items()}}
        )

    @contextmanager
    def _inference(self) -> Iterator[None]:
        previous = self._torch.get_num_threads()
        if self._threads:
            self._torch.set_num_threads(self._threads)
        try:
            # in training mode, dropout and batch normalisation would make logits depend on chance and on the batch
            with evaluation_mode(None if self._is_graph else self.module), self._torch.inference_mode():
                yield
        finally:
            if self._threads:
                self._torch.set_num_threads(previous)

    def _tensor(self, batch: Array) -> Any:
        tensor = self._torch.from_numpy(np.require(batch, requirements=["C", "W"])).to(self.device)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _numpy(self, tensor: Any) -> Array:
        values: Array = tensor.detach().float().cpu().numpy()
        return values

    def _exact(self, tensor: Any) -> Array:
        """The values of a tensor in its dtype, for hashing."""
        on_cpu = tensor.detach().cpu()
        if on_cpu.dtype == self._torch.bfloat16:  # numpy has no bfloat16; the bits identify the values as well
            on_cpu = on_cpu.view(self._torch.int16)
        values: Array = np.asarray(on_cpu.numpy())
        return values


#: For each module in use: the number of current runs, and the training flag of each of its parts before the first.
_RUNNING: WeakKeyDictionary[Any, tuple[int, list[tuple[Any, bool]]]] = WeakKeyDictionary()
_RUNNING_LOCK = threading.Lock()


@contextmanager
def evaluation_mode(module: Any | None) -> Iterator[None]:
    """Put a module into evaluation mode inside a ``with`` block; the last of several threads restores its flags."""
    if module is None:
        yield
        return
    with _RUNNING_LOCK:
        runs, flags = _RUNNING.get(module, (0, []))
        if runs == 0:
            flags = [(part, part.training) for part in module.modules()]
            if any(training for _, training in flags):
                module.eval()
        _RUNNING[module] = (runs + 1, flags)
    try:
        yield
    finally:
        with _RUNNING_LOCK:
            runs, flags = _RUNNING.pop(module)
            if runs > 1:
                _RUNNING[module] = (runs - 1, flags)
            else:
                _restore(flags)


def _restore(flags: list[tuple[Any, bool]]) -> None:
    for part, training in flags:
        if training and not part.training:
            part.train()  # a module may do more than set the flag when its mode changes
    for part, training in flags:
        if part.training != training:
            part.training = training


def _device(torch: Any, device: str) -> str:
    if device != "auto":
        try:
            return str(torch.device(device))
        except RuntimeError as error:
            raise ModelError(
                f'device must be "auto" or a torch device such as "cpu" or "cuda:0"; it is {device!r}.'
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _on_device(torch: Any, module: Any, device: str) -> Any:
    try:
        return module.to(device)
    # torch raises each of these for a missing device
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        if device == "cpu" or "out of memory" in str(error).lower():
            raise
        raise ModelError(
            f"device must be one that torch can use on this machine; it is {device!r}, and torch {torch.__version__} says: "
            f"{first_line(error).rstrip('.')}. Leave device out to use an available one, or pass device='cpu'."
        ) from error


def from_module(
    module: Any, *, device: str = "auto", threads: int | None = None, weights: str | os.PathLike[str] | None = None
) -> TorchBackend:
    """A torch module, with the weights of a safetensors file if there is one."""
    if weights is not None:
        load_weights(module, Path(weights))
    return TorchBackend(module, device=device, threads=threads)


def load_weights(module: Any, path: Path) -> None:
    """Load the weights of a module from a safetensors file; every name and shape must fit."""
    if path.suffix != ".safetensors":
        raise ModelError(
            f"weights must be a .safetensors file, because loading anything else may run code from it; got {path.name!r}. "
            "Convert once with safetensors.torch.save_file(module.state_dict(), path)."
        )
    need("torch", "torch")
    safetensors = need("safetensors", "torch")
    load_file = need("safetensors.torch", "torch").load_file

    try:
        module.load_state_dict(load_file(path))
    except FileNotFoundError as error:
        raise ModelError(f"there is no weights file {str(path)!r}.") from error
    except (safetensors.SafetensorError, OSError, RuntimeError) as error:
        raise ModelError(
            f"weights {str(path)!r} do not fit the module: {' '.join(str(error).split())[:600]}"
        ) from error
