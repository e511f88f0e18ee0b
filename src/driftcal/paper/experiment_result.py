"""The result of an experiment: tables, figures and notes, and how they are written to disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftcal.io.atomic import write_atomic
from driftcal.paper.figures.draw import figure_bytes
from driftcal.paper.figures.figure_data import Figure
from driftcal.report.table import Table, to_csv, to_latex, to_markdown

#: File formats of figures: pixels for web pages, vectors for papers.
FIGURE_FORMATS = ("png", "pdf")


@dataclass(frozen=True)
class ExperimentResult:
    """The result of one experiment. `notes` are sentences below the tables; `metadata` is needed to repeat it."""

    experiment: str
    title: str
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path, *, formats: Sequence[str] = FIGURE_FORMATS) -> list[Path]:
        """Write each table as ``NAME.csv`` and ``NAME.tex``, each figure, and all of them in ``EXPERIMENT.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        contents = {}
        for table in self.tables:
            contents[f"{table.name}.csv"] = to_csv(table).encode()
            contents[f"{table.name}.tex"] = to_latex(table).encode()
        for figure in self.figures:
            files = zip(formats, figure_bytes(figure, formats), strict=True)
            contents |= {f"{figure.name}.{ending}": data for ending, data in files}
        contents[f"{self.experiment}.md"] = self._page().encode()
        metadata = json.dumps(dict(self.metadata), indent=1, sort_keys=True, default=str)
        contents[f"{self.experiment}.json"] = f"{metadata}\n".encode()
        return [write_atomic(folder / name, data) for name, data in contents.items()]

    def _page(self) -> str:
        """The tables, the notes, then the figures with their captions."""
        parts = [f"# {self.title}\n"]
        parts += [f"## {table.title}\n\n{to_markdown(table)}" for table in self.tables]
        parts += [f"{note}\n" for note in self.notes]
        parts += [f"![{figure.title}]({figure.name}.png)\n\n{figure.caption}\n" for figure in self.figures]
        return "\n".join(parts)
