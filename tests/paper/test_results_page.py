"""Adding a network to the results page keeps what it has of the other networks."""

import pytest

from benchmarks.accuracy import results_page
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.paper_run import WrittenResult
from driftcal.report.table import Table

A, B = "CIFAR-10 A", "CIFAR-10 B"
SECTIONS = [
    f"{name}{end}" for name in ("table1", "per-shift", "accuracy") for end in ("", "-change", "-figures", "-notes")
]
PAGE = "".join(f"<!-- {name} -->\n<!-- / -->\n\n" for name in SECTIONS)


def bars(name, groups, series, **options):
    return Bars(name, f"Title of {name}", f"Caption of {groups[-1]}.", groups, series, "ECE", **options)


def means(network, ts, ir, paper):
    """Three rows: the first with intervals; the paper's has no value for IR."""
    intervals = {"ts_low": ts - 0.01, "ts_high": ts + 0.01, "ir_low": ir - 0.02, "ir_high": ir + 0.02}
    rows = [
        {"network": network, "numbers": "ours", "ts": ts, "ir": ir, **intervals},
        {"network": network, "numbers": "as published", "ts": 0.9, "ir": 0.8},
        {"network": network, "numbers": "paper", "ts": paper},
    ]
    columns = {"network": "Network", "numbers": "Settings", "ts": "TS", "ir": "IR"}
    figure = bars(
        "table1", [network], {"TS": [ts], "IR": [ir]},
        intervals={"TS": [(ts - 0.01, ts + 0.01)], "IR": [(ir - 0.02, ir + 0.02)]}, published={"TS": [paper], "IR": [None]},
    )  # fmt: skip
    return ExperimentResult(
        "table1", "", [Table("table1", "", columns, rows, ("ts", "ir"))], [figure], [f"A note of {network}."]
    )


def shifts(network, ece):
    """A whole number, a float without decimals, and a figure whose groups are no networks."""
    rows = [
        {"network": network, "shift": "=shear", "images": 7, "ts": ece},
        {"network": network, "images": 8, "ts": 1.0},
    ]
    columns = {"network": "Network", "shift": "Shift", "images": "Images", "ts": "TS"}
    figure = bars(f"per-shift-{network[-1].lower()}", ["shear"], {"TS": [ece]})
    note = f"{network}: tuning on noise lowers it."
    return ExperimentResult("per-shift", "", [Table("per-shift", "", columns, rows)], [figure], [note])


def changes(network, change):
    row = {"network": network, "calibrator": "IR", "under_shift": change}
    row |= {"under_shift_low": change - 1, "under_shift_high": change + 1}
    table = Table(
        "accuracy-change", "", {"network": "Network", "calibrator": "Calibrator", "under_shift": "Under shift"}, [row]
    )
    figure = bars("accuracy", [network], {"IR": [change]}, intervals={"IR": [(change - 1, change + 1)]})
    return ExperimentResult("accuracy", "", [table], [figure])


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A function that publishes results on a page and keeps its figures instead of drawing them."""
    drawn = {}
    monkeypatch.setattr(results_page, "NOTEBOOK", tmp_path)
    monkeypatch.setattr(results_page, "figure_bytes", lambda figure, endings: [drawn.setdefault(figure.name, figure)])
    monkeypatch.setattr(results_page, "with_few_colours", lambda figure: figure.title.encode())
    (tmp_path / "cifar10.md").write_text(PAGE)

    def publish(*results, add):
        drawn.clear()
        for result in results:
            results_page.publish(WrittenResult(result, []), add=add)
        files = {file.stem: file.read_text().splitlines() for file in (tmp_path / "results/cifar10").glob("*.csv")}
        return (tmp_path / "cifar10.md").read_text(), files, dict(drawn)

    return publish


def of_a():
    return means(A, 0.3, 0.2, 0.25), shifts(A, 0.125), changes(A, -0.5)


def of_b():
    return means(B, 0.1, 0.4, 0.15), shifts(B, 0.25), changes(B, 0.5)


def test_tables_keep_the_rows_of_other_networks(docs):
    page, before, _ = docs(*of_a(), add=False)
    added, after, _ = docs(*of_b(), add=True)
    for name, lines in before.items():
        assert after[name][: len(lines)] == lines
        assert all(line.startswith(f'"{B}"') for line in after[name][len(lines) :])
        assert len(after[name]) == 2 * len(lines) - 1
    assert before["per-shift"][1:] == [f'"{A}","\'=shear",7,0.125', f'"{A}","",8,1.0']
    for name in ("table1", "accuracy-change"):
        first = results_page.section(page, name)
        assert results_page.section(added, name)[: len(first)] == first
        assert len(results_page.section(added, name)) == 2 * len(first) - 2


def test_figures_that_compare_networks_show_all_networks(docs):
    docs(*of_a(), add=False)
    _, _, drawn = docs(*of_b(), add=True)
    figure = drawn["table1"]
    assert figure.groups == [A, B]
    assert figure.series == {"TS": [0.3, 0.1], "IR": [0.2, 0.4]}
    assert figure.intervals["TS"] == [(0.3 - 0.01, 0.3 + 0.01), (0.1 - 0.01, 0.1 + 0.01)]
    assert figure.intervals["IR"] == [(0.2 - 0.02, 0.2 + 0.02), (0.4 - 0.02, 0.4 + 0.02)]
    assert figure.published == {"TS": [0.25, 0.15], "IR": [None, None]}
    assert drawn["accuracy"].series == {"IR": [-0.5, 0.5]}
    assert drawn["accuracy"].intervals == {"IR": [(-1.5, 0.5), (-0.5, 1.5)]}
    assert drawn["accuracy"].published == {}
    assert drawn["per-shift-b"].groups == ["shear"]


def test_the_page_lists_figures_and_notes_of_all_networks(docs):
    docs(*of_a(), add=False)
    page, _, drawn = docs(*of_b(), add=True)
    assert "per-shift-a" not in drawn
    assert results_page.section(page, "per-shift-figures") == [
        "![Title of per-shift-a](results/cifar10/per-shift-a.png)", "",
        "![Title of per-shift-b](results/cifar10/per-shift-b.png)", "",
        "Caption of shear.",
    ]  # fmt: skip
    assert results_page.section(page, "per-shift-notes") == [
        f"{network}: tuning on noise lowers it." for network in (A, B)
    ]
    assert results_page.section(page, "table1-figures")[2:] == [f"Caption of {B}."]
    assert results_page.section(page, "table1-notes") == [f"A note of {B}."]


def test_adding_a_network_again_changes_nothing_and_without_adding_it_is_alone(docs):
    docs(*of_a(), add=False)
    once = docs(*of_b(), add=True)
    assert docs(*of_b(), add=True) == once
    page, files, drawn = docs(*of_b(), add=False)
    assert A not in page
    assert not any(A in line for lines in files.values() for line in lines)
    assert drawn["table1"].groups == [B]


def test_a_page_that_does_not_exist_is_made(docs, tmp_path):
    docs(*of_a(), add=False)
    for result in of_b():
        results_page.publish(WrittenResult(result, []), data="imagenet")
    page = (tmp_path / "imagenet.md").read_text()
    assert page.startswith("# The paper's experiments on imagenet\n")
    assert len(results_page.section(page, "table1")) == 5
    assert (tmp_path / "results/imagenet/val3k/accuracy-change.csv").is_file()
    results_page.publish(WrittenResult(of_b()[0], []), data="imagenet")
    assert (tmp_path / "imagenet.md").read_text() == page, "a second run writes into the same sections"


def test_images_of_imagenet_are_not_published(docs, tmp_path):
    drawn = docs(*of_a(), add=False)[2]
    examples = ExperimentResult("examples", "", [], [bars("examples-a", [A], {"TS": [0.1]})])
    assert "table1" in drawn
    for data, expected in (("cifar10", True), ("imagenet", False)):
        results_page.publish(WrittenResult(examples, []), data=data)
        folder = tmp_path / results_page.PAGES[data][1]
        assert (folder / "examples-a.png").is_file() == expected
