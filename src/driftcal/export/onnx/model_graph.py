"""The graph of a user's ONNX model: reading it with all weights, its size, opset and names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftcal.core.messages import first_line
from driftcal.errors import ModelError, need
from driftcal.export.onnx.to_onnx import IR_VERSION, OPSET
from driftcal.models.file_digest import file_state
from driftcal.models.onnx.external_data import external_files

#: The oldest opset in which all operators of a calibration have their present form.
_OLDEST_OPSET = 13
#: The largest protobuf message, and therefore the largest file with all weights inside.
_MAX_BYTES = 2**31 - 1


def read_model(path: Path) -> Any:
    """The model with all weights in memory, at an opset that has the operators of a calibration."""
    onnx = need("onnx", "onnx")
    external_files(path, file_state(path))
    try:
        proto = onnx.load(path)
    except Exception as error:  # protobuf, the file system and onnx have different classes of errors
        raise ModelError(f"{str(path)!r} cannot be read with its weights: {first_line(error)}") from error
    check_size(proto, path)
    opset = opset_of(proto)
    if not opset:
        proto.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    elif opset < _OLDEST_OPSET:
        try:
            proto = onnx.version_converter.convert_version(proto, OPSET)
        except Exception as error:  # the converter is native code and may raise any error
            raise ModelError(
                f"{str(path)!r} has opset {opset}; a calibrator needs {_OLDEST_OPSET} or later, and onnx could not convert it: "
                f"{first_line(error)} Export the model again with opset {OPSET}."
            ) from error
    proto.ir_version = max(proto.ir_version, IR_VERSION)
    return proto


def check_size(proto: Any, path: Path) -> None:
    """Refuse a model that is too large for one file."""
    if proto.ByteSize() > _MAX_BYTES:
        raise ModelError(
            f"{str(path)!r} holds more than 2 GB with its weights and the calibrator, more than one ONNX file can. Append the output of "
            "to_onnx(calibrator) with your own tools, or run it as a second model."
        )


def opset_of(proto: Any) -> int:
    """The opset of a model's standard operators; 0 if it has none."""
    return next((int(entry.version) for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)


def names_in(graph: Any) -> Iterator[str]:
    """Every value and node name in a graph and the graphs inside its nodes."""
    for values in (graph.input, graph.output, graph.initializer, graph.value_info):
        yield from (value.name for value in values)
    for node in graph.node:
        yield node.name
        yield from node.input
        yield from node.output
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from names_in(inner)


def batch_of(graph: Any, name: str) -> str | int:
    """The declared batch size of an output, or its name."""
    for item in graph.output:
        if item.name == name and item.type.tensor_type.shape.dim:
            first = item.type.tensor_type.shape.dim[0]
            return int(first.dim_value) or str(first.dim_param) or "n"
    return "n"
