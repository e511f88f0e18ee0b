"""A classifier as the rest of driftcal sees it: float32 inputs in, float32 logits out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from driftcal.checks import as_array
from driftcal.chunks import check_columns
from driftcal.errors import DriftcalError, ImagesError, InputError, ModelError, UnknownName
from driftcal.files import fingerprint
from driftcal.models.answers import Outputs, refuse_probabilities, to_logits
from driftcal.models.batch import choose_batch_size
from driftcal.models.preprocessing import Preprocessing
from driftcal.types import AnyArray, Array, Logits

_PROBE_ROWS = 16


class Backend(Protocol):
    """One framework's way to run a model. Everything else, from preprocessing to checks, is done by `Model`.

    `layout` is what the framework's nets usually want; `fixed_batch` the only batch size a file accepts, `largest_batch` the most rows it accepts, if
    it says so.
    """

    framework: str
    layout: str
    fixed_batch: int | None
    largest_batch: int | None
    classes: tuple[Any, ...] | None
    device: str

    def run(self, batch: Array) -> Array:
        """(n, ...) preprocessed float32 inputs to raw outputs (n, C), (n, 1) or (n,)."""
        ...

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Named intermediate results of a preprocessed batch; every name is one of `layers()`."""
        ...

    def layers(self) -> tuple[str, ...]:
        """Names that `features` knows; empty where the framework offers none."""
        ...

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over weights and architecture as they are now. `run` gives outputs on a fixed probe, for models
        that have nothing else to hash."""
        ...


class Model:
    """A model behind its adapter; made by :func:`driftcal.open_model`.

    The first inputs it sees settle `n_classes` and, when ``"auto"``, `batch_size`; `prepare` does that alone. Batches are
    the rows [k * batch_size, (k + 1) * batch_size) of whatever it is given.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        preprocessing: Preprocessing | None = None,
        outputs: Outputs = "logits",
        batch_size: int | Literal["auto"] = "auto",
        name: str | None = None,
    ) -> None:
        if outputs not in ("logits", "probabilities"):
            raise UnknownName.of("kind of outputs", outputs, ("logits", "probabilities"))
        if batch_size != "auto" and (not isinstance(batch_size, int) or batch_size < 1):
            raise InputError(f'batch_size must be a number of rows of at least 1, or "auto"; it is {batch_size!r}.')
        if backend.fixed_batch and batch_size not in ("auto", backend.fixed_batch):
            raise InputError(
                f"batch_size must be {backend.fixed_batch}, the only one this model was exported for; it is {batch_size}. "
                "Leave it out, or export the model with a free batch axis."
            )
        if backend.largest_batch and batch_size != "auto" and batch_size > backend.largest_batch:
            raise InputError(
                f"batch_size must be at most {backend.largest_batch}, for which this model was exported; it is {batch_size}."
            )
        self.backend = backend
        self.preprocessing = preprocessing or Preprocessing(layout=backend.layout)
        self.outputs: Outputs = outputs
        self.name = name or backend.framework
        self._batch_size = backend.fixed_batch or (None if batch_size == "auto" else int(batch_size))
        self._n_classes: int | None = None
        self._input_shape: tuple[int, ...] | None = None
        #: How to make this model again, elsewhere: ``open_again()``; None where only the object itself can travel.
        self.open_again: Callable[[], Model] | None = None

    def __reduce__(self) -> Any:
        """To another process a model travels as the way to open it, with what its first inputs have settled."""
        settled = {"_batch_size": self._batch_size, "_n_classes": self._n_classes, "_input_shape": self._input_shape}
        if self.open_again is None:
            return _rebuilt, (self.backend, self.preprocessing, self.outputs, self.name, settled)
        return _reopened, (self.open_again, settled)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, framework={self.framework!r}, outputs={self.outputs!r})"

    @property
    def framework(self) -> str:
        """``torch``, ``onnx``, ``keras``, ``sklearn`` or ``callable``."""
        return self.backend.framework

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """What each column of the logits stands for, where the model knows (scikit-learn)."""
        return self.backend.classes

    @property
    def layers(self) -> tuple[str, ...]:
        """The names that `features` accepts."""
        return self.backend.layers()

    @property
    def n_classes(self) -> int:
        """Columns of the logits; known once `prepare` or `logits` has seen inputs."""
        if self._n_classes is None:
            raise ModelError(
                "the number of classes is known after the first inputs; call model.prepare(inputs) before."
            )
        return self._n_classes

    @property
    def batch_size(self) -> int:
        """Rows per call of the model; part of a run's key."""
        if self._batch_size is None:
            raise ModelError("the batch size is known after the first inputs; call model.prepare(inputs) before.")
        return self._batch_size

    @property
    def fingerprint(self) -> str:
        """SHA-256 over weights, architecture, preprocessing and kind of outputs, taken anew each time.

        For a plain Python callable without a name it is a hash of its answers to fixed inputs.
        """
        return fingerprint(
            {
                "framework": self.framework,
                "weights": self.backend.digest(self._probe_answers),
                "preprocessing": self.preprocessing.to_dict(),
                "outputs": self.outputs,
            }
        )

    def describe(self) -> dict[str, Any]:
        """What to record about this model beside results and in artefacts."""
        return {
            "name": self.name, "framework": self.framework, "outputs": self.outputs, "device": self.backend.device,
            "classes": self._n_classes, "batch_size": self._batch_size,
            "preprocessing": self.preprocessing.to_dict(), "fingerprint": self.fingerprint,
        }  # fmt: skip

    def check_columns(self, inputs: AnyArray) -> None:
        """Refuse a data frame whose columns are not those that the model was fitted with, in the same order."""
        check_columns(inputs, getattr(self.backend, "columns", None), "inputs", "model", InputError)

    def prepare(self, inputs: AnyArray) -> Model:
        """Look at a few rows: check the outputs, settle classes and batch size. Returns the model itself."""
        self.check_columns(inputs)
        rows = _as_inputs(inputs)[:_PROBE_ROWS]
        if not len(rows):
            raise ImagesError("inputs must have at least one row to prepare a model; they have none.")
        self._input_shape = rows.shape[1:]
        batch = self._preprocessed(rows)
        answers = self._run(batch)
        refuse_probabilities(answers, self.outputs)
        self._n_classes = to_logits(answers, self.outputs, 0).shape[1]
        if self._batch_size is None:
            self._batch_size = self._fitting_batch(batch[:1])
        return self

    def logits(self, inputs: AnyArray) -> Logits:
        """float32 (n, C) for float32 images (n, H, W, C) in [0, 1], or features (n, F)."""
        self.check_columns(inputs)
        rows = _as_inputs(inputs)
        if self._n_classes is None or self._batch_size is None or self._input_shape != rows.shape[1:]:
            if not len(rows):
                raise ImagesError("inputs must have at least one row the first time; they have none.")
            self.prepare(rows)
        result = np.empty((len(rows), self.n_classes), np.float32)
        for start, batch in self._batches(rows):
            part = to_logits(self._run(batch), self.outputs, start)
            if part.shape[1] != self.n_classes:
                raise ModelError(
                    f"the model answered {part.shape[1]} columns, {self.n_classes} before. Is it the same model?"
                )
            result[start : start + len(batch)] = part
        return result

    def features(self, inputs: AnyArray, layers: Sequence[str]) -> dict[str, Array]:
        """float32 outputs (n, ...) of named layers, in the framework's own axis order."""
        rows = _as_inputs(inputs)
        known = self.layers
        if not known:
            raise ModelError(
                f"a {self.framework} model of this kind gives no intermediate layers. Open it as a torch module, as ONNX or "
                "as a Keras model."
            )
        for layer in layers:
            if layer not in known:
                raise UnknownName.of("layer", layer, known)
        if self._batch_size is None:
            self.prepare(rows)
        parts: dict[str, list[Array]] = {layer: [] for layer in layers}
        for _, batch in self._batches(rows):
            found = self._guarded(lambda padded: self.backend.features(padded, tuple(layers)), batch)
            for layer in layers:
                parts[layer].append(np.asarray(found[layer][: len(batch)], np.float32))
        return {layer: np.concatenate(arrays) for layer, arrays in parts.items()}

    def _batches(self, rows: Array) -> Iterator[tuple[int, Array]]:
        for start in range(0, len(rows), self.batch_size):
            yield start, self._preprocessed(rows[start : start + self.batch_size])

    def _preprocessed(self, rows: Array) -> Array:
        # a tree asks whether a feature lies above a number: rounded to float32 it may lie on the other side
        precise = self.framework == "sklearn" and rows.ndim == 2 and rows.dtype == np.float64
        return self.preprocessing(rows, np.float64 if precise else np.float32)

    def _run(self, batch: Array) -> Array:
        most = self.backend.fixed_batch or self.backend.largest_batch
        if most and len(batch) > most:  # probes are cut to what the model takes
            return np.concatenate([self._run(batch[i : i + most]) for i in range(0, len(batch), most)])
        answers = np.asarray(self._guarded(self.backend.run, batch))[: len(batch)]
        if answers.ndim == 1:
            answers = answers[:, None]
        if answers.ndim != 2 or len(answers) != len(batch) or answers.shape[1] == 0 or answers.dtype.kind not in "fiu":
            raise ModelError(
                f"the model must answer (n, classes) for n rows; for {len(batch)} rows it answered {answers.dtype} of shape "
                f"{answers.shape}. Open a model that ends in one score per class."
            )
        return answers

    def _guarded(self, run: Callable[[Array], Any], batch: Array) -> Any:
        fixed = self.backend.fixed_batch
        if fixed and len(batch) < fixed:
            batch = np.concatenate([batch, np.repeat(batch[-1:], fixed - len(batch), axis=0)])
        try:
            return run(batch)
        except DriftcalError:
            raise
        except MemoryError as error:
            raise self._too_large(batch, error) from error
        except Exception as error:
            if "out of memory" in str(error).lower():
                raise self._too_large(batch, error) from error
            raise ModelError(
                f"the {self.framework} model failed on a batch of shape {batch.shape}: {_brief(error)}. The preprocessing makes "
                f"{self.preprocessing.layout} of the inputs; give preprocessing=Preprocessing(layout=..., size=...) if the "
                "model wants another shape."
            ) from error

    def _too_large(self, batch: Array, error: BaseException) -> ModelError:
        return ModelError(
            f"a batch of {len(batch)} rows does not fit into memory: {_brief(error)}. Open the model with "
            f"batch_size={max(1, len(batch) // 2)}."
        )

    def _fitting_batch(self, row: Array) -> int:
        size = choose_batch_size(lambda n: self._run(np.repeat(row, n, axis=0)), row.nbytes)
        size = min(size, self.backend.largest_batch or size)
        while self.backend.device != "cpu" and size > 1:
            try:  # an accelerator has its own memory: ask it
                self._run(np.repeat(row, size, axis=0))
                break
            except ModelError as error:
                if "does not fit" not in str(error):
                    raise
                size //= 2
        return size

    def _probe_answers(self) -> Array:
        """Answers to fixed inputs, for models without weights to hash."""
        if self._input_shape is None:
            raise ModelError(
                "a callable without a name is known by its answers, and it has seen no inputs yet. Call model.prepare(inputs) "
                "first, or open it with name=..., which you change whenever the function changes."
            )
        rows = np.random.default_rng(0).random((4, *self._input_shape), np.float32)
        return self._run(self.preprocessing(rows))


def _reopened(open_again: Callable[[], Model], settled: dict[str, Any]) -> Model:
    model = open_again()
    model.__dict__.update(settled)
    return model


def _rebuilt(backend: Backend, preprocessing: Preprocessing, outputs: Outputs, name: str, settled: Any) -> Model:
    model = Model(backend, preprocessing=preprocessing, outputs=outputs, name=name)
    model.__dict__.update(settled)
    return model


def _as_inputs(inputs: AnyArray) -> Array:
    rows = as_array(inputs, "inputs", ImagesError)
    if rows.dtype == np.uint8 and rows.ndim == 4:
        raise ImagesError(
            "images must be float32 in [0, 1]; they are uint8. Divide by 255, or read them through a source."
        )
    if rows.ndim not in (2, 4) or rows.dtype.kind not in "fiu":
        raise ImagesError(
            f"inputs must be images (n, H, W, C) or features (n, F); they are {rows.dtype} of shape {rows.shape}."
        )
    return rows


def _brief(error: BaseException) -> str:
    """The first line of a framework's message: they run to pages."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
