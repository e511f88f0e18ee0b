"""The classifier of all frameworks: float32 inputs in, float32 logits out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict, as_array_dict, is_array_dict
from driftcal.core.inputs.frames import as_matrix, check_no_mixed_values, describe_columns, is_frame, take
from driftcal.core.inputs.texts import as_texts, is_text
from driftcal.core.messages import first_line
from driftcal.core.scalars import is_whole
from driftcal.core.validation import REAL_KINDS, SURELY_PROBABILITIES, as_array, check_columns
from driftcal.errors import DriftcalError, ImagesError, InputError, ModelError, UnknownName
from driftcal.io.fingerprint import fingerprint
from driftcal.models.backend import Backend, LayerBackend
from driftcal.models.batch_size import choose_batch_size
from driftcal.models.outputs import Outputs, check_kind_of_outputs, samples_with_nan, to_logits
from driftcal.models.preprocessing import Preprocessing
from driftcal.types import AnyArray, Array, Inputs, Logits

#: Number of samples that `Model.prepare` runs.
_PROBE_SAMPLES = 16

#: Rows of a data frame per call of a model: each call checks every column anew, which takes milliseconds.
TABLE_BATCH = 4096

#: Texts per call of a model.
TEXT_BATCH = 64


class Model:
    """A classifier with its adapter and its options; :func:`driftcal.open_model` makes it.

    The first inputs determine `n_classes` and, if it is ``"auto"``, `batch_size`; `prepare` does only that. A batch is
    always the samples [k * batch_size, (k + 1) * batch_size) of the inputs.

    Parameters
    ----------
    backend
        The adapter of the framework.
    preprocessing, outputs, batch_size, name, class_names
        As in :func:`driftcal.open_model`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        preprocessing: Preprocessing | None = None,
        outputs: Outputs = "logits",
        batch_size: int | Literal["auto"] = "auto",
        name: str | None = None,
        class_names: Sequence[Any] | None = None,
    ) -> None:
        if outputs not in ("logits", "probabilities"):
            raise UnknownName.of("kind of outputs", outputs, ("logits", "probabilities"))
        _check_batch_size(batch_size, backend)
        self.backend = backend
        self.preprocessing = (preprocessing or Preprocessing()).with_usual_layout(backend.layout)
        self.outputs: Outputs = outputs
        self.name = name or backend.framework
        self._class_names = _checked_names(class_names, backend.classes)
        self._batch_size = backend.fixed_batch or (None if batch_size == "auto" else int(batch_size))
        self._n_classes: int | None = None
        self._input_shape: tuple[Any, ...] | None = None
        #: For inputs that are dictionaries: fixed samples, whose outputs identify a function.
        self._example: ArrayDict | None = None
        #: Opens this model again, in another process or with other options; None if there is only this object.
        self.open_again: Callable[..., Model] | None = None

    def __reduce__(self) -> Any:
        """Another process opens the model again, and receives the settings that the first inputs determined."""
        names = ("_batch_size", "_n_classes", "_input_shape", "_example")
        state = {name: getattr(self, name) for name in names}
        if self.open_again is None:
            return _rebuilt, (self.backend, self.preprocessing, self.outputs, self.name, self._class_names, state)
        return _reopened, (self.open_again, state)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, framework={self.framework!r}, outputs={self.outputs!r})"

    @property
    def framework(self) -> str:
        """``torch``, ``onnx``, ``keras``, ``sklearn``, ``lightgbm``, ``xgboost``, ``catboost`` or ``callable``."""
        return self.backend.framework

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes of the outputs that the model itself stores (``classes_`` of scikit-learn), or None."""
        return self.backend.classes

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes in the order of the outputs: the user's, or those that the model stores, or None."""
        if self._class_names is None and self.classes is not None:
            return tuple(map(str, self.classes))
        return self._class_names

    @property
    def layers(self) -> tuple[str, ...]:
        """The names that `features` accepts."""
        return self.backend.layers()

    @property
    def note(self) -> str:
        """What the adapter changes of the model's outputs, as a sentence; empty if nothing."""
        return str(getattr(self.backend, "note", ""))

    @property
    def n_classes(self) -> int:
        """Columns of the logits; available after `prepare` or `logits`."""
        if self._n_classes is None:
            raise ModelError(
                "the number of classes is known after the first inputs; call model.prepare(inputs) before."
            )
        return self._n_classes

    @property
    def batch_size(self) -> int:
        """Samples per call of the model; part of the key under which logits are cached."""
        if self._batch_size is None:
            raise ModelError("the batch size is known after the first inputs; call model.prepare(inputs) before.")
        return self._batch_size

    @property
    def fingerprint(self) -> str:
        """SHA-256 over weights, architecture, preprocessing and kind of outputs, as they are now.

        For a plain Python callable without a name it is a hash of its outputs for fixed inputs. Files are hashed once
        while they do not change. Names of classes are not part of it, because they do not change the logits.
        """
        return fingerprint(
            {
                "framework": self.framework,
                "weights": self.backend.digest(self._probe_outputs),
                "preprocessing": self.preprocessing.to_dict(),
                "outputs": self.outputs,
            }
        )

    def metadata(self) -> dict[str, Any]:
        """The description of this model in results and files."""
        return {
            "name": self.name, "framework": self.framework, "outputs": self.outputs, "device": self.backend.device,
            "classes": self._n_classes, "class_names": None if self.class_names is None else list(self.class_names),
            "batch_size": self._batch_size, "preprocessing": self.preprocessing.to_dict(),
            "fingerprint": self.fingerprint,
        }  # fmt: skip

    def with_options(
        self,
        *,
        preprocessing: Preprocessing | Mapping[str, Any] | None = None,
        outputs: Outputs | None = None,
        batch_size: int | Literal["auto"] | None = None,
        name: str | None = None,
        class_names: Sequence[Any] | None = None,
    ) -> Model:
        """The same network with other options.

        Parameters
        ----------
        preprocessing, outputs, batch_size, name, class_names
            As in :func:`driftcal.open_model`. None keeps an option.
        """
        if isinstance(preprocessing, Mapping):
            preprocessing = Preprocessing.from_dict({"layout": self.backend.layout, **preprocessing})
        options: dict[str, Any] = {
            "preprocessing": preprocessing, "outputs": outputs, "batch_size": batch_size, "name": name,
            "class_names": class_names,
        }  # fmt: skip
        changes = {option: value for option, value in options.items() if value is not None}
        if not changes:
            return self
        backend = self.backend
        if outputs is not None or name is not None:
            backend = backend.configured(outputs=outputs or self.outputs, name=name)
        unchanged = {
            "preprocessing": self.preprocessing, "outputs": self.outputs, "batch_size": self._batch_size or "auto",
            "name": self.name, "class_names": self._class_names,
        }  # fmt: skip
        model = Model(backend, **{**unchanged, **changes})
        if self.open_again is not None:
            model.open_again = partial(self.open_again, **changes)
        return model

    def check_columns(self, inputs: AnyArray) -> None:
        """Refuse a data frame whose columns are not those that the model was fitted with, in the same order."""
        check_columns(inputs, getattr(self.backend, "columns", None), "inputs", "model", InputError)

    def prepare(self, inputs: AnyArray) -> Model:
        """Run a few samples to check the outputs and to determine `n_classes` and `batch_size`; returns the model."""
        self.check_columns(inputs)
        samples = take(self._as_inputs(inputs), slice(_PROBE_SAMPLES))
        if not len(samples):
            raise ImagesError("inputs must have at least one sample to prepare a model; they have none.")
        batch = self._preprocessed(samples)
        raw = self._run(batch)
        # the log-odds of a few samples may all lie in [0, 1]
        if raw.shape[1] > 1 or self.outputs == "probabilities" or len(raw) >= SURELY_PROBABILITIES:
            check_kind_of_outputs(raw, self.outputs)
        logits = to_logits(raw, self.outputs, 0, batch)
        if self._class_names is not None and len(self._class_names) != logits.shape[1]:
            raise InputError(
                f"class_names must name each of the model's {logits.shape[1]} outputs; it holds {len(self._class_names)} names. "
                "List them in the order of the outputs."
            )
        self._input_shape, self._n_classes = _sample_shape(samples), logits.shape[1]
        self._example = samples.fixed_samples() if isinstance(samples, ArrayDict) else None
        if self._batch_size is None:
            self._batch_size = self._usual_batch(batch)
        return self

    def logits(self, inputs: AnyArray) -> Logits:
        """float32 (n, C) for float32 images (n, H, W, C) in [0, 1], series (n, length, channels), or features (n, F)."""
        self.check_columns(inputs)
        samples = self._as_inputs(inputs)
        if self._n_classes is None or self._batch_size is None or self._input_shape != _sample_shape(samples):
            if not len(samples):
                raise ImagesError("inputs must have at least one sample the first time; they have none.")
            self.prepare(samples)
        result = np.empty((len(samples), self.n_classes), np.float32)
        for start, batch in self._batches(samples):
            logits = to_logits(self._run(batch, start), self.outputs, start, batch)
            if logits.shape[1] != self.n_classes:
                raise ModelError(
                    f"the model must return {self.n_classes} columns for every batch; it returned {logits.shape[1]}. Is it "
                    "the same model?"
                )
            result[start : start + len(batch)] = logits
        return result

    def features(self, inputs: AnyArray, layers: Sequence[str]) -> dict[str, Array]:
        """float32 outputs (n, ...) of named layers, in the axis order of the framework."""
        samples = self._as_inputs(inputs)
        if not self.layers:
            raise ModelError(
                f"a {self.framework} model of this kind gives no intermediate layers. Open it as a torch module, as ONNX or "
                "as a Keras model."
            )
        for layer in layers:
            if layer not in self.layers:
                raise UnknownName.of("layer", layer, self.layers)
        if self._batch_size is None:
            self.prepare(samples)
        backend = cast(LayerBackend, self.backend)  # it has layers
        parts: dict[str, list[Array]] = {layer: [] for layer in layers}
        for start, batch in self._batches(samples):
            outputs = self._guarded(lambda padded: backend.features(padded, tuple(layers)), batch, start)
            for layer in layers:
                parts[layer].append(np.asarray(outputs[layer][: len(batch)], np.float32))
        return {layer: np.concatenate(arrays) for layer, arrays in parts.items()}

    def _as_inputs(self, inputs: AnyArray) -> Inputs:
        """Inputs as an array, or as a data frame, texts or a dictionary for a model that takes these."""
        if is_array_dict(inputs):
            if not self.backend.takes_dictionaries:
                raise InputError(
                    f"inputs must be one array or table for a {self.framework} model; they are a dictionary of arrays. Open a function "
                    "of the dictionary instead: open_model(function, name=...)."
                )
            return as_array_dict(inputs, "inputs")
        if is_text(inputs):
            if not self.backend.takes_text:
                raise InputError(
                    f"inputs must be numbers for a {self.framework} model; they are texts. Pass the tokenizer too: "
                    "open_model(model, tokenizer=tokenizer), or open a function or a scikit-learn pipeline of texts."
                )
            return as_texts(inputs)
        if not is_frame(inputs):
            return _as_array(inputs)
        return inputs if self.backend.takes_tables else as_matrix(inputs, f"a {self.framework} model")

    def _batches(self, samples: Inputs) -> Iterator[tuple[int, Inputs]]:
        for start in range(0, len(samples), self.batch_size):
            yield start, self._preprocessed(take(samples, slice(start, start + self.batch_size)))

    def _usual_batch(self, batch: Inputs) -> int:
        if is_frame(batch):
            return TABLE_BATCH
        return TEXT_BATCH if is_text(batch) or isinstance(batch, ArrayDict) else self._fitting_batch_size(batch[:1])

    def _preprocessed(self, samples: Inputs) -> Inputs:
        if (kind := _kind_without_preprocessing(samples)) is not None:
            if self.preprocessing != Preprocessing(layout=self.preprocessing.layout):
                raise InputError(
                    f"preprocessing is for images and matrices; the inputs are {kind}, and it is "
                    f"{self.preprocessing}. Leave it out, and put the steps into the model (a scikit-learn Pipeline)."
                )
            return samples
        # a tree compares a feature with a threshold, and rounding to float32 could change the result
        keeps_float64 = self.backend.takes_tables and samples.ndim == 2 and samples.dtype == np.float64
        return self.preprocessing(samples, np.float64 if keeps_float64 else np.float32)

    def _run(self, batch: Inputs, start: int = 0) -> Array:
        """The raw outputs (n, C) for a preprocessed batch whose first sample has the number `start`."""
        limit = self.backend.fixed_batch or self.backend.largest_batch
        if limit and len(batch) > limit:  # the samples of `prepare` may be more than the model takes at once
            parts = [self._run(batch[low : low + limit], start + low) for low in range(0, len(batch), limit)]
            return np.concatenate(parts)
        raw = np.asarray(self._guarded(self.backend.run, batch, start))[: len(batch)]
        if raw.ndim == 1:
            raw = raw[:, None]
        if raw.ndim != 2 or len(raw) != len(batch) or raw.shape[1] == 0 or raw.dtype.kind not in REAL_KINDS:
            raise ModelError(
                f"the model must return (n, classes) for n samples; for {len(batch)} samples it returned {raw.dtype} of shape "
                f"{raw.shape}. Open a model that ends in one score per class."
            )
        return raw

    def _guarded(self, run: Callable[[Inputs], Any], batch: Inputs, start: int = 0) -> Any:
        """Run a batch, padded to the model's only size if it has one; a framework's error becomes a `ModelError`."""
        fixed = self.backend.fixed_batch
        if fixed and len(batch) < fixed:
            batch = take(batch, np.minimum(np.arange(fixed), len(batch) - 1))
        try:
            return run(batch)
        except DriftcalError:
            raise
        except MemoryError as error:
            raise self._too_large(batch, error) from error
        except Exception as error:
            if "out of memory" in str(error).lower():
                raise self._too_large(batch, error) from error
            with_nan = samples_with_nan(batch)
            if is_text(batch):
                hint = f"Pass texts that the model takes; the first sample of the batch begins with {batch[0][:40]!r}."
            elif isinstance(batch, ArrayDict):
                hint = f"Pass the arrays that the model takes, under its names; these are {batch}."
            elif is_frame(batch):
                hint = (
                    "Pass a table with the columns and dtypes that the model was fitted on; this one has "
                    f"{describe_columns(batch)}{', with missing values' if len(with_nan) else ''}."
                )
            elif len(with_nan):
                hint = f"The inputs hold NaN, first in sample {start + int(with_nan[0])}: fill the missing values, or drop the samples."
            elif batch.ndim != 4:
                hint = 'Pass inputs of the shape that the model takes; tokens as a dictionary of arrays, {"input_ids": tokens}.'
            else:
                hint = (
                    f"The preprocessing turns the inputs into {self.preprocessing.layout}; give "
                    "preprocessing=Preprocessing(layout=..., size=...) if the model needs another shape."
                )
            raise ModelError(
                f"the {self.framework} model failed on a {'table' if is_frame(batch) else 'batch'} of shape {batch.shape}: {_type_and_message(error)}. {hint}"
            ) from error

    def _too_large(self, batch: Inputs, error: BaseException) -> ModelError:
        return ModelError(
            f"a batch of {len(batch)} samples does not fit into memory: {_type_and_message(error)}. Open the model with "
            f"batch_size={max(1, len(batch) // 2)}."
        )

    def _fitting_batch_size(self, sample: Array) -> int:
        size = choose_batch_size(lambda n: self._run(np.repeat(sample, n, axis=0)), sample.nbytes)
        size = min(size, self.backend.largest_batch or size)
        while self.backend.device != "cpu" and size > 1:
            try:  # the free memory of an accelerator is found by running the model
                self._run(np.repeat(sample, size, axis=0))
                break
            except ModelError as error:
                if "does not fit" not in str(error):
                    raise
                size //= 2
        return size

    def _probe_outputs(self) -> Array:
        """Outputs for fixed inputs, for models without weights to hash."""
        if self._input_shape is None:
            raise ModelError(
                "a callable without a name is identified by its outputs, and it has had no inputs yet. Call "
                "model.prepare(inputs) first, or open it with name=..., which you change whenever the function changes."
            )
        if self._example is not None:
            return self._run(self._example)
        if self._input_shape == ():
            return self._run(as_texts(["", "a", "The quick brown fox", "jumps over 13 lazy dogs."]))
        samples = np.random.default_rng(0).random((4, *self._input_shape), np.float32)
        return self._run(self.preprocessing(samples))


def _reopened(open_again: Callable[..., Model], state: dict[str, Any]) -> Model:
    model = open_again()
    model.__dict__.update(state)
    return model


def _rebuilt(
    backend: Backend,
    preprocessing: Preprocessing,
    outputs: Outputs,
    name: str,
    class_names: tuple[str, ...] | None,
    state: dict[str, Any],
) -> Model:
    model = Model(backend, preprocessing=preprocessing, outputs=outputs, name=name, class_names=class_names)
    model.__dict__.update(state)
    return model


def _check_batch_size(batch_size: int | Literal["auto"], backend: Backend) -> None:
    if batch_size == "auto":
        return
    if not is_whole(batch_size) or batch_size < 1:
        raise InputError(f'batch_size must be a number of samples of at least 1, or "auto"; it is {batch_size!r}.')
    if backend.fixed_batch and batch_size != backend.fixed_batch:
        raise InputError(
            f"batch_size must be {backend.fixed_batch}, the only one this model was exported for; it is {batch_size}. "
            "Leave it out, or export the model with a free batch axis."
        )
    if backend.largest_batch and batch_size > backend.largest_batch:
        raise InputError(
            f"batch_size must be at most {backend.largest_batch}, for which this model was exported; it is {batch_size}."
        )


def _checked_names(class_names: Sequence[Any] | None, classes: tuple[Any, ...] | None) -> tuple[str, ...] | None:
    """Names of classes as text. If the model stores names, they must be the same in the same order."""
    if class_names is None:
        return None
    if isinstance(class_names, str | set | frozenset | dict):
        raise InputError(
            f"class_names must be a list in the order of the model's outputs; it is a {type(class_names).__name__}."
        )
    names = tuple(map(str, class_names))
    if len(names) < 2:
        raise InputError(f"class_names must hold a name for each output, at least two; it holds {len(names)}.")
    if classes is None:
        return names
    stored = tuple(map(str, classes))
    if len(names) != len(stored):
        raise InputError(
            f"class_names must name each of the model's {len(stored)} outputs; it holds {len(names)} names."
        )
    # other names may replace numbers, but not names
    if names != stored and (set(names) == set(stored) or any(isinstance(item, str) for item in classes)):
        raise InputError(
            f"class_names must be the classes that the model was fitted with, in their order, {', '.join(stored[:5])}"
            f"{' …' if len(stored) > 5 else ''}; it begins with {', '.join(names[:5])}. Leave class_names out."
        )
    return names


def _as_array(inputs: AnyArray) -> Array:
    samples = as_array(inputs, "inputs", ImagesError)
    check_no_mixed_values(samples, "inputs")
    if samples.dtype == np.uint8 and samples.ndim == 4:
        raise ImagesError(
            "images must be float32 in [0, 1]; they are uint8. Divide by 255, or read them through a source."
        )
    if samples.ndim not in (2, 3, 4) or samples.dtype.kind not in REAL_KINDS:
        raise ImagesError(
            f"inputs must be images (n, H, W, C), series (n, length, channels), features (n, F) or a data frame; they are "
            f"{samples.dtype} of shape {samples.shape}."
        )
    return samples


def _sample_shape(samples: Inputs) -> tuple[Any, ...]:
    """The shape of one sample; of a dictionary the names, dtypes and shapes of its arrays."""
    return (str(samples),) if isinstance(samples, ArrayDict) else tuple(samples.shape[1:])


def _kind_without_preprocessing(samples: Inputs) -> str | None:
    if isinstance(samples, ArrayDict):
        return "a dictionary of arrays"
    return "texts" if is_text(samples) else "a table" if is_frame(samples) else None


def _type_and_message(error: BaseException) -> str:
    """The type of a framework's error and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}" if str(error).strip() else type(error).__name__
