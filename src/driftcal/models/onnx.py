"""ONNX files through onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.cores import threads as usual_threads
from driftcal.errors import ModelError, need
from driftcal.files import fingerprint, sha256_bytes, sha256_file
from driftcal.types import Array

_DTYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
#: The same as a graph writes them: float, float16, double.
_FLOATS = (1, 10, 11)


class OnnxBackend:
    """Runs an ONNX graph with one image or feature input. Every named value of the graph is a layer."""

    framework = "onnx"
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None

    def __init__(self, model: Any, *, device: str = "auto", threads: int | None = None) -> None:
        runtime = need("onnxruntime", "onnx")
        self._model = model
        self._threads = threads or usual_threads()
        self._providers = _providers(runtime, device)
        self.device = "cuda" if self._providers[0].startswith("CUDA") else "cpu"
        self._session = self._open(_content(model))
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            names = ", ".join(repr(item.name) for item in inputs)
            raise ModelError(
                f"the ONNX model must have one input; it has {len(inputs)}: {names}. Fix the others in the graph."
            )
        if inputs[0].type not in _DTYPES:
            raise ModelError(
                f"the ONNX model must take floats; {inputs[0].name!r} is {inputs[0].type}. Export it with float inputs."
            )
        self._input, self._dtype = inputs[0].name, _DTYPES[inputs[0].type]
        shape = list(inputs[0].shape)
        self.fixed_batch = shape[0] if shape and isinstance(shape[0], int) and shape[0] > 0 else None
        self.layout = _layout(shape)
        self._output = output_name(self._session.get_outputs())
        self._wider: tuple[tuple[str, ...], Any] | None = None
        self._names: tuple[str, ...] | None = None

    def run(self, batch: Array) -> Array:
        """Outputs of the graph for a preprocessed batch."""
        answers: Array = self._session.run([self._output], {self._input: batch.astype(self._dtype, copy=False)})[0]
        return answers

    def layers(self) -> tuple[str, ...]:
        """Names of every value that a node of the graph gives."""
        if self._names is None:
            self._names = tuple(name for node in self._graph().graph.node for name in node.output if name)
        return self._names

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """The named values; the graph is opened once more with them as outputs."""
        wanted = tuple(layers)
        if self._wider is None or self._wider[0] != wanted:
            self._wider = (wanted, self._open(widened(self._graph(), wanted)))
        found = self._wider[1].run(list(wanted), {self._input: batch.astype(self._dtype, copy=False)})
        return dict(zip(wanted, found, strict=True))

    def digest(self, run: Callable[[], Array]) -> str:
        """Over the file and the weight files it points to."""
        if not isinstance(self._model, Path):
            return sha256_bytes(self._model.SerializeToString(deterministic=True))
        parts = {"file": sha256_file(self._model)}
        for name in self._weight_files():
            parts[f"weights/{name}"] = sha256_file(self._model.parent / name)
        return fingerprint(parts)

    def _weight_files(self) -> list[str]:
        onnx = need("onnx", "onnx")
        graph = onnx.load(self._model, load_external_data=False).graph
        found = {
            entry.value for tensor in graph.initializer for entry in tensor.external_data if entry.key == "location"
        }
        return sorted(found)

    def _graph(self) -> Any:
        onnx = need("onnx", "onnx")
        if isinstance(self._model, Path):
            return onnx.load(self._model)
        copy = onnx.ModelProto()
        copy.CopyFrom(self._model)
        return copy

    def _open(self, content: str | bytes) -> Any:
        runtime = need("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3  # its warnings are about graph style, its errors come as exceptions anyway
        try:
            return runtime.InferenceSession(content, options, providers=self._providers)
        except Exception as error:  # onnxruntime raises classes of its own for every kind of damage
            what = content if isinstance(content, str) else "the ONNX model"
            raise ModelError(f"{what!r} cannot be opened by onnxruntime: {str(error).splitlines()[0][:400]}") from error


def _content(model: Any) -> str | bytes:
    if isinstance(model, Path):
        if not model.is_file():
            raise ModelError(f"there is no model file {str(model)!r}.")
        return str(model)
    content: bytes = model.SerializeToString()
    return content


def _providers(runtime: Any, device: str) -> list[str]:
    there = runtime.get_available_providers()
    cuda = "CUDAExecutionProvider" in there
    if device not in ("auto", "cpu") and not (device.startswith("cuda") and cuda):
        raise ModelError(
            f'device must be "auto", "cpu" or, with onnxruntime-gpu, "cuda"; it is {device!r} and onnxruntime offers '
            f"{', '.join(there)}."
        )
    return ["CUDAExecutionProvider", "CPUExecutionProvider"] if cuda and device != "cpu" else ["CPUExecutionProvider"]


def _layout(shape: Sequence[Any]) -> str:
    """What the declared input shape says: (N, 3, H, W), (N, H, W, 3) or (N, F)."""
    if len(shape) == 2:
        return "flat"
    if len(shape) == 4 and shape[3] in (1, 3) and shape[1] not in (1, 3):
        return "NHWC"
    return "NCHW"


def widened(graph: Any, layers: Sequence[str]) -> bytes:
    """The content of an ONNX model that also gives the named values; `graph` stays as it is."""
    present = {output.name for output in graph.graph.output}
    missing = [name for name in layers if name not in present]
    if missing:
        onnx = need("onnx", "onnx")
        copy = onnx.ModelProto()
        copy.CopyFrom(graph)
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in missing)
        graph = copy
    content: bytes = graph.SerializeToString()
    return content


def output_name(outputs: Sequence[Any]) -> str:
    """Which output of a session or a graph holds the scores: the only one, the one called logits, or the only table of floats."""
    tables = [item for item in outputs if _is_table(item)]  # beside labels, say, as skl2onnx gives them
    for listed in (outputs, [item for item in outputs if item.name == "logits"], tables):
        if len(listed) == 1:
            return str(listed[0].name)
    names = ", ".join(repr(item.name) for item in outputs)
    raise ModelError(
        f"the ONNX model must have one output of scores, or one called 'logits'; it has {names}. Remove the others (skl2onnx: "
        "options={'zipmap': False})."
    )


def _is_table(output: Any) -> bool:
    kind = output.type
    if isinstance(kind, str):  # a session's
        return kind in _DTYPES and len(output.shape or ()) == 2
    tensor = kind.tensor_type
    return tensor.elem_type in _FLOATS and len(tensor.shape.dim) == 2
