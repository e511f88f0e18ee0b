"""Fills the table of the README from results: one line per kind of calibrator, mean over the networks.

``python -m benchmarks.accuracy.readme_table runs/demo [OTHER RUN ...]``: each folder holds the results.json of one network,
as `driftcal demo` and `driftcal evaluate --compare` write it.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from driftcal.pipeline.evaluating.results import WINDOWED, Results
from driftcal.report.comparison import (
    best_p_line,
    compare_calibrators,
    featured_line,
    temperature_scaling_line,
    uncalibrated_line,
    windowed_line,
)

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"(<!-- table: begin.*?-->\n).*?(<!-- table: end -->)", re.DOTALL)


def rows_of(results: Results) -> dict[str, tuple[float, float, float]]:
    """Kind of calibrator -> ECE in domain, ECE under shift, accuracy under shift."""
    lines = compare_calibrators(results)
    featured = featured_line([line for line in lines if line.info.form != WINDOWED], results.metadata)
    kinds = {
        "uncalibrated": uncalibrated_line(lines),
        "temperature scaling": temperature_scaling_line(lines),
        "best of the paper (-P)": best_p_line(lines),
        "driftcal, per sample": featured,
        "driftcal, windows of 100": windowed_line(lines),
    }
    return {
        kind: (line.summary.in_domain_ece, line.summary.mean_ece, line.summary.mean_accuracy)
        for kind, line in kinds.items()
        if line is not None
    }


def table(runs: list[Results], sources: list[str]) -> str:
    """The table in Markdown, with the sentence that says what was measured."""
    values: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for results in runs:
        for kind, row in rows_of(results).items():
            values[kind].append(row)
    lines = ["| | ECE in domain | ECE under shift |", "|---|---:|---:|"]
    lines += [
        f"| {kind} | {fmean(r[0] for r in rows):.3f} | {fmean(r[1] for r in rows):.3f} |"
        for kind, rows in values.items()
    ]
    first = runs[0]
    accuracy = first.summary()[0]
    networks = "one network" if len(runs) == 1 else f"mean of {len(runs)} networks"
    note = (
        f"ECE with {first.n_bins} bins, lower is better; {networks} ({', '.join(sources)}), suite {first.suite}: {len(first.shifts)} shifts, each "
        f"pooled over its levels; accuracy {accuracy.in_domain_accuracy:.0%} in domain and {accuracy.mean_accuracy:.0%} under shift. "
        "The best -P is chosen on the test data, in its favour."
    )
    return "\n".join([*lines, "", note]) + "\n"


def main() -> None:
    """Write the table into the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    folders: list[Path] = parser.parse_args().runs
    runs = [Results.load(folder) for folder in folders]
    sources = [
        str(results.metadata.get("title", folder.name)).removeprefix("driftcal demo: ")
        for results, folder in zip(runs, folders, strict=True)
    ]
    text = README.read_text(encoding="utf-8")
    README.write_text(BLOCK.sub(lambda match: match[1] + table(runs, sources) + match[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()
