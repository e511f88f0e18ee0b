"""A network added to the page of CIFAR-10 leaves what is there of the others as it is."""

import pytest

from benchmarks.accuracy import paper_pages as cifar10
from driftcal.paper.outcome import Bars, Outcome, Table
from driftcal.paper.reproduction import Written

A, B = "CIFAR-10 A", "CIFAR-10 B"
SECTIONS = [
    f"{name}{end}" for name in ("table1", "per-shift", "accuracy") for end in ("", "-change", "-figures", "-notes")
]
PAGE = "".join(f"<!-- {name} -->\n<!-- / -->\n\n" for name in SECTIONS)


def bars(name, groups, series, **more):
    return Bars(name, f"Title of {name}", f"Caption of {groups[-1]}.", groups, series, "ECE", **more)


def means(network, ts, ir, paper):
    """Two rows: one with intervals, the paper's without them and with nothing for IR."""
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
    return Outcome(
        "table1", "", [Table("table1", "", columns, rows, ("ts", "ir"))], [figure], [f"Said with {network}."]
    )


def shifts(network, ece):
    """A whole number, a float that looks like one, and a figure whose groups are no networks."""
    rows = [
        {"network": network, "shift": "=shear", "images": 7, "ts": ece},
        {"network": network, "images": 8, "ts": 1.0},
    ]
    columns = {"network": "Network", "shift": "Shift", "images": "Images", "ts": "TS"}
    figure = bars(f"per-shift-{network[-1].lower()}", ["shear"], {"TS": [ece]})
    note = f"{network}: tuning on noise lowers it."
    return Outcome("per-shift", "", [Table("per-shift", "", columns, rows)], [figure], [note])


def changes(network, change):
    row = {"network": network, "calibrator": "IR", "drift": change, "drift_low": change - 1, "drift_high": change + 1}
    table = Table("accuracy-change", "", {"network": "Network", "calibrator": "Calibrator", "drift": "Drift"}, [row])
    figure = bars("accuracy", [network], {"IR": [change]}, intervals={"IR": [(change - 1, change + 1)]})
    return Outcome("accuracy", "", [table], [figure])


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A page, with figures that are kept as they are given to be drawn: file -> figure."""
    drawn = {}
    monkeypatch.setattr(cifar10, "DOCS", tmp_path)
    monkeypatch.setattr(cifar10, "figure_bytes", lambda figure, endings: [drawn.setdefault(figure.name, figure)])
    monkeypatch.setattr(cifar10, "small", lambda figure: figure.title.encode())
    (tmp_path / "results.md").write_text(PAGE)

    def publish(*outcomes, add):
        drawn.clear()
        for outcome in outcomes:
            cifar10.publish(Written(outcome, []), add=add)
        files = {file.stem: file.read_text().splitlines() for file in (tmp_path / "results/cifar10").glob("*.csv")}
        return (tmp_path / "results.md").read_text(), files, dict(drawn)

    return publish


def of_a():
    return means(A, 0.3, 0.2, 0.25), shifts(A, 0.125), changes(A, -0.5)


def of_b():
    return means(B, 0.1, 0.4, 0.15), shifts(B, 0.25), changes(B, 0.5)


def test_tables_keep_the_lines_of_other_networks(docs):
    page, before, _ = docs(*of_a(), add=False)
    added, after, _ = docs(*of_b(), add=True)
    for name, lines in before.items():
        assert after[name][: len(lines)] == lines
        assert all(line.startswith(f'"{B}"') for line in after[name][len(lines) :])
        assert len(after[name]) == 2 * len(lines) - 1
    assert before["per-shift"][1:] == [f'"{A}","\'=shear",7,0.125', f'"{A}","",8,1.0']
    for name in ("table1", "accuracy-change"):
        first = cifar10.section(page, name)
        assert cifar10.section(added, name)[: len(first)] == first
        assert len(cifar10.section(added, name)) == 2 * len(first) - 2


def test_figures_that_compare_networks_show_all(docs):
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
    assert cifar10.section(page, "per-shift-figures") == [
        "![Title of per-shift-a](results/cifar10/per-shift-a.png)", "",
        "![Title of per-shift-b](results/cifar10/per-shift-b.png)", "",
        "Caption of shear.",
    ]  # fmt: skip
    assert cifar10.section(page, "per-shift-notes") == [f"{network}: tuning on noise lowers it." for network in (A, B)]
    assert cifar10.section(page, "table1-figures")[2:] == [f"Caption of {B}."]
    assert cifar10.section(page, "table1-notes") == [f"Said with {B}."]


def test_adding_a_network_again_changes_nothing_and_without_adding_it_stands_alone(docs):
    docs(*of_a(), add=False)
    once = docs(*of_b(), add=True)
    assert docs(*of_b(), add=True) == once
    page, files, drawn = docs(*of_b(), add=False)
    assert A not in page
    assert not any(A in line for lines in files.values() for line in lines)
    assert drawn["table1"].groups == [B]
