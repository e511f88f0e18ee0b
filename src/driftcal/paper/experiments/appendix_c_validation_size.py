"""What calibrators are tuned on: fewer images, and corruptions instead of noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.statistics import Statistics
from driftcal.paper.cases import Case
from driftcal.paper.experiments.captions import ECE, who_is_who
from driftcal.paper.experiments.experiment import headings, label, with_suffix
from driftcal.paper.outcome import Bars, Lines, Outcome, Panel, Table, Value
from driftcal.paper.published import published, where
from driftcal.paper.workbench import PAPER, Workbench
from driftcal.pipeline.tune import fit_or_identity
from driftcal.shifts.suites import H_TUNING
from driftcal.types import Labels, Logits

_SIZES = (50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000)
#: Draws of validation images at each size; the figure shows their mean and range.
_DRAWS = 3
_COLUMNS = with_suffix(PAPER, "", "-p")


def other_sizes(bench: Workbench) -> Outcome:
    """Mean ECE and accuracy against the number of validation images.

    The levels of noise are those found on all validation images: only the rows that calibrators see become fewer.
    """
    rows: list[dict[str, Value]] = []
    figures = []
    for case in bench.cases:
        found = _by_size(bench, case)
        sizes = sorted(found)
        for size in sizes:
            for key, words in (("ece", "mean ECE"), ("accuracy", "mean accuracy")):
                row: dict[str, Value] = {"network": case.label, "images": size, "quantity": words}
                for name in _COLUMNS:
                    values = [draw[name][key] for draw in found[size]]
                    row[name], row[f"{name}_low"], row[f"{name}_high"] = (
                        float(np.mean(values)),
                        min(values),
                        max(values),
                    )
                rows.append(row)
        panels = [
            Panel(
                words,
                sizes,
                {label(n): [float(np.mean([d[n][key] for d in found[s]])) for s in sizes] for n in _COLUMNS},
                "validation images",
                words,
                logarithmic=True,
                y_limits=(0.0, None) if key == "ece" else (None, None),
            )
            for key, words in (("ece", "mean ECE under drift"), ("accuracy", "mean accuracy under drift"))
        ]
        figures.append(
            Lines(
                f"val-size-{case.name}",
                f"{case.label}: how many validation images calibrators need",
                f"Mean ECE (left, lower is better) and accuracy (right) over all shifts against the number of validation images; "
                f"means of {_DRAWS} random choices. Dashed and hollow: tuned on clean images; solid and filled: on noise (-P). "
                f"Methods that keep the accuracy lie on one line. {who_is_who(_COLUMNS)} {ECE}",
                panels,
            )
        )
    table = Table(
        "val-size",
        "Mean ECE and accuracy under drift by number of validation images",
        {"network": "Network", "images": "Validation images", "quantity": "Quantity", **headings(_COLUMNS)},
        rows,
    )
    note = f"Each number is the mean of {_DRAWS} random choices of validation images; the CSV file has the range."
    return Outcome("val-size", "Size of the validation set", [table], figures, [f"{note} {bench.settings.describe()}."])


def other_shifts(bench: Workbench) -> Outcome:
    """Tuning on the four corruptions of -H beside tuning on noise."""
    columns = with_suffix(PAPER, "", "-p", "-h")
    rows: list[dict[str, Value]] = []
    series: dict[str, list[float | None]] = {label(name): [] for name in columns}
    for case in bench.cases:
        plain, corrupted = bench.sweep(case), bench.sweep(case, PAPER, ("-h",))
        kept = [s for s in H_TUNING if s in plain.shifts()]
        for words, without in [("all shifts", ()), *([("without the four", H_TUNING)] if kept else [])]:
            values = {n: (corrupted if n.endswith("-h") else plain).mean(n, without=without) for n in columns}
            rows.append({"network": case.label, "numbers": f"{bench.settings.name}, {words}", **values})
            if words == "all shifts":
                for name in columns:
                    series[label(name)].append(values[name])
        printed = published("val-shift", case.data, case.network)
        if printed:
            rows.append({"network": case.label, "numbers": "paper", **printed, **_p_columns(case)})
    table = Table(
        "val-shift",
        "Mean ECE under drift: tuned on clean images, on noise (-P), on four corruptions (-H)",
        {"network": "Network", "numbers": "Settings", **headings(columns)},
        rows,
        compare=columns,
    )
    figure = Bars(
        "val-shift",
        "Mean ECE under drift by what calibrators were tuned on",
        "Hatched: tuned on clean images; filled: on noise (-P); dotted: on speckle noise, Gaussian blur, spatter and saturation "
        f"(-H). Each bar is the mean over all shifts, each pooled over its levels; lower is better. {who_is_who(_COLUMNS)} {ECE} "
        f"{bench.settings.describe()}.",
        [case.label for case in bench.cases],
        series,
        "mean ECE under drift",
    )
    note = f"-H: {', '.join(H_TUNING)} at severities 0 to 5. paper: {where('val-shift')}."
    return Outcome("val-shift", "What to tune on", [table], [figure], [note])


def _p_columns(case: Case) -> dict[str, float]:
    """The paper prints -P beside -H in another table."""
    return {name: value for name, value in published("table1", case.data, case.network).items() if name.endswith("-p")}


def _by_size(bench: Workbench, case: Case) -> dict[int, list[dict[str, dict[str, float]]]]:
    """size -> a list of draws, each calibrator -> mean ECE and accuracy."""
    labels = bench.collector(case, case.validation).labels
    n = len(labels)
    ladder = bench.ladder(case)[1]
    fitted: dict[tuple[int, int, str], Calibrator] = {}
    for size in [s for s in _SIZES if s < n / 1.5] + [n]:
        for number in range(_DRAWS if size < n else 1):
            chosen = np.random.default_rng([bench.seed, number]).permutation(n)[:size]
            for name in _COLUMNS[1:]:
                levels = ladder if name.endswith("-p") else ladder[:1]
                fitted[size, number, name] = _fit(bench, name, [z[chosen] for z in levels], labels[chosen])
    base = next(c for c in bench.candidates(case, ()) if c.name == "base").calibrator
    measured = _measure(bench, case, {**fitted, (0, 0, "base"): base})
    draws: dict[int, list[dict[str, dict[str, float]]]] = {}
    for size, number in dict.fromkeys((size, number) for size, number, _ in fitted):
        one = {name: measured[size, number, name] for name in _COLUMNS[1:]}
        draws.setdefault(size, []).append({"base": measured[0, 0, "base"], **one})
    return draws


def _fit(bench: Workbench, name: str, levels: Sequence[Logits], labels: Labels) -> Calibrator:
    rows = np.concatenate(levels)
    return fit_or_identity(name.removesuffix("-p"), rows, np.tile(labels, len(levels)), bench.settings.t_max)[0]


def _measure(
    bench: Workbench, case: Case, calibrators: dict[tuple[int, int, str], Calibrator]
) -> dict[tuple[int, int, str], dict[str, float]]:
    """Mean over the shifts of ECE and accuracy; every condition is read once and the statistics of its levels add."""
    collector = bench.collector(case, case.test)
    labels, bins = collector.labels, bench.settings.n_bins

    def seen(calibrator: Calibrator, logits: Logits) -> Statistics:
        return Statistics.of_samples(
            SampleScores.of_probabilities(labels, calibrator.predict_proba(logits)), n_bins=bins
        )

    counted = [shift for shift in case.shifts if shift.name not in case.left_out]
    clean = collector.logits(counted[0], 0)
    first = {key: seen(calibrator, clean) for key, calibrator in calibrators.items()}
    sums: dict[tuple[int, int, str], list[Statistics]] = {key: [] for key in calibrators}
    for shift in counted:
        pooled = dict(first)
        for level in [at for at in shift.levels or () if at]:
            logits = collector.logits(shift, level)
            for key, calibrator in calibrators.items():
                pooled[key] += seen(calibrator, logits)
        for key in calibrators:
            sums[key].append(pooled[key])
    return {
        key: {"ece": float(np.mean([s.ece for s in found])), "accuracy": float(np.mean([s.accuracy for s in found]))}
        for key, found in sums.items()
    }
