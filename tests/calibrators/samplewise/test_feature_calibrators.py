"""Laws of the calibrators that look at a model's features: the same as of all others, and what features add."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import driftcal
from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.calibrators.samplewise.dac import kth_distances
from driftcal.errors import ArtefactError, InputError, NoFiniteOptimum, UnknownName
from driftcal.pipeline.layer_features import CollectedFeatures
from driftcal.pipeline.select import choose

NAMES = sorted(name for name, kind in CALIBRATORS.items() if kind.needs_features)
PARAMS = {"dac": {"k": 5}, "dac-pts": {"k": 5}}


def problem(seed=0, n=400, n_classes=4):
    """A model that is right near its training data and guesses far from it; features of two layers."""
    rng = np.random.default_rng(seed)
    levels = np.arange(n) % 3
    centres = np.array([[5.0, 0, 0], [4, 3, 0], [0, 5, 0]])
    logits = 3 * rng.normal(size=(n, n_classes))
    y = np.where(rng.random(n) < 0.95 - 0.3 * levels, logits.argmax(axis=1), rng.integers(0, n_classes, n))
    layers = {"early": rng.normal(size=(n, 2)), "late": centres[levels] + rng.normal(size=(n, 3))}
    training = {"early": rng.normal(size=(150, 2)), "late": centres[0] + rng.normal(size=(150, 3))}
    return logits, y, layers, training, levels


def fit(name, logits, y, features, reference, levels, **options):
    beside = {"reference": reference} if CALIBRATORS[name].needs_reference else {}
    return make_calibrator(name, **PARAMS.get(name, {})).fit(
        logits, y, features=features, levels=levels, **beside, **options
    )


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    data = problem()
    return request.param, data, fit(request.param, *data)


def close(a, b, data, tolerance=1e-6):
    np.testing.assert_allclose(a.predict_proba(data[0], data[2]), b.predict_proba(data[0], data[2]), atol=tolerance)


def test_probabilities_that_keep_the_answer_and_are_worth_it(case):
    name, (logits, y, features, _, levels), cal = case
    hard = np.concatenate([logits, 1e4 * logits, np.where(logits > 0, logits, -np.inf)])
    hard[np.isneginf(hard).all(axis=1)] = 0
    p = cal.predict_proba(hard, {layer: np.tile(part, (3, 1)) for layer, part in features.items()})
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-13)
    assert (p[np.isneginf(hard)] == 0).all()
    assert (p[np.arange(len(hard)), hard.argmax(axis=1)] == p.max(axis=1)).all()
    assert np.array_equal(cal.predict(hard), hard.argmax(axis=1))
    log_p = cal.predict_log_proba(logits, features)
    np.testing.assert_allclose(np.exp(log_p), p[: len(logits)], rtol=1e-12)
    np.testing.assert_allclose(cal.predict_proba(logits + 8, features), p[: len(logits)], atol=1e-13)
    means = [cal.temperatures(features, logits)[levels == k].mean() for k in range(3)]
    assert means[0] < means[1] < means[2], "further from the training data it is less sure"
    assert cal.fit_report_.after < cal.fit_report_.before
    ts = make_calibrator("ts").fit(logits, y).predict_proba(logits)
    truth = np.eye(4)[y]
    assert ((p[: len(logits)] - truth) ** 2).sum() < 0.98 * ((ts - truth) ** 2).sum(), name


def test_the_unit_of_features_and_the_order_of_rows_do_not_matter(case):
    name, data, cal = case
    logits, y, features, training, levels = data
    larger = {layer: 2.0**40 * part for layer, part in features.items()}
    close(cal, fit(name, logits, y, larger, training, levels), data, 1e-12)
    turn = np.random.default_rng(1).permutation(len(y))
    mixed = {layer: part[turn] for layer, part in features.items()}
    close(cal, fit(name, logits[turn], y[turn], mixed, training, levels[turn]), data)
    listed, flat = list(features.values()), list(training.values())
    close(cal, fit(name, logits, y, listed, flat, levels), data, 0)


def test_weights_are_copies_and_rows_without_weight_are_not_there(case):
    name, data, _ = case
    logits, y, features, training, levels = data
    weights = np.random.default_rng(2).integers(0, 3, len(y))
    weights[:3] = 1
    copied = np.repeat(np.arange(len(y)), weights)
    weighted = fit(name, logits, y, features, training, levels, sample_weight=weights)
    parts = {layer: part[copied] for layer, part in features.items()}
    close(weighted, fit(name, logits[copied], y[copied], parts, training, levels[copied]), data)


def test_saved_loaded_cloned_and_refitted(case, tmp_path):
    _, data, cal = case
    again = driftcal.load(cal.save(tmp_path / "cal.safetensors"))
    assert type(again) is type(cal)
    assert np.array_equal(cal.predict_proba(data[0], data[2]), again.predict_proba(data[0], data[2]))
    assert cal.save(tmp_path / "b.safetensors").read_bytes() == (tmp_path / "cal.safetensors").read_bytes()
    assert not hasattr(clone(cal), "classes_")
    assert clone(cal).get_params() == cal.get_params()


def test_what_does_not_belong_together_is_refused(case):
    name, (logits, y, features, training, levels), cal = case
    kind = type(cal).__name__
    with pytest.raises(InputError, match=f"{kind} needs the model's features of the tuning rows"):
        make_calibrator(name).fit(logits, y)
    with pytest.raises(InputError, match=f"{kind} needs the model's features of the same rows.*pooled_features"):
        cal.predict_proba(logits)
    with pytest.raises(InputError, match="one row per row of logits; they have 400, logits 10"):
        cal.predict_proba(logits[:10], features)
    with pytest.raises(InputError, match=r"widths \(2, 3\); their widths are \(3, 2\)"):
        cal.predict_proba(logits, list(features.values())[::-1])
    for bad, words in (
        (np.zeros((400, 2, 2)), "Pool maps"),
        (np.full((400, 2), np.nan), "must be finite"),
        ([np.ones((400, 2)), np.ones((399, 2))], "as many rows"),
        ({}, "at least one layer"),
        (np.ones((399, 2)), "one row per row of logits"),
        (np.full((400, 2), "a"), "numbers"),
    ):
        with pytest.raises(InputError, match=words):
            fit(name, logits, y, bad, bad, levels)
    before = dict(cal.__dict__)
    with pytest.raises(NoFiniteOptimum):
        fit(name, logits, logits.argmin(axis=1), features, training, levels)
    assert cal.__dict__ == before


def test_the_others_refuse_features():
    logits, y, features, training, _ = problem()
    with pytest.raises(InputError, match="looks at logits only"):
        make_calibrator("ts").fit(logits, y, features=features)
    with pytest.raises(InputError, match="reference was given"):
        make_calibrator("md-ts").fit(logits, y, features=features, reference=training)
    with pytest.raises(InputError, match="needs the features of training rows"):
        make_calibrator("dac").fit(logits, y, features=features)
    with pytest.raises(InputError, match=r"from 1 to the 150 rows of reference; it is 151"):
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
    assert dac.layer_weights_[2] > dac.layer_weights_[1], "the late layer knows"


def test_distances_in_chunks_and_to_rows_that_are_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 4))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    wanted = np.sort(np.linalg.norm(rows[:, None].astype(float) - rows, axis=2), axis=1)
    monkeypatch.setattr("driftcal.calibrators.samplewise.dac.CHUNK", 120)
    for k in (1, 3, 50):
        np.testing.assert_allclose(kth_distances(rows, rows, k), wanted[:, k - 1], atol=1e-12)


def test_rows_without_any_feature_have_distances_too():
    """Their product with every row is 0, so that alone would not tell which one is near."""
    rows = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    reference = np.array([[0, 1], [0, 0], [0, 1], [0, 0], [0, 1]], np.float32)
    for k, wanted in ((1, [0, 1, 0]), (2, [0, 1, 0]), (3, [1, 2**0.5, 0]), (5, [1, 2**0.5, 1])):
        np.testing.assert_allclose(kth_distances(rows, reference, k), wanted)


def test_a_large_reference_is_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr("driftcal.calibrators.samplewise.dac.MOST_NUMBERS", 100)
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
    wanted = np.clip(np.exp(ridge.predict(unit)), min(temperatures), max(temperatures))
    np.testing.assert_allclose(md.temperatures(features), wanted, rtol=1e-6)


def test_md_ts_leaves_out_levels_at_chance_and_says_so():
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
def test_forged_numbers_are_refused(name, attribute, value, tmp_path):
    cal = fit(name, *problem())
    setattr(cal, attribute, value)
    with pytest.raises(ArtefactError, match="does not fit this version"):
        driftcal.load(cal.save(tmp_path / "x.safetensors"))


def test_torch_modules_take_features_too(case):
    torch = pytest.importorskip("torch")
    from driftcal.export import to_torch

    _, (logits, _, features, _, _), cal = case
    z, beside = torch.from_numpy(logits), torch.from_numpy(np.hstack(list(features.values())))
    module, wanted = to_torch(cal), cal.predict_proba(logits, features)
    hard = z * 1e3
    hard[:, 0] = -torch.inf
    assert np.abs(module(z, beside).numpy() - wanted).max() < 1e-9
    assert np.abs(module(hard, beside).numpy() - cal.predict_proba(hard.numpy(), features)).max() < 1e-9
    assert torch.equal(module.predict(z, beside), z.argmax(-1))
    exported = torch.export.export(module, (z[:5], beside[:5]), dynamic_shapes=({0: torch.export.Dim("n")},) * 2)
    assert np.abs(exported.module()(z, beside).numpy() - wanted).max() < 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(module)
    assert np.abs(scripted(z, beside).numpy() - wanted).max() < 1e-9
    with pytest.raises(ValueError, match="features 5"):
        module(z, beside[:, :4])


@pytest.fixture(scope="module")
def net():
    """A small convolutional net that can tell bright from dark halves, and images of them."""
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
    return model.eval(), x, y


def test_features_are_pooled_and_of_length_1(net):
    model, x, _ = net
    opened = driftcal.open_model(model)
    found = driftcal.pooled_features(opened, x[:300], ["0", "2"])
    assert {layer: part.shape for layer, part in found.items()} == {"0": (300, 8), "2": (300, 3)}
    for part in found.values():
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, atol=1e-6)
    maps = opened.features(x[:300], ["0"])["0"].mean(axis=(2, 3))
    np.testing.assert_allclose(found["0"], maps / np.linalg.norm(maps, axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(InputError, match=r"list of names out of model\.layers"):
        driftcal.pooled_features(opened, x[:3], "0")
    with pytest.raises(UnknownName):
        driftcal.pooled_features(opened, x[:3], ["9"])


@pytest.mark.parametrize("name", NAMES)
def test_tuned_saved_and_evaluated_with_the_model(name, net, tmp_path):
    model, x, y = net
    reference = {"reference": x[:400]} if CALIBRATORS[name].needs_reference else {}
    tuned = driftcal.tune(model, x[400:550], y[400:550], method=name, levels=3, layers=["0", "2"], **reference)
    assert tuned.method == name
    assert tuned.layers == ("0", "2")
    p = tuned.predict_proba(x[550:])
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    again = driftcal.CalibratedModel.load(tuned.save(tmp_path / "cal.safetensors"), model)
    np.testing.assert_array_equal(again.predict_proba(x[550:]), p)
    results = driftcal.evaluate(tuned, x[550:], y[550:], intervals=False)
    clean = [row for row in results.rows if row.calibrator == f"{name}-p" and row.level == 0]
    assert clean[0].confidence == pytest.approx(p.max(axis=1).mean(), abs=1e-6)
    candidates = driftcal.compare_methods(tuned, x[400:550], y[400:550], methods=["ts"])
    assert [candidate.name for candidate in candidates] == ["base", "ts", "ts-p", name, f"{name}-p"]
    with pytest.raises(InputError, match="needs a list of layers"):
        driftcal.tune(model, x[400:550], y[400:550], method=name)
    with pytest.raises(InputError, match="look inside the model, dac, dac-pts, md-ts; the method is 'ts'"):
        driftcal.tune(model, x[400:550], y[400:550], method="ts", layers=["0"])


def test_auto_tries_them_too_and_keeps_layers_only_for_a_winner_that_looks_at_them(net, monkeypatch):
    model, x, y = net
    monkeypatch.setattr("driftcal.pipeline.select.CANDIDATES", ("ts", "irm", "spline"))
    given = {"levels": 3, "layers": ["0", "2"]}
    tuned = driftcal.tune(model, x[400:550], y[400:550], reference=x[:400], **given)
    assert tuned.method == "dac", tuned.explanation
    assert tuned.layers == ("0", "2")
    assert "DAC had the lowest" in tuned.explanation
    assert "DAC-PTS 0." in tuned.explanation
    assert "MD-TS 0." in tuned.explanation
    assert "needed wherever it is used" in tuned.explanation
    named = driftcal.tune(model, x[400:550], y[400:550], method="dac", reference=x[:400], **given)
    np.testing.assert_array_equal(tuned.predict_proba(x[550:]), named.predict_proba(x[550:]))
    alone = driftcal.tune(model, x[400:550], y[400:550], **given)
    assert "MD-TS 0." in alone.explanation
    assert "DAC, DAC-PTS were left out" in alone.explanation
    assert (alone.method, alone.layers, alone.calibrator.needs_features) == ("spline", (), False)
    few = driftcal.tune(model, x[400:550], y[400:550], reference=x[:20], **given)
    assert "and the reference has 20" in few.explanation
    with pytest.raises(InputError, match="needs a list of layers; layers is \\(\\)"):
        driftcal.tune(model, x[400:550], y[400:550], reference=x[:400])


def test_a_race_holds_out_the_features_of_the_rows_it_holds_out():
    """Features that tell which rows are right: mixed up within a rung, they tell only how many are."""
    rng = np.random.default_rng(0)
    n, logits = 300, 3 * rng.normal(size=(3, 300, 4))
    y, near = logits[0].argmax(axis=1), [np.arange(n) % 3 > level for level in range(3)]
    for z, good in zip(logits, near, strict=True):
        z[:] = np.where(good[:, None], logits[0], z)
    features = [{"a": np.where(good[:, None], [5.0, 0], [0, 5.0]) + rng.normal(size=(n, 2))} for good in near]
    training = {"a": np.array([5.0, 0]) + rng.normal(size=(100, 2))}
    mixed = [{"a": rng.permutation(level_data["a"])} for level_data in features]
    found = [
        choose(list(logits), y, candidates=("ts", "dac"), seen=CollectedFeatures(by_level, training))
        for by_level in (features, mixed)
    ]
    own, others = ({trial.method: trial.brier for trial in choice.trials} for choice in found)
    assert own["ts"] == others["ts"]
    assert own["dac"] < 0.95 * others["dac"]
