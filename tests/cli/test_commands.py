"""Every command from end to end: what it prints, what it writes, and its exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_model import make_data

import driftcal
from driftcal.calibrators import CALIBRATORS
from driftcal.cli import app
from driftcal.pipeline.evaluating.results import Results

EVALUATE = ("evaluate", "cli_net:make", "cal.safetensors", "test.npz", "--suite", "h-tuning")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if "__pycache__" not in path.parts)


def test_tune_evaluate_report_inspect(folder, run):
    ran = run("tune", "cli_net:make", "val.npz", "-o", "cal.safetensors", "--method", "irm", "--n-levels", "4")
    assert ran.code == 0
    assert ran.out == "cal.safetensors\n"
    assert "target" in ran.err
    tuned = driftcal.CalibratedModel.load("cal.safetensors", _prepared())
    assert tuned.method == "irm"
    assert len(tuned.perturbation["levels"]) == 4

    ran = run(*EVALUATE, "-o", "run")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "run/results.json"
    assert "IRM-P" in ran.out
    results = Results.load("run")
    assert [info.name for info in results.calibrators] == ["base", "ts", "irm", "irm-p"]
    assert (
        results.metadata["command"] == "driftcal evaluate cli_net:make cal.safetensors test.npz --suite h-tuning -o run"
    )

    ran = run("report", "run", "-o", "report.html", "--title", "Mine")
    assert (ran.code, ran.out) == (0, "report.html\n")
    assert "Mine" in Path("report.html").read_text()

    for path, expected in (("cal.safetensors", "IRM"), ("run", "h-tuning"), ("run/cache", "21")):
        ran = run("inspect", path)
        assert ran.code == 0
        assert expected in ran.out


def _prepared():
    return driftcal.open_model("cli_net:make").prepare(np.zeros((1, 8, 8, 1), np.float32))


def test_json_of_every_command_is_data(tuned, run):
    listed = run("shifts", "--json", "--suite", "affine")
    assert len(json.loads(listed.out)["shifts"]) == 9
    ran = run(
        "tune", "cli_net:make", "val.npz", "--method", "auto", "--n-levels", "3", "--json", "-o", "auto.safetensors"
    )
    printed = json.loads(ran.out)
    assert printed["calibrator"] == "auto.safetensors"
    assert printed["method"] in CALIBRATORS
    assert "was chosen for single samples" in printed["explanation"]
    assert printed["perturbation"]["levels"][0]["epsilon"] == 0
    printed = json.loads(run(*EVALUATE, "--json").out)
    assert [line["calibrator"] for line in printed["summary"]] == ["base", "ts", "ts-p"]
    assert json.loads(run("report", "run", "--json").out) == {"report": "report.html", "figures": []}
    assert json.loads(run("inspect", "cal.safetensors", "--json").out)["calibrator"] == "ts"
    assert json.loads(run("inspect", "run", "--json").out)["kind"] == "run"


def test_quiet_leaves_only_data(tuned, run):
    for arguments in (("tune", "cli_net:make", "val.npz", "--n-levels", "3"), EVALUATE, ("report", "run"), ("shifts",)):
        ran = run(*arguments, "--quiet")
        assert ran.code == 0
        assert ran.err == ""
        assert ran.out


def test_dry_runs_write_nothing(tuned, run):
    run(*EVALUATE, "-o", "run")
    before = files(".")
    for arguments in (
        ("tune", "cli_net:make", "val.npz", "--cache", "new-cache"),
        (*EVALUATE, "-o", "elsewhere"),
        ("report", "run", "--figures", "figures"),
        ("shifts", "--contact-sheet", "photo.png"),
        ("inspect", "run"),
    ):
        ran = run(*arguments, "--dry-run", "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)
        assert files(".") == before, arguments


def planned(run, *arguments):
    return json.loads(run(*arguments, "--dry-run", "--json").out)


def test_evaluate_dry_run_predicts_the_passes_exactly(tuned, run):
    plan = planned(run, *EVALUATE)
    assert plan["passes"] == 21  # 4 shifts of 5 levels, and one clean pass for all of them
    assert plan["inputs"] == 21 * 40
    assert json.loads(run(*EVALUATE, "--json").out)["inputs"] == plan["inputs"]
    assert planned(run, *EVALUATE)["passes"] == 0
    assert json.loads(run(*EVALUATE, "--json").out)["inputs"] == 0


def test_evaluate_dry_run_is_exact_after_a_partial_run(tuned, run):
    from driftcal.cache import LogitCache
    from driftcal.pipeline.collecting.collect import Collector
    from driftcal.shifts import get_shift

    source = driftcal.open_source("test.npz").labelled()
    cache = LogitCache("run/cache")
    collector = Collector(driftcal.open_model("cli_net:make", batch_size=8), source, run=driftcal.Run(cache))
    collector.logits(get_shift("saturate"), 2)
    collector.logits(get_shift("saturate"), 0)
    key = collector.key(get_shift("spatter"), 1)
    part = collector.logits(get_shift("spatter"), 1)
    cache.remove(key)
    cache.put_part(key, 8, logits=part[8:24], labels=source.labels[8:24], indices=source.indices[8:24])
    arguments = (*EVALUATE, "--batch-size", "8")
    plan = planned(run, *arguments)
    assert plan["inputs"] == 19 * 40 - 16
    assert plan["passes"] == pytest.approx(19 - 16 / 40)
    assert json.loads(run(*arguments, "--json").out)["inputs"] == plan["inputs"]


def test_evaluate_dry_run_counts_the_passes_of_compared_methods(tuned, run):
    arguments = (*EVALUATE, "--validation", "val.npz", "--compare", "ets,irm")
    plan = planned(run, *arguments)
    assert [part["passes"] for part in plan["parts"]] == [3, 21]
    printed = json.loads(run(*arguments, "--json").out)
    assert printed["inputs"] == plan["inputs"] == 3 * 60 + 21 * 40
    names = [line["calibrator"] for line in printed["summary"]]
    assert names == ["base", "ts", "ets", "ets-p", "irm", "irm-p", "ts-p"]
    assert planned(run, *arguments)["passes"] == 0


def test_comparing_needs_the_same_validation_data(tuned, run):
    ran = run(*EVALUATE, "--compare", "ets")
    assert ran.code == 2
    assert "--validation" in ran.err
    ran = run(*EVALUATE, "--compare", "ets", "--validation", "test.npz")
    assert ran.code == 1
    assert "tuned on" in ran.err


def test_tune_dry_run_bounds_the_passes(folder, run):
    plan = planned(run, "tune", "cli_net:make", "val.npz", "--n-levels", "4")
    printed = json.loads(run("tune", "cli_net:make", "val.npz", "--n-levels", "4", "--json").out)
    assert plan["inputs"] <= printed["inputs"] <= plan["at_most"] * 60
    exact = planned(run, "tune", "cli_net:make", "val.npz", "--shift", "none")
    assert (exact["passes"], exact["at_most"]) == (1, None)
    printed = json.loads(run("tune", "cli_net:make", "val.npz", "--shift", "none", "--method", "ts", "--json").out)
    assert printed["inputs"] == 60
    assert printed["perturbation"] is None


def test_a_second_tuning_from_a_cache_runs_no_model(folder, run):
    arguments = ("tune", "cli_net:make", "val.npz", "--n-levels", "4", "--cache", "logits", "--json", "-o")
    first, second = (json.loads(run(*arguments, name).out) for name in ("one.safetensors", "two.safetensors"))
    assert first["inputs"] > 0
    assert second["inputs"] == 0
    assert planned(run, *arguments[:-1])["passes"] == 0
    assert Path("one.safetensors").read_bytes() == Path("two.safetensors").read_bytes()


def test_report_formats(tuned, run):
    run(*EVALUATE)
    for form in ("csv", "json", "latex", "markdown"):
        ran = run("report", "run", "--format", form)
        assert ran.code == 0
        assert "TS-P" in ran.out
        assert run("report", "run", "--format", form, "-o", "table").out == "table\n"
        assert Path("table").read_text() == ran.out
    assert json.loads(run("report", "run", "--format", "csv", "--json").out)[0]["calibrator"] == "base"
    assert len(run("report", "run", "--format", "csv", "--table", "rows").out.splitlines()) == 1 + 3 * 4 * 7
    ran = run("report", "run", "--figures", "figures")
    assert ran.code == 0
    assert {path.suffix for path in Path("figures").iterdir()} == {".pdf", ".svg", ".png"}


def test_groups(tuned, run):
    assert run(*EVALUATE, "--group", "class").code == 0
    assert Results.load("run").groups == ["a", "b", "c", "d"]
    ran = run(*EVALUATE, "--group", "camera")
    assert ran.code == 1
    assert "named 'camera'" in ran.err
    assert "names no groups" in run(*EVALUATE, "--group", "group").err
    with np.load("test.npz") as stored:
        np.savez("sites.npz", **stored, site=np.where(np.arange(40) < 15, "north", "south"))
    assert (
        run("evaluate", "cli_net:make", "cal.safetensors", "sites.npz", "--suite", "h-tuning", "--group", "site").code
        == 0
    )
    assert Results.load("run").groups == ["north", "south"]
    assert Results.load("run").metadata["group"] == "site"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nonsense"], 2, "No such command"),
        (["tune", "cli_net:make"], 2, "Missing argument"),
        (["tune", "cli_net:make", "val.npz", "--n-levels", "0"], 2, "--n-levels"),
        (["tune", "cli_net:make", "val.npz", "--mean", "grey"], 2, "--mean"),
        (["tune", "cli_net:make", "val.npz", "--size", "1x2x3"], 2, "--size"),
        (["tune", "cli_net:make", "val.npz", "--method", "tss"], 2, "did you mean 'ts'"),
        (["tune", "cli_net:make", "val.npz", "--tolerance", "-1"], 2, "--tolerance"),
        (["evaluate", "cli_net:make", "cal.safetensors", "test.npz", "--suite", "afine"], 2, "did you mean 'affine'"),
        (["report", "run", "--format", "word"], 2, "html, csv"),
        (["demo", "--mean", "0.5"], 2, "preprocessing"),
        (["tune", "cli_net:make", "nowhere.npz"], 1, "no file"),
        (["tune", "nowhere.onnx", "val.npz"], 1, "no model file"),
        (["tune", "cli_net:other", "val.npz"], 1, "Check the spelling"),
        (["tune", "cli_net:make", "val.npz", "--outputs", "probabilities"], 1, "probabilities"),
        (["evaluate", "cli_net:make", "missing.safetensors", "test.npz"], 1, "no such file"),
        (["report", "nothing-here"], 1, "Run evaluate first"),
        (["inspect", "val.npz"], 1, "safetensors"),
        (["inspect", "."], 1, "another folder"),
        (["demo", "--data", "val.npz"], 1, "need a model"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_exit_codes_and_messages_of_mistakes(tuned, run, arguments, code, message):
    ran = run(*arguments)
    assert ran.code == code, ran.err
    assert message in re.sub(r"\s+", " ", ran.err)
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_a_missing_extra_names_its_install_line(folder, run, monkeypatch):
    Path("net.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    ran = run("tune", "net.onnx", "val.npz")
    assert ran.code == 1
    assert 'pip install "driftcal[onnx]"' in ran.err


def test_an_onnx_model_with_preprocessing(folder, run):
    from tiny_model import make_onnx

    weights = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    make_onnx("net.onnx", weights)
    ran = run("tune", "net.onnx", "val.npz", "--mean", "0.5", "--std", "0.5", "--n-levels", "3", "--method", "ts", "-q")
    assert ran.code == 0, ran.err
    printed = json.loads(run("inspect", "cal.safetensors", "--json").out)
    assert printed["model"]["preprocessing"]["mean"] == [0.5]
    assert printed["model"]["preprocessing"]["layout"] == "NCHW"
    ran = run("evaluate", "net.onnx", "cal.safetensors", "test.npz", "--suite", "h-tuning", "-q")
    assert ran.code == 0, ran.err  # the preprocessing came from the calibrator


def test_a_feature_matrix_is_evaluated_under_tabular_drifts(folder, run):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 64)).astype(np.float32)
    np.savez("table.npz", x=x, y=rng.integers(4, size=80))
    ran = run(
        "tune",
        "cli_net:make",
        "table.npz",
        "--n-levels",
        "3",
        "--method",
        "ts",
        "--categorical",
        "2",
        "--shift",
        "none",
    )
    assert ran.code == 0, ran.err
    planned = run("evaluate", "cli_net:make", "cal.safetensors", "table.npz", "--dry-run", "--json")
    assert json.loads(planned.out)["passes"] == 36  # seven drifts, five levels each, and the clean pass
    ran = run("evaluate", "cli_net:make", "cal.safetensors", "table.npz")
    assert (ran.code, "feature_outliers" in Path("run/results.json").read_text()) == (0, True), ran.err
    ran = run("evaluate", "cli_net:make", "cal.safetensors", "table.npz", "--suite", "affine")
    assert ran.code == 1
    assert "holds features, and the suite is 'affine'. Take 'tabular'" in ran.err


def test_categorical_columns_of_a_file_have_names(folder, run):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(80, 64)), columns=[f"x{k}" for k in range(64)])
    frame.assign(visits=rng.integers(0, 5, 80), risk=rng.integers(4, size=80)).drop(columns="x63").to_csv(
        "val.csv", index=False
    )
    arguments = (
        "tune",
        "cli_net:make",
        "val.csv?label=risk",
        "--method",
        "ts",
        "--shift",
        "none",
        "-o",
        "t.safetensors",
    )
    assert run(*arguments, "--categorical", "visits,2").code == 0
    assert driftcal.CalibratedModel.load("t.safetensors").metadata["categorical"] == [2, 63]
    ran = run(*arguments, "--categorical", "visit")
    assert (ran.code, "did you mean 'visits'" in ran.err) == (2, True), ran.err


def test_text_labels_follow_the_class_names_of_the_calibrator(folder, run):
    names = np.array(["owl", "ant", "bee", "cow"])
    for part in ("val", "test"):
        with np.load(f"{part}.npz") as stored:
            np.savez(f"text {part}.npz", x=stored["x"], y=names[stored["y"]])
    ran = run("tune", "cli_net:make", "text val.npz", "--method", "ts", "--n-levels", "2")
    assert (ran.code, "class_names" in ran.err) == (1, True)
    ran = run("tune", "cli_net:make", "text val.npz", "--method", "ts", "--n-levels", "2", "--classes", ",".join(names))
    assert ran.code == 0, ran.err
    arguments = ("evaluate", "cli_net:make", "cal.safetensors", "--suite", "h-tuning", "--json")
    text, numbers = (json.loads(run(*arguments, path).out) for path in ("text test.npz", "test.npz"))
    assert text["summary"] == numbers["summary"]
    make_data("new.npz", 80, 5)
    with np.load("new.npz") as stored:
        np.savez("text new.npz", x=stored["x"], y=names[stored["y"]])
    ran = run("recalibrate", "cal.safetensors", "text new.npz", "--model", "cli_net:make", "--dry-run", "--json")
    assert ran.code == 0, ran.err


def test_compared_methods_are_tuned_with_the_categorical_columns_of_the_calibrator(folder, run):
    rng = np.random.default_rng(0)
    for part in ("val", "test"):
        y = rng.integers(4, size=80)
        np.savez(f"{part} table.npz", x=rng.normal(size=(80, 64)) + np.eye(4)[y].repeat(16, axis=1), y=y)
    arguments = ("tune", "cli_net:make", "val table.npz", "--method", "ts", "--n-levels", "3", "--cache", "run/cache")
    assert run(*arguments, "--categorical", "2").code == 0
    arguments = ("evaluate", "cli_net:make", "cal.safetensors", "test table.npz", "--validation", "val table.npz")
    plan = planned(run, *arguments, "--compare", "ets")
    assert [part["passes"] for part in plan["parts"]] == [0, 36], "the logits of tuning are in the cache"


def test_the_console_entry_point_runs(folder):
    ran = subprocess.run(
        [sys.executable, "-c", "from driftcal.cli import main; main()", "shifts", "--suite", "affine"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "rot_left" in ran.stdout


def test_every_command_has_help_with_an_example(run):
    names = [command.callback.__name__ for command in app.registered_commands]
    assert {"demo", "tune", "evaluate", "report", "shifts", "inspect"} <= set(names)
    overview = run("--help").out
    for name in names:
        assert f"\n  {name} " in overview
        ran = run(name, "--help")
        assert ran.code == 0
        assert f"driftcal {name}" in ran.out.split("Options:")[0].replace(f"Usage: driftcal {name}", ""), "an example"
        for option in ("--json", "--quiet", "--dry-run"):
            assert option in ran.out
        for line in ran.out.splitlines():
            assert len(line) <= 80, line
            # every option has a description
            assert not re.fullmatch(r"  (-\w, )?--[\w-]+( \S+)?\s*", line), line


def test_help_lists_the_names_of_the_registries(run):
    from driftcal.drift.estimators import ESTIMATORS
    from driftcal.report import FORMATS
    from driftcal.shifts import SUITES

    listed = {"tune": CALIBRATORS, "monitor": ESTIMATORS, "report": FORMATS}
    listed |= dict.fromkeys(("evaluate", "plan", "shifts"), SUITES)
    for command, names in listed.items():
        # a name with a hyphen may be broken there
        text = re.sub(r"\s+", " ", re.sub(r"-\n\s+", "-", run(command, "--help").out))
        for name in names:
            assert name in text, command


def test_suspicious_data_give_one_plain_line_that_quiet_leaves_out(folder, run):
    arguments = ("tune", "cli_net:make", "val.npz", "--method", "ts", "--n-levels", "2")
    lines = run(*arguments).err.splitlines()
    assert lines[0].startswith("warning: There are only 60 validation samples.")
    assert "There are only 60 validation samples." in lines[-1], "the explanation repeats it"
    assert lines[-1].startswith("Validation accuracy "), "it is always printed"
    assert run(*arguments, "--quiet").err == ""


def test_the_message_of_an_interruption_names_the_way_to_continue(run, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("driftcal.shifts.catalogue.catalogue", stop)
    ran = run("shifts")
    assert (ran.code, ran.out) == (130, "")
    assert "interrupted" in ran.err
    assert "the same command continues" in ran.err
