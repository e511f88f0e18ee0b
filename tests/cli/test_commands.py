"""Every command from end to end: what it prints, what it writes, how it ends."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import driftcal
from driftcal.calibrators import CALIBRATORS
from driftcal.cli import app
from driftcal.pipeline.results import Results

EVALUATE = ("evaluate", "cli_net:make", "cal.safetensors", "test.npz", "--suite", "h-tuning")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if "__pycache__" not in path.parts)


def test_tune_evaluate_report_inspect(here, run):
    ran = run("tune", "cli_net:make", "val.npz", "-o", "cal.safetensors", "--method", "irm", "--levels", "4")
    assert ran.code == 0
    assert ran.out == "cal.safetensors\n"
    assert "target" in ran.err
    tuned = driftcal.CalibratedModel.load("cal.safetensors", _prepared())
    assert tuned.method == "irm"
    assert len(tuned.ladder["levels"]) == 4

    ran = run(*EVALUATE, "-o", "run")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "run/results.json"
    assert "IRM-P" in ran.out
    results = Results.load("run")
    assert [info.name for info in results.calibrators] == ["base", "irm-p"]
    assert (
        results.metadata["command"] == "driftcal evaluate cli_net:make cal.safetensors test.npz --suite h-tuning -o run"
    )

    ran = run("report", "run", "-o", "report.html", "--title", "Mine")
    assert (ran.code, ran.out) == (0, "report.html\n")
    assert "Mine" in Path("report.html").read_text()

    for path, expected in (("cal.safetensors", "IRM"), ("run", "h-tuning"), ("run/store", "21")):
        ran = run("inspect", path)
        assert ran.code == 0
        assert expected in ran.out


def _prepared():
    return driftcal.open_model("cli_net:make").prepare(np.zeros((1, 8, 8, 1), np.float32))


def test_json_of_every_command_is_data(tuned, run):
    listed = run("shifts", "--json", "--suite", "affine")
    assert len(json.loads(listed.out)["shifts"]) == 9
    ran = run(
        "tune", "cli_net:make", "val.npz", "--method", "auto", "--levels", "3", "--json", "-o", "auto.safetensors"
    )
    told = json.loads(ran.out)
    assert told["calibrator"] == "auto.safetensors"
    assert told["method"] in CALIBRATORS
    assert "lowest cross-validated ECE" in told["explanation"]
    assert told["ladder"]["levels"][0]["epsilon"] == 0
    told = json.loads(run(*EVALUATE, "--json").out)
    assert [line["calibrator"] for line in told["summary"]] == ["base", "ts-p"]
    assert json.loads(run("report", "run", "--json").out) == {"report": "report.html", "figures": []}
    assert json.loads(run("inspect", "cal.safetensors", "--json").out)["calibrator"] == "ts"
    assert json.loads(run("inspect", "run", "--json").out)["kind"] == "run"


def test_quiet_leaves_only_data(tuned, run):
    for words in (("tune", "cli_net:make", "val.npz", "--levels", "3"), EVALUATE, ("report", "run"), ("shifts",)):
        ran = run(*words, "--quiet")
        assert ran.code == 0
        assert ran.err == ""
        assert ran.out


def test_dry_runs_write_nothing(tuned, run):
    run(*EVALUATE, "-o", "run")
    before = files(".")
    for words in (
        ("tune", "cli_net:make", "val.npz", "--store", "new-store"),
        (*EVALUATE, "-o", "elsewhere"),
        ("report", "run", "--figures", "figures"),
        ("shifts", "--contact-sheet", "photo.png"),
        ("inspect", "run"),
    ):
        ran = run(*words, "--dry-run", "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)
        assert files(".") == before, words


def planned(run, *words):
    return json.loads(run(*words, "--dry-run", "--json").out)


def test_evaluate_dry_run_predicts_the_passes_exactly(tuned, run):
    plan = planned(run, *EVALUATE)
    assert plan["passes"] == 21  # 4 shifts of 5 levels, and one clean pass for all of them
    assert plan["inputs"] == 21 * 40
    assert json.loads(run(*EVALUATE, "--json").out)["inputs"] == plan["inputs"]
    assert planned(run, *EVALUATE)["passes"] == 0
    assert json.loads(run(*EVALUATE, "--json").out)["inputs"] == 0


def test_after_a_partial_run_as_well(tuned, run):
    from driftcal.cache import LogitCache
    from driftcal.pipeline.collect import Collector
    from driftcal.shifts import get_shift

    source = driftcal.open_source("test.npz").labelled()
    store = LogitCache("run/store")
    collector = Collector(driftcal.open_model("cli_net:make", batch_size=8), source, store=store)
    collector.logits(get_shift("saturate"), 2)
    collector.logits(get_shift("saturate"), 0)
    key = collector.key(get_shift("spatter"), 1)
    part = collector.logits(get_shift("spatter"), 1)
    store.remove(key)
    store.put_part(key, 8, logits=part[8:24], labels=source.labels[8:24], indices=source.indices[8:24])
    words = (*EVALUATE, "--batch-size", "8")
    plan = planned(run, *words)
    assert plan["inputs"] == 19 * 40 - 16
    assert plan["passes"] == pytest.approx(19 - 16 / 40)
    assert json.loads(run(*words, "--json").out)["inputs"] == plan["inputs"]


def test_comparing_methods_predicts_its_passes_too(tuned, run):
    words = (*EVALUATE, "--validation", "val.npz", "--compare", "ets,irm")
    plan = planned(run, *words)
    assert [part["passes"] for part in plan["parts"]] == [3, 21]
    told = json.loads(run(*words, "--json").out)
    assert told["inputs"] == plan["inputs"] == 3 * 60 + 21 * 40
    names = [line["calibrator"] for line in told["summary"]]
    assert names == ["base", "ets", "ets-p", "irm", "irm-p", "ts", "ts-p"]
    assert planned(run, *words)["passes"] == 0


def test_comparing_needs_the_same_validation_data(tuned, run):
    ran = run(*EVALUATE, "--compare", "ets")
    assert ran.code == 2
    assert "--validation" in ran.err
    ran = run(*EVALUATE, "--compare", "ets", "--validation", "test.npz")
    assert ran.code == 1
    assert "tuned on" in ran.err


def test_tune_dry_run_bounds_the_passes(here, run):
    plan = planned(run, "tune", "cli_net:make", "val.npz", "--levels", "4")
    told = json.loads(run("tune", "cli_net:make", "val.npz", "--levels", "4", "--json").out)
    assert plan["inputs"] <= told["inputs"] <= plan["at_most"] * 60
    exact = planned(run, "tune", "cli_net:make", "val.npz", "--shift", "none")
    assert (exact["passes"], exact["at_most"]) == (1, None)
    told = json.loads(run("tune", "cli_net:make", "val.npz", "--shift", "none", "--method", "ts", "--json").out)
    assert told["inputs"] == 60
    assert told["ladder"] is None


def test_a_store_makes_the_second_tuning_free(here, run):
    words = ("tune", "cli_net:make", "val.npz", "--levels", "4", "--store", "answers", "--json", "-o")
    first, second = (json.loads(run(*words, name).out) for name in ("one.safetensors", "two.safetensors"))
    assert first["inputs"] > 0
    assert second["inputs"] == 0
    assert planned(run, *words[:-1])["passes"] == 0
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
    assert len(run("report", "run", "--format", "csv", "--table", "rows").out.splitlines()) == 1 + 2 * 4 * 7
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
    ("words", "code", "said"),
    [
        (["nonsense"], 2, "No such command"),
        (["tune", "cli_net:make"], 2, "Missing argument"),
        (["tune", "cli_net:make", "val.npz", "--levels", "0"], 2, "levels"),
        (["tune", "cli_net:make", "val.npz", "--mean", "grey"], 2, "--mean"),
        (["tune", "cli_net:make", "val.npz", "--size", "1x2x3"], 2, "--size"),
        (["tune", "cli_net:make", "val.npz", "--method", "tss"], 2, "did you mean 'ts'"),
        (["tune", "cli_net:make", "val.npz", "--focus", "elsewhere", "--levels", "2"], 2, "there is no focus"),
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
def test_exit_codes_and_the_words_for_them(tuned, run, words, code, said):
    ran = run(*words)
    assert ran.code == code, ran.err
    assert said in re.sub(r"\s+", " ", ran.err)
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_a_missing_extra_names_its_install_line(here, run, monkeypatch):
    Path("net.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    ran = run("tune", "net.onnx", "val.npz")
    assert ran.code == 1
    assert 'pip install "driftcal[onnx]"' in ran.err


def test_an_onnx_model_with_preprocessing(here, run):
    from tiny_model import make_onnx

    weights = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    make_onnx("net.onnx", weights)
    ran = run("tune", "net.onnx", "val.npz", "--mean", "0.5", "--std", "0.5", "--levels", "3", "--method", "ts", "-q")
    assert ran.code == 0, ran.err
    told = json.loads(run("inspect", "cal.safetensors", "--json").out)
    assert told["model"]["preprocessing"]["mean"] == [0.5]
    assert told["model"]["preprocessing"]["layout"] == "NCHW"
    ran = run("evaluate", "net.onnx", "cal.safetensors", "test.npz", "--suite", "h-tuning", "-q")
    assert ran.code == 0, ran.err  # the preprocessing came from the calibrator


def test_features_are_tuned_and_tested_under_drifts_of_features(here, run):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 64)).astype(np.float32)
    np.savez("table.npz", x=x, y=rng.integers(4, size=80))
    ran = run(
        "tune", "cli_net:make", "table.npz", "--levels", "3", "--method", "ts", "--categorical", "2", "--shift", "none"
    )
    assert ran.code == 0, ran.err
    planned = run("evaluate", "cli_net:make", "cal.safetensors", "table.npz", "--dry-run", "--json")
    assert json.loads(planned.out)["passes"] == 36  # seven drifts, five levels each, and the clean pass
    ran = run("evaluate", "cli_net:make", "cal.safetensors", "table.npz")
    assert (ran.code, "feature_outliers" in Path("run/results.json").read_text()) == (0, True), ran.err
    ran = run("evaluate", "cli_net:make", "cal.safetensors", "table.npz", "--suite", "affine")
    assert ran.code == 1
    assert "holds features, and it is 'affine'. Take 'tabular'" in ran.err


def test_it_runs_as_a_program(here):
    ran = subprocess.run(
        [sys.executable, "-c", "from driftcal.cli import main; main()", "shifts", "--suite", "affine"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "rot_left" in ran.stdout


def test_every_command_has_help_that_teaches(run):
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
            # every option says what it does
            assert not re.fullmatch(r"  (-\w, )?--[\w-]+( \S+)?\s*", line), line


def test_help_lists_what_there_is(run):
    from driftcal.pipeline.select import FOCUS
    from driftcal.report import FORMATS
    from driftcal.shifts import SUITES
    from driftcal.shifts.levels.solvers import SOLVERS

    # names with a hyphen may be broken there
    told = {
        name: re.sub(r"\s+", " ", re.sub(r"-\n\s+", "-", run(name, "--help").out))
        for name in ("tune", "evaluate", "report", "shifts")
    }
    for name in (*CALIBRATORS, *FOCUS, *SOLVERS):
        assert name in told["tune"]
    for name in SUITES:
        assert name in told["evaluate"]
        assert name in told["shifts"]
    for name in FORMATS:
        assert name in told["report"]


def test_an_interruption_says_that_one_can_go_on(run, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("driftcal.shifts.catalogue.catalogue", stop)
    ran = run("shifts")
    assert (ran.code, ran.out) == (130, "")
    assert "interrupted" in ran.err
    assert "the same command goes on" in ran.err
