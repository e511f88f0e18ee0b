"""Commands find out before their work whether they can write what they are asked for."""

import os
import stat

import pytest
import typer.main

from driftcal.cli.app import app, main

#: Options of commands that name what is written.
OUTPUTS = {"output", "state", "report", "prometheus", "figures"}
#: `shifts` writes a file only with --contact-sheet, and checks it then.
CHECKED_LATER = {("shifts", "output")}
COMMANDS = {
    "tune": ["missing.onnx", "missing.npz"],
    "evaluate": ["missing.onnx", "missing.safetensors", "missing.npz"],
    "export": ["missing.onnx", "missing.safetensors"],
    "recalibrate": ["missing.safetensors", "missing.npz"],
    "report": ["missing"],
    "shifts": ["--contact-sheet", "missing.png"],
}


def commands(group, prefix=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["fit", "val.npz", "-o", "val.npz"], "output"),
        (["fit", "val.npz?x=a", "-o", "./val.npz"], "output"),
        (["tune", "net.onnx", "npz=val.npz", "-o", "val.npz"], "output"),
        (["tune", "net.onnx", "val.npz", "-o", "link"], "output"),
        (["export", "cal.safetensors", "-o", "cal.safetensors"], "output"),
        (["evaluate", "--scores", "val.npz", "val.npz", "-o", "run"], None),
        (["threshold", "cal.safetensors", "--accuracy", "0.9", "-o", "cal.safetensors"], None),
        (["recalibrate", "cal.safetensors", "val.npz", "-o", "val.npz"], "output"),
        (["report", "run", "-o", "run/results.json"], "output"),
        (["monitor", "cal.safetensors", "val.npz", "--state", "val.npz"], "state"),
        (["monitor", "cal.safetensors", "val.npz", "--report", "cal.safetensors"], "report"),
        (["monitor", "cal.safetensors", "a.npz", "val.npz", "--prometheus", "val.npz"], "prometheus"),
        (["monitor", "cal.safetensors", "a.npz", "--state", "new", "--report", "new"], "report"),
    ],
)  # fmt: skip
def test_an_output_never_replaces_an_input_or_another_output(tmp_path, monkeypatch, capsys, arguments, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("val.npz", "net.onnx", "cal.safetensors", "run/results.json"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("val.npz")
    with pytest.raises(SystemExit) as end:
        main(arguments)
    for name in ("val.npz", "net.onnx", "cal.safetensors", "run/results.json"):
        assert (tmp_path / name).read_text() == name
    assert end.value.code == 1
    assert option is None or f"driftcal: {option} must be another file than the" in capsys.readouterr().err


def test_every_output_is_checked():
    checked = set()
    for name, command in commands(typer.main.get_command(app)):
        for option in command.params:
            if option.name in OUTPUTS and (name, option.name) not in CHECKED_LATER:
                assert option.callback is not None, f"driftcal {name} --{option.name}"
                checked.add(name)
    assert {"tune", "evaluate", "export", "recalibrate", "report", "demo", "monitor", "paper train"} <= checked


@pytest.mark.parametrize("command", COMMANDS)
def test_the_output_is_checked_before_the_input_is_opened(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(SystemExit) as end:
        main([command, *COMMANDS[command], "-o", "file/inside"])
    assert end.value.code == 1
    assert "driftcal: output 'file/inside' cannot be written" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("option", ["--state", "--report", "--prometheus"])
def test_the_monitor_never_replaces_a_pipe(tmp_path, capsys, option):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SystemExit) as end:
        main(["monitor", "missing.safetensors", option, str(tmp_path / "pipe")])
    assert end.value.code == 1
    assert "is a pipe, which would be replaced" in capsys.readouterr().err
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
