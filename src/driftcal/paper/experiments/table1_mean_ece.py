"""Means over all shifts of a suite, a line per network: the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftcal.paper.cases import Case
from driftcal.paper.experiments.captions import ECE, about_shifts, who_is_who
from driftcal.paper.experiments.experiment import headings, label, with_suffix
from driftcal.paper.outcome import Bars, Figure, Outcome, Table, Value
from driftcal.paper.published import published, where
from driftcal.paper.settings import AS_PUBLISHED, OURS
from driftcal.paper.sweep import Sweep
from driftcal.paper.workbench import BASELINES, PAPER, Workbench

_COLUMNS = with_suffix(PAPER, "", "-p")
#: A figure's title after what it measures, where that does not say it all.
_TITLED = {"baselines": ": Platt scaling and binning"}
#: What each metric means.
_METRICS = {
    "ece": ECE,
    "debiased_ece": "The debiased ECE takes away what chance adds to squared errors of 15 bins with equally many rows.",
    "nll": "NLL, the negative log-likelihood, punishes a small probability of what is true.",
    "brier": "The Brier score is the squared distance of stated probabilities from what is true, summed over the classes.",
}


def mean_ece(bench: Workbench) -> Outcome:
    """Mean ECE with both settings, the paper's own beside them, and the claim itself with paired intervals."""
    rows: list[dict[str, Value]] = []
    for case in bench.cases:
        for settings in (OURS, AS_PUBLISHED):
            methods = {} if settings.name == bench.settings.name else {"methods": PAPER}
            chosen = bench.settings if settings.name == bench.settings.name else settings
            sweep = bench.sweep(case, settings=chosen, **methods)
            rows.append({"network": case.label, "numbers": settings.name, **_means(sweep, _COLUMNS, "ece")})
        rows += _published_rows(case, "table1", "paper") + _published_rows(case, "reference", "authors' code")
    table = Table(
        "table1",
        "Mean ECE over all shifts, each pooled over its levels",
        {"network": "Network", "numbers": "Settings", **headings(_COLUMNS)},
        rows,
        compare=_COLUMNS,
    )
    return Outcome(
        "table1",
        "Mean ECE under drift",
        [table, claim_table(bench, "table1-claim")],
        [_mean_bars(bench, "table1", "ece", _COLUMNS, "mean ECE under drift")],
        notes=[
            f"Settings: ours is {OURS.describe()}; as published is {AS_PUBLISHED.describe()}. {_suffixes()}",
            *([f"paper: {where('table1')}."] if any(row["numbers"] == "paper" for row in rows) else []),
        ],
    )


def claim_table(bench: Workbench, name: str) -> Table:
    """Does tuning on noise lower the mean ECE? Both means with intervals, and their difference with its own."""
    rows: list[dict[str, Value]] = []
    for case in bench.cases:
        sweep = bench.sweep(case)
        for method in PAPER:
            change, low, high = sweep.difference(method, f"{method}-p")
            row: dict[str, Value] = {"network": case.label, "method": label(method)}
            for key, calibrator in (("standard", method), ("perturbed", f"{method}-p")):
                row[key] = sweep.mean(calibrator)
                row[f"{key}_low"], row[f"{key}_high"] = sweep.interval(calibrator)
            row |= {"gain": change, "gain_low": low, "gain_high": high}
            row["verdict"] = "holds" if low > 0 else "does not hold" if high < 0 else "cannot be told"
            rows.append(row)
    return Table(
        name,
        f"Does tuning on noise lower the mean ECE under drift? 95 % intervals over images; {bench.settings.describe()}",
        {
            "network": "Network",
            "method": "Method",
            "standard": "tuned on clean images",
            "perturbed": "tuned on noise (-P)",
            "gain": "gain",
            "verdict": "The paper's claim",
        },
        rows,
        intervals=True,
    )


def mean_baselines(bench: Workbench) -> Outcome:
    """The further baselines of the appendix."""
    return _metric(bench, "baselines", "ece", BASELINES, "Mean ECE of further baselines", "mean ECE under drift")


def mean_debiased(bench: Workbench) -> Outcome:
    """Debiased ECE."""
    return _metric(bench, "debiased", "debiased_ece", PAPER, "Mean debiased ECE", "mean debiased ECE under drift")


def mean_nll(bench: Workbench) -> Outcome:
    """NLL, with the rows whose true class got no probability at all."""
    found = _metric(bench, "nll", "nll", PAPER, "Mean negative log-likelihood", "mean NLL under drift", per_shift=True)
    rows: list[dict[str, Value]] = []
    for case in bench.cases:
        sweep = bench.sweep(case)
        share = {
            name: sum(sweep.row(name, shift).clipped for shift in sweep.shifts())
            / sum(sweep.row(name, shift).n_samples for shift in sweep.shifts())
            for name in _COLUMNS
        }
        rows.append({"network": case.label, **share})
    clipped = Table(
        "nll-clipped",
        "Share of rows whose true class had a probability below 1e-15, where the NLL is clipped",
        {"network": "Network", **headings(_COLUMNS)},
        rows,
    )
    return Outcome(found.experiment, found.title, [*found.tables, clipped], found.figures, found.notes)


def mean_brier(bench: Workbench) -> Outcome:
    """Brier score."""
    return _metric(bench, "brier", "brier", PAPER, "Mean Brier score", "mean Brier score under drift", per_shift=True)


def mean_delta(bench: Workbench) -> Outcome:
    """(ECE standard − ECE -P) / ECE standard."""
    rows: list[dict[str, Value]] = []
    series: dict[str, list[float | None]] = {label(method): [] for method in PAPER}
    printed: dict[str, list[float | None]] = {label(method): [] for method in PAPER}
    for case in bench.cases:
        sweep = bench.sweep(case)
        values = {m: 1 - sweep.mean(f"{m}-p") / sweep.mean(m) for m in PAPER}
        rows.append({"network": case.label, "numbers": bench.settings.name, **values})
        rows += _published_rows(case, "delta", "paper")
        for method in PAPER:
            series[label(method)].append(values[method])
            printed[label(method)].append(_printed(case, "delta").get(method))
    table = Table(
        "delta",
        "ΔECE = (ECE tuned on clean images − ECE tuned on noise) / ECE tuned on clean images",
        {"network": "Network", "numbers": "Settings", **headings(PAPER)},
        rows,
        compare=PAPER,
        highest=True,
    )
    figure = Bars(
        "delta",
        "Share of the mean ECE under drift that tuning on noise takes away",
        "Each bar is 1 − ECE(tuned on noise) / ECE(tuned on clean images) of a method, both averaged over all shifts. Above 0 "
        f"tuning on noise helps, below it harms; 1 would be perfect.{_circles(printed)} {who_is_who(PAPER)} {ECE}",
        [case.label for case in bench.cases],
        series,
        "ΔECE, higher is better",
        published=printed,
        one_tuning=True,
    )
    return Outcome("delta", "ΔECE", [table], [figure])


def _metric(
    bench: Workbench, name: str, metric: str, methods: Sequence[str], title: str, axis: str, *, per_shift: bool = False
) -> Outcome:
    columns = with_suffix(methods, "", "-p")
    rows: list[dict[str, Value]] = []
    for case in bench.cases:
        rows.append(
            {"network": case.label, "numbers": bench.settings.name, **_means(bench.sweep(case), columns, metric)}
        )
        rows += _published_rows(case, name, "paper")
    table = Table(
        name,
        f"{title} over all shifts, each pooled over its levels",
        {"network": "Network", "numbers": "Settings", **headings(columns)},
        rows,
        compare=columns,
    )
    figures: list[Figure] = [_mean_bars(bench, name, metric, columns, axis)]
    if per_shift:
        figures += [
            shift_bars(bench, case, f"{name}-per-shift-{case.name}", metric, columns, title) for case in bench.cases
        ]
    return Outcome(name, title, [table], figures, [f"{bench.settings.describe()}. {_suffixes()}"])


def _mean_bars(bench: Workbench, name: str, metric: str, columns: Sequence[str], axis: str) -> Bars:
    series: dict[str, list[float | None]] = {label(column): [] for column in columns}
    between: dict[str, list[tuple[float, float] | None]] = {label(column): [] for column in columns}
    printed: dict[str, list[float | None]] = {label(column): [] for column in columns}
    for case in bench.cases:
        sweep = bench.sweep(case)
        for column in columns:
            series[label(column)].append(sweep.mean(column, metric))
            known = bench.draws > 0 and metric in ("ece", "nll", "brier")
            between[label(column)].append(sweep.interval(column, metric) if known else None)
            printed[label(column)].append(_printed(case, name).get(column))
    return Bars(
        name,
        f"{axis[0].upper()}{axis[1:]}{_TITLED.get(name, '')}",
        f"One group per network. Each bar is the mean over all shifts, each pooled over its levels (lower is better); hatched: "
        f"tuned on clean images, filled: tuned on noise (-P)"
        f"{'; thin lines: 95 % intervals over images' if metric != 'debiased_ece' else ''}."
        f"{_circles(printed)} {who_is_who(columns)} {_METRICS[metric]} {bench.settings.describe()}.",
        [case.label for case in bench.cases],
        series,
        axis,
        intervals=between,
        published=printed,
    )


def shift_bars(bench: Workbench, case: Case, name: str, metric: str, columns: Sequence[str], title: str) -> Bars:
    """The metric of every shift, pooled over its levels."""
    sweep = bench.sweep(case)
    shifts = [shift.name for shift in sweep.results.shifts]
    rows = {column: [sweep.row(column, shift) for shift in shifts] for column in columns}
    return Bars(
        name,
        f"{case.label}: {title.removeprefix('Mean ')} of every shift",
        "One group per shift, all its levels pooled, the untouched one included; lower is better. Hatched: tuned on clean "
        f"images, filled: tuned on noise (-P); thin lines: 95 % intervals over images.{about_shifts(case.suite)} "
        f"{who_is_who(columns)} {_METRICS[metric]} {bench.settings.describe()}.",
        shifts,
        {label(column): [getattr(row, metric) for row in found] for column, found in rows.items()},
        title.removeprefix("Mean "),
        intervals={
            label(column): [
                (row.intervals[metric][0], row.intervals[metric][1]) if metric in row.intervals else None
                for row in found
            ]
            for column, found in rows.items()
        },
    )


def _means(sweep: Sweep, columns: Sequence[str], metric: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for column in columns:
        found[column] = sweep.mean(column, metric)
        if sweep.replicates and metric in ("ece", "nll", "brier"):
            found[f"{column}_low"], found[f"{column}_high"] = sweep.interval(column, metric)
    return found


def _published_rows(case: Case, table: str, words: str) -> list[dict[str, Value]]:
    printed = _printed(case, table)
    return [{"network": case.label, "numbers": words, **printed}] if printed else []


def _printed(case: Case, table: str) -> Mapping[str, float]:
    """The paper's figures, which are for its own suites."""
    return published(table, case.data, case.network) if case.suite in ("affine", "imagenet-c") else {}


def _circles(printed: Mapping[str, Sequence[float | None]]) -> str:
    known = any(value is not None for values in printed.values() for value in values)
    return " Circles: the figures printed in the paper." if known else ""


def _suffixes() -> str:
    return "-P: tuned on the validation images at ten levels of noise; without: on clean ones."
