"""ONNX files through onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict
from driftcal.core.messages import first_line
from driftcal.core.parallel import n_threads
from driftcal.errors import ModelError, need, need_safe
from driftcal.io.fingerprint import fingerprint, sha256_bytes
from driftcal.models.file_digest import file_digest, file_state
from driftcal.models.onnx.external_data import external_files, locations
from driftcal.models.outputs import Outputs
from driftcal.types import Array, Inputs

_DTYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
#: Further types of the inputs of a graph that takes a dictionary.
_ALL_DTYPES: dict[str, Any] = {
    **_DTYPES, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}  # fmt: skip
#: The same types by their numbers in a graph: float, float16, double.
_FLOATS = (1, 10, 11)


class OnnxBackend:
    """Runs an ONNX graph with one image or feature input, or with several inputs by their names.

    Every named value of the graph is a layer.
    """

    framework = "onnx"
    takes_tables = False
    takes_text = False
    takes_dictionaries = True
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None

    def __init__(self, model: Any, *, device: str = "auto", threads: int | None = None) -> None:
        runtime = need_safe("onnxruntime", "onnx")
        self._model = model
        self._threads = threads or n_threads()
        self._providers = _providers(runtime, device)
        self.device = "cuda" if self._providers[0].startswith("CUDA") else "cpu"
        self._session = self._open(_content(model))
        try:
            self._read_signature()
        except UnicodeDecodeError as error:
            raise ModelError(
                f"the names in an ONNX model must be UTF-8 text; {error}. Export the model again."
            ) from error
        #: The layers of the last call of `features`, and the session that has them as outputs.
        self._with_layers: tuple[tuple[str, ...], Any] | None = None
        self._layers: tuple[str, ...] | None = None

    def _read_signature(self) -> None:
        """Find the inputs and the output of scores."""
        inputs = self._session.get_inputs()
        for item in inputs:
            if item.type not in _ALL_DTYPES:
                raise ModelError(
                    f"the ONNX model must take numbers; {item.name!r} is {item.type}. Export it with numbers as inputs."
                )
        self._inputs = {item.name: _ALL_DTYPES[item.type] for item in inputs}
        self._takes_floats = len(inputs) == 1 and inputs[0].type in _DTYPES
        shape = list(inputs[0].shape)
        self.fixed_batch = shape[0] if shape and isinstance(shape[0], int) and shape[0] > 0 else None
        self.layout = _layout(shape)
        self._output = output_name(self._session.get_outputs())

    def configured(self, *, outputs: Outputs, name: str | None) -> OnnxBackend:
        """This backend: a graph uses neither."""
        return self

    def run(self, batch: Inputs) -> Array:
        """Outputs of the graph for a preprocessed batch."""
        raw: Array = self._session.run([self._output], self._feed(batch))[0]
        return raw

    def _feed(self, batch: Inputs) -> dict[str, Array]:
        """The inputs of the graph by name."""
        if isinstance(batch, ArrayDict):
            arrays = batch.arrays
        elif self._takes_floats:
            arrays = {next(iter(self._inputs)): batch}
        else:
            needed = ", ".join(f"{name!r}: {np.dtype(dtype)}" for name, dtype in self._inputs.items())
            raise ModelError(
                f"the inputs must be a dictionary of arrays for this ONNX model, which takes {needed}; they are one array. Pass "
                f"{{{', '.join(f'{name!r}: ...' for name in self._inputs)}}}."
            )
        if set(arrays) != set(self._inputs):
            raise ModelError(
                f"the inputs must have the names of the ONNX model's inputs, {', '.join(map(repr, self._inputs))}; they have "
                f"{', '.join(map(repr, arrays))}. Rename them, or leave out what the graph does not take."
            )
        return {name: values.astype(self._inputs[name], copy=False) for name, values in arrays.items()}

    def layers(self) -> tuple[str, ...]:
        """Names of every output of every node of the graph."""
        if self._layers is None:
            self._layers = tuple(name for node in self._graph().graph.node for name in node.output if name)
        return self._layers

    def features(self, batch: Inputs, layers: Sequence[str]) -> dict[str, Array]:
        """The named values. The graph is opened once more with them as outputs."""
        names = tuple(layers)
        if self._with_layers is None or self._with_layers[0] != names:
            self._with_layers = (names, self._open(with_more_outputs(self._graph(), names)))
        values = self._with_layers[1].run(list(names), self._feed(batch))
        return dict(zip(names, values, strict=True))

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over the file and the weight files that it refers to."""
        if not isinstance(self._model, Path):
            return sha256_bytes(self._model.SerializeToString(deterministic=True))
        parts = {"file": file_digest(self._model)}
        for name in external_files(self._model, file_state(self._model)):
            parts[f"weights/{name}"] = file_digest(self._model.parent / name)
        return fingerprint(parts)

    def _graph(self) -> Any:
        onnx = need("onnx", "onnx")
        if isinstance(self._model, Path):
            external_files(self._model, file_state(self._model))  # the file may have changed since it was opened
            return onnx.load(self._model)
        copy = onnx.ModelProto()
        copy.CopyFrom(self._model)
        return copy

    def _open(self, content: str | bytes) -> Any:
        runtime = need("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3  # errors only; its warnings are about the style of a graph
        try:
            # a fallback from the processor to the processor would only print on stdout
            fallback = int(len(self._providers) > 1)
            return runtime.InferenceSession(content, options, providers=self._providers, enable_fallback=fallback)
        except Exception as error:  # onnxruntime has many classes of errors
            name = content if isinstance(content, str) else "the ONNX model"
            raise ModelError(f"{name!r} cannot be opened by onnxruntime: {first_line(error)}") from error


def _content(model: Any) -> str | bytes:
    """The model as onnxruntime opens it, after the files that it refers to were checked."""
    if isinstance(model, Path):
        if not model.is_file():
            raise ModelError(f"there is no model file {str(model)!r}.")
        external_files(model, file_state(model))
        return str(model)
    if locations(model):
        raise ModelError(
            f"an ONNX ModelProto must hold its weights; this one refers to {locations(model)[0]!r}. Load it with "
            "onnx.load(path), which reads them, or pass the path."
        )
    content: bytes = model.SerializeToString()
    return content


def _providers(runtime: Any, device: str) -> list[str]:
    available = runtime.get_available_providers()
    cuda = "CUDAExecutionProvider" in available
    if device not in ("auto", "cpu") and not (device.startswith("cuda") and cuda):
        raise ModelError(
            f'device must be "auto", "cpu" or, with onnxruntime-gpu, "cuda"; it is {device!r} and onnxruntime offers '
            f"{', '.join(available)}."
        )
    return ["CUDAExecutionProvider", "CPUExecutionProvider"] if cuda and device != "cpu" else ["CPUExecutionProvider"]


def _layout(shape: Sequence[Any]) -> str:
    """The layout of the declared input shape: (N, 3, H, W), (N, H, W, 3) or (N, F)."""
    if len(shape) == 2:
        return "flat"
    if len(shape) == 4 and shape[3] in (1, 3) and shape[1] not in (1, 3):
        return "NHWC"
    return "NCHW"


def with_more_outputs(model: Any, names: Sequence[str]) -> bytes:
    """The content of an ONNX model that also outputs the named values; `model` itself does not change."""
    present = {output.name for output in model.graph.output}
    missing = [name for name in names if name not in present]
    if missing:
        onnx = need("onnx", "onnx")
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in missing)
        model = copy
    content: bytes = model.SerializeToString()
    return content


def output_name(outputs: Sequence[Any]) -> str:
    """The output of a session or a graph that holds the scores.

    It is the only output, or the only one called "logits", or the only float matrix.
    """
    matrices = [item for item in outputs if _is_float_matrix(item)]  # skl2onnx adds labels as another output
    for candidates in (outputs, [item for item in outputs if item.name == "logits"], matrices):
        if len(candidates) == 1:
            return str(candidates[0].name)
    names = ", ".join(repr(item.name) for item in outputs)
    raise ModelError(
        f"the ONNX model must have one output of scores, or one called 'logits'; it has {names}. Remove the others (skl2onnx: "
        "options={'zipmap': False})."
    )


def _is_float_matrix(output: Any) -> bool:
    """Whether an output of a session (its type is text) or of a graph is a matrix of floats."""
    if isinstance(output.type, str):
        return output.type in _DTYPES and len(output.shape or ()) == 2
    tensor = output.type.tensor_type
    return tensor.elem_type in _FLOATS and len(tensor.shape.dim) == 2
