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


def stage_layers(module: Any, model: Model, shape: tuple[int, int, int], most: int = 3) -> tuple[str, ...]:
    """Where the last stages of a module end, by their names in `model`, which was opened from it: where to look inside.

    A stage ends with the last block whose maps have a size; blocks are the children of the module and of its sequences.
    """
    torch = need("torch", "torch")
    ends: dict[tuple[int, ...], str] = {}

    def look(name: str) -> Any:
        def see(_module: Any, _inputs: Any, output: Any) -> None:
            places = tuple(output.shape[2:])
            if len(places) == 2 and max(places) > 1:
                ends.pop(places, None)  # stages in the order in which they end
                ends[places] = name

        return see

    blocks = [pair for pair in module.named_modules() if pair[0] and pair[0].count(".") <= 1]
    hooks = [block.register_forward_hook(look(name)) for name, block in blocks]
    try:
        with torch.inference_mode():
            module.eval()(torch.zeros(1, *shape))
    finally:
        for hook in hooks:
            hook.remove()
    found = list(ends.values())[-most:]
    if model.framework == "torch":
        return tuple(found)
    # values of a graph are named after the block that made them: the last one is what it gives
    within = [[value for value in model.layers if value.startswith(_scope(name))] for name in found]
    return tuple(values[-1] for values in within if values)


def _scope(block: str) -> str:
    """How the values of a block are named in a graph.

    >>> _scope("layer1"), _scope("layers.16")
    ('/layer1/', '/layers/layers.16/')
    """
    parts = block.split(".")
    return "".join(f"/{'.'.join(parts[: k + 1])}" for k in range(len(parts))) + "/"


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
