"""The weight files that an ONNX model refers to: regular files in its folder, whatever onnxruntime would accept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from driftcal.core.messages import first_line
from driftcal.errors import ModelError, need
from driftcal.models.file_digest import FileState

#: `data_location` of a tensor whose values are in another file.
_EXTERNAL = 1


@lru_cache(maxsize=64)
def external_files(path: Path, state: FileState) -> tuple[str, ...]:
    """The names of the weight files that a model file refers to; an error if one is not a regular file in its folder."""
    onnx = need("onnx", "onnx")
    try:
        names = locations(onnx.load(path, load_external_data=False))
    except Exception as error:  # protobuf has classes of errors of its own
        raise ModelError(f"{str(path)!r} cannot be opened as ONNX: {first_line(error)}") from error
    folder = path.parent.resolve()
    for name in names:
        if not _is_regular_file_in(folder, name):
            raise ModelError(
                f"the weights of {str(path)!r} must be regular files in its folder; {name!r} is none. Put the file there, or "
                "save the model again in one file."
            )
    return names


def locations(model: Any) -> tuple[str, ...]:
    """The locations of all tensors of a ModelProto whose values are in other files."""
    graphs = [model.graph, *(info.algorithm for info in model.training_info)]
    tensors = [tensor for graph in graphs for tensor in _tensors(graph)]
    tensors += [tensor for function in model.functions for tensor in _node_tensors(function.node)]
    # a tensor without a location refers to the folder itself
    return tuple(sorted({_location(tensor) for tensor in tensors if tensor.data_location == _EXTERNAL}))


def _location(tensor: Any) -> str:
    return next((str(entry.value) for entry in reversed(tensor.external_data) if entry.key == "location"), "")


def _is_regular_file_in(folder: Path, name: str) -> bool:
    if not name or "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
        return False
    file = folder / name
    return file.is_file() and file.resolve().is_relative_to(folder)


def _tensors(graph: Any) -> Iterator[Any]:
    """Every tensor in a graph: weights, constants of nodes, and those of graphs inside nodes (loops, branches)."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
