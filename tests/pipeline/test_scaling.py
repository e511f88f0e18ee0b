"""driftcal plan: what the model of compute, storage, passes and merging must obey, and what the command says."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftcal.cli import main
from driftcal.pipeline.scaling import Assumptions, Probe, Workload, estimate, scaling

PROBE = Probe(0.01, 150_528, 2e8)
WORK = Workload(rows=50_000, conditions=100, classes=1000)


@given(
    rows=st.integers(1, 10**7),
    conditions=st.integers(1, 200),
    classes=st.integers(2, 2000),
    workers=st.integers(1, 5000),
)
def test_time_is_never_better_than_ideal_and_the_parts_add_up(rows, conditions, classes, workers):
    work = Workload(rows, conditions, classes)
    found = estimate(work, PROBE, workers)
    parts = found.compute + found.storage + found.passes + found.merge + found.start
    assert found.seconds == pytest.approx(parts)
    assert found.compute >= work.inputs * PROBE.seconds_per_input / workers * (1 - 1e-9)
    assert found.efficiency <= 1 + 1e-9


def test_twice_the_rows_take_about_twice_as_long():
    small, large = (estimate(Workload(rows, 100, 1000), PROBE, 8).seconds - 20 for rows in (50_000, 100_000))
    assert large / small == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("assumptions", "work", "reason"),
    [
        (Assumptions(storage=1e6), WORK, "storage"),
        (Assumptions(start=1e6), WORK, "start"),
        (Assumptions(hand_over=100.0), WORK, "hands out"),
        (Assumptions(), Workload(256, 1, 10, fits=0), "few batches|start"),
    ],
)
def test_it_says_what_stands_in_the_way(assumptions, work, reason):
    _, most, why = scaling(work, PROBE, [1], assumptions)
    assert re.search(reason, why), why
    assert estimate(work, PROBE, 2 * most, assumptions).efficiency < 0.5


def test_cost_is_workers_times_hours_times_price():
    found = estimate(WORK, PROBE, 10, Assumptions(price=0.4))
    assert found.cost == pytest.approx(10 * found.seconds / 3600 * 0.4)


def test_the_command_measures_and_estimates(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
    words = [
        "plan",
        "ray_tasks:make",
        "digits",
        "--workers",
        "1,8",
        "--n-samples",
        "50000",
        "--batch-size",
        "64",
        "--price",
        "1",
    ]
    with pytest.raises(SystemExit):
        main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"] == 500_000
    assert [line["workers"] for line in found["estimates"]] == [1, 8]
    assert found["estimates"][1]["compute"] < found["estimates"][0]["compute"]
    assert found["probe"]["seconds_per_input"] > 0
    assert found["because"]
    with pytest.raises(SystemExit):
        main(words)
    shown = capsys.readouterr().out
    assert "500,000 inputs" in shown
    assert "workers" in shown
    with pytest.raises(SystemExit):
        main([*words, "--dry-run", "--json", "--suite", "affine"])
    assert "estimates" not in json.loads(capsys.readouterr().out)
