"""What torch calibrators are built with: float64 buffers and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from driftcal.errors import need
from driftcal.export.maps import Table

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
    Module: Any = object
else:
    from torch import Tensor
    from torch.nn import Module


F = TypeVar("F", bound=Callable[..., Any])


def scripted(method: F) -> F:
    """Let TorchScript keep a method that `forward` does not call."""
    return cast(F, torch.jit.export(method))


class Buffers(Module):  # type: ignore[misc]
    """Numbers that move with ``.to(device)`` but stay float64, also when a whole net is made half precision."""

    def keep(self, **values: Any) -> None:
        """Register arrays and numbers as buffers; floats as float64, places in a table as int64."""
        for name, value in values.items():
            self.register_buffer(name, torch.from_numpy(np.array(value)))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, value in kept.items():
            self._buffers[name] = value.to(self._buffers[name].device)
        return self


def only_finite(values: Tensor, z: Tensor) -> Tensor:
    """`values`, with NaN in rows whose logits z have no softmax: those with NaN or +inf, and those of −inf alone."""
    return torch.where(torch.isfinite(z.amax(-1, keepdim=True)), values, float("nan"))


class TableModule(Buffers):
    """Values of a table for scores of any shape (…, classes)."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        search = table.search
        self.keep(sorted=search.sorted, start=search.start, above=search.above, below=search.below, value=table.value)
        self.has_line = table.line is not None
        left, slope = table.line or (np.zeros(1),) * 2
        self.keep(left=left, slope=slope)

    def forward(self, p: Tensor) -> Tensor:
        """The values."""
        at = self.start.expand(p.shape)
        for step in range(self.above.shape[0]):
            at = at + torch.where(self.sorted[at] < p, self.above[step], self.below[step])
        values = self.value[at]
        if self.has_line:
            values = values + self.slope[at] * (p - self.left[at])
        return values
