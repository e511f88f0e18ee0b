"""Progress and messages: a bar on a terminal, lines elsewhere, nothing with --quiet."""

import io
import sys
import time

import pytest

from driftcal.cli.console import Console
from driftcal.core import progress
from driftcal.core.kernels import COMPILES, CompilationTimer


class Terminal(io.StringIO):
    def isatty(self):
        return True


def work(current="[red]shift[/red]"):
    with Console().progress("evaluate", 400) as bar:
        for _ in range(20):
            time.sleep(0.02)
            bar(current, 20)
    return bar


def test_a_terminal_gets_a_bar_with_rate_and_remaining_time(monkeypatch):
    monkeypatch.setattr(progress, "BAR_AFTER", 0.05)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    bar = work()
    shown = sys.stderr.getvalue()
    assert bar.done == 400
    assert "evaluate" in shown
    assert "/s" in shown
    assert "0:00:0" in shown
    assert "[red]shift[/red]" in shown


def test_short_work_has_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    work()
    assert sys.stderr.getvalue() == ""


def test_without_a_terminal_there_are_lines(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.1)
    work()
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 4
    assert "of 400 inputs" in lines[0]
    assert "left" in lines[0]


def test_the_remaining_time_is_estimated_from_a_part_of_the_work(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with Console().progress("paper", 1000) as bar:
        for n_inputs in (20, 20, 20):
            time.sleep(0.01)
            bar("clean", n_inputs)
    lines = capsys.readouterr().err.splitlines()
    assert ["left" in line for line in lines] == [False, False, True]
    assert lines[0].startswith("paper: 20 of 1,000 inputs")


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_silent(monkeypatch, terminal):
    monkeypatch.setattr(progress, "BAR_AFTER", 0.0)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    with Console(quiet=True).progress("tune", 10) as bar:
        bar("clean", 10)
        time.sleep(0.05)
        Console(quiet=True).message("something")
    assert sys.stderr.getvalue() == ""


def test_json_has_no_nan(capsys):
    Console(as_json=True).output({"a": [float("nan"), float("inf"), 1.5]}, "text")
    assert capsys.readouterr().out == '{"a": [null, null, 1.5]}\n'


@pytest.mark.parametrize("quiet", [False, True])
def test_compiling_that_takes_long_is_announced_once_unless_quiet(capsys, quiet):
    Console(quiet=quiet)
    quick, slow = CompilationTimer(after=1000), CompilationTimer(after=0)
    for timer in (quick, slow, slow):
        timer.start()
        timer.start()  # a kernel that is compiled inside another one
        deadline = time.monotonic() + 20
        while timer is slow and not timer.is_done and time.monotonic() < deadline:
            time.sleep(0.01)
        timer.stop()
        timer.stop()
    said = capsys.readouterr().err
    while not quiet and not said and time.monotonic() < deadline:  # the line comes from a thread
        time.sleep(0.01)
        said = capsys.readouterr().err
    assert said == ("" if quiet else f"{COMPILES}\n")
