"""`driftcal paper all --data digits` gives the numbers it gave at version 0.1: tests/data/paper-digits holds them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from driftcal import TemperatureScaling, get_shift
from driftcal.data import digits
from driftcal.paper.paper_run import PaperRun
from driftcal.paper.paper_settings import AS_PUBLISHED, OURS
from driftcal.paper.setups import SetupOptions
from driftcal.paper.setups.digits_network import open_digits_network, split_digits
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.perturbation import perturb
from driftcal.pipeline.tuning.fit import fit_on_levels

pytestmark = pytest.mark.golden

SNAPSHOT = Path(__file__).parents[1] / "data" / "paper-digits"


def numbers(path: Path) -> list[float]:
    """All numbers of a table, row by row; names of columns and rows may change."""
    with open(path, newline="") as stream:
        cells = [cell for row in list(csv.reader(stream))[1:] for cell in row]
    return [float(cell) for cell in cells if cell.replace(".", "").replace("-", "").replace("e", "").isdigit()]


@pytest.mark.parametrize("settings", [OURS, AS_PUBLISHED], ids=lambda settings: settings.name.replace(" ", "-"))
def test_every_number_of_the_paper_stays(settings, tmp_path):
    old = sorted((SNAPSHOT / settings.name.replace(" ", "-")).glob("*.csv"))
    # "beyond" compares methods that are not the paper's
    tables = [path for path in old if not path.stem.startswith("beyond")]
    run = PaperRun.open("all", SetupOptions({"digits": ""}), settings=settings, output=tmp_path)
    experiments = [experiment for experiment in run.experiments if experiment.name not in ("beyond", "default")]
    PaperRun(run.context, experiments, tmp_path, formats=()).run()
    assert tables
    for path in tables:
        assert numbers(tmp_path / path.name) == pytest.approx(numbers(path), rel=1e-6, abs=1e-9), path.stem


@pytest.mark.parametrize("solver", ["curve", "nelder-mead"])
def test_the_levels_of_algorithm_1_stay(solver):
    expected = json.loads((SNAPSHOT / "levels.json").read_text())[solver]
    train, val, _ = split_digits(digits())
    collector = Collector(open_digits_network(train).model, val)
    perturbed = perturb(collector, get_shift("gaussian"), solver=solver)
    fitted = fit_on_levels(TemperatureScaling(), perturbed, val.labels).calibrator
    assert fitted.temperature_ == pytest.approx(expected["temperature"], rel=1e-9)
    for level, old in zip(perturbed.record["levels"], expected["levels"], strict=True):
        assert {name: level[name] for name in old} == pytest.approx(old, rel=1e-9)
