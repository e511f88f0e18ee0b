"""Windowed calibrators beside TS and the paper's -P methods, on logits that `collect_study` recorded.

    python -m benchmarks.accuracy.windowed_study benchmarks/data resnet20 resnet44 plain-cnn plain-cnn-10-epochs vgg19-bn \
        -o benchmarks/accuracy/windowed_study

It writes the file .json with all figures and .md with the tables. ``--methods`` takes any of the methods by name;
``ts`` and the paper's five -P methods are always fitted, because ratios are to them. Methods and networks of an earlier run that
are not named again keep their rows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.accuracy.study_data import StudyData
from benchmarks.accuracy.windowed_methods import PAPER_P, Method, Predictor, methods
from benchmarks.measure import table_head, table_row, write_page
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.sample_scores import SampleScores
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap

N_BINS, N_RESAMPLES = 15, 400
#: Samples of each stream of a step change, and of its batches.
STREAM, BATCH = 400, 25
#: Every n-th shifted condition is used for mixed windows and step changes.
EVERY = 9
#: The level-matching calibrator that others are compared with on the natural shift.
LEVEL_MATCHING = "level-ts-p"
#: Sizes of windows in tables, and the one in which streams of per-sample methods are shown.
SIZES, SHOWN = {25, 100, 500}, 100
#: The share of one class in a burst.
BURST = 0.8


def in_blocks(predictor: Predictor, logits: np.ndarray, size: int) -> np.ndarray:
    """Probabilities of samples in blocks of `size`; a remainder joins the last block."""
    starts = list(range(0, max(1, len(logits) - size + 1), size))
    stops = [*starts[1:], len(logits)]
    return np.concatenate([predictor.predict(logits[a:b]) for a, b in zip(starts, stops, strict=True)])


def scores(probabilities: np.ndarray, labels: np.ndarray) -> SampleScores:
    """Six numbers per sample."""
    return SampleScores.of_probabilities(labels, np.ascontiguousarray(probabilities))


class Cases:
    """The test conditions of a network in a fixed order of images, and the streams that are made of them."""

    def __init__(self, data: StudyData, seed: int) -> None:
        self.data, rng = data, np.random.default_rng(seed)
        self.labels = {name: data.labels(name) for name in ("test", "natural", "clean")}
        self.order = {name: rng.permutation(len(labels)) for name, labels in self.labels.items()}
        self.suites = {name: data.conditions(f"test/{name}") for name in ("affine", "corruptions", "simple")}
        self.clean, self.test_clean = data.logits("clean"), data.logits("test/clean")
        self.seed = seed

    def shuffled(self, predictor: Predictor, logits: np.ndarray, part: str, size: int) -> SampleScores:
        """Scores in the order of the images; windows follow the order of the seed."""
        order = self.order[part]
        probabilities = np.empty(logits.shape)
        probabilities[order] = in_blocks(predictor, logits[order], size)
        return scores(probabilities, self.labels[part])

    def evaluate(self, predictor: Predictor, size: int) -> dict[str, dict[str, SampleScores]]:
        """Scores of all images under every condition: suite -> ``shift/level`` -> scores."""
        clean = self.shuffled(predictor, self.test_clean, "test", size)
        evaluated: dict[str, dict[str, SampleScores]] = {
            "in domain": {"clean/0": self.shuffled(predictor, self.clean, "clean", size)},
            "natural": {"natural/0": self.shuffled(predictor, self.data.logits("natural"), "natural", size)},
        }
        for suite, by_shift in self.suites.items():
            evaluated[suite] = {
                f"{shift}/{level}": self.shuffled(predictor, logits, "test", size)
                for shift, by_level in by_shift.items()
                for level, logits in by_level.items()
            }
            if suite != "simple":  # level 0 of the paper's pooled errors
                evaluated[suite] |= {f"{shift}/0": clean for shift in by_shift}
        return evaluated

    def streams(self, predictor: Predictor, size: int, windowed: bool) -> dict[str, Statistics]:
        """Sums over windows with changed class shares, mixed windows, bursts and step changes."""
        rng = np.random.default_rng(1000 + self.seed)
        labels, n_windows = self.labels["clean"], max(4, 2000 // size)
        by_class = [np.flatnonzero(labels == c) for c in range(self.clean.shape[1])]

        def clean_window(shares: np.ndarray) -> Statistics:
            chosen = np.array([rng.choice(by_class[c]) for c in rng.choice(len(by_class), size, p=shares)])
            return _sums(predictor.predict(self.clean[chosen]), labels[chosen])

        n_classes = len(by_class)
        burst = np.full(n_classes, (1 - BURST) / (n_classes - 1))
        sums = {
            "Dirichlet(1)": [clean_window(rng.dirichlet(np.ones(n_classes))) for _ in range(n_windows)],
            "Dirichlet(0.3)": [clean_window(rng.dirichlet(np.full(n_classes, 0.3))) for _ in range(n_windows)],
            "burst of a class": [
                clean_window(np.where(np.arange(n_classes) == k % n_classes, BURST, burst)) for k in range(n_windows)
            ],
        }
        shifted = [
            z for suite in ("affine", "corruptions") for levels in self.suites[suite].values() for z in levels.values()
        ]
        test_labels, mixed, steps = self.labels["test"], [], []
        for logits in shifted[::EVERY]:
            for _ in range(max(1, 200 // size)):
                chosen = rng.permutation(len(test_labels))[:size]
                half = np.arange(len(chosen)) % 2 == 0
                both = np.where(half[:, None], self.test_clean[chosen], logits[chosen])
                mixed.append(_sums(predictor.predict(both), test_labels[chosen]))
            chosen = rng.permutation(len(test_labels))[:STREAM]
            late = np.arange(len(chosen)) >= STREAM // 2
            stream = np.where(late[:, None], logits[chosen], self.test_clean[chosen])
            steps.append(_sums(_follow(predictor, stream, size if windowed else BATCH), test_labels[chosen]))
        sums |= {"mixed": mixed, "step change": steps}
        return {name: sum(parts[1:], parts[0]) for name, parts in sums.items()}


def _follow(predictor: Predictor, stream: np.ndarray, size: int) -> np.ndarray:
    """Probabilities of each batch from the window of the last `size` samples, the batch's own included."""
    parts = []
    for start in range(0, len(stream), BATCH):
        stop = start + BATCH
        window = stream[max(0, stop - max(size, BATCH)) : stop]
        parts.append(predictor.predict(window)[-BATCH:])
    return np.concatenate(parts)


def _sums(probabilities: np.ndarray, labels: np.ndarray) -> Statistics:
    return Statistics.of_samples(scores(probabilities, labels), n_bins=N_BINS)


def summarise(evaluated: dict[str, dict[str, SampleScores]]) -> dict[str, float]:
    """ECE in domain and under shift, Brier score, NLL, and the null ECE beside the errors."""
    row: dict[str, float] = {}
    for suite, by_condition in evaluated.items():
        single = {name: Statistics.of_samples(s, n_bins=N_BINS) for name, s in by_condition.items()}
        shifts = dict.fromkeys(name.partition("/")[0] for name in single)
        pooled = []
        for shift in shifts:
            parts = [s for name, s in single.items() if name.startswith(shift + "/")]
            pooled.append(sum(parts[1:], parts[0]))
        shifted = [s for name, s in single.items() if not name.endswith("/0")] or pooled
        row |= {
            suite: _mean(s.ece for s in pooled),
            f"{suite} null": _mean(s.null_ece for s in pooled),
            f"{suite} worst": max(s.ece for s in pooled),
            f"{suite} single": _mean(s.ece for s in shifted),
            f"{suite} single null": _mean(s.null_ece for s in shifted),
            f"{suite} brier": _mean(s.brier for s in pooled),
            f"{suite} nll": _mean(s.nll for s in pooled),
        }
        if suite == "simple":
            row |= {f"simple {name}": s.ece for name, s in single.items()}
    return row


def _mean(values) -> float:
    return float(np.mean(list(values)))


def bootstrap_means(evaluated: dict[str, dict[str, SampleScores]]) -> dict[str, np.ndarray]:
    """Replicates of the mean ECE of each suite, over images; the same images for every method."""
    replicates = {}
    for suite, by_condition in evaluated.items():
        shifts: dict[str, list[SampleScores]] = {}
        for name, sample_scores in by_condition.items():
            shifts.setdefault(name.partition("/")[0], []).append(sample_scores)
        bootstrap = ImageBootstrap(len(next(iter(by_condition.values()))), N_RESAMPLES, N_BINS)
        eces = [bootstrap.metrics(r)["ece"] for r in bootstrap.replicates(list(shifts.values()))]
        replicates[suite] = np.mean(eces, axis=0)
    return replicates


def study(
    data: StudyData,
    names: Sequence[str],
    windows: Sequence[int],
    seeds: Sequence[int],
    known: Mapping[str, dict],
    save: Callable[[dict[str, dict]], None],
) -> None:
    """``method`` or ``method@window`` -> figures, means over the seeds, with intervals of the difference to TS.

    `known` are rows of an earlier run; what is not named again stays as it was. `save` gets all rows after each method.
    """
    listed = methods()
    in_order = [key for name in listed for key in (name, *(f"{name}@{size}" for size in sorted(SIZES | {*windows})))]
    rows: dict[str, dict] = {}
    replicates: dict[str, dict[str, np.ndarray]] = {}
    baselines = ["ts", *PAPER_P, LEVEL_MATCHING]
    for name in dict.fromkeys([*baselines, *names]):
        for sizes in [[size] for size in windows] if listed[name].windowed else [windows]:
            key = f"{name}@{sizes[0]}" if listed[name].windowed else name
            rows[key], replicates[key] = figures(data, listed[name], sizes, seeds)
            line = ", ".join(f"{n} {rows[key][n]:.3f}" for n in _MAIN)
            print(f"{data.network} {key}: {line}", file=sys.stderr, flush=True)
        if name not in baselines[:-1]:
            add_comparisons(rows, replicates)
            merged = known | {key: known.get(key, {}) | row for key, row in rows.items()}
            save({key: merged[key] for key in in_order if key in merged})


def figures(
    data: StudyData, method: Method, sizes: Sequence[int], seeds: Sequence[int]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """A method's row, a mean over the seeds, and replicates of its mean ECE in each suite.

    Streams are measured in windows of every size, so that a per-sample method sees the samples that a windowed one sees; a windowed
    method takes one size. A stream without a size is in windows of `SHOWN`, or of the last size.
    """
    shown = SHOWN if SHOWN in sizes else sizes[-1]
    collected, replicates, predictor = [], {}, None
    for seed in seeds:
        cases = Cases(data, seed)
        if predictor is None or method.windowed:
            predictor = method.fit(data, sizes[-1], seed)
            evaluated = cases.evaluate(predictor, sizes[-1])
            row, replicates = summarise(evaluated), replicates or bootstrap_means(evaluated)
        for size in sizes:
            streams = cases.streams(predictor, size, method.windowed)
            for ending in (f"@{size}", "") if size == shown else (f"@{size}",):
                row |= {name + ending: s.ece for name, s in streams.items()}
                row |= {f"{name}{ending} null": s.null_ece for name, s in streams.items()}
        collected.append(dict(row))
    return {name: _mean(row[name] for row in collected) for name in collected[0]}, replicates


def add_comparisons(rows: dict[str, dict], replicates: dict[str, dict[str, np.ndarray]]) -> None:
    """Ratios to TS and to the best -P, intervals of the differences, and the largest difference to TS on a simple change."""
    for suite in ("affine", "corruptions", "in domain", "natural"):
        best = min(PAPER_P, key=lambda name: rows[name][suite])
        for key, row in rows.items():
            row[f"{suite} of ts"] = row[suite] / rows["ts"][suite]
            row[f"{suite} of best -P"] = row[suite] / rows[best][suite]
            row[f"{suite} worst of best -P"] = row[f"{suite} worst"] / rows[best][f"{suite} worst"]
            for other, label in (("ts", "ts"), (best, "best -P")):
                difference = replicates[key][suite] - replicates[other][suite]
                row[f"{suite} minus {label}"] = np.quantile(difference, [0.025, 0.975]).tolist()
            row[f"{suite} best -P"] = best
    for key, row in rows.items():
        size = key.partition("@")[2]
        if size:
            difference = replicates[key]["natural"] - replicates[f"{LEVEL_MATCHING}@{size}"]["natural"]
            row["natural minus level"] = np.quantile(difference, [0.025, 0.975]).tolist()
        row["simple worse than ts"] = max(row[n] - rows["ts"][n] for n in row if n.startswith("simple ") and "/" in n)


_MAIN = ("in domain", "affine", "corruptions", "natural", "simple")
_COLUMNS = {
    "in domain": "in domain", "affine": "affine", "affine worst": "worst", "affine single": "single",
    "corruptions": "corruptions", "corruptions worst": "worst", "corruptions single": "single", "natural": "natural",
    "simple": "simple", "simple worse than ts": "most above TS",
}  # fmt: skip
_STREAMS = ("Dirichlet(1)", "Dirichlet(0.3)", "burst of a class", "mixed", "step change")
_SUITES = ("in domain", "affine", "corruptions", "natural")


def limits(rows: dict[str, dict], key: str) -> dict[str, tuple[float, float]]:
    """Each aim of a windowed calibrator: its figure and the largest value wanted.

    No limit is below the null ECE plus 0.01. The last aim of windows of 25 is the figure of windows of 100 plus 0.01.
    """
    row, ts, (name, _, size) = rows[key], rows["ts"], key.partition("@")

    def at_most(value: float, suite: str) -> float:
        return max(value, row.get(f"{suite} null", 0.0) + 0.01)

    aims = {"in domain": (row["in domain"], at_most(ts["in domain"] + 0.015, "in domain"))}
    for suite, factor in (("affine", 0.65), ("corruptions", 0.45)):
        best = row[f"{suite} best -P"]
        aims[suite] = row[suite], at_most(factor * rows[best][suite], suite)
        aims[f"{suite} worst"] = row[f"{suite} worst"], at_most(0.75 * rows[best][f"{suite} worst"], suite)
    level = rows[f"{LEVEL_MATCHING}@{size}"]["natural"]
    aims["natural, level-ts-p"] = row["natural"], at_most(level, "natural")
    for stream in ("Dirichlet(1)", "Dirichlet(0.3)"):
        aims[stream] = row[stream], at_most(ts.get(f"{stream}@{size}", ts[stream]) + 0.015, stream)
    aims["most above TS on a simple change"] = row["simple worse than ts"], 0.02
    if key.endswith("@25") and f"{name}@100" in rows:
        larger = rows[f"{name}@100"]
        aims["affine, windows of 100"] = row["affine"], larger["affine"] + 0.01
        aims["corruptions, windows of 100"] = row["corruptions"], larger["corruptions"] + 0.01
    return aims


def aims_table(results: dict[str, dict[str, dict]], size: int) -> list[str]:
    """The aims of window-ts in windows of this size on every network, in Markdown; missed ones are bold."""
    key = f"window-ts@{size}"
    networks = [network for network, rows in results.items() if key in rows]
    if not networks:
        return []
    cells: dict[str, list[str]] = {}
    for network in networks:
        low, high = results[network][key]["natural minus level"]
        for aim, (value, limit) in limits(results[network], key).items():
            figure = f"{value:.3f} of {limit:.3f}"
            missed = value > limit and not (aim.startswith("natural") and low <= 0)
            cells.setdefault(aim, []).append(f"**{figure}**" if missed else figure)
        cells.setdefault("natural minus level-ts-p, 95 % interval", []).append(f"{low:+.3f} to {high:+.3f}")
    return [
        "",
        table_head([f"windows of {size}: ECE of the largest wanted", *networks]),
        *(table_row([a, *c]) for a, c in cells.items()),
    ]


def page(results: dict[str, dict[str, dict]]) -> str:
    """The tables in Markdown."""
    command = f"python -m benchmarks.accuracy.windowed_study benchmarks/data {' '.join(results)} -o benchmarks/accuracy/windowed_study"
    parts = ["# Windowed calibrators under shift\n", f"`{command}`\n", _INTRODUCTION]
    parts += [
        "\n## Aims of window-ts\n",
        _AIMS,
        *(line for size in sorted(SIZES) for line in aims_table(results, size)),
    ]
    for network, rows in results.items():
        parts += [f"\n## {network}\n", table_head(["ECE", *_COLUMNS.values()])]
        parts += [table_row([key, *(f"{row[c]:.3f}" for c in _COLUMNS)]) for key, row in rows.items()]
        nulls = [f"{rows['ts'][c + ' null']:.3f}" if c + " null" in rows["ts"] else "" for c in _COLUMNS]
        parts.append(table_row(["null ECE of ts", *nulls]))
        parts += ["", table_head(["ECE in clean and changing streams", *_STREAMS, "null ECE, Dirichlet(1)"])]
        parts += [
            table_row([key, *(f"{row[s]:.3f}" for s in _STREAMS), f"{row['Dirichlet(1) null']:.3f}"])
            for key, row in rows.items()
        ]
        columns = [f"{s} {of}" for s in _SUITES for of in ("× TS", "× best -P")]
        parts += ["", table_head(["ratio of ECE", *columns])]
        for key, row in rows.items():
            parts.append(table_row([key, *(f"{row[f'{s} of {o}']:.2f}" for s in _SUITES for o in ("ts", "best -P"))]))
        columns = [f"{s}, minus {o}" for s in _SUITES for o in ("TS", "best -P")]
        parts += ["", table_head(["95 % interval", *columns])]
        for key, row in rows.items():
            cells = [row[f"{s} minus {o}"] for s in _SUITES for o in ("ts", "best -P")]
            parts.append(table_row([key, *(f"{low:+.3f} to {high:+.3f}" for low, high in cells)]))
        parts += ["", table_head(["proper scores", *(f"{s} {m}" for s in _SUITES for m in ("Brier", "NLL"))])]
        for key, row in rows.items():
            parts.append(table_row([key, *(f"{row[f'{s} {m}']:.3f}" for s in _SUITES for m in ("brier", "nll"))]))
    return "\n".join(parts) + "\n"


_INTRODUCTION = (
    f"ECE has {N_BINS} equal-width bins. For affine shifts and corruptions it is the mean over the shifts, each pooled over its "
    "levels with the clean one, as in the paper; `worst` is the largest of them; `single` is the mean ECE of single conditions, "
    "where opposite errors cannot cancel. `most above TS` is the largest difference to TS on a simple change. Methods with @n "
    "follow windows of n samples of one condition. -P: tuned on the levels of Gaussian noise of Algorithm 1; -v: on those of "
    f"`varied`. In a burst {BURST:.0%} of a clean window are of one class; half of a mixed window is shifted; a step change is "
    f"{STREAM} samples in batches of {BATCH}, the second half shifted, with sliding windows. "
    "The best -P is the one of TS-P, ETS-P, TS-IR-P, IR-P and IRM-P with the lowest ECE in that suite. Windowed figures are means "
    "over three orders of the images; intervals are bootstraps over images of the first order, paired. "
    "The null ECE is that of a perfectly calibrated model with the confidences of TS."
)


_AIMS = (
    "Set before `window-ts` was built: in domain and under Dirichlet class shares at most 0.015 above TS; affine at most 0.65 and "
    "corruptions at most 0.45 of the best -P, their worst shift at most 0.75 of its worst; the natural shift not above level matching beyond "
    "the interval; no simple change more than 0.02 above TS; in windows of 25 at most 0.01 above windows of 100. No limit is below the null "
    "ECE plus 0.01. Missed ones are bold."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(methods()))
    parser.add_argument("--windows", type=int, nargs="+", default=[25, 100, 500])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, help="without the ending; by default tables are printed")
    options = parser.parse_args()
    stored = options.output.with_suffix(".json") if options.output else None
    results = json.loads(stored.read_text()) if stored and stored.exists() else {}

    def save(network: str, rows: dict[str, dict]) -> None:
        results[network] = rows
        if options.output:
            options.output.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
            write_page(options.output.with_suffix(".md"), page(results))

    for network in options.networks:
        data = StudyData.load(options.folder / f"{network}.npz")
        known = results.get(network, {})
        study(data, options.methods, options.windows, range(options.seeds), known, partial(save, network))
    if options.output is None:
        print(page(results))


if __name__ == "__main__":
    main()
