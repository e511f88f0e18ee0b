"""The comparison of all calibrators, with those that read layer features."""

import dataclasses

import numpy as np
import pytest
import torch

from driftcal.cache import LogitCache
from driftcal.calibrators import CALIBRATORS
from driftcal.data import from_arrays
from driftcal.errors import DataError
from driftcal.models import open_model, pooled_features
from driftcal.paper.available_features import AvailableFeatures
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_plan import plan_experiments
from driftcal.paper.experiments import EXPERIMENTS, all_calibrators
from driftcal.paper.networks import CIFAR10_MEAN, CIFAR10_STD, cifar_resnet
from driftcal.paper.networks.onnx_runner import open_module, stage_layers
from driftcal.paper.networks.registry import Network
from driftcal.paper.paper_settings import PaperSettings
from driftcal.paper.setups import Setup
from driftcal.shifts import get_suite

PREPROCESSING = {"mean": CIFAR10_MEAN, "std": CIFAR10_STD}


def test_features_of_stages_are_the_same_in_torch_and_onnx():
    torch.manual_seed(0)
    module = cifar_resnet.resnet20()
    module.eval()
    images = np.random.default_rng(0).random((3, 32, 32, 3), np.float32)
    features = []
    for model in (
        open_model(module, preprocessing=PREPROCESSING),
        open_module(module, (3, 32, 32), preprocessing=PREPROCESSING, name=""),
    ):
        layers = stage_layers(module, model, (3, 32, 32))
        sizes = [values.shape[2] for values in model.features(images, layers).values()]
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) == 3, "three stages of different sizes"
        features.append(np.hstack(list(pooled_features(model, images, layers).values())))
    np.testing.assert_allclose(*features, atol=1e-5)
    assert not module._forward_hooks
    assert not any(part._forward_hooks for part in module.modules())


@pytest.fixture
def setup():
    """A small convolutional network that recognises bright halves, one shift."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    x = 0.3 * rng.random((400, 8, 8, 3), np.float32)
    for k, half in enumerate((np.s_[:4], np.s_[4:], np.s_[2:6])):
        x[y == k, half] += 0.4
    body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    net = torch.nn.Sequential(body, torch.nn.Flatten(), torch.nn.Linear(128, 3))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(40):
        optimiser.zero_grad()
        inputs = torch.from_numpy(x[:200].transpose(0, 3, 1, 2).copy())
        torch.nn.functional.cross_entropy(net(inputs), torch.from_numpy(y[:200])).backward()
        optimiser.step()
    model = open_model(net.eval(), name="small")
    training, validation, test = (from_arrays(x[part], y[part]) for part in np.split(np.arange(400), [200, 300]))
    network = Network("small", model, layers=stage_layers(net, model, (3, 8, 8)))
    shifts = get_suite("affine").shifts[:1]
    return Setup(network, "cifar10", validation, test, "few", shifts, training=lambda: training)


def test_calibrators_that_read_features_are_compared_and_a_network_without_layers_is_named(
    setup, monkeypatch, tmp_path
):
    few = ("ts", "ets", "ts-ir", "ir", "irm", "pts", "hts", "dac", "dac-pts", "md-ts", "level-ts")
    monkeypatch.setattr(all_calibrators, "CALIBRATORS", {name: CALIBRATORS[name] for name in ("base", *few)})
    without_layers = dataclasses.replace(setup, network=Network("without layers", setup.model), training=None)
    settings = PaperSettings("few", n_levels=3, n_resamples=5)
    context = ExperimentContext([setup, without_layers], settings, LogitCache(tmp_path))
    experiment = EXPERIMENTS["beyond"]
    assert feature_passes(context, experiment) == [5, 10], (
        "twice three levels with one clean level; a shift of ten levels"
    )
    result = experiment.run(context)
    tables = {table.name: table.rows for table in result.tables}
    rows = {
        network: {row["calibrator"]: row for row in tables["beyond-networks"] if row["network"] == network}
        for network in (setup.label, without_layers.label)
    }
    with_features = {f"{name}-{suffix}" for name in ("DAC", "DAC-PTS", "MD-TS") for suffix in "PCV"}
    assert set(rows[setup.label]) - set(rows[without_layers.label]) == with_features
    in_means = {row["calibrator"]: row for row in tables["beyond"]}
    assert not with_features & set(in_means), "means are over all networks"
    assert {rows[setup.label][name]["needs"] for name in with_features} == {"features", "features, training images"}
    assert any(note.startswith(f"{without_layers.label} is without DAC, DAC-PTS, MD-TS") for note in result.notes)
    check_ratios(rows[setup.label])
    check_ratios(in_means)
    messages = []
    context.collector(setup, setup.test).on_progress = lambda message, count: messages.append(message)
    context.collector(setup, setup.test).features(setup.shifts[0], 1, setup.layers)
    assert not messages, "features are cached"
    assert feature_passes(context, experiment) == [0, 0]


def feature_passes(context, experiment):
    plan = plan_experiments(context, [experiment], measure_time=False)
    return [part.passes for part in plan.parts if part.data.endswith("features")]


def check_ratios(rows):
    """Every row is compared with TS and with the best -P of the paper; nothing is called a winner."""
    best = min(rows[f"{method}-P"]["under_shift"] for method in ("TS", "ETS", "TS-IR", "IR", "IRM"))
    for row in rows.values():
        assert row["ratio_to_ts"] == pytest.approx(row["under_shift"] / rows["TS"]["under_shift"])
        assert row["ratio_to_best_p"] == pytest.approx(row["under_shift"] / best)
        assert row["in_domain_ratio_to_ts"] == pytest.approx(row["in_domain"] / rows["TS"]["in_domain"])
        assert row["conditions"] > 0
        assert "verdict" not in row


def test_unreadable_training_images_exclude_only_calibrators_that_need_them(setup):
    def missing():
        raise DataError("data_batch_1 is missing.")

    context = ExperimentContext([setup])
    features = AvailableFeatures.of(context, dataclasses.replace(setup, training=missing))
    assert features.methods == ("md-ts",)
    assert set(features.unavailable) == {"dac", "dac-pts"}
    assert "data_batch_1 is missing" in features.unavailable["dac"]
