"""Running torch modules with onnxruntime, which takes two thirds of torch's time on a CPU for these networks."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from driftcal.errors import need
from driftcal.models import Model, open_model


def open_module(
    module: Any,
    shape: tuple[int, int, int],
    *,
    preprocessing: Mapping[str, Any],
    name: str,
    batch_size: int | None = None,
) -> Model:
    """Open a torch module for images (channels, height, width), as ONNX if onnx and onnxruntime are installed."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return open_model(module, preprocessing=preprocessing, name=name, batch_size=batch_size)
    return open_model(to_onnx(module, shape), preprocessing=preprocessing, name=name, batch_size=batch_size)


def stage_layers(module: Any, model: Model, shape: tuple[int, int, int], max_stages: int = 3) -> tuple[str, ...]:
    """The layers at the ends of a module's last stages, by their names in `model`, which was opened from the module.

    A stage ends with the last block before the size of the feature maps changes. Blocks are the children of the module
    and of its sequences.
    """
    torch = need("torch", "torch")
    last_block: dict[tuple[int, ...], str] = {}  # by size of the feature maps

    def record(name: str) -> Callable[[Any, Any, Any], None]:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            size = tuple(output.shape[2:])
            if len(size) == 2 and max(size) > 1:
                last_block.pop(size, None)  # keeps the stages in the order in which they end
                last_block[size] = name

        return hook

    blocks = [(name, block) for name, block in module.named_modules() if name and name.count(".") <= 1]
    hooks = [block.register_forward_hook(record(name)) for name, block in blocks]
    try:
        with torch.inference_mode():
            module.eval()(torch.zeros(1, *shape))
    finally:
        for hook in hooks:
            hook.remove()
    names = list(last_block.values())[-max_stages:]
    if model.framework == "torch":
        return tuple(names)
    # values of an ONNX graph are named after the block that computes them; the last one is the block's output
    values = [[value for value in model.layers if value.startswith(_onnx_scope(name))] for name in names]
    return tuple(in_block[-1] for in_block in values if in_block)


def _onnx_scope(block: str) -> str:
    """The prefix of a block's values in an ONNX graph.

    >>> _onnx_scope("layer1"), _onnx_scope("layers.16")
    ('/layer1/', '/layers/layers.16/')
    """
    parts = block.split(".")
    return "".join(f"/{'.'.join(parts[: k + 1])}" for k in range(len(parts))) + "/"


def to_onnx(module: Any, shape: tuple[int, int, int]) -> Any:
    """An ONNX graph of the module with a free batch axis and without version or date of its producer."""
    torch, onnx = need("torch", "torch"), need("onnx", "onnx")
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch recommends its newer exporter, which needs a further package
        torch.onnx.export(
            module.eval(), (torch.zeros(2, *shape),), out, dynamo=False, input_names=["images"], output_names=["logits"],
            dynamic_axes={"images": {0: "n"}, "logits": {0: "n"}},
        )  # fmt: skip
    graph = onnx.load_from_string(out.getvalue())
    graph.producer_version = ""  # the key of cached logits must not depend on the version of torch
    return graph
