"""The last stage of the research benchmark: a chosen few on the test suites, network by network, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.drift.research_data import Arrays, Data
from benchmarks.drift.research_inside import Looking, inside_of
from benchmarks.drift.research_tried import fit
from driftcal.calibrators.adaptive import predict_windows

PAPER = ("ts", "ets", "ts-ir", "ir", "irm")
BINS, DRAWS = 15, 500
FOLLOWING = ("ladder-ts", "ladder-ec", "ladder-irm", "ladder-pts")
CLEAN = "TS (clean rows)"
#: What the last stage compares: name -> (ladder, how to fit). Chosen on validation images.
FINAL: dict[str, tuple[str, Callable]] = {
    CLEAN: ("noise", lambda z, y: fit("ts", z[:1], y)),
    **{f"{m.upper()}-P": ("noise", lambda z, y, m=m: fit(m, z, y)) for m in PAPER},
    "PTS, varied ladder, clean weight 0.3": ("varied", lambda z, y: fit("pts", z, y, 0.3)),
    **{
        f"{m.upper()}, varied ladder, clean weight {w}": (
            "varied",
            lambda z, y, training, m=m, w=w: Looking(m, z, y, training, w),
        )
        for m, w in (("dac", 0.3), ("md-ts", 0.3), ("dac-pts", 0.3))
    },
    "DAC-PTS, varied ladder": ("varied", lambda z, y, training: Looking("dac-pts", z, y, training)),
    "LADDER-EC, noise ladder": ("noise", lambda z, y: fit("ladder-ec", z, y)),
    **{f"{m.upper()}, varied ladder": ("varied", lambda z, y, m=m: fit(m, z, y)) for m in FOLLOWING},
}


@dataclass(frozen=True)
class Judged:
    """What one calibrator did on one suite, image by image, so that images can be drawn again.

    `gaps` (shifts, images, bins): confidence minus correctness, summed over the levels of a shift, the clean one too.
    """

    gaps: np.ndarray
    clean: np.ndarray
    brier: np.ndarray
    nll: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, calibrator, suite: Arrays, labels: np.ndarray) -> Judged:
        first = _sums(calibrator, next(iter(suite.values()))[0], labels)
        found = [[first, *(_sums(calibrator, z, labels) for z in levels[1:])] for levels in suite.values()]
        gaps, brier, nll = (np.stack([sum(one[k] for one in levels) for levels in found]) for k in range(3))
        counts = np.array([len(levels) for levels in found])
        return cls(gaps, first[0], brier / counts[:, None], nll / counts[:, None], counts * len(labels))

    def figures(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Mean ECE under drift (each shift pooled over its levels), in domain, of the worst shift; Brier; NLL."""
        w = np.ones(len(self.clean)) if weights is None else weights
        eces = np.abs(np.einsum("i,sib->sb", w, self.gaps)).sum(axis=1) / self.rows
        clean = np.abs(w @ self.clean).sum() / len(self.clean)
        return np.array(
            [eces.mean(), clean, eces.max(), (self.brier @ w).mean() / len(w), (self.nll @ w).mean() / len(w)]
        )


def _sums(calibrator, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    p, rows = predict_windows(calibrator, logits), np.arange(len(labels))
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    gaps = np.zeros((len(labels), BINS))
    gaps[rows, np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)] = confidence - right
    own = p[rows, labels]
    return gaps, (p**2).sum(axis=1) - 2 * own + 1, -np.log(np.clip(own, 1e-15, 1))


#: Suite figures of calibrators by name: (1 + draws, 5), what `Judged.figures` tells, first of the images as they are.
Figures = dict[str, np.ndarray]


def finals(data: Sequence[Data], suite: str, seeds: Sequence[int]) -> tuple[Figures, Figures]:
    """Figures averaged over seeds and networks, and their standard deviation over the seeds.

    Images are drawn again, the same for all calibrators; ladders and networks are held fast.
    """
    figures, spread = {}, {}
    for name in FINAL:
        found = np.mean([_one(d, suite, seeds, name) for d in data], axis=0)
        figures[name], spread[name] = found.mean(axis=0), found[:, 0].std(axis=0)
        print(name, figures[name][0].round(4), flush=True)
    return figures, spread


def _one(data: Data, suite: str, seeds: Sequence[int], name: str) -> np.ndarray:
    """(seeds, 1 + draws, 5) of one network, kept beside its logits: an interrupted run goes on."""
    ladder, make = FINAL[name]
    n = data.images
    kept = data.cache / f"{data.network}_final-{suite}-{len(seeds)}-{n}-{name.replace(' ', '_')}.npz"
    if not kept.exists():
        rng = np.random.default_rng(0)
        weights = [None, *(np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(DRAWS))]
        source = inside_of(data) if name.startswith(("DAC", "MD-TS")) else data
        test = source.suite(suite)
        runs = (Judged.of(make(*source.ladder(ladder, seed)), *test) for seed in seeds)
        np.savez(kept, figures=[[run.figures(w) for w in weights] for run in runs])
    with np.load(kept) as file:
        return file["figures"]


def best_of_paper(figures: Figures) -> str:
    """The -P calibrator with the lowest ECE under drift."""
    return min((f"{m.upper()}-P" for m in PAPER), key=lambda name: figures[name][0, 0])


def compare(data: Sequence[Data], suite: str, seeds: Sequence[int]) -> list[str]:
    """A table of the chosen few, with differences to the best -P and their 95 % intervals."""
    figures, spread = finals(data, suite, seeds)
    best = best_of_paper(figures)
    floor = figures[CLEAN][0, 1]
    lines = [
        f"Best of the paper's: {best}. Ratios are to it; ± is the standard deviation over the seeds; intervals of 95 %.",
        "",
        "| calibrator | ECE under drift | × | in domain | × | above TS | worst | × | ECE below best -P | Brier | Brier below best -P | NLL |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in figures.items():
        here, base = found[0], figures[best][0]
        cells = [
            f"{here[0]:.3f} ± {spread[name][0]:.3f}", f"{here[0] / base[0]:.2f}", f"{here[1]:.3f}", f"{here[1] / base[1]:.2f}",
            f"{here[1] - floor:+.3f}", f"{here[2]:.3f}", f"{here[2] / base[2]:.2f}", _gain(figures[best], found, 0),
            f"{here[3]:.3f}", _gain(figures[best], found, 3), f"{here[4]:.3f}",
        ]  # fmt: skip
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _gain(best: np.ndarray, found: np.ndarray, k: int) -> str:
    gain = best[:, k] - found[:, k]
    # ECE of a resample is too large by its own noise, for both: the interval is put around the figure itself
    low, high = 2 * gain[0] - np.quantile(gain[1:], [0.975, 0.025])
    return f"{gain[0]:.3f} ({low:.3f} to {high:.3f})"
