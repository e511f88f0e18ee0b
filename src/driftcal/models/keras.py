"""Keras 3 models, from memory or from a ``.keras`` file, on the backend of the installed Keras."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.messages import first_line
from driftcal.core.validation import as_array
from driftcal.errors import ModelError, need, need_safe
from driftcal.io.fingerprint import fingerprint
from driftcal.models.archive_size import check_archive_size, check_unpacked_size
from driftcal.models.outputs import Outputs, scores
from driftcal.types import Array


def import_keras() -> Any:
    """Keras, on torch if the user has chosen no backend and tensorflow, its default, is not installed."""
    if "keras" not in sys.modules and "KERAS_BACKEND" not in os.environ and find_spec("tensorflow") is None:
        os.environ["KERAS_BACKEND"] = "torch"
    return need("keras", "keras")


class KerasBackend:
    """Runs a Keras model in inference mode."""

    framework = "keras"
    takes_tables = False
    takes_text = False
    takes_dictionaries = False
    fixed_batch: int | None = None
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None
    device = "cpu"  # Keras places models itself

    def __init__(self, model: Any, *, threads: int | None = None) -> None:
        self._keras = import_keras()
        self._threads = threads
        self.model = model
        shape = model.inputs[0].shape if getattr(model, "inputs", None) else (None,) * 4
        if getattr(model, "inputs", None) and len(model.inputs) != 1:
            raise ModelError(
                f"the Keras model must have one input; it has {len(model.inputs)}. Wrap it in a model with one input."
            )
        self.fixed_batch = shape[0] if shape else None
        channels_first = self._keras.config.image_data_format() == "channels_first"
        self.layout = "flat" if len(shape) == 2 else "NCHW" if channels_first else "NHWC"
        #: The layers of the last call of `features`, and the model that has them as outputs.
        self._with_layers: tuple[tuple[str, ...], Any] | None = None

    def configured(self, *, outputs: Outputs, name: str | None) -> KerasBackend:
        """This backend: a Keras model uses neither."""
        return self

    def run(self, batch: Array) -> Array:
        """Outputs of the model for a preprocessed batch."""
        return self._numpy(scores(self._call(self.model, batch)))

    def layers(self) -> tuple[str, ...]:
        """Names of the layers; () for a model that is a Python class without a graph."""
        if not getattr(self.model, "inputs", None):
            return ()
        return tuple(layer.name for layer in self.model.layers if not type(layer).__name__.endswith("InputLayer"))

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Outputs of the named layers."""
        names = tuple(layers)
        if self._with_layers is None or self._with_layers[0] != names:
            outputs = {name: self.model.get_layer(name).output for name in names}
            self._with_layers = (names, self._keras.Model(self.model.inputs[0], outputs))
        values = self._call(self._with_layers[1], batch)
        return {name: self._numpy(values[name]) for name in names}

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over all weights and the model's configuration."""
        try:
            architecture = self._architecture()
        except Exception:  # a model that is a Python class may have no configuration
            architecture = f"{type(self.model).__module__}.{type(self.model).__qualname__}"
        values = {f"weight/{number}": self._numpy(weight.value) for number, weight in enumerate(self.model.weights)}
        return fingerprint({"architecture": architecture, **values})

    def _architecture(self) -> str:
        """The configuration with numbered layers, because Keras gives the layers of every model new names."""
        text = str(self.model.to_json())
        names = [self.model.name, *(layer.name for layer in self.model._flatten_layers(include_self=False))]
        for number, name in enumerate(names):
            text = text.replace(f'"{name}"', f'"#{number}"')
        return text

    def _call(self, model: Any, batch: Array) -> Any:
        if self._keras.backend.backend() != "torch":
            return model.predict_on_batch(batch)
        torch = need("torch", "torch")
        previous = torch.get_num_threads()
        try:
            torch.set_num_threads(self._threads or previous)
            with torch.inference_mode():
                return model(batch, training=False)
        finally:
            torch.set_num_threads(previous)

    def _numpy(self, tensor: Any) -> Array:
        if hasattr(tensor, "detach"):  # Keras converts torch tensors in a way that numpy 2 warns about
            return as_array(tensor, "the output of the Keras model")
        return np.asarray(self._keras.ops.convert_to_numpy(tensor))


def from_file(path: Path, *, threads: int | None = None) -> KerasBackend:
    """A ``.keras`` file. Keras' safe mode refuses layers that hold Python code (Lambda)."""
    import_keras()  # chooses the backend
    keras = need_safe("keras", "keras")
    if not path.is_file():
        raise ModelError(f"there is no model file {str(path)!r}.")
    try:
        _check_size(path)
        return KerasBackend(keras.saving.load_model(path, compile=False, safe_mode=True), threads=threads)
    except ModelError:
        raise
    except Exception as error:  # a damaged file may raise any error
        raise ModelError(
            f"{str(path)!r} cannot be loaded by Keras in safe mode: {first_line(error)} If it needs custom layers or Lambdas, build it "
            'in Python and name that: open_model("package.module:factory").'
        ) from error


def _check_size(path: Path) -> None:
    """Refuse an archive that unpacks to far more than its size, and weights that HDF5 stores with far fewer bytes."""
    h5py = need("h5py", "keras")
    with zipfile.ZipFile(path) as archive:
        check_archive_size(path, archive)
        for member in archive.namelist():
            if member.endswith(".h5"):
                with archive.open(member) as stream, h5py.File(stream, "r") as weights:
                    sizes: list[int] = []
                    weights.visititems(lambda _, item, sizes=sizes: sizes.append(getattr(item, "nbytes", 0)))
                check_unpacked_size(path, sum(sizes))
