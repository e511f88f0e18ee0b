"""The paper's experiments on CIFAR-10, and docs/results.md brought up to date with them.

    python -m benchmarks.drift.cifar10 --cifar10 FOLDER --weights FOLDER [--networks resnet20,resnet44,…]
    python -m benchmarks.drift.cifar10 --cifar10 FOLDER --weights FOLDER --experiment beyond --images 500

Networks are all whose weights are found, if none are named; what the store knows is not computed again, so a new network costs its
own passes only. Tables go to docs/results/cifar10 as CSV, figures as PNG, and between the markers of docs/results.md; what goes
beyond the paper goes to docs/results/beyond and docs/research.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import re
import sys
from pathlib import Path

from PIL import Image

from driftcal.bench.zoo import default_networks
from driftcal.paper import Reproduction, Written
from driftcal.report.paper import table_csv, table_markdown
from driftcal.report.paper.figures import figure_bytes

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Experiment -> its page and folder; all others have those of the paper.
HOMES = {"beyond": ("research.md", "results/beyond")}
#: Experiments whose figures are shown for every network; the others have one for all, or can be made by anyone.
PER_NETWORK = ("per-shift", "by-level", "teaser", "ood", "val-size", "examples", "beyond")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--networks", help="names with commas between; all whose weights are there if left out")
    parser.add_argument("--store", default="runs/paper/store")
    parser.add_argument("--experiment", default="all", help="one of them, or all of the paper's")
    parser.add_argument("--images", type=int, help="only so many validation and so many test images")
    given = parser.parse_args()
    networks = given.networks.split(",") if given.networks else default_networks("cifar10", given.weights)
    command = f"driftcal paper {given.experiment} --data cifar10=DIR --networks {','.join(networks)} --weights DIR"
    command += f" --images {given.images}" if given.images else ""
    run = Reproduction.open(
        given.experiment, data={"cifar10": given.cifar10}, networks=networks, weights=given.weights,
        output="runs/paper/cifar10", store=given.store, command=command, images=given.images,
    )  # fmt: skip
    print(command, file=sys.stderr)
    wanted = [e for e in run.experiments if given.experiment != "all" or e.name not in HOMES]
    dataclasses.replace(run, experiments=wanted).run(on_done=publish)


def publish(written: Written) -> None:
    """Results of one experiment into docs/."""
    outcome = written.outcome
    name, folder = HOMES.get(outcome.experiment, ("results.md", "results/cifar10"))
    (DOCS / folder).mkdir(parents=True, exist_ok=True)
    page = (DOCS / name).read_text(encoding="utf-8")
    for table in outcome.tables:
        (DOCS / folder / f"{table.name}.csv").write_text(table_csv(table), encoding="utf-8")
        page = between(page, table.name, table_markdown(table))
    shown = [f for f in outcome.figures if f.name == outcome.experiment or outcome.experiment in PER_NETWORK]
    for figure in shown:
        (DOCS / folder / f"{figure.name}.png").write_bytes(small(figure_bytes(figure, ["png"])[0]))
    pictures = "".join(f"![{figure.title}]({folder}/{figure.name}.png)\n\n" for figure in shown)
    page = between(page, f"{outcome.experiment}-figures", f"{pictures}{shown[0].caption if shown else ''}\n")
    page = between(page, f"{outcome.experiment}-notes", "".join(f"{note}\n" for note in outcome.notes))
    (DOCS / name).write_text(page, encoding="utf-8")
    print(outcome.experiment, file=sys.stderr, flush=True)


def between(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers of this name; the page as it is where it has none."""
    pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- / -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{text.rstrip()}\n{found[2]}", page)


def small(png: bytes) -> bytes:
    """The picture with 64 colours: a third of the bytes, and nobody sees it."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
