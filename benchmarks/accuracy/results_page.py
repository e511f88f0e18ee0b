"""The paper's experiments on CIFAR-10 and on ImageNet, written to benchmarks/notebook/cifar10.md and imagenet.md.

    python -m benchmarks.accuracy.results_page --cifar10 FOLDER --weights FOLDER [--networks resnet20,resnet44,…]
    python -m benchmarks.accuracy.results_page --cifar10 FOLDER --weights FOLDER --networks vgg19 --add
    python -m benchmarks.accuracy.results_page --cifar10 FOLDER --weights FOLDER --experiment beyond --images 500
    python -m benchmarks.accuracy.results_page --imagenet FOLDER --weights FOLDER --networks efficientnet-lite0 --tune-per-class 2

Without --networks all networks with weights are used. Logits are cached, so a new network costs its own passes only. Tables
are written to benchmarks/notebook/results/cifar10 (or imagenet/val3k) as CSV, figures as PNG, both between the markers of the page. The
experiment `beyond` is written to benchmarks/notebook/results/beyond and benchmarks/notebook/beyond.md. With --add, the page keeps networks
that are not in this run.
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

from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.draw import figure_bytes
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.networks.registry import default_networks
from driftcal.paper.paper_run import PaperRun, WrittenResult
from driftcal.paper.paper_settings import OURS
from driftcal.paper.setups import SetupOptions
from driftcal.report.table import Table, Value, to_csv, to_markdown

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "benchmarks" / "notebook"
#: Experiment -> its page and folder, if they are not those of the paper.
OTHER_PAGES = {"beyond": ("beyond.md", "results/beyond")}
#: Data set -> the page and the folder of the paper's experiments.
PAGES = {"cifar10": ("cifar10.md", "results/cifar10"), "imagenet": ("imagenet.md", "results/imagenet/val3k")}
#: Limits of ImageNet runs, as options of `driftcal paper`.
LIMITS = {
    "test-images": "only so many test images",
    "tune-per-class": "tune on so many images of each class, test on the others",
    "h-images": "tune -H on so many validation images",
}
#: Experiments with a figure for every network; the page leaves out such figures of the others.
PER_NETWORK = ("per-shift", "by-level", "teaser", "ood", "val-size", "examples", "beyond", "claims", "default")
#: Data set -> experiments whose figures show its images, which its terms do not allow to pass on.
UNPUBLISHED = {"imagenet": ("examples",)}
#: Figure -> the table of its numbers and the drawn column, if the table has a row per calibrator.
ROW_PER_CALIBRATOR = {"accuracy": ("accuracy-change", "under_shift")}
#: Values of the column "numbers" whose rows are drawn; None for tables without it.
DRAWN = (None, "ours", "ours, all shifts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = parser.add_mutually_exclusive_group(required=True)
    for name in PAGES:
        data.add_argument(f"--{name}", metavar="FOLDER")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--networks", help="names, separated by commas; all with weights if left out")
    parser.add_argument("--cache", default="runs/paper/cache", help="folder of cached logits")
    parser.add_argument("--experiment", default="all", help="one experiment, or all of the paper's")
    parser.add_argument("--images", type=int, help="only so many validation and so many test images")
    for name, help_text in LIMITS.items():
        parser.add_argument(f"--{name}", type=int, help=help_text)
    parser.add_argument("--add", action="store_true", help="keep the other networks of the page")
    arguments = parser.parse_args()
    if arguments.add and arguments.experiment in OTHER_PAGES:
        parser.error(f"--add is impossible with {arguments.experiment}: its means over the networks need all of them")
    name = next(name for name in PAGES if getattr(arguments, name))
    networks = arguments.networks.split(",") if arguments.networks else default_networks(name, arguments.weights)
    command = f"driftcal paper {arguments.experiment} --data {name}=DIR --networks {','.join(networks)} --weights DIR"
    limits = {limit: getattr(arguments, limit.replace("-", "_")) for limit in ("images", *LIMITS)}
    command += "".join(f" --{limit} {value}" for limit, value in limits.items() if value)
    options = SetupOptions(
        {name: getattr(arguments, name)}, networks, arguments.weights, arguments.images, arguments.test_images,
        arguments.tune_per_class,
    )  # fmt: skip
    run = PaperRun.open(
        arguments.experiment, options, settings=dataclasses.replace(OURS, h_images=arguments.h_images),
        output=f"runs/paper/{name}", cache=arguments.cache, command=command,
    )  # fmt: skip
    print(command, file=sys.stderr)
    experiments = [e for e in run.experiments if arguments.experiment != "all" or e.name not in OTHER_PAGES]
    dataclasses.replace(run, experiments=experiments).run(
        on_written=functools.partial(publish, add=arguments.add, data=name)
    )


def publish(written: WrittenResult, *, add: bool = False, data: str = "cifar10") -> None:
    """Write the result of one experiment to the notebook; with `add` after the other networks, otherwise instead of them."""
    result = written.result
    name, folder = OTHER_PAGES.get(result.experiment, PAGES[data])
    (NOTEBOOK / folder).mkdir(parents=True, exist_ok=True)
    file = NOTEBOOK / name
    page = file.read_text(encoding="utf-8") if file.is_file() else new_page(data)
    if page.startswith(new_page(data)):
        page = with_sections(page, result)
    if add:
        result = with_other_networks(result, NOTEBOOK / folder, page)
    for table in result.tables:
        (NOTEBOOK / folder / f"{table.name}.csv").write_text(to_csv(table), encoding="utf-8")
        page = replace_section(page, table.name, to_markdown(table))
    figures = [f for f in result.figures if f.name == result.experiment or result.experiment in PER_NETWORK]
    if result.experiment in UNPUBLISHED.get(data, ()):
        figures = []
    for figure in figures:
        (NOTEBOOK / folder / f"{figure.name}.png").write_bytes(with_few_colours(figure_bytes(figure, ["png"])[0]))
    links = {f"({folder}/{figure.name}.png)": f"![{figure.title}]" for figure in figures}
    lines = section(page, f"{result.experiment}-figures") if add else []
    pictures = [line for line in lines if line.startswith("![") and not line.endswith(tuple(links))]
    pictures += [f"{title}{link}" for link, title in links.items()]
    text = "".join(f"{picture}\n\n" for picture in pictures)
    page = replace_section(page, f"{result.experiment}-figures", f"{text}{figures[0].caption if figures else ''}\n")
    page = replace_section(page, f"{result.experiment}-notes", "".join(f"{note}\n" for note in result.notes))
    (NOTEBOOK / name).write_text(page, encoding="utf-8")
    print(result.experiment, file=sys.stderr, flush=True)


def new_page(data: str) -> str:
    """The beginning of a page that this program makes."""
    return f"# The paper's experiments on {data}\n"


def with_sections(page: str, result: ExperimentResult) -> str:
    """The page with a heading and empty sections for this result, if it has none."""
    names = [*(table.name for table in result.tables), f"{result.experiment}-figures", f"{result.experiment}-notes"]
    if _markers(names[0]).search(page):
        return page
    return f"{page}\n## {result.title}\n" + "".join(f"\n<!-- {name} -->\n<!-- / -->\n" for name in names)


def with_other_networks(result: ExperimentResult, folder: Path, page: str) -> ExperimentResult:
    """The result after the other networks of the folder's tables and of the page."""
    own_networks = {row["network"] for table in result.tables for row in table.rows}
    tables = [with_other_rows(table, folder / f"{table.name}.csv") for table in result.tables]
    others = {row["network"] for table in tables for row in table.rows} - own_networks
    figures = [
        with_other_groups(figure, tables)
        if isinstance(figure, Bars) and own_networks.issuperset(figure.groups)
        else figure
        for figure in result.figures
    ]
    prefixes = tuple(f"{network}:" for network in others)
    notes = [line for line in section(page, f"{result.experiment}-notes") if line.startswith(prefixes)]
    return dataclasses.replace(result, tables=tables, figures=figures, notes=[*notes, *result.notes])


def with_other_rows(table: Table, file: Path) -> Table:
    """The table after the rows of its CSV file that are of other networks."""
    own_networks = {row["network"] for row in table.rows}
    others = [row for row in read_table(file) if row["network"] not in own_networks]
    return dataclasses.replace(table, rows=[*others, *table.rows])


def read_table(file: Path) -> list[dict[str, Value]]:
    """The rows that `to_csv` wrote, with the same types; [] if there is no file."""
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8")
    # one reader distinguishes text from numbers by their quotes, the other keeps the digits that distinguish 1 from 1.0
    typed, plain = csv.reader(io.StringIO(text), quoting=csv.QUOTE_NONNUMERIC), csv.reader(io.StringIO(text))
    columns, *rows = [[_value(*cell) for cell in zip(*both, strict=True)] for both in zip(typed, plain, strict=True)]
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _value(typed: str | float, plain: str) -> Value:
    if isinstance(typed, str):
        return typed or None
    return int(plain) if plain.removeprefix("-").isdigit() else typed


def with_other_groups(figure: Bars, tables: Sequence[Table]) -> Bars:
    """The figure after bars, intervals and published values of the table's other networks."""
    name, column = ROW_PER_CALIBRATOR.get(figure.name, (figure.name, None))
    table = next(table for table in tables if table.name == name)
    others = [n for n in dict.fromkeys(row["network"] for row in table.rows) if n not in figure.groups]
    keys = {heading: key for key, heading in table.columns.items()}

    def values_of(label: str, ending: str = "", numbers: Sequence[Value] = DRAWN) -> list[Value]:
        """One value per other network; `ending` is that of the column's name."""
        by_network = {
            row["network"]: row.get(f"{column or keys[label]}{ending}")
            for row in table.rows
            if row.get("numbers") in numbers and (column is None or row["calibrator"] == label)
        }
        return [by_network.get(network) for network in others]

    def intervals_of(label: str) -> list[tuple[Value, Value] | None]:
        pairs = zip(values_of(label, "_low"), values_of(label, "_high"), strict=True)
        return [None if None in pair else pair for pair in pairs]

    return dataclasses.replace(
        figure,
        groups=[*others, *figure.groups],
        series={label: [*values_of(label), *values] for label, values in figure.series.items()},
        intervals={label: [*intervals_of(label), *values] for label, values in figure.intervals.items()},
        published={label: [*values_of(label, "", ["paper"]), *values] for label, values in figure.published.items()},
    )


def section(page: str, name: str) -> list[str]:
    """The lines between the markers of this name, [] if there are no markers."""
    match = _markers(name).search(page)
    return match[2].splitlines() if match else []


def replace_section(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers of this name; unchanged if there are no markers."""
    return _markers(name).sub(lambda match: f"{match[1]}{text.rstrip()}\n{match[3]}", page)


def _markers(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {re.escape(name)} -->\n)(.*?)(<!-- / -->)", re.DOTALL)


def with_few_colours(png: bytes) -> bytes:
    """The picture with 64 colours: a third of the bytes, without a visible difference."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
