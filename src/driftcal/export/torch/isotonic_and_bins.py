"""The table look-up as a torch module: isotonic regression, histogram binning, and the spline's curve."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.lookup import SLOPE_UNIT, LookupTable
from driftcal.export.torch.buffers import Buffers, Tensor, torch


class TableModule(Buffers):
    """Values of a table for scores of any shape (…, classes)."""

    def __init__(self, table: LookupTable) -> None:
        super().__init__()
        search = table.search
        self.keep(sorted=search.sorted, start=search.start, above=search.above, below=search.below, value=table.value)
        self.has_line, self.unit = table.line is not None, SLOPE_UNIT
        left, slope = table.line or (np.zeros(1),) * 2
        self.keep(left=left, slope=slope)

    def forward(self, scores: Tensor) -> Tensor:
        """The values."""
        at = self.start.expand(scores.shape)
        for step in range(self.above.shape[0]):
            at = at + torch.where(self.sorted[at] < scores, self.above[step], self.below[step])
        values = self.value[at]
        if self.has_line:
            values = values + self.slope[at] * (self.unit * (scores - self.left[at]))
        return values
