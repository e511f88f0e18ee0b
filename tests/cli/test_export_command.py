"""driftcal export: one calibrated file, or one line that says why not."""

import json

import numpy as np
import pytest
from tiny_model import make_onnx

pytest.importorskip("onnxruntime")


@pytest.fixture
def onnx_tuned(here, run):
    make_onnx("model.onnx", 2 * np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32))
    ran = run("tune", "model.onnx", "val.npz", "--method", "irm", "--levels", "3", "-q")
    assert ran.code == 0, ran.err
    return here


def test_export_writes_a_model_and_says_how_near_it_is(onnx_tuned, run):
    ran = run("export", "model.onnx", "cal.safetensors", "-o", "calibrated.onnx")
    assert ran.code == 0, ran.err
    assert "probabilities, label, confidence" in ran.out
    assert "largest difference" in ran.out
    told = json.loads(run("export", "model.onnx", "cal.safetensors", "-o", "again.onnx", "--json").out)
    assert told["max_difference"] < 1e-9
    assert told["path"] == "again.onnx"
    assert (onnx_tuned / "again.onnx").read_bytes() == (onnx_tuned / "calibrated.onnx").read_bytes()


def test_another_model_needs_force(onnx_tuned, run):
    make_onnx("other.onnx", np.eye(64, 4, dtype=np.float32))
    ran = run("export", "other.onnx", "cal.safetensors", "-o", "out.onnx")
    assert ran.code == 1
    assert "another model" in ran.err
    assert not (onnx_tuned / "out.onnx").exists()
    assert run("export", "other.onnx", "cal.safetensors", "-o", "out.onnx", "--force").code == 0


def test_probabilities_are_refused_unless_said(onnx_tuned, run):
    import onnx

    model = onnx.load("model.onnx")
    model.graph.node.append(onnx.helper.make_node("Softmax", ["logits"], ["p"]))
    model.graph.output[0].name = "p"
    onnx.save(model, "sm.onnx")
    words = ("export", "sm.onnx", "cal.safetensors", "-o", "out.onnx", "--force")
    ran = run(*words)
    assert (ran.code, "look like probabilities" in ran.err) == (1, True)
    assert not (onnx_tuned / "out.onnx").exists()
    assert run(*words, "--outputs", "probabilities").code == 0
    assert run(*words, "--outputs", "scores").code == 2


def test_rows_to_try_it_on(onnx_tuned, run):
    rows = np.random.default_rng(0).random((300, 1, 8, 8), np.float32)
    np.save("rows.npy", rows)
    np.savez("rows.npz", x=rows, y=np.zeros(300))
    (onnx_tuned / "rows.txt").write_text("1 2 3")
    words = ("export", "model.onnx", "cal.safetensors", "-o", "out.onnx", "--json", "--inputs")
    for name in ("rows.npy", "rows.npz"):
        assert json.loads(run(*words, name).out)["probe_rows"] == 512
    for name, fact in (("rows.txt", "plain arrays"), ("none.npy", "no file"), ("cal.safetensors", "plain arrays")):
        ran = run(*words, name)
        assert (ran.code, ran.err.count("\n"), fact in ran.err) == (1, 1, True), ran.err


def test_what_is_read_is_not_written_over(onnx_tuned, run):
    before = (onnx_tuned / "cal.safetensors").read_bytes()
    for output, words in (
        ("cal.safetensors", "than the calibrator"),
        ("model.onnx", "than the model"),
        (".", "is a folder"),
        (onnx_tuned, "is a folder"),
    ):
        ran = run("export", "model.onnx", "cal.safetensors", "-o", output)
        assert (ran.code, ran.err.count("\n"), words in ran.err) == (1, 1, True), ran.err
    assert (onnx_tuned / "cal.safetensors").read_bytes() == before


def test_a_dry_run_writes_nothing(onnx_tuned, run):
    before = sorted(onnx_tuned.iterdir())
    assert json.loads(run("export", "model.onnx", "cal.safetensors", "--dry-run", "--json").out) == {
        "would_write": ["calibrated.onnx"]
    }
    assert sorted(onnx_tuned.iterdir()) == before


def test_a_calibrator_that_looks_inside_is_tuned_evaluated_and_exported(onnx_tuned, run):
    ran = run(
        "tune", "model.onnx", "val.npz", "--method", "dac", "--levels", "2", "--layers", "flat,logits",
        "--reference", "val.npz", "--json",
    )  # fmt: skip
    assert (ran.code, json.loads(ran.out)["method"]) == (0, "dac"), ran.err
    ran = run("evaluate", "model.onnx", "cal.safetensors", "test.npz", "--suite", "h-tuning", "--json")
    assert [line["calibrator"] for line in json.loads(ran.out)["summary"]] == ["base", "dac-p"]
    told = json.loads(run("export", "model.onnx", "cal.safetensors", "-o", "out.onnx", "--json").out)
    assert told["max_difference"] < 1e-9
    wrong = run("export", "model.onnx", "cal.safetensors", "-o", "no.onnx", "--layers", "flat,other", "--force")
    assert wrong.code == 1
    assert "'other', which DensityAwareCalibration looks at" in wrong.err
    forced = run("export", "model.onnx", "cal.safetensors", "-o", "yes.onnx", "--layers", "flat,logits", "--force")
    assert forced.code == 0, forced.err
    assert (onnx_tuned / "yes.onnx").read_bytes() == (onnx_tuned / "out.onnx").read_bytes()
    assert run("tune", "model.onnx", "val.npz", "--method", "dac").code == 1


def test_a_dry_run_counts_the_looks_inside(onnx_tuned, run):
    words = ("tune", "model.onnx", "val.npz", "--method", "dac", "--layers", "flat", "--reference", "val.npz", "--json")
    clean = (*words, "--shift", "none")
    ahead = json.loads(run(*clean, "--dry-run").out)
    assert [part["passes"] for part in ahead["parts"]] == [1, 1, 1], "logits, features, features of the reference"
    assert json.loads(run(*clean).out)["inputs"] == ahead["inputs"] - 60, "the reference is not part of the ladder"
    kept = (*words, "--levels", "2", "--store", "answers")
    ahead = json.loads(run(*kept, "--dry-run").out)
    assert [part["passes"] for part in ahead["parts"]] == [2, 2, 1]
    assert ahead["inputs"] - 60 <= json.loads(run(*kept).out)["inputs"] <= ahead["at_most"] * 60
    assert [part["passes"] for part in json.loads(run(*kept, "--dry-run").out)["parts"]] == [0, 0, 1]


def test_auto_looks_inside_where_it_is_shown(onnx_tuned, run, monkeypatch):
    monkeypatch.setattr("driftcal.pipeline.select.CANDIDATES", ("ts",))
    ran = run(
        "tune", "model.onnx", "val.npz", "--levels", "2", "--layers", "flat,logits", "--reference", "val.npz", "--json",
    )  # fmt: skip
    told = json.loads(ran.out)["explanation"]
    assert all(f"{name} 0." in told or told.startswith(name) for name in ("TS", "DAC", "DAC-PTS", "MD-TS")), told
    ran = run("tune", "model.onnx", "val.npz", "--reference", "val.npz")
    assert ran.code == 1
    assert "needs a list of layers" in ran.err
