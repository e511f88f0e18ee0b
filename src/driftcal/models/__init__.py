"""From inputs to logits: one adapter per framework, all behind :class:`Model`.

Frameworks are imported when a model of theirs is opened. No file is ever unpickled: code runs only where the user names an
importable factory.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from driftcal.errors import InputError, ModelError
from driftcal.models.answers import SMALLEST_PROBABILITY, Outputs
from driftcal.models.features import pooled_features
from driftcal.models.model import Backend, Model
from driftcal.models.preprocessing import Preprocessing

#: Endings that open_model knows, and what they are.
FILES: dict[str, str] = {
    ".onnx": "ONNX",
    ".pt2": "torch.export",
    ".pt": "TorchScript",
    ".pth": "TorchScript",
    ".ts": "TorchScript",
    ".torchscript": "TorchScript",
    ".keras": "Keras 3",
}

__all__ = [
    "FILES",
    "SMALLEST_PROBABILITY",
    "Backend",
    "Model",
    "Outputs",
    "Preprocessing",
    "open_model",
    "pooled_features",
]

_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def open_model(
    what: Any,
    *,
    preprocessing: Preprocessing | Mapping[str, Any] | None = None,
    outputs: Outputs = "logits",
    batch_size: int | Literal["auto"] = "auto",
    device: str = "auto",
    threads: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Model:
    """Open a classifier: a file, an importable factory, a framework's object or any callable.

    ``"net.onnx"``, ``"net.pt2"`` (torch.export), ``"net.pt"`` (TorchScript), ``"net.keras"``, ``"package.module:factory"``
    (called without arguments; ``weights="w.safetensors"`` fills the torch module it returns), a torch module, a Keras
    model, an ONNX ModelProto, a fitted scikit-learn classifier or pipeline, a function. A `Model` is returned as it is.

    `preprocessing` says what the model wants done to images in [0, 1]; without it only the layout is adapted. A model that
    ends in softmax is refused unless ``outputs="probabilities"``, which returns log-probabilities.

    >>> import numpy as np
    >>> model = open_model(lambda batch: batch @ np.eye(4, 3, dtype=np.float32) - 2)
    >>> model.logits(np.zeros((5, 4), np.float32)).shape
    (5, 3)
    """
    if isinstance(what, Model):
        return what
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1; it is {threads}.")
    again = partial(
        open_model, _findable(what), preprocessing=preprocessing, outputs=outputs, batch_size=batch_size, device=device,
        threads=threads, weights=None if weights is None else _findable(weights), name=name,
    )  # fmt: skip
    label = name
    if isinstance(what, str) and _FACTORY.fullmatch(what) and not Path(what).exists():
        label = label or what
        what = _make(what)
        if isinstance(what, Model):
            what.open_again = what.open_again or again
            return what
    backend = _backend(what, device=device, threads=threads, weights=weights, outputs=outputs, name=name)
    # a mapping, such as a command line makes, may leave the layout to the framework
    steps = preprocessing
    if isinstance(steps, Mapping):
        steps = Preprocessing.from_dict({"layout": backend.layout, **steps})
    if label is None:
        label = Path(what).name if isinstance(what, str | os.PathLike) else type(what).__name__
    model = Model(backend, preprocessing=steps, outputs=outputs, batch_size=batch_size, name=label)
    model.open_again = again
    return model


def _findable(what: Any) -> Any:
    """A file by its whole path: a worker may have another current folder."""
    found = isinstance(what, str | os.PathLike) and Path(what).expanduser().is_file()
    return Path(what).expanduser().resolve() if found else what


def _make(spec: str) -> Any:
    module, _, path = spec.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{spec!r} must be package.module:factory; there is no module {error.name!r}. Is its folder on PYTHONPATH?"
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ModelError(f"module {module!r} has no {path!r}. Check the spelling.")
        found = getattr(found, part)
    if not callable(found):
        raise ModelError(
            f"{spec!r} must be a function without arguments that returns a model; it is {type(found).__name__}."
        )
    return found()


def _backend(
    what: Any,
    *,
    device: str,
    threads: int | None,
    weights: str | os.PathLike[str] | None,
    outputs: str,
    name: str | None,
) -> Backend:
    if isinstance(what, str | os.PathLike):
        if weights is not None:
            raise InputError("weights= goes with a torch module or a factory; a model file has its own. Leave one out.")
        return _from_file(Path(what).expanduser(), device=device, threads=threads)
    families = _families(what)
    # Keras before torch: on its torch backend a Keras model is a torch module as well.
    if "torch" in families and "keras" not in families and hasattr(what, "parameters"):
        from driftcal.models.pytorch import from_module

        return from_module(what, device=device, threads=threads, weights=weights)
    if weights is not None:
        raise InputError(f"weights= goes with a torch module; {type(what).__name__} is none. Leave it out.")
    if "keras" in families:
        from driftcal.models.keras3 import KerasBackend

        return KerasBackend(what, threads=threads)
    if type(what).__name__ == "ModelProto":
        from driftcal.models.onnx_runtime import OnnxBackend

        return OnnxBackend(what, device=device, threads=threads)
    if "sklearn" in families or hasattr(what, "predict_proba") or hasattr(what, "decision_function"):
        from driftcal.models.scikit import ScikitBackend

        return ScikitBackend(what, outputs=outputs)
    if callable(what):
        from driftcal.models.function import FunctionBackend

        return FunctionBackend(what, name=name)
    raise ModelError(
        f"a model must be a file, package.module:factory, a torch, Keras, ONNX or scikit-learn model or a callable; it is "
        f"{type(what).__name__}."
    )


def _families(what: Any) -> set[str]:
    """The top-level packages that the classes of an object come from: knows a framework without importing it."""
    return {base.__module__.partition(".")[0] for base in type(what).__mro__}


def _from_file(path: Path, *, device: str, threads: int | None) -> Backend:
    if path.suffix in (".pkl", ".pickle", ".joblib"):
        raise ModelError(
            f"{path.name!r} is pickled; opening it could run code from the file. Load it yourself where you trust it and pass the "
            'model, or name a function that does: open_model("package.module:factory").'
        )
    if path.suffix == ".safetensors":
        raise ModelError(
            f'{path.name!r} holds weights only. Name the network too: open_model("package.module:factory", weights=...).'
        )
    if not path.is_file():
        hint = " A factory is written package.module:function." if ":" in str(path) else ""
        raise ModelError(f"there is no model file {str(path)!r}.{hint} Known endings: {', '.join(FILES)}.")
    openers: dict[str, Callable[[], Backend]] = {
        "ONNX": lambda: _onnx(path, device, threads),
        "torch.export": lambda: _torch(path, device, threads),
        "TorchScript": lambda: _torch(path, device, threads),
        "Keras 3": lambda: _keras(path, threads),
    }
    if path.suffix not in FILES:
        raise ModelError(f"{path.name!r} must end in one of {', '.join(FILES)}. Export the model to ONNX if in doubt.")
    return openers[FILES[path.suffix]]()


def _onnx(path: Path, device: str, threads: int | None) -> Backend:
    from driftcal.models.onnx_runtime import OnnxBackend

    return OnnxBackend(path, device=device, threads=threads)


def _torch(path: Path, device: str, threads: int | None) -> Backend:
    from driftcal.models.pytorch import from_file

    return from_file(path, device=device, threads=threads)


def _keras(path: Path, threads: int | None) -> Backend:
    from driftcal.models.keras3 import from_file

    return from_file(path, threads=threads)
