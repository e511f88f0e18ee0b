"""Progress in Python: a bar where somebody looks, none elsewhere; `Run(progress=...)` chooses."""

import io
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import driftcal
from driftcal.core import progress

DIGITS = driftcal.open_source("digits").split(300, 200, random_state=0)
X, Y = DIGITS[0].inputs().reshape(300, -1), DIGITS[0].labels
MODEL = LogisticRegression(max_iter=500).fit(X, Y)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    def start():  # in the test itself: pytest replaces stderr after the fixtures
        monkeypatch.setattr(progress, "BAR_AFTER", 0.0)
        monkeypatch.setattr(sys, "stderr", stream := Terminal())
        return stream

    return start


def tune(**options):
    return driftcal.tune(MODEL, X[:150], Y[:150], method="ts", n_levels=4, **options)


@pytest.mark.filterwarnings("ignore::driftcal.errors.SuspiciousInputWarning")
@pytest.mark.parametrize(("choice", "has_bar"), [(None, True), (True, True), (False, False)])
def test_a_terminal_has_a_bar_unless_it_is_switched_off(terminal, choice, has_bar):
    stream = terminal()
    tune(run=driftcal.Run(progress=choice))
    assert ("tune" in stream.getvalue()) == has_bar
    assert ("compare calibrators" in stream.getvalue()) == has_bar


@pytest.mark.filterwarnings("ignore::driftcal.errors.SuspiciousInputWarning")
def test_no_bar_where_nobody_looks(monkeypatch, capsys):
    monkeypatch.setattr(progress, "BAR_AFTER", 0.0)
    tune()
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore::driftcal.errors.SuspiciousInputWarning")
def test_lines_in_a_log_if_they_are_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    tune(run=driftcal.Run(progress=True))
    assert capsys.readouterr().err.startswith("tune: ")


@pytest.mark.filterwarnings("ignore::driftcal.errors.SuspiciousInputWarning")
def test_a_function_gets_the_progress_instead(terminal):
    counts, stream = [], terminal()
    tune(run=driftcal.Run(progress=lambda name, n: counts.append(n)))
    assert np.sum(counts) >= 4 * 150
    assert stream.getvalue() == ""
