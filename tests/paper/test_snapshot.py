"""`driftcal paper all --data digits` gives the numbers it gave at version 0.1: tests/data/paper-digits holds them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import driftcal
from driftcal.data import digits
from driftcal.paper.digits import SPLIT, train_digits
from driftcal.paper.reproduction import Reproduction

SNAPSHOT = Path(__file__).parents[1] / "data" / "paper-digits"


def numbers(path: Path) -> list[float]:
    """All numbers of a table, row by row; names of columns and rows may change."""
    with open(path, newline="") as stream:
        cells = [cell for row in list(csv.reader(stream))[1:] for cell in row]
    return [float(cell) for cell in cells if cell.replace(".", "").replace("-", "").replace("e", "").isdigit()]


@pytest.mark.parametrize("settings", ["ours", "as-published"])
def test_every_number_of_the_paper_stays(settings, tmp_path):
    old = sorted((SNAPSHOT / settings).glob("*.csv"))
    # "beyond" compares methods that are not the paper's
    tables = [path for path in old if not path.stem.startswith("beyond")]
    run = Reproduction.open("all", data={"digits": ""}, as_published=settings != "ours", output=tmp_path)
    for experiment in run.experiments:
        if experiment.name != "beyond":
            Reproduction(run.bench, [experiment], tmp_path, formats=()).run()
    assert tables
    for path in tables:
        assert numbers(tmp_path / path.name) == pytest.approx(numbers(path), rel=1e-6, abs=1e-9), path.stem


@pytest.mark.parametrize("solver", ["curve", "nelder-mead"])
def test_the_levels_of_algorithm_1_stay(solver):
    expected = json.loads((SNAPSHOT / "levels.json").read_text())[solver]
    train, val, _ = digits().split(*SPLIT, seed=0)
    model = driftcal.open_model(train_digits(train), outputs="probabilities", name="small neural network")
    tuned = driftcal.tune(model, val, method="ts", solver=solver)
    assert tuned.calibrator.temperature_ == pytest.approx(expected["temperature"], rel=1e-9)
    for level, old in zip(tuned.ladder["levels"], expected["levels"], strict=True):
        assert {name: level[name] for name in old} == pytest.approx(old, rel=1e-9)
