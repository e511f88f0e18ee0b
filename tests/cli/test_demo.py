"""The demo: the whole pipeline in one command, here on fewer rows."""

import json
from pathlib import Path

import pytest

import driftcal
from driftcal.calibrators import PAPER_CALIBRATORS
from driftcal.pipeline.results import Results


@pytest.fixture
def away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_ends_with_a_report(away, run):
    ran = run("demo", "--rows", "100", "-o", "out")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == "out/report.html"
    assert "<html" in Path("out/report.html").read_text()
    assert "IRM" in ran.out
    assert "÷ TS" in ran.out
    results = Results.load("out")
    names = [info.name for info in results.calibrators]
    chosen = dict.fromkeys(
        [*PAPER_CALIBRATORS, results.metadata["method"]]
    )  # one beyond the paper may have been chosen
    assert sorted(names) == sorted(["base", *(n + p for n in chosen if n != "base" for p in ("", "-p"))])
    assert results.metadata["command"] == "driftcal demo --rows 100 -o out"
    lines = {line.calibrator: line for line in results.summary()}
    for method in PAPER_CALIBRATORS:
        if method != "base":
            assert lines[f"{method}-p"].mean_ece < lines[method].mean_ece
            assert lines[f"{method}-p"].in_domain_ece > lines[method].in_domain_ece
    # again, from the store: the same bytes, and no question to the model
    before = Path("out/results.json").read_bytes()
    told = json.loads(run("demo", "--rows", "100", "-o", "out", "--json").out)
    assert told["inputs"] == 0
    assert told["report"] == "out/report.html"
    again = json.loads(Path("out/results.json").read_bytes())
    assert {**again, "metadata": {**again["metadata"], "command": "driftcal demo --rows 100 -o out"}} == json.loads(
        before
    )


def test_demo_dry_run_writes_nothing(away, run):
    plan = json.loads(run("demo", "--dry-run", "--json").out)
    assert [part["rows"] for part in plan["parts"]] == [600, 600]
    assert plan["parts"][1]["passes"] == 82
    assert list(away.iterdir()) == []


def test_demo_on_data_and_model_of_ones_own(here, run):
    ran = run("demo", "--data", "val.npz", "--model", "cli_net:make", "--batch-size", "16", "-o", "out", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert len(told["summary"]) in (17, 19)  # with the chosen one, where it is not the paper's
    halves = driftcal.open_source("val.npz").split(30, seed=0)
    data = Results.load("out").metadata["data"]
    assert [data[name]["fingerprint"] for name in ("validation", "test")] == [half.fingerprint for half in halves]
