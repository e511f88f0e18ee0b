"""The parent of the torch modules: its numbers are float64 buffers. It also imports torch for the other files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from driftcal.errors import need

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
    Module: Any = object
else:
    from torch import Tensor as Tensor
    from torch.nn import Module


F = TypeVar("F", bound=Callable[..., Any])


def scripted(method: F) -> F:
    """Make TorchScript compile a method that `forward` does not call."""
    return cast(F, torch.jit.export(method))


class Buffers(Module):  # type: ignore[misc]
    """Numbers that move with ``.to(device)`` but stay float64, also in a network of half precision."""

    def add_buffers(self, **values: Any) -> None:
        """Register arrays and numbers as buffers; floats as float64, indices as int64."""
        for name, value in values.items():
            self.register_buffer(name, torch.from_numpy(np.array(value)))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Torch's hook for ``.to``, ``.half`` and others: only the device of the buffers changes."""
        buffers = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, value in buffers.items():
            self._buffers[name] = value.to(self._buffers[name].device)
        return self


def nan_without_softmax(values: Tensor, z: Tensor) -> Tensor:
    """`values`, with NaN for samples whose logits z have no softmax: those with NaN or +inf, and those of −inf only."""
    return torch.where(torch.isfinite(z.amax(-1, keepdim=True)), values, float("nan"))
