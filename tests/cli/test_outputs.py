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
