"""The table of the README and the figure of the docs, from the figures of the study.

    python -m benchmarks.accuracy.readme_table

`python -m benchmarks.accuracy.windowed_study` writes the figures.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[2]
STUDY = Path(__file__).with_name("windowed_study.json")
FIGURE = ROOT / "docs" / "images" / "in-domain-and-shift.png"
BLOCK = re.compile(r"(<!-- table: begin.*?-->\n).*?(<!-- table: end -->)", re.DOTALL)
LABELS = {
    "base": "uncalibrated",
    "ts": "temperature scaling",
    "best -P": "best of Tomani et al. 2021, tuned on noisy inputs",
    "default": "driftcal, one input at a time",
    "window-ts@100": "driftcal, with the last 100 inputs",
}
PAPER_P = ("ts-p", "ets-p", "ts-ir-p", "ir-p", "irm-p")
NETWORKS = {
    "resnet20": "ResNet",
    "resnet44": "ResNet",
    "plain-cnn": "plain CNN",
    "plain-cnn-10-epochs": "plain CNN",
    "vgg19-bn": "VGG19",
}
COUNTS = ("no", "a", "two", "three", "four", "five")
#: Printed by `driftcal demo`: 15 bins, nine affine shifts.
DEMO = (
    "On Fashion-MNIST, the demo, under geometric changes: 0.305 with temperature scaling, 0.153 with windows, "
    "0.146 with the paper's best."
)


def under_shift(row: dict[str, float]) -> float:
    """Mean ECE of affine shifts and corruptions."""
    return fmean((row["affine"], row["corruptions"]))


def rows(study: dict[str, dict[str, dict[str, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Calibrator -> (ECE in domain, ECE under shift) of each network."""
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in LABELS}
    for measured in study.values():
        measured = {**measured, "best -P": min((measured[name] for name in PAPER_P), key=under_shift)}
        for name in LABELS:
            values[name].append((measured[name]["in domain"], under_shift(measured[name])))
    return values


def table(values: dict[str, list[tuple[float, float]]], networks: Iterable[str]) -> str:
    """The table in Markdown, with the sentence that says what was measured."""
    lines = ["| | ECE in domain | ECE under shift |", "|---|---:|---:|"]
    lines += [
        f"| {label} | {fmean(x for x, _ in values[name]):.3f} | {fmean(y for _, y in values[name]):.3f} |"
        for name, label in LABELS.items()
    ]
    families = Counter(NETWORKS[network] for network in networks)
    listed = ", ".join(f"{COUNTS[n]} {family}{'s' if n > 1 else ''}" for family, n in families.items())
    note = (
        f"ECE is the expected calibration error: how far confidence misses accuracy. Mean of {COUNTS[families.total()]} networks on "
        f"CIFAR-10 ({listed}), 15 bins. Under shift: nine geometric changes (turned, moved, …) and 19 corruptions "
        f"(noise, blur, …). {DEMO}"
    )
    return "\n".join([*lines, "", note]) + "\n"


def draw(values: dict[str, list[tuple[float, float]]]) -> None:
    """In-domain against shift ECE: a point per network, a larger one for their mean."""
    figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
    colours = ["0.55", "tab:blue", "tab:orange", "tab:purple", "tab:green"]
    markers = ["s", "o", "^", "x", "D"]
    for (name, label), colour, marker in zip(LABELS.items(), colours, markers, strict=True):
        x, y = zip(*values[name], strict=True)
        axes.scatter(x, y, s=24, color=colour, marker=marker, alpha=0.5)
        axes.scatter(fmean(x), fmean(y), s=90, color=colour, marker=marker, label=label)
    axes.set(xlabel="ECE in domain", ylabel="ECE under shift", xlim=(0, None), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    figure.savefig(FIGURE, dpi=150)


def main() -> None:
    """Write the table into the README, and the figure."""
    study = json.loads(STUDY.read_text(encoding="utf-8"))
    values = rows(study)
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(BLOCK.sub(lambda match: match[1] + table(values, study) + match[2], text), encoding="utf-8")
    draw(values)


if __name__ == "__main__":
    main()
