"""Names are text: markup, escape codes and line breaks in names of files, classes and groups have no effect."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_model import make_data, make_onnx

import driftcal
from driftcal.core.messages import printable
from driftcal.pipeline.evaluating.results import Results

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "[red]danger[/red] [bold",
    "line\nbreak and \x1b[31mescape",
    "quote ' and \" and \\ and :smile:",
]
#: File names may hold everything but the slash.
FILES = ['it\'s "quoted" and spaced', "two\nlines", "[red]danger[bold] :smile:", "<img src=x onerror=alert(1)>"]


@pytest.mark.parametrize("name", FILES, ids=["quotes", "newline", "markup", "html"])
def test_hostile_file_names(folder, run, name):
    import numpy as np

    make_onnx(f"{name}.onnx", np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32))
    for part in ("val", "test"):
        Path(f"{part}.npz").rename(f"{part} {name}.npz")
    arguments = (
        "tune",
        f"{name}.onnx",
        f"val {name}.npz",
        "-o",
        f"{name}.safetensors",
        "--n-levels",
        "2",
        "--method",
        "ts",
    )
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    assert ran.out == printable(f"{name}.safetensors") + "\n"
    assert json.loads(run(*arguments, "--json").out)["calibrator"] == f"{name}.safetensors"
    ran = run("inspect", f"{name}.safetensors")
    assert printable(f"{name}.onnx") in ran.out
    ran = run(
        "evaluate",
        f"{name}.onnx",
        f"{name}.safetensors",
        f"test {name}.npz",
        "--suite",
        "h-tuning",
        "-o",
        f"run {name}",
    )
    assert ran.code == 0, ran.err
    assert Results.load(f"run {name}").metadata["model"]["name"] == f"{name}.onnx"
    ran = run("report", f"run {name}", "-o", f"{name}.html")
    assert ran.out == printable(f"{name}.html") + "\n"
    page = Path(f"{name}.html").read_text()
    assert "<img src=x" not in page
    ran = run("tune", f"{name} missing.onnx", f"val {name}.npz")
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 1


def test_hostile_class_names_and_groups(folder, run):
    groups = [HOSTILE[i % 4] for i in range(40)]
    make_data("val.npz", 60, 1, class_names=HOSTILE)
    make_data("test.npz", 40, 2, class_names=HOSTILE, groups=groups)
    assert run("tune", "cli_net:make", "val.npz", "--n-levels", "2", "--method", "ts", "-q").code == 0
    ran = run("inspect", "cal.safetensors")
    for name in HOSTILE:
        assert printable(name) in ran.out
    assert "\x1b" not in ran.out
    for group in ("class", "group"):
        ran = run("evaluate", "cli_net:make", "cal.safetensors", "test.npz", "--suite", "h-tuning", "--group", group)
        assert ran.code == 0, ran.err
        assert sorted(Results.load("run").groups) == sorted(HOSTILE)
        ran = run("inspect", "run")
        assert printable(HOSTILE[2]) in ran.out
        for form in ("csv", "json", "latex", "markdown"):
            assert run("report", "run", "--format", form).code == 0
        assert run("report", "run", "-q").code == 0
        page = Path("report.html").read_text()
        assert "<img src=x" not in page
        assert "onerror=alert(1)&gt;" in page or "onerror=alert(1)\\u003e" in page or "\\u003cimg" in page


@pytest.mark.filterwarnings("ignore::driftcal.errors.SuspiciousInputWarning")
def test_names_that_are_no_utf_8_are_written_as_escapes(folder, run):
    """A folder of an old archive may have such a name; Python reads its bytes as half characters."""
    names = ["ant", "b\udce9e"]
    for number, name in enumerate(names):
        Path("photos", name).mkdir(parents=True)
        for i in range(12):
            Image.fromarray(np.full((8, 8), 20 * i + 5 * number, np.uint8)).save(Path("photos", name, f"{i}.png"))
    model = driftcal.open_model(lambda x: x.reshape(len(x), -1)[:, :2] * [1, 2] - 0.5, class_names=names)
    source = driftcal.open_source("photos")
    calibrated = driftcal.tune(model, source, method="ts", n_levels=2)
    driftcal.evaluate(calibrated, source, suite="h-tuning", group="class").save("run")
    for form in ("csv", "json", "latex", "markdown"):
        ran = run("report", "run", "--format", form, "--table", "rows", "-o", "table")
        assert ran.code == 0, ran.err
        assert b"b\\udce9e" in Path("table").read_bytes().replace(b"textbackslash{}", b"")


def test_markup_in_tables_is_text(capsys):
    from driftcal.cli.console import Console
    from driftcal.report.table import Table, to_terminal

    table = Table("t", "", {"name": "name", "number": "number"}, [{"name": name, "number": 1} for name in HOSTILE])
    Console().output({}, to_terminal(table), "[red]x[/red]")
    out = capsys.readouterr().out
    for name in HOSTILE:
        assert printable(name) in out
    assert "[red]x[/red]" in out
    assert "\x1b" not in out
