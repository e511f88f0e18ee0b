"""What torch calibrators are built with: torch itself, and modules whose numbers are float64 buffers."""

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
    """Let TorchScript keep a method that `forward` does not call."""
    return cast(F, torch.jit.export(method))


class Buffers(Module):  # type: ignore[misc]
    """Numbers that move with ``.to(device)`` but stay float64, also when a whole net is made half precision."""

    def keep(self, **values: Any) -> None:
        """Register arrays and numbers as buffers; floats as float64, indices as int64."""
        for name, value in values.items():
            self.register_buffer(name, torch.from_numpy(np.array(value)))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, value in kept.items():
            self._buffers[name] = value.to(self._buffers[name].device)
        return self


def only_finite(values: Tensor, z: Tensor) -> Tensor:
    """`values`, with NaN for samples whose logits z have no softmax: those with NaN or +inf, and those of −inf alone."""
    return torch.where(torch.isfinite(z.amax(-1, keepdim=True)), values, float("nan"))
