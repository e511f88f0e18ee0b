"""Time series from raw data through tune, evaluate, save, load and report; a series is never taken for an image silently."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import driftcal
from driftcal.data import open_source
from driftcal.errors import ImagesError, InputError, UnknownName

RNG = np.random.default_rng(0)
N, LENGTH, CHANNELS = 420, 24, 2
LABELS = np.arange(N) % 3
PHASE = RNG.uniform(0, 2 * np.pi, (N, 1))
TIME = np.linspace(0, 2 * np.pi, LENGTH)
WAVES = [np.sin((1 + LABELS[:, None]) * TIME + PHASE), np.cos((1 + LABELS[:, None]) * TIME + PHASE)]
SERIES = (5 * np.stack(WAVES, axis=2) + RNG.normal(0, 5, (N, LENGTH, CHANNELS))).astype(np.float32)
TRAIN, VAL, TEST = slice(0, 150), slice(150, 290), slice(290, N)


@pytest.fixture(scope="module")
def network():
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv1d(CHANNELS, 8, 7, padding=3), torch.nn.ReLU(), torch.nn.Conv1d(8, 8, 7, padding=3), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(), torch.nn.Linear(8, 3),
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), 0.02)
    x, y = torch.tensor(SERIES[TRAIN].transpose(0, 2, 1)), torch.tensor(LABELS[TRAIN])
    for _ in range(80):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net


def test_from_series_to_a_report(network, tmp_path):
    calibrated = driftcal.tune(network, SERIES[VAL], LABELS[VAL], method="window-ts", n_levels=4)
    assert calibrated.tuned_on == "series_noise"
    assert "interference" in calibrated.perturbation["simulated"]["families"]
    accuracies = [level["accuracy"] for level in calibrated.perturbation["levels"]]
    assert accuracies[0] > 0.6 > accuracies[-1]
    results = driftcal.evaluate(calibrated, SERIES[TEST], LABELS[TEST], n_resamples=0)
    assert {row.shift for row in results.rows} >= {"series_drift", "series_dropout", "series_scaling"}
    assert "window-ts" in {row.calibrator for row in results.rows}
    path = calibrated.save(tmp_path / "cal.safetensors")
    loaded = driftcal.CalibratedModel.load(path, network)
    np.testing.assert_array_equal(loaded.predict_proba(SERIES[:5]), calibrated.predict_proba(SERIES[:5]))
    page = driftcal.write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "series_stretch" in page
    with pytest.raises(InputError, match=r"Move the axis: x\.transpose\(0, 2, 1\)"):
        calibrated.predict_proba(SERIES[:5].transpose(0, 2, 1))
    with pytest.raises(InputError, match="with 2 channels"):
        driftcal.evaluate(calibrated, SERIES[TEST].transpose(0, 2, 1), LABELS[TEST])


def test_a_classifier_of_flat_vectors():
    flat = LogisticRegression(max_iter=200).fit(SERIES[TRAIN].reshape(150, -1), LABELS[TRAIN])
    calibrated = driftcal.tune(flat, SERIES[VAL], LABELS[VAL], method="ts", shift=None)
    expected = flat.decision_function(SERIES[TEST].reshape(len(LABELS[TEST]), -1))
    np.testing.assert_allclose(calibrated.logits(SERIES[TEST]), expected, atol=1e-4)


def test_what_may_be_both_is_asked_for():
    wide = RNG.random((20, 24, 12), np.float32)
    y = np.arange(20) % 2
    with pytest.raises(ImagesError, match=r"nothing is guessed\. Say which: layout='NHW'"):
        open_source((wide, y))
    assert open_source((wide, y), layout="NHW").input_shape == (24, 12, 1)
    assert open_source((wide, y), layout="NLC").input_shape == (24, 12)
    channels_first = open_source((wide, y), layout="NCL")
    assert (channels_first.input_shape, channels_first.kind) == ((12, 24), "series")
    np.testing.assert_array_equal(channels_first.inputs(), wide.transpose(0, 2, 1))
    with pytest.raises(UnknownName, match="layout"):
        open_source((wide, y), layout="NCLX")
    with pytest.raises(ImagesError, match="needs 4 axes"):
        open_source((wide, y), layout="NHWC")
    with pytest.raises(ImagesError, match="nothing is guessed"):  # channels first
        open_source((wide[:, :3], y))
    with pytest.raises(ImagesError, match="sample 3 holds infinity"):
        open_source((np.where(np.arange(20)[:, None, None] == 3, np.inf, wide), y), layout="NLC")


@pytest.mark.parametrize(
    ("shape", "kind"), [((8, 8), "images"), ((24, 6), "series"), ((24, 1), "series"), ((28, 28), "images")]
)
def test_what_can_only_be_one_is_recognised(shape, kind):
    assert open_source((RNG.random((9, *shape)), np.arange(9) % 2)).kind == kind
    assert open_source((np.zeros((9, 24, 12), np.uint8), np.arange(9) % 2)).kind == "images"  # pixels


def test_a_loader_of_series(network):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.tensor(SERIES[VAL].transpose(0, 2, 1)), torch.tensor(LABELS[VAL]))
    source = open_source(DataLoader(data, batch_size=32, shuffle=True), layout="NCL")
    np.testing.assert_array_equal(source.inputs(), SERIES[VAL])
    from_loader = driftcal.tune(network, source, method="ts", shift=None)
    from_arrays = driftcal.tune(network, SERIES[VAL], LABELS[VAL], method="ts", shift=None)
    assert from_loader.calibrator.temperature_ == from_arrays.calibrator.temperature_
    with pytest.raises(ImagesError, match="nothing is guessed"):
        open_source(DataLoader(data, batch_size=32))


def test_a_file_of_series(tmp_path):
    np.savez(tmp_path / "val.npz", x=RNG.random((20, 24, 12)), y=np.arange(20) % 2)
    assert open_source(f"{tmp_path / 'val.npz'}?layout=NLC").kind == "series"
