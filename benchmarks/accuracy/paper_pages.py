"""The paper's experiments on CIFAR-10, and docs/results.md brought up to date with them.

    python -m benchmarks.accuracy.paper_pages --cifar10 FOLDER --weights FOLDER [--networks resnet20,resnet44,…]
    python -m benchmarks.accuracy.paper_pages --cifar10 FOLDER --weights FOLDER --networks vgg19 --add
    python -m benchmarks.accuracy.paper_pages --cifar10 FOLDER --weights FOLDER --experiment beyond --images 500

Networks are all whose weights are found, if none are named; what the store knows is not computed again, so a new network costs its
own passes only. Tables go to docs/results/cifar10 as CSV, figures as PNG, and between the markers of docs/results.md; what goes
beyond the paper goes to docs/results/beyond and docs/research.md. With --add, networks that docs/ holds stay there though their
weights are gone, and those of this run come after them.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from driftcal.paper.networks.registry import default_networks
from driftcal.paper.outcome import Bars, Outcome, Table, Value
from driftcal.paper.output.figures import figure_bytes
from driftcal.paper.reproduction import Reproduction, Written
from driftcal.report.table import to_csv, to_markdown

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Experiment -> its page and folder; all others have those of the paper.
HOMES = {"beyond": ("research.md", "results/beyond")}
#: Experiments whose figures are shown for every network; the others have one for all, or can be made by anyone.
PER_NETWORK = ("per-shift", "by-level", "teaser", "ood", "val-size", "examples", "beyond")
#: Figure -> the table that holds its numbers, where that has another name; there each calibrator has a row, and this column is drawn.
ROW_PER_CALIBRATOR = {"accuracy": ("accuracy-change", "drift")}
#: What rows that figures draw have under "numbers"; None where a table has no such column.
DRAWN = (None, "ours", "ours, all shifts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--networks", help="names with commas between; all whose weights are there if left out")
    parser.add_argument("--store", default="runs/paper/store")
    parser.add_argument("--experiment", default="all", help="one of them, or all of the paper's")
    parser.add_argument("--images", type=int, help="only so many validation and so many test images")
    parser.add_argument("--add", action="store_true", help="keep the rows of other networks that docs/ holds")
    given = parser.parse_args()
    if given.add and given.experiment in HOMES:
        parser.error(f"--add cannot be had with {given.experiment}, whose means over the networks need all of them")
    networks = given.networks.split(",") if given.networks else default_networks("cifar10", given.weights)
    command = f"driftcal paper {given.experiment} --data cifar10=DIR --networks {','.join(networks)} --weights DIR"
    command += f" --images {given.images}" if given.images else ""
    run = Reproduction.open(
        given.experiment, data={"cifar10": given.cifar10}, networks=networks, weights=given.weights,
        output="runs/paper/cifar10", store=given.store, command=command, images=given.images,
    )  # fmt: skip
    print(command, file=sys.stderr)
    wanted = [e for e in run.experiments if given.experiment != "all" or e.name not in HOMES]
    dataclasses.replace(run, experiments=wanted).run(on_done=functools.partial(publish, add=given.add))


def publish(written: Written, *, add: bool = False) -> None:
    """Results of one experiment into docs/, after those of other networks if `add`, else in their place."""
    outcome = written.outcome
    name, folder = HOMES.get(outcome.experiment, ("results.md", "results/cifar10"))
    (DOCS / folder).mkdir(parents=True, exist_ok=True)
    page = (DOCS / name).read_text(encoding="utf-8")
    if add:
        outcome = with_others(outcome, DOCS / folder, page)
    for table in outcome.tables:
        (DOCS / folder / f"{table.name}.csv").write_text(to_csv(table), encoding="utf-8")
        page = between(page, table.name, to_markdown(table))
    shown = [f for f in outcome.figures if f.name == outcome.experiment or outcome.experiment in PER_NETWORK]
    for figure in shown:
        (DOCS / folder / f"{figure.name}.png").write_bytes(small(figure_bytes(figure, ["png"])[0]))
    links = {f"({folder}/{figure.name}.png)": f"![{figure.title}]" for figure in shown}
    lines = section(page, f"{outcome.experiment}-figures") if add else []
    pictures = [line for line in lines if line.startswith("![") and not line.endswith(tuple(links))]
    pictures += [f"{title}{link}" for link, title in links.items()]
    text = "".join(f"{picture}\n\n" for picture in pictures)
    page = between(page, f"{outcome.experiment}-figures", f"{text}{shown[0].caption if shown else ''}\n")
    page = between(page, f"{outcome.experiment}-notes", "".join(f"{note}\n" for note in outcome.notes))
    (DOCS / name).write_text(page, encoding="utf-8")
    print(outcome.experiment, file=sys.stderr, flush=True)


def with_others(outcome: Outcome, folder: Path, page: str) -> Outcome:
    """The outcome with what the folder's tables and the page hold of networks it does not know, theirs first."""
    known = {row["network"] for table in outcome.tables for row in table.rows}
    tables = [with_other_rows(table, folder / f"{table.name}.csv") for table in outcome.tables]
    others = {row["network"] for table in tables for row in table.rows} - known
    figures = [
        with_other_groups(figure, tables) if isinstance(figure, Bars) and known.issuperset(figure.groups) else figure
        for figure in outcome.figures
    ]
    theirs = tuple(f"{network}:" for network in others)
    notes = [line for line in section(page, f"{outcome.experiment}-notes") if line.startswith(theirs)]
    return dataclasses.replace(outcome, tables=tables, figures=figures, notes=[*notes, *outcome.notes])


def with_other_rows(table: Table, file: Path) -> Table:
    """The table after those rows of its CSV file whose networks it does not have."""
    known = {row["network"] for row in table.rows}
    kept = [row for row in read_rows(file) if row["network"] not in known]
    return dataclasses.replace(table, rows=[*kept, *table.rows])


def read_rows(file: Path) -> list[dict[str, Value]]:
    """Rows as `to_csv` wrote them, so that it writes the same again; none where there is no file."""
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8")
    # Quotes tell words from numbers, which one reader knows; digits tell 1 from 1.0, which the other does.
    typed, plain = csv.reader(io.StringIO(text), quoting=csv.QUOTE_NONNUMERIC), csv.reader(io.StringIO(text))
    columns, *rows = [[_value(*cell) for cell in zip(*both, strict=True)] for both in zip(typed, plain, strict=True)]
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _value(typed: str | float, plain: str) -> Value:
    if isinstance(typed, str):
        return typed or None
    return int(plain) if plain.removeprefix("-").isdigit() else typed


def with_other_groups(figure: Bars, tables: Sequence[Table]) -> Bars:
    """The figure after bars, intervals and marks of the table's networks that it does not have."""
    source, column = ROW_PER_CALIBRATOR.get(figure.name, (figure.name, None))
    table = next(table for table in tables if table.name == source)
    others = [n for n in dict.fromkeys(row["network"] for row in table.rows) if n not in figure.groups]
    keys = {heading: key for key, heading in table.columns.items()}

    def of_others(label: str, end: str = "", numbers: Sequence[Value] = DRAWN) -> list[Value]:
        """One value per other network; `end` is that of its column's name."""
        found = {
            row["network"]: row.get(f"{column or keys[label]}{end}")
            for row in table.rows
            if row.get("numbers") in numbers and (column is None or row["calibrator"] == label)
        }
        return [found.get(network) for network in others]

    def pairs(label: str) -> list[tuple[Value, Value] | None]:
        both = zip(of_others(label, "_low"), of_others(label, "_high"), strict=True)
        return [None if None in pair else pair for pair in both]

    return dataclasses.replace(
        figure,
        groups=[*others, *figure.groups],
        series={label: [*of_others(label), *values] for label, values in figure.series.items()},
        intervals={label: [*pairs(label), *values] for label, values in figure.intervals.items()},
        published={label: [*of_others(label, "", ["paper"]), *values] for label, values in figure.published.items()},
    )


def section(page: str, name: str) -> list[str]:
    """The lines between the markers of this name."""
    found = _marked(name).search(page)
    return found[2].splitlines() if found else []


def between(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers of this name; the page as it is where it has none."""
    return _marked(name).sub(lambda found: f"{found[1]}{text.rstrip()}\n{found[3]}", page)


def _marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {re.escape(name)} -->\n)(.*?)(<!-- / -->)", re.DOTALL)


def small(png: bytes) -> bytes:
    """The picture with 64 colours: a third of the bytes, and nobody sees it."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
