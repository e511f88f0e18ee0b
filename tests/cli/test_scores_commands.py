"""Only scores on the command line: fit, evaluate --scores, report and export without any model."""

import json

import numpy as np
import pytest

from driftcal import CalibratedModel, Monitor


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("val.csv", "test.csv"):
        logits = 3 * rng.normal(size=(400, 3))
        y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        rows = np.column_stack([logits, y])
        np.savetxt(name, rows, delimiter=",", header="a,b,c,label", comments="", fmt=["%.9g"] * 3 + ["%d"])
    return tmp_path


def test_from_a_table_of_scores_to_report_and_export(files, run):
    fitted = run("fit", "val.csv", "--method", "ts", "-o", "cal.safetensors", "--json")
    assert fitted.code == 0, fitted.err
    assert 1.5 < json.loads(fitted.out)["temperature"] < 2.6
    evaluated = run("evaluate", "--scores", "test.csv", "cal.safetensors", "-o", "run")
    assert evaluated.code == 0, evaluated.err
    assert "on these samples" in evaluated.out
    assert "in domain" not in evaluated.out
    assert "under" not in evaluated.out
    assert run("report", "run", "-o", "report.html").code == 0
    page = (files / "report.html").read_text(encoding="utf-8")
    for heading in ("NLL", "Brier"):
        assert f'<th scope="col">{heading}</th>' in page or f'"{heading}"' in page
    assert "driftcal.load(&#x27;cal.safetensors&#x27;)" in page
    for wrong in ("calibrator.safetensors", "scores, scores", "channels RGB", "in domain: "):
        assert wrong not in page
    chosen = run("threshold", "cal.safetensors", "--accuracy", 0.8, "--json")
    assert chosen.code == 0, chosen.err
    assert json.loads(chosen.out)["accuracy_bound"] >= 0.8
    assert "confidence of at least" in run("inspect", "cal.safetensors").out
    assert run("evaluate", "--scores", "test.csv", "cal.safetensors", "-o", "run").code == 0
    assert "0." in run("report", "run", "--format", "csv", "--table", "decisions").out
    assert run("threshold", "cal.safetensors", "--scores", "test.csv", "--coverage", 0.5, "--dry-run").code == 0
    exported = run("export", "cal.safetensors", "-o", "cal.onnx")
    assert exported.code == 0, exported.err
    assert (files / "cal.onnx").is_file()


def test_an_argument_that_may_be_left_out_is_not_called_required(run):
    for command in ("evaluate", "export"):
        text = run(command, "--help").out
        assert "left out" in text
        assert "[required]" not in text
        assert run(command).code == 2


def test_misuse_is_one_line(files, run):
    assert run("fit", "val.csv", "--method", "ts", "--columns", "a", "--dry-run").code == 0
    one_column = run("fit", "val.csv", "--method", "ts", "--columns", "a")
    assert one_column.code == 1
    assert "score_type" in one_column.err
    assert run("evaluate", "cal.safetensors").code == 2
    assert run("evaluate", "model.onnx", "cal.safetensors", "--scores", "val.csv").code == 2


def test_the_monitor_takes_the_type_of_scores_from_the_file(files, run):
    """Probabilities of one column were read as log-odds: an accuracy of 0.47 on data with 0.97."""
    rng = np.random.default_rng(0)
    score = rng.random(900)
    y = (rng.random(900) < score).astype(int)
    np.savetxt(
        "binary.csv", np.column_stack([score, y]), delimiter=",", header="score,label", comments="", fmt=["%.9g", "%d"]
    )
    options = ("--score-type", "probabilities")
    assert run("fit", "binary.csv", "--method", "ts", *options, "-o", "cal.safetensors").code == 0
    for given in ((), options):
        monitored = run("monitor", "cal.safetensors", "binary.csv", "--json", *given)
        assert monitored.code == 0, monitored.err
        labelled = json.loads(monitored.out.splitlines()[-1])["summary"]["labelled"]
        assert labelled["accuracy"] == np.mean((score >= 0.5) == y)
        assert labelled["ece"] < 0.1
    calibrated = CalibratedModel.load("cal.safetensors")
    assert Monitor(calibrated).settings.score_type == Monitor("cal.safetensors").settings.score_type == "probabilities"
    assert Monitor("cal.safetensors", score_type="logits").settings.score_type == "logits"


def test_levels_of_a_file_give_a_windowed_form(files, run):
    rng = np.random.default_rng(1)
    clean = 4 * rng.normal(size=(300, 3))
    y = (clean / 2 + rng.gumbel(size=clean.shape)).argmax(axis=1)
    logits = np.concatenate([clean, clean + 6 * rng.normal(size=clean.shape)])
    np.savez("val.npz", logits=logits, y=np.tile(y, 2), levels=np.repeat([0, 1], 300))
    fitted = run("fit", "val.npz", "--method", "level-ts", "-o", "cal.safetensors")
    assert fitted.code == 0, fitted.err
    assert json.loads(run("inspect", "cal.safetensors", "--json").out)["perturbation"]["shift"] == "given levels"
    evaluated = run("evaluate", "--scores", "val.npz", "cal.safetensors", "-o", "run")
    assert "warning: The file has levels, which evaluate does not use" in evaluated.err
    assert "With windows of 100 samples LEVEL-TS has 0." in evaluated.out
    chosen = run("threshold", "cal.safetensors", "--scores", "val.npz", "--coverage", 0.5, "--dry-run")
    assert "warning: The file has levels, which threshold does not use" in chosen.err
