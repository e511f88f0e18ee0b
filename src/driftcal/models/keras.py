"""Keras 3 models, from memory or from a ``.keras`` file, on whichever backend Keras runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.checks import as_array
from driftcal.errors import ModelError, need
from driftcal.files import fingerprint
from driftcal.models.answers import scores
from driftcal.types import Array


def import_keras() -> Any:
    """Keras, on torch when the user has chosen no backend and its own default is not installed."""
    if "keras" not in sys.modules and "KERAS_BACKEND" not in os.environ and find_spec("tensorflow") is None:
        os.environ["KERAS_BACKEND"] = "torch"
    return need("keras", "keras")


class KerasBackend:
    """Runs a Keras model in inference mode."""

    framework = "keras"
    fixed_batch: int | None = None
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None
    device = "cpu"  # Keras places models itself

    def __init__(self, model: Any, *, threads: int | None = None) -> None:
        self._keras = import_keras()
        self._threads = threads
        self.model = model
        first = model.inputs[0].shape if getattr(model, "inputs", None) else (None,) * 4
        if getattr(model, "inputs", None) and len(model.inputs) != 1:
            raise ModelError(
                f"the Keras model must have one input; it has {len(model.inputs)}. Wrap it in one that has."
            )
        self.fixed_batch = first[0] if first else None
        channels_first = self._keras.config.image_data_format() == "channels_first"
        self.layout = "flat" if len(first) == 2 else "NCHW" if channels_first else "NHWC"
        self._wider: tuple[tuple[str, ...], Any] | None = None

    def run(self, batch: Array) -> Array:
        """Outputs of the model for a preprocessed batch."""
        return self._numpy(scores(self._call(self.model, batch)))

    def layers(self) -> tuple[str, ...]:
        """Names of the layers, for models whose graph Keras knows."""
        if not getattr(self.model, "inputs", None):
            return ()
        return tuple(layer.name for layer in self.model.layers if not type(layer).__name__.endswith("InputLayer"))

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Outputs of the named layers."""
        wanted = tuple(layers)
        if self._wider is None or self._wider[0] != wanted:
            outputs = {name: self.model.get_layer(name).output for name in wanted}
            self._wider = (wanted, self._keras.Model(self.model.inputs[0], outputs))
        found = self._call(self._wider[1], batch)
        return {name: self._numpy(found[name]) for name in wanted}

    def digest(self, run: Callable[[], Array]) -> str:
        """Over all weights and the model's configuration."""
        try:
            architecture = self._architecture()
        except Exception:  # models written as Python classes need not describe themselves
            architecture = f"{type(self.model).__module__}.{type(self.model).__qualname__}"
        values = {f"weight/{number}": self._numpy(weight.value) for number, weight in enumerate(self.model.weights)}
        return fingerprint({"architecture": architecture, **values})

    def _architecture(self) -> str:
        """The configuration with layers numbered: the names Keras invents count up with every model made."""
        text = str(self.model.to_json())
        names = [self.model.name, *(layer.name for layer in self.model._flatten_layers(include_self=False))]
        for number, name in enumerate(names):
            text = text.replace(f'"{name}"', f'"#{number}"')
        return text

    def _call(self, model: Any, batch: Array) -> Any:
        if self._keras.backend.backend() != "torch":
            return model.predict_on_batch(batch)
        torch = need("torch", "torch")
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(self._threads or before)
            with torch.inference_mode():
                return model(batch, training=False)
        finally:
            torch.set_num_threads(before)

    def _numpy(self, tensor: Any) -> Array:
        if hasattr(tensor, "detach"):  # torch tensors go their own way: Keras' trips over numpy 2's copy rules
            return as_array(tensor, "the answer of the Keras model")
        return np.asarray(self._keras.ops.convert_to_numpy(tensor))


def from_file(path: Path, *, threads: int | None = None) -> KerasBackend:
    """A ``.keras`` file. Layers that hold Python code (Lambda) are refused by Keras' safe mode."""
    keras = import_keras()
    if not path.is_file():
        raise ModelError(f"there is no model file {str(path)!r}.")
    try:
        return KerasBackend(keras.saving.load_model(path, compile=False, safe_mode=True), threads=threads)
    except ModelError:
        raise
    except Exception as error:  # Keras raises what the broken part happens to raise
        lines = str(error).splitlines() or [repr(error)]
        raise ModelError(
            f"{str(path)!r} cannot be loaded by Keras in safe mode: {lines[0][:400]} If it needs custom layers or Lambdas, build it "
            'in Python and name that: open_model("package.module:factory").'
        ) from error
