"""`open_model`: it recognises the framework of a file or an object, and makes the adapter."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from driftcal.errors import InputError, ModelError
from driftcal.io.paths import demo_hint
from driftcal.models.backend import Backend
from driftcal.models.boosters import BOOSTER_FILES, booster_framework, from_booster, from_booster_file
from driftcal.models.model import Model
from driftcal.models.outputs import Outputs
from driftcal.models.preprocessing import Preprocessing
from driftcal.models.transformers import (
    TextBackend,
    class_names_of,
    is_pipeline,
    is_processor,
    parts_of_pipeline,
    preprocessing_of,
)

#: Ending of a model file -> its format.
FILES: dict[str, str] = {
    ".onnx": "ONNX",
    ".pt2": "torch.export",
    ".pt": "TorchScript",
    ".pth": "TorchScript",
    ".ts": "TorchScript",
    ".torchscript": "TorchScript",
    ".keras": "Keras 3",
    ".txt": "LightGBM",
    ".json": "XGBoost",
    ".ubj": "XGBoost",
    ".cbm": "CatBoost",
}

_FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def open_model(
    model: Any,
    *,
    preprocessing: Preprocessing | Mapping[str, Any] | Any | None = None,
    outputs: Outputs | None = None,
    class_names: Sequence[Any] | None = None,
    batch_size: int | Literal["auto"] | None = None,
    device: str | None = None,
    threads: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    name: str | None = None,
    tokenizer: Any = None,
    trust: bool = False,
) -> Model:
    """Open a classifier: a file, an importable factory, a framework's object or any callable.

    Parameters
    ----------
    model
        ``"net.onnx"``, ``"net.pt2"`` (torch.export), ``"net.pt"`` (TorchScript), ``"net.keras"``,
        ``"trees.txt"`` (LightGBM), ``"trees.json"`` or ``"trees.ubj"`` (XGBoost), ``"trees.cbm"`` (CatBoost),
        ``"package.module:factory"`` (called without arguments), a model or a pipeline of transformers, a torch module, a Keras model, an ONNX ModelProto, a
        fitted scikit-learn classifier or pipeline, a booster of LightGBM, XGBoost or CatBoost, a function. A `Model` is
        returned with the options of this call.
    preprocessing
        The steps from images in [0, 1] to the inputs of the model. Without it only the layout is adapted. An image
        processor of transformers or timm's ``pretrained_cfg`` is taken as well.
    outputs
        ``"logits"`` (default) or ``"probabilities"``, for a model that ends in a softmax; their logarithms are the
        logits. A model whose outputs look like the other kind is refused.
    class_names
        The names of the classes in the order of the outputs. Text labels need them. Scikit-learn models store theirs.
    batch_size
        Samples per call of the model; ``"auto"`` (default) is the largest number that fits into memory, up to 256.
    device
        ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ...: for torch and ONNX.
    threads
        Threads of torch, Keras on torch, or ONNX. Scikit-learn models and functions choose theirs themselves.
    weights
        A safetensors file with the weights of a torch module, such as one that a factory returns.
    name
        The name of the model in results. It also identifies a function: change the name with the function.
    tokenizer
        The tokenizer of a text model of transformers; a pipeline brings its own.
    trust
        Open TorchScript files, which can run code and write files while they are loaded.

    >>> import numpy as np
    >>> model = open_model(lambda batch: batch @ np.eye(4, 3, dtype=np.float32) - 2, class_names=["cat", "dog", "eel"])
    >>> model.logits(np.zeros((5, 4), np.float32)).shape
    (5, 3)
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1; it is {threads}.")
    options: dict[str, Any] = {
        "preprocessing": preprocessing, "outputs": outputs, "class_names": class_names, "batch_size": batch_size, "name": name,
    }  # fmt: skip
    settings = _Settings(device, threads, weights, trust, tokenizer)
    if isinstance(model, Model):
        return _reconfigured(model, options, settings)
    if "transformers" in _packages(model):
        model, options, settings = _unpacked(model, options, settings)
        preprocessing, class_names = options["preprocessing"], options["class_names"]
    open_again = partial(open_model, _absolute(model), **options, **settings.absolute())
    label = name
    if isinstance(model, str) and _FACTORY.fullmatch(model) and not os.path.exists(model):
        label = label or model
        model = _call_factory(model)
        if isinstance(model, Model):
            reconfigured = _reconfigured(model, options, settings)
            reconfigured.open_again = open_again
            return reconfigured
    outputs = "logits" if outputs is None else outputs
    backend = _backend(model, settings, outputs=outputs, name=name)
    if label is None:
        label = Path(model).name if isinstance(model, str | os.PathLike) else type(model).__name__
    if preprocessing is not None and is_processor(preprocessing):
        preprocessing = preprocessing_of(preprocessing)
    if isinstance(preprocessing, Mapping):  # from a command line or a file; the default layout is the framework's
        preprocessing = Preprocessing.from_dict({"layout": backend.layout, **preprocessing})
    opened = Model(
        backend,
        preprocessing=preprocessing,
        outputs=outputs,
        batch_size="auto" if batch_size is None else batch_size,
        name=label,
        class_names=class_names,
    )
    opened.open_again = open_again
    return opened


@dataclass(frozen=True)
class _Settings:
    """Options that an adapter needs while it is made; None or False if the user has not set them."""

    device: str | None
    threads: int | None
    weights: str | os.PathLike[str] | None
    trust: bool
    tokenizer: Any = None

    def absolute(self) -> dict[str, Any]:
        """These settings as arguments of `open_model` in another process."""
        weights = None if self.weights is None else _absolute(self.weights)
        return {
            "device": self.device,
            "threads": self.threads,
            "weights": weights,
            "trust": self.trust,
            "tokenizer": self.tokenizer,
        }


def _unpacked(model: Any, options: dict[str, Any], settings: _Settings) -> tuple[Any, dict[str, Any], _Settings]:
    """A model of transformers, out of its pipeline if it is one, with the class names of its configuration."""
    processor = None
    if is_pipeline(model):
        model, tokenizer, processor = parts_of_pipeline(model)
        settings = replace(settings, tokenizer=settings.tokenizer or tokenizer)
    preprocessing, names = options["preprocessing"], options["class_names"]
    changed = {
        **options,
        "preprocessing": processor if preprocessing is None else preprocessing,
        "class_names": class_names_of(model) if names is None else names,
    }
    return model, changed, settings


def _reconfigured(model: Model, options: dict[str, Any], settings: _Settings) -> Model:
    """An open model with other options; it is opened again if they need a new adapter."""
    for argument, value in (
        ("weights", settings.weights), ("trust", settings.trust or None), ("tokenizer", settings.tokenizer),
    ):  # fmt: skip
        if value is not None:
            raise InputError(
                f"{argument} belongs to a model that is not open yet; this is an open Model. Leave it out, or pass the file or "
                "the module itself."
            )
    adapter_options = {"device": settings.device, "threads": settings.threads}
    changes = {argument: value for argument, value in adapter_options.items() if value is not None}
    if changes:
        if model.open_again is None:
            raise InputError(
                f"{' and '.join(changes)} must be set when a model is opened; this Model cannot be opened again. Leave it out, or "
                "pass the file or object of the Model."
            )
        model = model.open_again(**changes)
    return model.with_options(**options)


def _absolute(model: Any) -> Any:
    """A file by its absolute path: a worker may have another current folder."""
    is_file = isinstance(model, str | os.PathLike) and os.path.isfile(os.path.expanduser(model))
    return Path(os.path.expanduser(model)).resolve() if is_file else model


def _call_factory(spec: str) -> Any:
    """The model that ``package.module:factory`` returns."""
    module, _, path = spec.partition(":")
    try:
        factory: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{spec!r} must be package.module:factory; there is no module {error.name!r}. Is its folder on PYTHONPATH?"
        ) from error
    for part in path.split("."):
        if not hasattr(factory, part):
            raise ModelError(f"module {module!r} has no {path!r}. Check the spelling.")
        factory = getattr(factory, part)
    if not callable(factory):
        raise ModelError(
            f"{spec!r} must be a function without arguments that returns a model; it is {type(factory).__name__}."
        )
    return factory()


def _backend(model: Any, settings: _Settings, *, outputs: Outputs, name: str | None) -> Backend:
    """The adapter for a file or an object."""
    device, threads, weights = settings.device or "auto", settings.threads, settings.weights
    if isinstance(model, str | os.PathLike):
        if weights is not None:
            raise InputError(
                "weights= goes with a torch module or a factory; a model file holds weights. Leave one out."
            )
        return _from_file(
            Path(os.path.expanduser(model)), device=device, threads=threads, trust=settings.trust, outputs=outputs
        )
    frameworks = _packages(model)
    # Keras before torch: on its torch backend a Keras model is a torch module as well.
    if settings.tokenizer is not None:
        if weights is not None or "torch" not in frameworks:
            raise InputError(
                f"tokenizer goes with a text model of transformers, without weights; got {type(model).__name__}. Leave it out."
            )
        return TextBackend(model, settings.tokenizer, device=device, threads=threads)
    if "torch" in frameworks and "keras" not in frameworks and hasattr(model, "parameters"):
        from driftcal.models.torch import from_module

        return from_module(model, device=device, threads=threads, weights=weights)
    if weights is not None:
        raise InputError(f"weights= goes with a torch module; {type(model).__name__} is none. Leave it out.")
    if type(model).__name__ == "ModelProto":
        from driftcal.models.onnx.onnx_backend import OnnxBackend

        return OnnxBackend(model, device=device, threads=threads)
    if "keras" in frameworks:
        from driftcal.models.keras import KerasBackend

        _refuse_device(device, "Keras places models itself", allowed=("auto",))
        return KerasBackend(model, threads=threads)
    if (booster := booster_framework(model)) is not None:
        _refuse_device(device, f"{booster} was told at training where it runs")
        return from_booster(model, booster, outputs=outputs)
    if "sklearn" in frameworks or hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
        from driftcal.models.sklearn import ScikitBackend

        _refuse_device(device, "scikit-learn models run on the processor")
        return ScikitBackend(model, outputs=outputs)
    if callable(model):
        from driftcal.models.callable import CallableBackend

        _refuse_device(device, "a function chooses its device itself")
        return CallableBackend(model, name=name)
    raise ModelError(
        f"a model must be a file, package.module:factory, a torch, Keras, ONNX or scikit-learn model, a booster or a callable; it is "
        f"{type(model).__name__}."
    )


def _refuse_device(device: str, reason: str, allowed: tuple[str, ...] = ("auto", "cpu")) -> None:
    if device not in allowed:
        raise InputError(f"device is for torch and ONNX models; it is {device!r}, but {reason}. Leave it out.")


def _packages(model: Any) -> set[str]:
    """The top-level packages of an object's classes, which show its framework without importing it."""
    return {base.__module__.partition(".")[0] for base in type(model).__mro__}


def _from_file(path: Path, *, device: str, threads: int | None, trust: bool, outputs: Outputs) -> Backend:
    """The adapter for a model file, by its ending."""
    if path.suffix in (".pkl", ".pickle", ".joblib"):
        raise ModelError(
            f"{path.name!r} is pickled; opening it could run code from the file. Load it yourself where you trust it and pass the "
            'model, or name a function that does: open_model("package.module:factory").'
        )
    if path.suffix in (".model", ".bin", ".deprecated", ".bst"):
        raise ModelError(
            f"{path.name!r} is in an old or unknown binary format, which is not checked while it is read. Write an XGBoost model as "
            "model.ubj or model.json, a LightGBM model as model.txt, a CatBoost model as model.cbm."
        )
    if path.suffix == ".safetensors":
        raise ModelError(
            f'{path.name!r} holds weights only. Name the network too: open_model("package.module:factory", weights=...).'
        )
    if not os.path.isfile(path):
        hint = " A factory is written package.module:function." if ":" in str(path) else demo_hint(path)
        raise ModelError(f"there is no model file {str(path)!r}.{hint} Known endings: {', '.join(FILES)}.")
    if path.suffix not in FILES:
        raise ModelError(f"{path.name!r} must end in one of {', '.join(FILES)}. Export the model to ONNX if in doubt.")
    openers: dict[str, Callable[[], Backend]] = {
        "ONNX": lambda: _onnx(path, device, threads),
        "torch.export": lambda: _torch(path, device, threads, trust),
        "TorchScript": lambda: _torch(path, device, threads, trust),
        "Keras 3": lambda: _keras(path, device, threads),
    }
    if path.suffix in BOOSTER_FILES:
        _refuse_device(device, "trees run on the processor")
        return from_booster_file(path, outputs=outputs)
    return openers[FILES[path.suffix]]()


def _onnx(path: Path, device: str, threads: int | None) -> Backend:
    from driftcal.models.onnx.onnx_backend import OnnxBackend

    return OnnxBackend(path, device=device, threads=threads)


def _torch(path: Path, device: str, threads: int | None, trust: bool) -> Backend:
    from driftcal.models.torch import from_file

    return from_file(path, device=device, threads=threads, trust=trust)


def _keras(path: Path, device: str, threads: int | None) -> Backend:
    from driftcal.models.keras import from_file

    _refuse_device(device, "Keras places models itself", allowed=("auto",))
    return from_file(path, threads=threads)
