"""The demo: the whole pipeline in one command, here on fewer samples."""

import json
import os
import shlex
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import driftcal
from driftcal.calibrators import PAPER_CALIBRATORS
from driftcal.pipeline.evaluating.results import Results


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_ends_with_a_report(empty_folder, run):
    ran = run("demo", "--n-samples", "100", "-o", "out")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == "out/report.html"
    assert "<html" in Path("out/report.html").read_text()
    assert "temperature scaling" in ran.out
    assert "best -P of the paper" in ran.out
    results = Results.load("out")
    names = [info.name for info in results.calibrators]
    compared = ["base", *(name + suffix for name in PAPER_CALIBRATORS if name != "base" for suffix in ("", "-p"))]
    # auto may choose a method that is not the paper's, and a windowed one
    windowed = [info.name for info in results.calibrators if info.form == "windowed"]
    assert len(windowed) == 1
    assert sorted({*names}) == sorted(
        {*compared, results.metadata["method"], results.metadata["calibrator"], *windowed}
    )
    assert results.metadata["command"] == "driftcal demo --n-samples 100 -o out"
    lines = {line.calibrator: line for line in results.summary()}
    for method in ("ts", "ets", "irm"):
        assert lines[f"{method}-p"].mean_ece < lines[method].mean_ece
        assert lines[f"{method}-p"].in_domain_ece > lines[method].in_domain_ece
    # what it printed works on what it left
    commands = [line.strip() for line in ran.out.splitlines() if line.startswith("  driftcal ")]
    assert [command.split()[1] for command in commands] == ["monitor", "tune", "evaluate"]
    for command in commands:
        assert (again := run(*shlex.split(command)[1:])).code == 0, again.err
    assert {"monitor.html", "mine.safetensors", "again", "model.onnx", "calibrated.onnx"} <= set(os.listdir("out"))
    session = onnxruntime.InferenceSession("out/calibrated.onnx")
    test = driftcal.open_source("out/test.npz")
    calibrated = driftcal.CalibratedModel.load("out/calibrator.safetensors", "out/model.onnx")
    p = session.run(["probabilities"], {"images": test.inputs().transpose(0, 3, 1, 2)})[0]
    np.testing.assert_allclose(p, calibrated.predict_proba(test.inputs()), atol=1e-6)
    # again, from the cache: the same results, and the model is not run
    before = Path("out/results.json").read_bytes()
    printed = json.loads(run("demo", "--n-samples", "100", "-o", "out", "--json").out)
    assert printed["inputs"] == 0
    assert printed["report"] == "out/report.html"
    again, first = (json.loads(text) for text in (Path("out/results.json").read_bytes(), before))
    for run_of_the_demo in (again, first):  # the command is part of the file and of its digest
        del run_of_the_demo["metadata"]["command"], run_of_the_demo["digest"]
    assert again == first


def test_demo_dry_run_writes_nothing(empty_folder, run):
    plan = json.loads(run("demo", "--dry-run", "--json").out)
    assert [part["n_samples"] for part in plan["parts"]] == [1000, 1000]
    assert plan["parts"][1]["passes"] == 82
    assert list(empty_folder.iterdir()) == []


def test_demo_on_the_users_data_and_model(folder, run):
    ran = run("demo", "--data", "val.npz", "--model", "cli_net:make", "--batch-size", "16", "-o", "out", "--json")
    assert ran.code == 0, ran.err
    printed = json.loads(ran.out)
    assert len(printed["summary"]) >= 18  # base, eight methods twice, and the windowed form
    halves = driftcal.open_source("val.npz").split(30, random_state=0)
    data = Results.load("out").metadata["data"]
    assert [data[name]["fingerprint"] for name in ("validation", "test")] == [half.fingerprint for half in halves]
