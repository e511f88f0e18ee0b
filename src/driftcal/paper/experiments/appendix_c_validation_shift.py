"""Appendix C.3: tuning on corruptions (-H) instead of on noise (-P)."""

from __future__ import annotations

from driftcal.paper.calibrator_names import PAPER_COLUMNS, PAPER_METHODS, headings, label, with_suffixes
from driftcal.paper.captions import ECE_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.published import published, where
from driftcal.paper.setups.setup import Setup
from driftcal.report.table import Table, Value
from driftcal.shifts.suites import H_TUNING

_COLUMNS = with_suffixes(PAPER_METHODS, "", "-p", "-h")


def validation_shift(context: ExperimentContext) -> ExperimentResult:
    """Mean ECE of calibrators that are tuned on clean images, on noise, and on the four corruptions of -H."""
    rows: list[dict[str, Value]] = []
    series: dict[str, list[float | None]] = {label(name): [] for name in _COLUMNS}
    for setup in context.setups:
        means = _means(context, setup)
        rows.append({"network": setup.label, "numbers": f"{context.settings.name}, all shifts", **means})
        for name in _COLUMNS:
            series[label(name)].append(means[name])
        if any(shift in H_TUNING for shift in context.suite_results(setup).shifts()):
            others = _means(context, setup, without=H_TUNING)
            rows.append({"network": setup.label, "numbers": f"{context.settings.name}, without the four", **others})
        n_images = len(context.h_validation(setup))
        if n_images < len(setup.validation):
            results = context.suite_results(setup, PAPER_METHODS, ("", "-p", "-h"), n_images=n_images)
            same = {name: results.mean(name) for name in _COLUMNS}
            rows.append(
                {"network": setup.label, "numbers": f"{context.settings.name}, all tuned on {n_images} images", **same}
            )
        printed = published("val-shift", setup.data, setup.network.name)
        if printed:
            rows.append({"network": setup.label, "numbers": "paper", **printed, **_published_p_columns(setup)})
    table = Table(
        "val-shift",
        "Mean ECE under shift: tuned on clean images, on noise (-P), on four corruptions (-H)",
        {"network": "Network", "numbers": "Settings", **headings(_COLUMNS)},
        rows,
        compare=_COLUMNS,
    )
    figure = Bars(
        "val-shift",
        "Mean ECE under shift by what calibrators were tuned on",
        "Hatched: tuned on clean images; filled: on noise (-P); dotted: on speckle noise, Gaussian blur, spatter and saturation "
        f"(-H). Each bar is the mean over all shifts, each pooled over its levels; lower is better. {method_legend(PAPER_COLUMNS)} "
        f"{ECE_CAPTION} {context.settings.caption()}.",
        [setup.label for setup in context.setups],
        series,
        "mean ECE under shift",
    )
    sizes = [f"{setup.label}: {len(context.h_validation(setup))} images" for setup in context.setups]
    note = f"-H: {', '.join(H_TUNING)} at severities 0 to 5 ({'; '.join(sizes)}). paper: {where('val-shift')}."
    return ExperimentResult("val-shift", "What to tune on", [table], [figure], [note])


def _means(context: ExperimentContext, setup: Setup, without: tuple[str, ...] = ()) -> dict[str, float]:
    results, h_results = context.suite_results(setup), context.suite_results(setup, PAPER_METHODS, ("-h",))
    return {name: (h_results if name.endswith("-h") else results).mean(name, without=without) for name in _COLUMNS}


def _published_p_columns(setup: Setup) -> dict[str, float]:
    """The paper prints the -P columns in Table 1."""
    values = published("table1", setup.data, setup.network.name)
    return {name: value for name, value in values.items() if name.endswith("-p")}
