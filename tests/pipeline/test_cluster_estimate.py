"""The estimate of time and cost on a cluster, and the command `driftcal plan` that prints it."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftcal.cli import main
from driftcal.pipeline.cluster_estimate import Assumptions, MeasuredSpeed, Workload, estimate, estimate_cluster

SPEED = MeasuredSpeed(0.01, 150_528, 2e8)
WORK = Workload(n_samples=50_000, n_conditions=100, n_classes=1000)


@given(
    n_samples=st.integers(1, 10**7),
    n_conditions=st.integers(1, 200),
    n_classes=st.integers(2, 2000),
    n_workers=st.integers(1, 5000),
)
def test_time_is_never_better_than_ideal_and_the_parts_add_up(n_samples, n_conditions, n_classes, n_workers):
    work = Workload(n_samples, n_conditions, n_classes)
    estimated = estimate(work, SPEED, n_workers)
    parts = estimated.compute + estimated.storage + estimated.passes + estimated.merge + estimated.start
    assert estimated.seconds == pytest.approx(parts)
    assert estimated.compute >= work.n_inputs * SPEED.seconds_per_input / n_workers * (1 - 1e-9)
    assert estimated.efficiency <= 1 + 1e-9


def test_twice_the_samples_take_about_twice_as_long():
    small, large = (estimate(Workload(n, 100, 1000), SPEED, 8).seconds - 20 for n in (50_000, 100_000))
    assert large / small == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("assumptions", "work", "limit"),
    [
        (Assumptions(storage_rate=1e6), WORK, "storage"),
        (Assumptions(start_seconds=1e6), WORK, "start"),
        (Assumptions(seconds_per_task=100.0), WORK, "distributes"),
        (Assumptions(), Workload(256, 1, 10, n_fits=0), "few batches|start"),
    ],
)
def test_the_limit_of_more_workers_is_named(assumptions, work, limit):
    cluster = estimate_cluster(work, SPEED, [1], assumptions)
    assert re.search(limit, cluster.limit), cluster.limit
    assert estimate(work, SPEED, 2 * cluster.max_useful_workers, assumptions).efficiency < 0.5


def test_cost_is_workers_times_hours_times_price():
    estimated = estimate(WORK, SPEED, 10, Assumptions(price=0.4))
    assert estimated.cost == pytest.approx(10 * estimated.seconds / 3600 * 0.4)


def test_the_command_measures_and_estimates(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
    options = ["--workers", "1,8", "--n-samples", "50000", "--batch-size", "64", "--price", "1"]
    arguments = ["plan", "ray_tasks:make", "digits", *options]
    with pytest.raises(SystemExit):
        main([*arguments, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["inputs"], printed["n_samples"], printed["n_conditions"]) == (500_000, 50_000, 10)
    assert [line["n_workers"] for line in printed["estimates"]] == [1, 8]
    assert printed["estimates"][1]["compute"] < printed["estimates"][0]["compute"]
    assert printed["measured"]["seconds_per_input"] > 0
    assert printed["limit"]
    with pytest.raises(SystemExit):
        main(arguments)
    text = capsys.readouterr().out
    assert "500,000 model inputs" in text
    assert "workers" in text
    with pytest.raises(SystemExit):
        main([*arguments, "--dry-run", "--json", "--suite", "affine"])
    assert "estimates" not in json.loads(capsys.readouterr().out)
