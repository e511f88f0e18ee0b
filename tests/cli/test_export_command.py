"""driftcal export: a calibrated model, or one line with the reason why not."""

import json

import numpy as np
import pytest
from tiny_model import make_data, make_onnx

pytest.importorskip("onnxruntime")


@pytest.fixture
def onnx_tuned(folder, run):
    make_onnx("model.onnx", 2 * np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32))
    ran = run("tune", "model.onnx", "val.npz", "--method", "irm", "--n-levels", "3", "-q")
    assert ran.code == 0, ran.err
    return folder


def test_export_writes_a_model_and_prints_the_largest_difference(onnx_tuned, run):
    ran = run("export", "model.onnx", "cal.safetensors", "-o", "calibrated.onnx")
    assert ran.code == 0, ran.err
    assert "probabilities, label, confidence" in ran.out
    assert "largest difference" in ran.out
    printed = json.loads(run("export", "model.onnx", "cal.safetensors", "-o", "again.onnx", "--json").out)
    assert printed["max_difference"] < 1e-9
    assert printed["path"] == "again.onnx"
    assert (onnx_tuned / "again.onnx").read_bytes() == (onnx_tuned / "calibrated.onnx").read_bytes()


def test_an_export_names_its_form_with_the_figures_of_that_form(onnx_tuned, run):
    import onnx

    ran = run("export", "model.onnx", "cal.safetensors")
    assert "calibrator: IRM, the per-sample form" in ran.out, "a method that was named has no cross-validated figures"
    make_data("more.npz", 150, 1)  # with the 60 samples of val.npz no windowed form is chosen
    tuned = json.loads(run("tune", "model.onnx", "more.npz", "--n-levels", "3", "-o", "auto.safetensors", "--json").out)
    assert tuned["windowed_method"], "the windowed form has other figures"
    printed = json.loads(run("export", "model.onnx", "auto.safetensors", "-o", "auto.onnx", "--json").out)
    assert (printed["calibrator"], printed["form"]) == (tuned["method"], "per-sample")
    figures = printed["cross_validated_ece"]
    assert all(f"{figures[name]:.3f}" in tuned["explanation"] for name in ("in_domain", "under_shift"))
    metadata = {entry.key: entry.value for entry in onnx.load("auto.onnx").metadata_props}
    assert json.loads(metadata["driftcal.cross_validated_ece"]) == figures
    assert metadata["driftcal.form"] == "per-sample"
    windowed = json.loads(run("export", "model.onnx", "auto.safetensors", "-o", "w.onnx", "--windowed", "--json").out)
    assert (windowed["calibrator"], windowed["form"]) == (tuned["windowed_method"], "windowed")
    figures = windowed["cross_validated_ece"]
    assert figures != printed["cross_validated_ece"]
    assert f"{figures['under_shift']:.3f} under" in tuned["explanation"]
    # the figures of both forms are for two shifts, which have two names
    assert figures["shift"] == "the tuning shift"
    assert printed["cross_validated_ece"]["shift"] == "simulated shifts that the fit had not seen"


def test_an_export_says_what_the_model_takes(folder, run):
    make_onnx("model.onnx", np.eye(64, 4, dtype=np.float32))
    tuning = ("--method", "ts", "--n-levels", "2", "--mean", "0.5", "--std", "0.25", "-q")
    assert run("tune", "model.onnx", "val.npz", *tuning).code == 0
    ran = run("export", "model.onnx", "cal.safetensors")
    expected = "x, float32 (n, 1, 8, 8): images from 0 to 1, minus mean 0.5, divided by std 0.25; axes NCHW"
    assert f"input: {expected}" in ran.out.splitlines()
    assert json.loads(run("export", "model.onnx", "cal.safetensors", "--json").out)["input"] == expected


def test_another_model_needs_force(onnx_tuned, run):
    make_onnx("other.onnx", np.eye(64, 4, dtype=np.float32))
    ran = run("export", "other.onnx", "cal.safetensors", "-o", "out.onnx")
    assert ran.code == 1
    assert "another model" in ran.err
    assert not (onnx_tuned / "out.onnx").exists()
    assert run("export", "other.onnx", "cal.safetensors", "-o", "out.onnx", "--force").code == 0


def test_probabilities_are_refused_without_the_option(onnx_tuned, run):
    import onnx

    model = onnx.load("model.onnx")
    model.graph.node.append(onnx.helper.make_node("Softmax", ["logits"], ["p"]))
    model.graph.output[0].name = "p"
    onnx.save(model, "sm.onnx")
    arguments = ("export", "sm.onnx", "cal.safetensors", "-o", "out.onnx", "--force")
    ran = run(*arguments)
    assert (ran.code, "look like probabilities" in ran.err) == (1, True)
    assert not (onnx_tuned / "out.onnx").exists()
    assert run(*arguments, "--outputs", "probabilities").code == 0
    assert run(*arguments, "--outputs", "scores").code == 2


def test_the_model_is_run_on_the_users_inputs(onnx_tuned, run):
    inputs = np.random.default_rng(0).random((300, 1, 8, 8), np.float32)
    np.save("inputs.npy", inputs)
    np.savez("inputs.npz", x=inputs, y=np.zeros(300))
    (onnx_tuned / "inputs.txt").write_text("1 2 3")
    arguments = ("export", "model.onnx", "cal.safetensors", "-o", "out.onnx", "--json", "--inputs")
    for name in ("inputs.npy", "inputs.npz"):
        assert json.loads(run(*arguments, name).out)["n_samples"] == 704
    for name, fact in (("inputs.txt", "plain arrays"), ("none.npy", "no file"), ("cal.safetensors", "plain arrays")):
        ran = run(*arguments, name)
        assert (ran.code, ran.err.count("\n"), fact in ran.err) == (1, 1, True), ran.err


def test_files_that_are_read_are_not_replaced(onnx_tuned, run):
    before = (onnx_tuned / "cal.safetensors").read_bytes()
    for output, message in (
        ("cal.safetensors", "than the calibrator"),
        ("model.onnx", "than the model"),
        (".", "is a folder"),
        (onnx_tuned, "is a folder"),
    ):
        ran = run("export", "model.onnx", "cal.safetensors", "-o", output)
        assert (ran.code, ran.err.count("\n"), message in ran.err) == (1, 1, True), ran.err
    assert (onnx_tuned / "cal.safetensors").read_bytes() == before


def test_a_dry_run_writes_nothing(onnx_tuned, run):
    before = sorted(onnx_tuned.iterdir())
    assert json.loads(run("export", "model.onnx", "cal.safetensors", "--dry-run", "--json").out) == {
        "would_write": ["calibrated.onnx"]
    }
    assert sorted(onnx_tuned.iterdir()) == before


def test_a_calibrator_that_reads_layer_features_is_tuned_evaluated_and_exported(onnx_tuned, run):
    ran = run(
        "tune", "model.onnx", "val.npz", "--method", "dac", "--n-levels", "2", "--layers", "flat,logits",
        "--reference", "val.npz", "--json",
    )  # fmt: skip
    assert (ran.code, json.loads(ran.out)["method"]) == (0, "dac"), ran.err
    ran = run("evaluate", "model.onnx", "cal.safetensors", "test.npz", "--suite", "h-tuning", "--json")
    assert [line["calibrator"] for line in json.loads(ran.out)["summary"]] == ["base", "ts", "dac", "dac-p"]
    printed = json.loads(run("export", "model.onnx", "cal.safetensors", "-o", "out.onnx", "--json").out)
    assert printed["max_difference"] < 1e-9
    refused = run("export", "model.onnx", "cal.safetensors", "-o", "no.onnx", "--layers", "flat,other", "--force")
    assert refused.code == 1
    assert "'other', which DensityAwareCalibration reads" in refused.err
    forced = run("export", "model.onnx", "cal.safetensors", "-o", "yes.onnx", "--layers", "flat,logits", "--force")
    assert forced.code == 0, forced.err
    assert (onnx_tuned / "yes.onnx").read_bytes() == (onnx_tuned / "out.onnx").read_bytes()
    assert run("tune", "model.onnx", "val.npz", "--method", "dac").code == 1


def test_a_dry_run_counts_the_passes_for_layer_features(onnx_tuned, run):
    arguments = (
        "tune",
        "model.onnx",
        "val.npz",
        "--method",
        "dac",
        "--layers",
        "flat",
        "--reference",
        "val.npz",
        "--json",
    )
    clean = (*arguments, "--shift", "none")
    plan = json.loads(run(*clean, "--dry-run").out)
    assert [part["passes"] for part in plan["parts"]] == [1, 1, 1], "logits, features, features of the reference"
    assert json.loads(run(*clean).out)["inputs"] == plan["inputs"] - 60, "progress does not count the reference"
    cached = (*arguments, "--n-levels", "2", "--cache", "logits")
    plan = json.loads(run(*cached, "--dry-run").out)
    assert [part["passes"] for part in plan["parts"]] == [2, 2, 1]
    assert plan["inputs"] - 60 <= json.loads(run(*cached).out)["inputs"] <= plan["at_most"] * 60
    assert [part["passes"] for part in json.loads(run(*cached, "--dry-run").out)["parts"]] == [0, 0, 1]


def test_auto_tries_methods_that_read_layer_features(onnx_tuned, run):
    make_data("few.npz", 10, 3)
    arguments = ("tune", "model.onnx", "val.npz", "--n-levels", "2")
    ran = run(*arguments, "--layers", "flat,logits", "--reference", "few.npz", "--json")
    assert "DAC, DAC-PTS were left out" in json.loads(ran.out)["explanation"]
    ran = run(*arguments, "--layers", "flat,logits", "--reference", "val.npz", "--json")
    assert "were left out" not in json.loads(ran.out)["explanation"]
    ran = run(*arguments, "--reference", "val.npz")
    assert ran.code == 1
    assert "layers must be a list of layer names" in ran.err


def test_the_windowed_form_names_its_inputs(folder, run):
    make_onnx("model.onnx", 2 * np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32))
    assert run("tune", "model.onnx", "val.npz", "--method", "level-ts", "--n-levels", "3", "-q").code == 0
    ran = run("export", "model.onnx", "cal.safetensors", "--windowed", "-o", "windowed.onnx")
    assert ran.code == 0, ran.err
    assert "confidence, batch_sums; new inputs window_sums, sample_mask" in ran.out
    assert "calibrator: LEVEL-TS, the windowed form" in ran.out
    printed = json.loads(run("export", "model.onnx", "cal.safetensors", "--windowed", "-o", "w.onnx", "--json").out)
    assert (printed["form"], printed["window"]["batch_sums"]) == ("windowed", "batch_sums")
