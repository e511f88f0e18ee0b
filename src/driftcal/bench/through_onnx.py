"""torch modules run by onnxruntime: on processors it takes two thirds of torch's time for the networks here."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from driftcal.errors import need
from driftcal.models import Model, open_model


def open_module(module: Any, shape: tuple[int, int, int], *, preprocessing: Mapping[str, Any], name: str) -> Model:
    """A model of a torch module for images (channels, height, width), through ONNX where the packages are installed."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return open_model(module, preprocessing=preprocessing, name=name)
    return open_model(to_onnx(module, shape), preprocessing=preprocessing, name=name)


def to_onnx(module: Any, shape: tuple[int, int, int]) -> Any:
    """An ONNX graph of the module with a free batch axis; nothing in it says who wrote it, or when."""
    torch, onnx = need("torch", "torch"), need("onnx", "onnx")
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch advises its newer exporter, which needs one package more
        torch.onnx.export(
            module.eval(), (torch.zeros(2, *shape),), out, dynamo=False, input_names=["images"], output_names=["logits"],
            dynamic_axes={"images": {0: "n"}, "logits": {0: "n"}},
        )  # fmt: skip
    graph = onnx.load_from_string(out.getvalue())
    graph.producer_version = ""  # a store's key should not change with torch
    return graph
