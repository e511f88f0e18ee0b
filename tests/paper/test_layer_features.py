"""Calibrators that look inside networks, in the experiment that goes beyond the paper."""

import dataclasses

import numpy as np
import pytest
import torch

from driftcal.cache import LogitCache
from driftcal.calibrators import CALIBRATORS
from driftcal.data import from_arrays
from driftcal.errors import DataError
from driftcal.models import open_model, pooled_features
from driftcal.paper.cases import Case
from driftcal.paper.experiments import EXPERIMENTS, beyond
from driftcal.paper.experiments.beyond import beyond_paper
from driftcal.paper.layer_features import Inside
from driftcal.paper.networks import CIFAR10_MEAN, CIFAR10_STD, cifar_resnet
from driftcal.paper.networks.onnx_runner import open_module, stage_layers
from driftcal.paper.plan import plan
from driftcal.paper.settings import Settings
from driftcal.paper.workbench import Workbench
from driftcal.shifts import get_suite

STEPS = {"mean": CIFAR10_MEAN, "std": CIFAR10_STD}


def test_stages_are_found_and_mean_the_same_in_torch_and_onnx():
    torch.manual_seed(0)
    module = cifar_resnet.resnet20()
    module.eval()
    images = np.random.default_rng(0).random((3, 32, 32, 3), np.float32)
    found = []
    for model in (
        open_model(module, preprocessing=STEPS),
        open_module(module, (3, 32, 32), preprocessing=STEPS, name=""),
    ):
        layers = stage_layers(module, model, (3, 32, 32))
        sizes = [values.shape[2] for values in model.features(images, layers).values()]
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) == 3, "three stages, each of its own size"
        found.append(np.hstack(list(pooled_features(model, images, layers).values())))
    np.testing.assert_allclose(*found, atol=1e-5)
    assert not module._forward_hooks
    assert not any(part._forward_hooks for part in module.modules())


@pytest.fixture
def case():
    """A small convolutional net that tells bright from dark halves, two shifts."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    x = 0.3 * rng.random((400, 8, 8, 3), np.float32)
    for k, half in enumerate((np.s_[:4], np.s_[4:], np.s_[2:6])):
        x[y == k, half] += 0.4
    body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    net = torch.nn.Sequential(body, torch.nn.Flatten(), torch.nn.Linear(128, 3))
    steps = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(40):
        steps.zero_grad()
        inputs = torch.from_numpy(x[:200].transpose(0, 3, 1, 2).copy())
        torch.nn.functional.cross_entropy(net(inputs), torch.from_numpy(y[:200])).backward()
        steps.step()
    model = open_model(net.eval(), name="small")
    training, validation, test = (from_arrays(x[part], y[part]) for part in np.split(np.arange(400), [200, 300]))
    return Case(
        "small", "cifar10", model, validation, test, "few", get_suite("affine").shifts[:1],
        layers=stage_layers(net, model, (3, 8, 8)), training=lambda: training,
    )  # fmt: skip


def test_beyond_has_those_that_look_inside_and_says_who_cannot_be_looked_into(case, monkeypatch, tmp_path):
    few = ("ts", "ets", "ts-ir", "ir", "irm", "pts", "hts", "dac", "dac-pts", "md-ts", "ladder-ts")
    monkeypatch.setattr(beyond, "CALIBRATORS", {name: CALIBRATORS[name] for name in ("base", *few)})
    blind = dataclasses.replace(case, network="blind", layers=(), training=None)
    bench = Workbench([case, blind], Settings("few", levels=3), LogitCache(tmp_path), draws=5)
    planned = plan(bench, [EXPERIMENTS["beyond"]], clock=False)
    features = [part for part in planned.parts if part.data.endswith("features")]
    assert [part.passes for part in features] == [5, 10], (
        "two ladders of three that share the clean rung; a shift of ten levels"
    )
    outcome = beyond_paper(bench)
    tables = {table.name: table.rows for table in outcome.tables}
    rows = {
        network: [r for r in tables["beyond-networks"] if r["network"] == network]
        for network in (case.label, blind.label)
    }
    names = {network: {row["calibrator"] for row in found} for network, found in rows.items()}
    inside = {f"{name}-{tuning}" for name in ("DAC", "DAC-PTS", "MD-TS") for tuning in "PCV"}
    assert names[case.label] - names[blind.label] == inside
    assert not inside & {row["calibrator"] for row in tables["beyond"]}, "no mean of some networks beside means of all"
    assert {row["needs"] for row in rows[case.label] if row["calibrator"] in inside} == {
        "features",
        "features, training images",
    }
    assert any(note.startswith(f"{blind.label} is without DAC, DAC-PTS, MD-TS") for note in outcome.notes)
    seen = []
    bench.collector(case, case.test).on_progress = lambda what, count: seen.append(what)
    bench.collector(case, case.test).features(case.shifts[0], 1, case.layers)
    assert not seen, "features are in the store"
    left = plan(bench, [EXPERIMENTS["beyond"]], clock=False)
    assert [part.passes for part in left.parts if part.data.endswith("features")] == [0, 0]


def test_training_images_that_cannot_be_read_cost_only_those_who_need_them(case):
    def missing():
        raise DataError("data_batch_1 is missing.")

    bench = Workbench([case])
    found = Inside.of(bench, dataclasses.replace(case, training=missing))
    assert found.methods == ("md-ts",)
    assert set(found.others) == {"dac", "dac-pts"}
    assert "data_batch_1 is missing" in found.others["dac"]
