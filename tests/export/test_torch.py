"""A torch module gives the calibrator's probabilities: exported, scripted, on other devices, in half-precision nets."""

import warnings

import numpy as np
import pytest
from export_cases import NAMES, fitted, probes

from driftcal.calibrators.export_maps.lookup import Search
from driftcal.errors import InputError, NotFittedError
from driftcal.export import to_torch

torch = pytest.importorskip("torch")


def check_parity(calibrator, logits):
    p = to_torch(calibrator)(torch.from_numpy(logits))
    assert p.dtype == torch.float64
    assert np.abs(p.numpy() - calibrator.predict_proba(logits)).max() < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_logarithms_and_labels_are_the_calibrators(name):
    calibrator, logits = fitted(name, 10), probes(10, 500, 500)
    module = to_torch(calibrator)
    log_p, expected = module.log_proba(torch.from_numpy(logits)).numpy(), calibrator.predict_log_proba(logits)
    finite = expected > -700  # below, probabilities are denormal and their logarithms coarse
    np.testing.assert_allclose(log_p[finite], expected[finite], rtol=1e-9, atol=1e-9)
    assert not np.isnan(log_p).any()
    assert np.isneginf(log_p[np.isneginf(logits)]).all()
    np.testing.assert_array_equal(module.predict(torch.from_numpy(logits)).numpy(), calibrator.predict(logits))


@pytest.mark.parametrize("params", [{"n_bins": 1}, {"n_bins": 2}, {"n_bins": 100}, {"strategy": "width"}])
def test_any_number_of_bins(params):
    calibrator, logits = fitted("hb", 10, **params), probes(10, 500, 500)
    check_parity(calibrator, logits)


def test_raw_marginals_are_not_normalised():
    calibrator, logits = fitted("pbmc", 10, normalise=False), probes(10, 500, 500)
    check_parity(calibrator, logits)


@pytest.mark.parametrize("name", ["hb", "pbmc"])
def test_tuning_samples_on_the_edge_of_a_bin_stay_in_it(name):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(1_000, 4)).astype(np.float32)
    calibrator = fitted(name, 4).__class__(n_bins=500).fit(logits, rng.integers(4, size=1_000))
    check_parity(calibrator, logits)


@pytest.mark.parametrize("name", NAMES)
def test_export_and_script_give_the_same_probabilities(name):
    calibrator, logits = fitted(name, 10), probes(10, 100, 100)
    module, batch = to_torch(calibrator), torch.from_numpy(logits)
    expected = calibrator.predict_proba(logits)
    exported = torch.export.export(module, (batch[:5],), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert np.abs(exported.module()(batch).numpy() - expected).max() < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(module)
    assert np.abs(scripted(batch).numpy() - expected).max() < 1e-12
    assert np.array_equal(scripted.predict(batch).numpy(), calibrator.predict(logits))
    assert torch.equal(scripted.log_proba(batch), module.log_proba(batch))


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"hb", "pbmc"}))
def test_gradients_are_those_of_the_map(name):
    logits = torch.tensor([[0.3, -0.2, 1.1, 0.0, 0.5]], dtype=torch.float64, requires_grad=True)
    module = to_torch(fitted(name, 5))
    assert torch.autograd.gradcheck(lambda z: module(z)[:, :3], (logits,), atol=1e-5)
    masked = torch.tensor([[0.3, -torch.inf, 1.1, 0.0, 0.5]], dtype=torch.float64, requires_grad=True)
    module(masked)[0, 0].backward()
    assert torch.isfinite(masked.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_buffers_that_move_but_stay_float64(name):
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), to_torch(fitted(name, 5)))
    assert len(list(net[1].parameters())) == 0
    before = {key: value.clone() for key, value in net[1].state_dict().items()}
    net.half()
    after = net[1].state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert net[0].weight.dtype == torch.float16
    assert all(value.is_meta for value in net.to("meta")[1].state_dict().values())


def test_any_leading_axes_and_float_types():
    calibrator, logits = fitted("irm", 10), probes(10, 100, 20).astype(np.float16)
    p = to_torch(calibrator)(torch.from_numpy(logits).reshape(3, 8, 5, 10))
    assert p.shape == (3, 8, 5, 10)
    assert np.abs(p.numpy().reshape(-1, 10) - calibrator.predict_proba(logits)).max() < 1e-12


def test_bad_calls_are_refused():
    with pytest.raises(NotFittedError, match="fitted"):
        to_torch(fitted("ts", 5).__class__())
    with pytest.raises(InputError, match="calibrator"):
        to_torch("ts")
    with pytest.raises(ValueError, match="5 columns"):
        to_torch(fitted("ts", 5))(torch.zeros(2, 4))


def test_search_counts_what_lies_below():
    rng = np.random.default_rng(0)
    for lengths in ([1], [2], [7], [8], [9], [1, 2, 3, 4, 5, 30], [64, 1], rng.integers(1, 40, size=20)):
        starts = np.concatenate([[0], np.cumsum(lengths)])
        numbers = np.concatenate([np.sort(rng.integers(0, 20, size=n) / 20) for n in lengths])
        scores = np.concatenate([rng.random((50, len(lengths))), rng.integers(0, 21, size=(50, len(lengths))) / 20])
        expected = [
            starts[c] + c + np.searchsorted(numbers[starts[c] : starts[c + 1]], scores[:, c])
            for c in range(len(lengths))
        ]
        np.testing.assert_array_equal(Search.among(numbers, starts).locate(scores), np.stack(expected, axis=1))
