"""A short run of the metric campaign; `make campaign` is the long one."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_metrics_agree_with_their_definitions_and_laws(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from tools.metric_campaign import Tally, check, make_problem

    tally = Tally()
    for seed in (0, 1, 2):
        check(make_problem(seed), tally)
    assert tally.compared["definition"] > 15
    assert tally.broken == []
