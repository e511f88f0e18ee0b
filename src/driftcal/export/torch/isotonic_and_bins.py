"""The table look-up as a torch module: isotonic regression, histogram binning, and the curve of the spline.

``calibrators/export_maps/lookup.py`` builds the table and the search. ``to_torch.py`` masks and normalises the values
afterwards.
"""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.lookup import SLOPE_UNIT, LookupTable
from driftcal.export.torch.buffers import Buffers, Tensor, torch


class TableModule(Buffers):
    """The values of a table for scores of any shape (…, C); it holds the entries of one class after the other."""

    def __init__(self, table: LookupTable) -> None:
        super().__init__()
        search = table.search
        self.add_buffers(sorted=search.sorted, start=search.start, above=search.above, below=search.below)
        self.has_line, self.unit = table.line is not None, SLOPE_UNIT
        left, slope = table.line or (np.zeros(1),) * 2
        self.add_buffers(value=table.value, left=left, slope=slope)

    def forward(self, scores: Tensor) -> Tensor:
        """The values of the scores, (…, C)."""
        position = self.start.expand(scores.shape)  # the steps of Search.locate
        for step in range(self.above.shape[0]):
            position = position + torch.where(self.sorted[position] < scores, self.above[step], self.below[step])
        values = self.value[position]
        if self.has_line:
            values = values + self.slope[position] * (self.unit * (scores - self.left[position]))
        return values
