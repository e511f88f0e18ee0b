"""Every experiment on the digits, end to end, by the command itself."""

import csv
import dataclasses
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from driftcal.cli.app import main
from driftcal.cli.paper import TITLES
from driftcal.errors import InputError
from driftcal.metrics.statistics import Statistics
from driftcal.paper.experiments import EXPERIMENTS
from driftcal.paper.reproduction import Reproduction
from driftcal.paper.sweep import Sweep
from driftcal.pipeline.evaluate import Candidate

IDS = [
    "table1",
    "shear",
    "per-shift",
    "by-level",
    "teaser",
    "examples",
    "objectnet",
    "ood",
    "accuracy",
    "in-domain",
    "baselines",
    "debiased",
    "nll",
    "brier",
    "delta",
    "val-size",
    "val-shift",
    "guide",
    "beyond",
]


def test_every_experiment_has_a_command():
    assert [name for name in EXPERIMENTS if name in IDS] == IDS
    assert {name: experiment.title for name, experiment in EXPERIMENTS.items()} == {
        name: title for name, title in TITLES.items() if name != "all"
    }


def test_all_of_them_on_the_digits(tmp_path, capsys, monkeypatch, record_property):
    kept = []

    def run(self, **options):
        kept.append((self, original(self, **options)))
        return kept[0][1]

    original = Reproduction.run
    monkeypatch.setattr(Reproduction, "run", run)
    begun, used = time.monotonic(), time.process_time()
    main_ok(["paper", "all", "--data", "digits", "-o", str(tmp_path / "out"), "--json", "--quiet"])
    used = time.process_time() - used
    record_property(
        "`driftcal paper all --data digits`",
        f"{time.monotonic() - begun:.0f} s, of which it computed for {used:.0f} s",
    )
    assert used < 240, "a whole reproduction takes less than 4 minutes where nothing else runs"
    told = json.loads(capsys.readouterr().out)
    assert told["skipped"] == []
    assert told["inputs"] > 10_000
    ((reproduction, written),) = kept
    assert [item.outcome.experiment for item in written if item.outcome.experiment in IDS] == IDS
    assert [item["experiment"] for item in told["experiments"]] == [item.outcome.experiment for item in written]
    assert reproduction.plan(clock=False).parts[-1].passes == 0
    bench, case = reproduction.bench, reproduction.bench.cases[0]

    for item in written:
        text = (tmp_path / "out" / f"{item.outcome.experiment}.md").read_text()
        for table in item.outcome.tables:
            assert table.rows, table.name
            with open(tmp_path / "out" / f"{table.name}.csv", newline="") as stream:
                assert len(list(csv.DictReader(stream))) == len(table.rows)
            assert "\\toprule" in (tmp_path / "out" / f"{table.name}.tex").read_text()
        assert item.outcome.figures, "each has its figure"
        for figure in item.outcome.figures:
            assert f"({figure.name}.png)" in text
            assert figure.caption in text
            explained = [
                words in figure.caption for words in ("temperature scaling", "Platt scaling", "isotonic regression")
            ]
            assert any(explained) or item.outcome.experiment == "beyond", "captions say what the letters mean"
            pixels = np.asarray(Image.open(tmp_path / "out" / f"{figure.name}.png"))
            assert pixels.std() > 1, "something is drawn"
        about = json.loads((tmp_path / "out" / f"{item.outcome.experiment}.json").read_text())
        assert about["cases"][0]["test"]["samples"] == 600
        assert about["seed"] == 0

    check_means(bench, case)
    by_name = {item.outcome.experiment: item.outcome for item in written}
    numbers = {(row["numbers"]): row for row in by_name["table1"].tables[0].rows}
    assert numbers["ours"]["base"] != numbers["as published"]["base"], "15 bins and 10"
    ood = by_name["ood"].tables[0].rows
    assert {row["data"] for row in ood} == {"strongest level of every shift", "pixels permuted"}
    sure = next(row for row in ood if row["data"] == "pixels permuted" and row["quantity"] == "mean confidence")
    assert sure["ts-p"] < sure["ts"] < 1
    objectnet = by_name["objectnet"].tables[0].rows[0]
    assert objectnet["images"] == 120, "four known classes; the two unknown ones do not count"
    sizes = {row["images"] for row in by_name["val-size"].tables[0].rows}
    assert sizes == {50, 100, 250, 600}
    whole = next(r for r in by_name["val-size"].tables[0].rows if r["images"] == 600 and r["quantity"] == "mean ECE")
    assert whole["irm-p"] == pytest.approx(numbers["ours"]["irm-p"], abs=1e-12), "all images are all images"
    columns = by_name["val-shift"].tables[0].rows[0]
    assert {"ts-h", "ts-p", "ts"} <= set(columns)

    capsys.readouterr()
    main_ok(
        [
            "paper",
            "brier",
            "--data",
            "digits",
            "-o",
            str(tmp_path / "again"),
            "--store",
            str(tmp_path / "out" / "store"),
            "--json",
        ]
    )
    assert json.loads(capsys.readouterr().out)["inputs"] == 0, "another experiment finds every answer in the store"


def check_means(bench, case):
    """Means, intervals and differences of a sweep from the definition."""
    sweep = bench.sweep(case)
    collector, labels = bench.collector(case, case.test), case.test.labels
    candidate = next(c for c in bench.candidates(case, ["ts"]) if c.name == "ts-p")
    assert isinstance(candidate, Candidate)
    pooled = []
    for shift in case.shifts:
        probs = [candidate.calibrator.predict_proba(collector.logits(shift, level)) for level in shift.levels]
        pooled.append(
            Statistics.of(np.tile(labels, 10), np.concatenate(probs), score_type="probabilities", n_bins=15).ece
        )
    assert sweep.mean("ts-p") == pytest.approx(np.mean(pooled), abs=1e-12)
    low, high = sweep.interval("ts-p")
    assert low <= sweep.mean("ts-p") <= high
    change, below, above = sweep.difference("ts", "ts-p")
    assert change == pytest.approx(sweep.mean("ts") - sweep.mean("ts-p"))
    assert below <= change <= above
    assert above - below < sum(b - a for a, b in (sweep.interval("ts"), sweep.interval("ts-p"))), (
        "pairs share their images"
    )
    assert Sweep(sweep.results, sweep.replicates, ("shear",)).shifts() == [
        s.name for s in case.shifts if s.name != "shear"
    ]


def test_the_plan_is_what_the_run_does(tmp_path, capsys):
    words = ["--data", "digits", "--images", "60", "-o", str(tmp_path / "out")]
    main_ok(["paper", "shear", *words, "--dry-run", "--json"])
    planned = json.loads(capsys.readouterr().out)
    assert not (tmp_path / "out" / "store" / "logits").exists(), "a plan writes no answers"
    main_ok(["paper", "shear", *words, "--json", "--quiet"])
    done = json.loads(capsys.readouterr().out)
    assert planned["inputs"] <= done["inputs"] <= 60 * planned["at_most"]
    assert [item["experiment"] for item in done["experiments"]] == ["shear"]
    assert Path(done["experiments"][0]["files"][0]).is_file()
    main_ok(["paper", "shear", *words, "--dry-run", "--json"])
    assert json.loads(capsys.readouterr().out)["inputs"] <= 60 * 9, "all but the search for levels is exact"


def test_the_plan_counts_what_beyond_adds(tmp_path):
    plans = {
        name: Reproduction.open(name, data={"digits": ""}, images=60, output=tmp_path).plan(clock=False)
        for name in ("per-shift", "beyond")
    }
    assert plans["beyond"].passes == plans["per-shift"].passes + 10, "a second ladder: clean images and nine levels"
    (case,) = Reproduction.open("beyond", data={"digits": ""}, images=60, output=tmp_path).bench.cases
    assert list(EXPERIMENTS["beyond"].suites(case)) == ["affine"]
    assert list(EXPERIMENTS["beyond"].suites(dataclasses.replace(case, data="cifar10"))) == ["affine", "cifar10-c"]


def test_misuse_is_said(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["paper", "table1", "--data", "cifar10", "-o", str(tmp_path)])
    assert stopped.value.code == 2
    assert "NAME=DIR" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["paper", "table2"])
    assert stopped.value.code == 2
    assert re.search("table2", capsys.readouterr().err)


def test_objectnet_needs_its_data(tmp_path, monkeypatch):
    monkeypatch.setattr("driftcal.paper.reproduction.open_cases", lambda wish: [without_objectnet(wish)])
    with pytest.raises(InputError, match="--data objectnet=DIR"):
        Reproduction.open("objectnet", data={"digits": ""}, output=tmp_path)
    rest = Reproduction.open("all", data={"digits": ""}, output=tmp_path)
    assert len(rest.experiments) == len(EXPERIMENTS) - 1
    assert rest.skipped[0].startswith("objectnet: needs")


def without_objectnet(wish):
    import dataclasses

    from driftcal.paper.cases import open_cases

    return dataclasses.replace(open_cases(wish)[0], objectnet=None)


def main_ok(words):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code in (0, None)
