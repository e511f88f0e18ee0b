"""Laws of the calibrators that read layer features: those of all calibrators, and some about features."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import driftcal
from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.calibrators.samplewise.neighbours import kth_distances
from driftcal.errors import ArtefactError, InputError, NoFiniteOptimum, UnknownName
from driftcal.metrics.additive_statistics import Statistics
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.tuning.candidates import Variant
from driftcal.pipeline.tuning.select import choose

NAMES = sorted(name for name, kind in CALIBRATORS.items() if kind.needs_features)
PARAMS = {"dac": {"k": 5}, "dac-pts": {"k": 5}}


def problem(seed=0, n=400, n_classes=4):
    """A model that is mostly correct near its training data and at chance far from it; features of two layers."""
    rng = np.random.default_rng(seed)
    levels = np.arange(n) % 3
    centres = np.array([[5.0, 0, 0], [4, 3, 0], [0, 5, 0]])
    logits = 3 * rng.normal(size=(n, n_classes))
    y = np.where(rng.random(n) < 0.95 - 0.3 * levels, logits.argmax(axis=1), rng.integers(0, n_classes, n))
    layers = {"early": rng.normal(size=(n, 2)), "late": centres[levels] + rng.normal(size=(n, 3))}
    training = {"early": rng.normal(size=(150, 2)), "late": centres[0] + rng.normal(size=(150, 3))}
    return logits, y, layers, training, levels


def fit(name, logits, y, features, reference, levels, **options):
    extra = {"reference": reference} if CALIBRATORS[name].needs_reference else {}
    return make_calibrator(name, **PARAMS.get(name, {})).fit(
        logits, y, features=features, levels=levels, **extra, **options
    )


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    data = problem()
    return request.param, data, fit(request.param, *data)


def close(a, b, data, tolerance=1e-6):
    p, q = (cal.predict_proba(data[0], features=data[2]) for cal in (a, b))
    np.testing.assert_allclose(p, q, atol=tolerance)


def test_probabilities_are_valid_keep_the_predicted_class_and_beat_temperature_scaling(case):
    name, (logits, y, features, _, levels), cal = case
    hard = np.concatenate([logits, 1e4 * logits, np.where(logits > 0, logits, -np.inf)])
    hard[np.isneginf(hard).all(axis=1)] = 0
    p = cal.predict_proba(hard, features={layer: np.tile(part, (3, 1)) for layer, part in features.items()})
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-13)
    assert (p[np.isneginf(hard)] == 0).all()
    assert (p[np.arange(len(hard)), hard.argmax(axis=1)] == p.max(axis=1)).all()
    assert np.array_equal(cal.predict(hard), hard.argmax(axis=1))
    log_p = cal.predict_log_proba(logits, features=features)
    np.testing.assert_allclose(np.exp(log_p), p[: len(logits)], rtol=1e-12)
    np.testing.assert_allclose(cal.predict_proba(logits + 8, features=features), p[: len(logits)], atol=1e-13)
    means = [cal.temperatures(features, logits)[levels == k].mean() for k in range(3)]
    assert means[0] < means[1] < means[2], "further from the training data it is less confident"
    assert cal.fit_report_.after < cal.fit_report_.before
    ts = make_calibrator("ts").fit(logits, y).predict_proba(logits)
    truth = np.eye(4)[y]
    assert ((p[: len(logits)] - truth) ** 2).sum() < 0.98 * ((ts - truth) ** 2).sum(), name


def test_the_unit_of_features_and_the_order_of_samples_do_not_matter(case):
    name, data, cal = case
    logits, y, features, training, levels = data
    larger = {layer: 2.0**40 * part for layer, part in features.items()}
    close(cal, fit(name, logits, y, larger, training, levels), data, 1e-12)
    order = np.random.default_rng(1).permutation(len(y))
    shuffled = {layer: part[order] for layer, part in features.items()}
    close(cal, fit(name, logits[order], y[order], shuffled, training, levels[order]), data)
    listed, flat = list(features.values()), list(training.values())
    close(cal, fit(name, logits, y, listed, flat, levels), data, 0)


def test_whole_weights_are_repeated_samples_and_weight_0_is_a_dropped_sample(case):
    name, data, _ = case
    logits, y, features, training, levels = data
    weights = np.random.default_rng(2).integers(0, 3, len(y))
    weights[:3] = 1
    copied = np.repeat(np.arange(len(y)), weights)
    weighted = fit(name, logits, y, features, training, levels, sample_weight=weights)
    parts = {layer: part[copied] for layer, part in features.items()}
    close(weighted, fit(name, logits[copied], y[copied], parts, training, levels[copied]), data)


def test_files_and_clones(case, tmp_path):
    _, data, cal = case
    again = driftcal.load(cal.save(tmp_path / "cal.safetensors"))
    assert type(again) is type(cal)
    assert np.array_equal(cal.predict_proba(data[0], features=data[2]), again.predict_proba(data[0], features=data[2]))
    assert cal.save(tmp_path / "b.safetensors").read_bytes() == (tmp_path / "cal.safetensors").read_bytes()
    assert not hasattr(clone(cal), "classes_")
    assert clone(cal).get_params() == cal.get_params()


def test_inputs_that_do_not_belong_together_are_refused(case):
    name, (logits, y, features, training, levels), cal = case
    kind = type(cal).__name__
    with pytest.raises(InputError, match=f"{kind} needs the layer features of the tuning samples"):
        make_calibrator(name).fit(logits, y)
    with pytest.raises(InputError, match=f"{kind} needs the layer features of the same samples.*pooled_features"):
        cal.predict_proba(logits)
    with pytest.raises(InputError, match="one row per sample; they have 400, the logits 10"):
        cal.predict_proba(logits[:10], features=features)
    with pytest.raises(InputError, match=r"widths \(2, 3\); their widths are \(3, 2\)"):
        cal.predict_proba(logits, features=list(features.values())[::-1])
    for bad, message in (
        (np.zeros((400, 2, 2)), "Pool maps"),
        (np.full((400, 2), np.nan), "must be finite"),
        ([np.ones((400, 2)), np.ones((399, 2))], "as many rows"),
        ({}, "at least one layer"),
        (np.ones((399, 2)), "one row per sample"),
        (np.full((400, 2), "a"), "numbers"),
    ):
        with pytest.raises(InputError, match=message):
            fit(name, logits, y, bad, bad, levels)
    before = dict(cal.__dict__)
    with pytest.raises(NoFiniteOptimum):
        fit(name, logits, logits.argmin(axis=1), features, training, levels)
    assert cal.__dict__ == before


def test_features_are_refused_where_they_are_not_read():
    logits, y, features, training, _ = problem()
    with pytest.raises(InputError, match="reads logits only"):
        make_calibrator("ts").fit(logits, y, features=features)
    with pytest.raises(InputError, match="reference was given"):
        make_calibrator("md-ts").fit(logits, y, features=features, reference=training)
    with pytest.raises(InputError, match="needs the layer features of training samples"):
        make_calibrator("dac").fit(logits, y, features=features)
    with pytest.raises(InputError, match="at most the 150 samples of reference; it is 151"):
        make_calibrator("dac", k=151).fit(logits, y, features=features, reference=training)
    with pytest.raises(InputError, match=r"widths \(2, 3\); its widths are \(2,\)"):
        make_calibrator("dac").fit(logits, y, features=features, reference=training["early"])


def test_dac_is_the_weighted_sum_of_distances_and_no_other_is_better():
    logits, y, features, training, _ = problem()
    dac = make_calibrator("dac", k=5).fit(logits, y, features=features, reference=training)
    distances = []
    for layer, part in features.items():
        a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (part, training[layer]))
        distances.append(np.sort(np.linalg.norm(a[:, None] - b, axis=2), axis=1)[:, 4])
    inputs = np.column_stack([np.ones(len(y)), *distances]) / np.append(1, np.mean(distances, axis=1))

    def error(weights):
        z = logits / (dac.temperature_ * (1e-3 + inputs @ weights))[:, None]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return ((p / p.sum(axis=1, keepdims=True) - np.eye(4)[y]) ** 2).sum(axis=1).mean()

    best = error(dac.layer_weights_)
    assert best == pytest.approx(dac.fit_report_.after, rel=1e-6)
    for k in range(3):
        for step in (-1e-3, 1e-3):
            assert error(np.maximum(dac.layer_weights_ + step * np.eye(3)[k], 0)) >= best - 1e-12
    assert dac.layer_weights_[2] > dac.layer_weights_[1], "the late layer is the informative one"


def test_distances_in_chunks_and_to_equal_samples(monkeypatch):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 4))
    features = (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32)
    expected = np.sort(np.linalg.norm(features[:, None].astype(float) - features, axis=2), axis=1)
    monkeypatch.setattr("driftcal.calibrators.samplewise.neighbours.MAX_PAIRS", 120)
    for k in (1, 3, 50):
        np.testing.assert_allclose(kth_distances(features, features, k), expected[:, k - 1], atol=1e-12)


def test_samples_whose_features_are_all_0_have_distances_too():
    """Their product with every sample is 0, so the products alone do not give the nearest one."""
    features = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    reference = np.array([[0, 1], [0, 0], [0, 1], [0, 0], [0, 1]], np.float32)
    for k, expected in ((1, [0, 1, 0]), (2, [0, 1, 0]), (3, [1, 2**0.5, 0]), (5, [1, 2**0.5, 1])):
        np.testing.assert_allclose(kth_distances(features, reference, k), expected)


def test_a_large_reference_is_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr("driftcal.calibrators.samplewise.neighbours.MAX_NUMBERS", 100)
    with pytest.raises(InputError, match="Take a random part"):
        fit("dac", *problem())


def test_md_ts_is_ridge_regression_of_the_levels_temperatures():
    from sklearn.linear_model import Ridge

    logits, y, features, _, levels = problem()
    md = make_calibrator("md-ts", ridge=0.5).fit(logits, y, features=features, levels=levels)
    temperatures = [make_calibrator("ts").fit(logits[levels == k], y[levels == k]).temperature_ for k in range(3)]
    unit = np.hstack([part / np.linalg.norm(part, axis=1, keepdims=True) for part in features.values()])
    ridge = Ridge(alpha=0.5).fit(unit, np.log(temperatures)[levels])
    np.testing.assert_allclose(md.coefficients_, ridge.coef_, atol=1e-6)
    expected = np.clip(np.exp(ridge.predict(unit)), min(temperatures), max(temperatures))
    np.testing.assert_allclose(md.temperatures(features), expected, rtol=1e-6)


def test_md_ts_leaves_out_levels_at_chance_with_a_warning():
    logits, y, features, _, levels = problem()
    y = np.where(levels == 2, logits.argmin(axis=1), y)
    md = make_calibrator("md-ts").fit(logits, y, features=features, levels=levels)
    assert md.fit_report_.warnings == ("levels without a best temperature were left out: 2",)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("dac", "layer_weights_", np.array([1.0, -1.0, 1.0])),
        ("dac", "layer_weights_", np.ones(2)),
        ("dac", "reference_", np.ones((150, 4), np.float32)),
        ("dac", "reference_", np.ones((150, 5))),
        ("dac", "reference_", np.ones((4, 5), np.float32)),
        ("dac-pts", "network_", np.ones(7)),
        ("dac-pts", "input_mean_", np.ones(4)),
        ("dac-pts", "reference_", np.ones((4, 5), np.float32)),
        ("md-ts", "coefficients_", np.ones(4)),
        ("md-ts", "range_", np.ones(3)),
    ],
)
def test_forged_arrays_are_refused(name, attribute, value, tmp_path):
    cal = fit(name, *problem())
    setattr(cal, attribute, value)
    with pytest.raises(ArtefactError, match="does not fit this version"):
        driftcal.load(cal.save(tmp_path / "x.safetensors"))


def test_torch_modules_take_features_too(case):
    torch = pytest.importorskip("torch")
    from driftcal.export import to_torch

    _, (logits, _, features, _, _), cal = case
    z, side_by_side = torch.from_numpy(logits), torch.from_numpy(np.hstack(list(features.values())))
    module, expected = to_torch(cal), cal.predict_proba(logits, features=features)
    hard = z * 1e3
    hard[:, 0] = -torch.inf
    assert np.abs(module(z, side_by_side).numpy() - expected).max() < 1e-9
    assert np.abs(module(hard, side_by_side).numpy() - cal.predict_proba(hard.numpy(), features=features)).max() < 1e-9
    assert torch.equal(module.predict(z, side_by_side), z.argmax(-1))
    exported = torch.export.export(module, (z[:5], side_by_side[:5]), dynamic_shapes=({0: torch.export.Dim("n")},) * 2)
    assert np.abs(exported.module()(z, side_by_side).numpy() - expected).max() < 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(module)
    assert np.abs(scripted(z, side_by_side).numpy() - expected).max() < 1e-9
    with pytest.raises(ValueError, match="features 5"):
        module(z, side_by_side[:, :4])


@pytest.fixture(scope="module")
def net():
    """A small convolutional net that distinguishes bright and dark halves, and images of them."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 700)
    x = 0.3 * rng.random((700, 8, 8, 3), np.float32)
    for k, half in enumerate((np.s_[:4], np.s_[4:], np.s_[2:6])):
        x[y == k, half] += 0.4
    body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU())
    model = torch.nn.Sequential(body, torch.nn.Flatten(), torch.nn.Linear(72, 3))
    steps = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        steps.zero_grad()
        inputs = torch.from_numpy(x[:400].transpose(0, 3, 1, 2).copy())
        torch.nn.functional.cross_entropy(model(inputs), torch.from_numpy(y[:400])).backward()
        steps.step()
    y[400::10] = (y[400::10] + 1) % 3  # a model without errors has no best temperature
    return model.eval(), x, y


def test_features_are_pooled_and_of_length_1(net):
    model, x, _ = net
    opened = driftcal.open_model(model)
    features = driftcal.pooled_features(opened, x[:300], ["0", "2"])
    assert {layer: part.shape for layer, part in features.items()} == {"0": (300, 8), "2": (300, 3)}
    for part in features.values():
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, atol=1e-6)
    maps = opened.features(x[:300], ["0"])["0"].mean(axis=(2, 3))
    np.testing.assert_allclose(features["0"], maps / np.linalg.norm(maps, axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(InputError, match=r"list of names out of model\.layers"):
        driftcal.pooled_features(opened, x[:3], "0")
    with pytest.raises(UnknownName):
        driftcal.pooled_features(opened, x[:3], ["9"])


@pytest.mark.parametrize("name", NAMES)
def test_tuned_saved_and_evaluated_with_the_model(name, net, tmp_path):
    model, x, y = net
    features = driftcal.LayerFeatures(["0", "2"], x[:400] if CALIBRATORS[name].needs_reference else None)
    tuned = driftcal.tune(model, x[400:550], y[400:550], method=name, n_levels=3, features=features)
    assert tuned.method == name
    assert tuned.layers == ("0", "2")
    p = tuned.predict_proba(x[550:])
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    again = driftcal.CalibratedModel.load(tuned.save(tmp_path / "cal.safetensors"), model)
    np.testing.assert_array_equal(again.predict_proba(x[550:]), p)
    results = driftcal.evaluate(tuned, x[550:], y[550:], n_resamples=0)
    clean = [row for row in results.rows if row.calibrator == f"{name}-p" and row.level == 0]
    assert clean[0].confidence == pytest.approx(p.max(axis=1).mean(), abs=1e-6)
    candidates = driftcal.compare_methods(tuned, x[400:550], y[400:550], methods=["ts"])
    assert [candidate.name for candidate in candidates] == ["base", "ts", "ts-p", name, f"{name}-p"]
    with pytest.raises(
        InputError, match=r"reads layer features; features is None\. Pass features=driftcal\.LayerFeatures"
    ):
        driftcal.tune(model, x[400:550], y[400:550], method=name)
    with pytest.raises(
        InputError, match="methods that read them, dac, dac-pts, md-ts; the method is TemperatureScaling"
    ):
        driftcal.tune(model, x[400:550], y[400:550], method="ts", features=features)


def test_a_selection_tries_them_too_and_keeps_layers_only_for_a_winner_that_reads_them(net):
    model, x, y = net
    selection = driftcal.Selection(candidates=["ts", "dac", "md-ts"])

    def tune(reference):
        features = driftcal.LayerFeatures(["0", "2"], reference)
        tuned = driftcal.tune(model, x[400:550], y[400:550], method=selection, n_levels=3, features=features)
        assert tuned.layers == (("0", "2") if tuned.calibrator.needs_features else ())
        return tuned

    with_reference = tune(x[:400])
    assert with_reference.method in selection.candidates
    assert "left out" not in with_reference.explanation
    without = tune(None)
    assert without.method in ("ts", "md-ts")
    assert "DAC, DAC-PTS were left out" in without.explanation
    assert "and there is no reference" in without.explanation
    assert "and the reference has 20" in tune(x[:20]).explanation
    with pytest.raises(InputError, match=r"layers must be a list of layer names; it is \(\)"):
        driftcal.LayerFeatures((), x[:400])


def test_a_selection_holds_out_the_features_of_the_samples_it_holds_out():
    """Features that show which samples are correct win. Shuffled within a level, they only show how many are."""
    rng = np.random.default_rng(0)
    n, logits = 300, 3 * rng.normal(size=(3, 300, 4))
    y, near = logits[0].argmax(axis=1), [np.arange(n) % 3 > level for level in range(3)]
    y[:15] = (y[:15] + 1) % 4  # errors on clean samples too, so that TS has a finite optimum
    for z, is_near in zip(logits, near, strict=True):
        z[:] = np.where(is_near[:, None], logits[0], z)
    by_level = [{"a": np.where(is_near[:, None], [5.0, 0], [0, 5.0]) + rng.normal(size=(n, 2))} for is_near in near]
    shuffled = [{"a": rng.permutation(level["a"])} for level in by_level]
    training = {"a": np.array([5.0, 0]) + rng.normal(size=(100, 2))}
    perturbed = PerturbedLogits({"shift": "gaussian", "notes": []}, list(logits))
    selection = driftcal.Selection(candidates=("ts", "dac"), tolerance=1.0)
    informative, useless = (
        choose(selection, perturbed, y, features=CollectedFeatures(features, training))
        for features in (by_level, shuffled)
    )
    assert informative.per_sample.method == "dac"
    assert "DAC" in informative.explanation
    briers = [
        {
            trial.variant: np.mean([Statistics.of_samples(scores, n_bins=15).brier for scores in trial.by_level])
            for trial in choice.trials
        }
        for choice in (informative, useless)
    ]
    assert briers[0][Variant("ts")] == briers[1][Variant("ts")]
    assert briers[0][Variant("dac", None)] < 0.95 * briers[1][Variant("dac", None)]
