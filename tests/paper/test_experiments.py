"""Every experiment on the digits, end to end, by the command itself."""

import csv
import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from driftcal.cli.app import main
from driftcal.cli.commands.paper import paper
from driftcal.errors import InputError
from driftcal.metrics.additive_statistics import Statistics
from driftcal.paper.experiments import EXPERIMENTS
from driftcal.paper.paper_run import PaperRun
from driftcal.paper.setups import SetupOptions, open_setups
from driftcal.paper.suite_results import SuiteResults

NAMES = [
    "table1", "shear", "per-shift", "by-level", "teaser", "examples", "objectnet", "ood", "accuracy", "in-domain", "baselines",
    "debiased", "nll", "brier", "delta", "val-size", "val-shift", "guide", "claims", "default", "beyond",
]  # fmt: skip
DIGITS = SetupOptions({"digits": ""}, n_images=60)


def test_every_experiment_has_a_command():
    assert list(EXPERIMENTS) == NAMES
    commands = [command.name for command in paper.registered_commands]
    assert commands == [*NAMES, "all", None]  # the last one is named after its function, train


def test_all_experiments_on_the_digits(tmp_path, capsys, monkeypatch, record_property):
    runs = []

    def run(self, **options):
        runs.append((self, original(self, **options)))
        return runs[0][1]

    original = PaperRun.run
    monkeypatch.setattr(PaperRun, "run", run)
    start, start_cpu = time.monotonic(), time.process_time()
    main_ok(["paper", "all", "--data", "digits", "-o", str(tmp_path / "out"), "--json", "--quiet"])
    cpu_seconds = time.process_time() - start_cpu
    record_property(
        "`driftcal paper all --data digits`",
        f"{time.monotonic() - start:.0f} s, of which it computed for {cpu_seconds:.0f} s",
    )
    assert cpu_seconds < 240, "a whole reproduction takes less than 4 minutes if nothing else runs"
    printed = json.loads(capsys.readouterr().out)
    assert printed["skipped"] == []
    assert printed["inputs"] > 10_000
    ((paper_run, written),) = runs
    results = {item.result.experiment: item.result for item in written}
    assert list(results) == NAMES
    assert [item["experiment"] for item in printed["experiments"]] == NAMES
    assert paper_run.plan(measure_time=False).parts[-1].passes == 0
    for result in results.values():
        check_files(result, tmp_path / "out")
    check_numbers(results)
    check_means(paper_run.context)

    capsys.readouterr()
    cached = ["--cache", str(tmp_path / "out" / "cache")]
    main_ok(["paper", "brier", "--data", "digits", "-o", str(tmp_path / "again"), *cached, "--json"])
    assert json.loads(capsys.readouterr().out)["inputs"] == 0, "another experiment finds all logits in the cache"


def check_files(result, folder):
    page = (folder / f"{result.experiment}.md").read_text()
    for table in result.tables:
        assert table.rows, table.name
        with open(folder / f"{table.name}.csv", newline="") as stream:
            assert len(list(csv.DictReader(stream))) == len(table.rows)
        assert "\\toprule" in (folder / f"{table.name}.tex").read_text()
    assert result.figures, "each experiment has a figure"
    for figure in result.figures:
        assert f"({figure.name}.png)" in page
        assert figure.caption in page
        methods = ("temperature scaling", "Platt scaling", "isotonic regression")
        explained = any(method in figure.caption for method in methods)
        assert explained or result.experiment == "beyond", "captions explain abbreviations"
        pixels = np.asarray(Image.open(folder / f"{figure.name}.png"))
        assert pixels.std() > 1, "something is drawn"
    metadata = json.loads((folder / f"{result.experiment}.json").read_text())
    assert metadata["setups"][0]["test"]["samples"] == 600
    assert metadata["settings"]["seed"] == 0


def check_numbers(results):
    by_settings = {row["numbers"]: row for row in results["table1"].tables[0].rows}
    assert by_settings["ours"]["base"] != by_settings["as published"]["base"], "15 bins and 10"
    ood = results["ood"].tables[0].rows
    assert {row["data"] for row in ood} == {"strongest level of every shift", "pixels permuted"}
    permuted = next(row for row in ood if row["data"] == "pixels permuted" and row["quantity"] == "mean confidence")
    assert permuted["ts-p"] < permuted["ts"] < 1
    objectnet = results["objectnet"].tables[0].rows[0]
    assert objectnet["images"] == 120, "four known classes; the two unknown ones do not count"
    val_size = results["val-size"].tables[0].rows
    assert {row["images"] for row in val_size} == {50, 100, 250, 600}
    all_images = next(row for row in val_size if row["images"] == 600 and row["quantity"] == "mean ECE")
    assert all_images["irm-p"] == pytest.approx(by_settings["ours"]["irm-p"], abs=1e-12)
    assert {"ts-h", "ts-p", "ts"} <= set(results["val-shift"].tables[0].rows[0])


def check_means(context):
    """Means, intervals and differences from their definition."""
    (setup,) = context.setups
    results = context.suite_results(setup)
    collector, labels = context.collector(setup, setup.test), setup.test.labels
    candidate = next(c for c in context.candidates(setup, ["ts"]) if c.name == "ts-p")
    pooled = []
    for shift in setup.shifts:
        probs = [candidate.calibrator.predict_proba(collector.logits(shift, level)) for level in shift.levels]
        pooled.append(
            Statistics.of(np.tile(labels, 10), np.concatenate(probs), score_type="probabilities", n_bins=15).ece
        )
    assert results.mean("ts-p") == pytest.approx(np.mean(pooled), abs=1e-12)
    low, high = results.interval("ts-p")
    assert low <= results.mean("ts-p") <= high
    change = results.difference("ts", "ts-p")
    assert change.value == pytest.approx(results.mean("ts") - results.mean("ts-p"))
    assert change.low <= change.value <= change.high
    widths = [high - low for low, high in (results.interval("ts"), results.interval("ts-p"))]
    assert change.high - change.low < sum(widths), "both means are over the same images"
    without_shear = SuiteResults(results.results, results.replicates, ("shear",))
    assert without_shear.shifts() == [shift.name for shift in setup.shifts if shift.name != "shear"]


def test_the_plan_is_what_the_run_does(tmp_path, capsys):
    arguments = ["--data", "digits", "--images", "60", "-o", str(tmp_path / "out")]
    main_ok(["paper", "shear", *arguments, "--dry-run", "--json"])
    planned = json.loads(capsys.readouterr().out)
    assert not (tmp_path / "out").exists(), "a plan writes nothing"
    main_ok(["paper", "shear", *arguments, "--json", "--quiet"])
    done = json.loads(capsys.readouterr().out)
    assert planned["inputs"] <= done["inputs"] <= 60 * planned["at_most"]
    assert [item["experiment"] for item in done["experiments"]] == ["shear"]
    assert Path(done["experiments"][0]["files"][0]).is_file()
    main_ok(["paper", "shear", *arguments, "--dry-run", "--json"])
    assert json.loads(capsys.readouterr().out)["inputs"] <= 60 * 9, "all but the search for levels is exact"


def test_the_plan_counts_what_the_comparison_of_all_calibrators_adds(tmp_path):
    runs = {name: PaperRun.open(name, DIGITS, output=tmp_path) for name in ("per-shift", "beyond")}
    passes = {name: run.plan(measure_time=False).passes for name, run in runs.items()}
    assert passes["beyond"] == passes["per-shift"] + 10, "levels of varied shifts: clean images and nine levels"
    (setup,) = runs["beyond"].context.setups
    assert list(setup.all_suites) == ["affine"]
    assert list(dataclasses.replace(setup, data="cifar10").all_suites) == ["affine", "cifar10-c"]


def test_misuse_is_explained(tmp_path, capsys):
    for arguments, message in (
        (["paper", "table1", "--data", "cifar10", "-o", str(tmp_path)], "NAME=DIR"),
        (["paper", "table2"], "table2"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err


def test_objectnet_needs_its_data(tmp_path, monkeypatch):
    def without_objectnet(options):
        return [dataclasses.replace(setup, objectnet=None) for setup in open_setups(options)]

    monkeypatch.setattr("driftcal.paper.paper_run.open_setups", without_objectnet)
    with pytest.raises(InputError, match="--data objectnet=DIR"):
        PaperRun.open("objectnet", DIGITS, output=tmp_path)
    others = PaperRun.open("all", DIGITS, output=tmp_path)
    assert len(others.experiments) == len(EXPERIMENTS) - 1
    assert others.skipped[0].startswith("objectnet: needs")


def main_ok(arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code in (0, None)
