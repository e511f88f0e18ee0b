"""Calibrators beyond the paper against independent implementations: scipy's optimisers on losses written out here."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from driftcal.calibrators import make_calibrator
from driftcal.errors import DidNotConverge, InputError

pytestmark = pytest.mark.golden


@pytest.fixture(scope="module")
def data():
    """Over-confident logits of a model that is more confident in some classes than in others, labels, weights."""
    rng = np.random.default_rng(11)
    logits = rng.normal(size=(1500, 5)) * rng.uniform(0.5, 4, size=(1500, 1))
    truth = softmax(logits * [0.3, 0.5, 0.7, 0.6, 0.4] + [0, 0.4, 0, -0.5, 0.2], axis=1)
    y = (truth.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1).clip(0, 4)
    return logits, y, rng.uniform(0.2, 2, 1500)


def nll(logits, y, w):
    return -(w * log_softmax(logits, axis=1)[np.arange(len(y)), y]).sum() / w.sum()


def test_hts_is_scipys_optimum(data):
    logits, y, w = data
    p = softmax(logits, axis=1)
    x = np.log(-(p * np.log(p)).sum(axis=1) / np.log(5))

    def loss(line):
        return nll(logits / np.log1p(np.exp(line[0] * x + line[1]))[:, None], y, w)

    expected = minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-7})
    hts = make_calibrator("hts").fit(logits, y, sample_weight=w)
    assert hts.fit_report_.after <= expected.fun + 1e-9
    np.testing.assert_allclose([hts.slope_, hts.intercept_], expected.x, atol=2e-4)
    temperature = np.log1p(np.exp(hts.slope_ * x + hts.intercept_))
    np.testing.assert_allclose(hts.temperatures(logits), temperature, rtol=1e-12)
    np.testing.assert_allclose(hts.predict_proba(logits), softmax(logits / temperature[:, None], axis=1), atol=1e-13)
    ts = make_calibrator("ts").fit(logits, y, sample_weight=w)
    assert hts.fit_report_.after < ts.fit_report_.after


def network(pts, logits):
    """The network of PTS in plain numpy."""
    ordered = np.sort(logits, axis=1)[:, ::-1]
    margins = np.log1p((ordered[:, :1] - ordered[:, 1 : pts.top]) / pts.feature_scale_)
    x = (margins.clip(pts.feature_low_, pts.feature_high_) - pts.feature_mean_) / pts.feature_std_
    h, ones = pts.hidden, np.ones((len(x), 1))
    first, second, last = np.split(pts.network_, [h * (x.shape[1] + 1), h * (x.shape[1] + 1) + h * (h + 1)])
    x = np.tanh(np.hstack([x, ones]) @ first.reshape(h, -1).T)
    x = np.tanh(np.hstack([x, ones]) @ second.reshape(h, -1).T)
    return np.hstack([x, ones]) @ last


def test_pts_is_its_formula_and_no_nearby_network_is_better(data):
    logits, y, w = data
    w = w * len(w) / w.sum()
    pts = make_calibrator("pts", hidden=3, top=4, tol=1e-12).fit(logits, y, sample_weight=w)
    temperature = pts.temperature_ * np.exp(network(pts, logits))
    np.testing.assert_allclose(pts.temperatures(logits), temperature, rtol=1e-11)
    p = softmax(logits / temperature[:, None], axis=1)
    np.testing.assert_allclose(pts.predict_proba(logits), p, atol=1e-12)
    np.testing.assert_allclose(np.exp(pts.predict_log_proba(logits)), p, atol=1e-12)
    trained = pts.network_.copy()
    start = (
        make_calibrator("pts", hidden=3, top=4, tol=1e6).fit(logits, y, sample_weight=w).network_
    )  # without any step

    def loss(weights):
        pts.network_ = weights
        q = softmax(logits / (pts.temperature_ * np.exp(network(pts, logits)))[:, None], axis=1)
        error = (w * ((q - np.eye(5)[y]) ** 2).sum(axis=1)).sum() / w.sum()
        return error + pts.decay / w.sum() * ((weights - start) ** 2).sum()

    penalty = pts.decay / w.sum() * ((trained - start) ** 2).sum()
    assert loss(trained) == pytest.approx(pts.fit_report_.after + penalty, rel=1e-12)
    nearby = minimize(loss, trained, method="BFGS", options={"maxiter": 30})
    assert nearby.fun > loss(trained) * (1 - 1e-7)
    assert loss(trained) < loss(start)
    assert np.abs(start[-4:]).max() == 0  # the start is one temperature for all


def test_pts_learns_a_temperature_that_depends_on_the_sample():
    rng = np.random.default_rng(5)
    sharp = rng.normal(size=(4000, 6)) * 3
    temperature = np.where(np.sort(sharp, axis=1)[:, -1] - np.sort(sharp, axis=1)[:, -2] > 2, 3.0, 0.7)
    truth = softmax(sharp / temperature[:, None], axis=1)
    y = (truth.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1).clip(0, 5)
    pts, ts = (make_calibrator(name).fit(sharp, y) for name in ("pts", "ts"))
    error = [np.abs(cal.predict_proba(sharp) - truth).max(axis=1).mean() for cal in (pts, ts)]
    assert error[0] < 0.3 * error[1]


@pytest.mark.parametrize(("name", "decay"), [("vs", 0.1), ("vs", 30.0), ("svs", 5.0)])
def test_vector_scaling_is_scipys_optimum(name, decay, data):
    logits, y, w = data
    cal = make_calibrator(name, **({"decay": decay} if name == "vs" else {})).fit(logits, y, sample_weight=w)
    temperature = make_calibrator("ts").fit(logits, y, sample_weight=w).temperature_
    x = log_softmax(logits / getattr(cal, "temperature_", 1.0), axis=1)
    centre = 1 / temperature if name == "vs" else 1.0

    def loss(line):
        a, b = np.split(line, 2)
        return nll(a * x + b, y, w) + decay / w.sum() * (((a - centre) ** 2).sum() + (b**2).sum())

    expected = minimize(loss, np.repeat([1.0, 0.0], 5), method="BFGS", options={"gtol": 1e-7})
    fitted = np.concatenate([cal.slopes_, cal.intercepts_])
    assert loss(fitted) <= expected.fun + 1e-12
    np.testing.assert_allclose(fitted, expected.x, atol=1e-4)
    np.testing.assert_allclose(
        cal.predict_proba(logits), softmax(cal.slopes_ * x + cal.intercepts_, axis=1), atol=1e-13
    )
    assert cal.fit_report_.after == pytest.approx(nll(cal.slopes_ * x + cal.intercepts_, y, w), rel=1e-12)
    if name == "svs":
        assert cal.temperature_ == temperature


@pytest.mark.parametrize("newton_classes", [20, 1])  # Newton's method, and L-BFGS as for many classes
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_dirichlet_is_scipys_optimum(penalty, newton_classes, data, monkeypatch):
    monkeypatch.setattr("driftcal.calibrators.scaling.dirichlet.NEWTON_CLASSES", newton_classes)
    logits, y, w = data
    cal = make_calibrator("dirichlet", penalty=penalty).fit(logits, y, sample_weight=w)
    x = log_softmax(logits, axis=1)
    off = ~np.eye(5, dtype=bool)

    def loss(flat):
        matrix, b = flat[:25].reshape(5, 5), flat[25:]
        odir = (matrix[off] ** 2).mean() + (b**2).mean() + 0.01 * ((np.diag(matrix) - 1) ** 2).mean()
        return nll(x @ matrix.T + b, y, w) + penalty * odir

    expected = minimize(loss, np.append(np.eye(5).ravel(), np.zeros(5)), method="L-BFGS-B", options={"ftol": 1e-14})
    fitted = np.append(cal.matrix_.ravel(), cal.intercepts_)
    assert loss(fitted) <= expected.fun + (1e-9 if newton_classes > 5 else 1e-7)
    p = softmax(x @ cal.matrix_.T + cal.intercepts_, axis=1)
    np.testing.assert_allclose(cal.predict_proba(logits), p, atol=1e-12)
    other = softmax(x @ expected.x[:25].reshape(5, 5).T + expected.x[25:], axis=1)
    np.testing.assert_allclose(p, other, atol=2e-3)


@pytest.mark.parametrize("newton_classes", [20, 1])
def test_the_default_penalty_of_dirichlet_depends_on_the_number_of_samples(newton_classes, data, monkeypatch):
    monkeypatch.setattr("driftcal.calibrators.scaling.dirichlet.NEWTON_CLASSES", newton_classes)
    logits, y, w = data
    cal = make_calibrator("dirichlet").fit(logits, y, sample_weight=w)
    t = make_calibrator("ts").fit(logits, y, sample_weight=w).temperature_
    x, n = log_softmax(logits, axis=1), w.sum()

    def loss(flat):
        matrix, b = flat[:25].reshape(5, 5), flat[25:]
        deviation = matrix - np.eye(5) / t
        diagonal = (np.diag(deviation) ** 2).sum()
        off_diagonal = (deviation**2).sum() - diagonal
        return nll(x @ matrix.T + b, y, w) + 5 / n * diagonal + 250 / n * (off_diagonal + (b**2).sum())

    expected = minimize(loss, np.append(np.eye(5).ravel(), np.zeros(5)), method="L-BFGS-B", options={"ftol": 1e-14})
    fitted = np.append(cal.matrix_.ravel(), cal.intercepts_)
    assert loss(fitted) <= expected.fun + (1e-9 if newton_classes > 5 else 1e-7)
    np.testing.assert_allclose(fitted, expected.x, atol=1e-3)


def test_dirichlet_with_fewer_samples_than_entries_is_a_diagonal(data):
    logits, y, _ = data
    logits, y = logits[:24], y[:24]
    cal = make_calibrator("dirichlet").fit(logits, y)
    assert cal.matrix_.shape == (5,)
    t, x = make_calibrator("ts").fit(logits, y).temperature_, log_softmax(logits, axis=1)

    def loss(line):
        a, b = np.split(line, 2)
        return nll(a * x + b, y, np.ones(24)) + 5 / 24 * (((a - 1 / t) ** 2).sum() + (b**2).sum())

    expected = minimize(loss, np.repeat([1.0, 0.0], 5), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(np.concatenate([cal.matrix_, cal.intercepts_]), expected.x, atol=1e-4)
    np.testing.assert_allclose(
        cal.predict_proba(logits), softmax(cal.matrix_ * x + cal.intercepts_, axis=1), atol=1e-13
    )
    assert (
        make_calibrator("dirichlet").fit(*(np.concatenate([part, part[:1]]) for part in (logits, y))).matrix_.ndim == 2
    )


def test_a_penalty_that_does_not_converge_is_named(data, monkeypatch):
    def never(*_, **__):
        raise DidNotConverge("it did not converge")

    monkeypatch.setattr("driftcal.calibrators.scaling.dirichlet.minimise_newton", never)
    logits, y, _ = data
    with pytest.raises(
        DidNotConverge, match=r"5² numbers .* penalty 0\.1 it did not converge\. Raise it, or leave it out"
    ):
        make_calibrator("dirichlet", penalty=0.1).fit(logits, y)
    with pytest.raises(DidNotConverge, match=r"^it did not converge$"):
        make_calibrator("dirichlet").fit(logits, y)
    with pytest.raises(InputError, match=r"positive number; it is 0\. The default is None"):
        make_calibrator("dirichlet", penalty=0).fit(logits, y)


def test_dirichlet_with_few_samples_is_no_worse_than_temperature_scaling():
    """With a fixed penalty of 0.1 the loss on other samples was 2.4 instead of 0.54 on a real case of this size."""
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(5_150, 10)) * 3
    y = np.argmax(logits / 2 + rng.gumbel(size=logits.shape), axis=1)
    default, fixed, ts = (
        nll(np.log(cal.fit(logits[:150], y[:150]).predict_proba(logits[150:])), y[150:], np.ones(5_000))
        for cal in (make_calibrator("dirichlet"), make_calibrator("dirichlet", penalty=0.1), make_calibrator("ts"))
    )
    assert default < ts + 0.1
    assert fixed > ts + 0.3


def test_beta_is_logistic_regression_on_two_logarithms(data):
    from sklearn.linear_model import LogisticRegression

    logits, y, w = data
    cal = make_calibrator("beta", decay=1e-7, tied_below=1).fit(logits, y, sample_weight=w)
    p = softmax(logits, axis=1)
    raw = np.empty_like(p)
    for c in range(5):
        x = np.stack([np.log(p[:, c]), -np.log1p(-p[:, c])], axis=1)
        use = [0, 1]
        model = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(x, y == c, sample_weight=w)
        if (model.coef_ < 0).any():  # as published: drop negative coefficients, and fit again
            use = [int(model.coef_[0, 0] < 0)]
            model = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(x[:, use], y == c, sample_weight=w)
        expected = np.zeros(3)
        expected[use], expected[2] = model.coef_[0], model.intercept_[0]
        np.testing.assert_allclose(cal.curves_[c], expected, atol=2e-3)
        raw[:, c] = 1 / (1 + np.exp(-(cal.curves_[c, 0] * x[:, 0] + cal.curves_[c, 1] * x[:, 1] + cal.curves_[c, 2])))
    assert (cal.curves_[:, :2] >= 0).all()
    np.testing.assert_allclose(cal.predict_proba(logits), raw / raw.sum(axis=1, keepdims=True), atol=1e-12)


def test_beta_of_few_samples_is_logistic_regression_on_log_odds(data):
    from sklearn.linear_model import LogisticRegression

    logits, y, w = data
    class_weights = np.bincount(y, w, minlength=5)
    few = class_weights < np.sort(class_weights)[2]
    tied = make_calibrator("beta", decay=1e-7, tied_below=np.sort(class_weights)[2]).fit(logits, y, sample_weight=w)
    free = make_calibrator("beta", decay=1e-7, tied_below=1).fit(logits, y, sample_weight=w)
    np.testing.assert_array_equal(tied.curves_[~few], free.curves_[~few])
    assert few.sum() == 2
    p = softmax(logits, axis=1)
    for c in np.flatnonzero(few):
        x = (np.log(p[:, c]) - np.log1p(-p[:, c]))[:, None]
        model = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(x, y == c, sample_weight=w)
        np.testing.assert_allclose(
            tied.curves_[c], [model.coef_[0, 0], model.coef_[0, 0], model.intercept_[0]], atol=2e-3
        )


@pytest.mark.parametrize("decay", [1.0, 300.0])
def test_the_penalty_of_beta_is_centred_at_the_best_scale_of_all_classes(decay, data):
    logits, y, w = data
    cal = make_calibrator("beta", decay=decay, tied_below=1).fit(logits, y, sample_weight=w)
    p = softmax(logits, axis=1)
    u, v, hit = np.log(p), -np.log1p(-p), np.eye(5)[y] > 0

    def loss(m, hit):
        return (w * np.logaddexp(0, np.where(hit, -m, m)).T).sum() / w.sum()

    scale = min(2.0 ** np.arange(-8, 2), key=lambda s: loss(s * (u + v), hit))
    assert scale == 0.5
    for c in range(5):

        def penalised(curve, c=c):
            deviation = curve - [scale, scale, 0]
            return (
                loss(curve[0] * u[:, c] + curve[1] * v[:, c] + curve[2], hit[:, c])
                + decay / w.sum() * deviation @ deviation
            )

        expected = minimize(
            penalised, [0.5, 0.5, 0], bounds=[(0, None), (0, None), (None, None)], options={"ftol": 1e-15, "gtol": 1e-9}
        )
        assert penalised(cal.curves_[c]) <= expected.fun + 1e-9


def test_beta_counts_the_samples_of_a_class_whatever_their_weights_sum_to(data):
    logits, y, _ = data
    shares = make_calibrator("beta").fit(logits, y, sample_weight=np.full(len(y), 1 / len(y)))
    twice = make_calibrator("beta").fit(logits[:300], y[:300], sample_weight=np.full(300, 2.0))
    np.testing.assert_allclose(shares.curves_, make_calibrator("beta").fit(logits, y).curves_, rtol=1e-9)
    repeated = make_calibrator("beta").fit(np.repeat(logits[:300], 2, axis=0), np.repeat(y[:300], 2))
    np.testing.assert_allclose(twice.curves_, repeated.curves_, rtol=1e-9)


def test_the_spline_keeps_the_predicted_class_where_its_curve_is_too_low():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3_000, 6))
    cal = make_calibrator("spline").fit(logits, np.where(rng.random(3_000) < 0.1, logits.argmax(axis=1), 5))
    p = cal.predict_proba(logits)
    assert (np.diff(np.sort(p, axis=1)[:, -2:])[:, 0] < 1e-5).mean() > 0.5, "mostly the second class is as likely"
    np.testing.assert_array_equal(p.argmax(axis=1), logits.argmax(axis=1))


def test_the_spline_is_scipys_least_squares_with_natural_ends(data):
    from scipy.interpolate import CubicSpline
    from scipy.optimize import lsq_linear

    logits, y, w = data
    cal = make_calibrator("spline", n_knots=5).fit(logits, y, sample_weight=w)
    p = softmax(logits, axis=1)
    order = np.argsort(p.max(axis=1))
    weights, correct = w[order], (p.argmax(axis=1) == y)[order]
    position = np.cumsum(weights) / weights.sum()
    reached = np.cumsum(weights * correct) / weights.sum()
    knots = np.linspace(0, 1, 5)
    cardinal = [CubicSpline(knots, row, bc_type="natural") for row in np.eye(5)]
    basis = np.stack([spline(position) for spline in cardinal[1:]], axis=1)
    root = np.sqrt(weights)[:, None]
    heights = lsq_linear(basis * root, reached * root[:, 0]).x
    middle = position - weights / weights.sum() / 2
    accuracy = sum(h * spline(middle, 1) for h, spline in zip(heights, cardinal[1:], strict=True))
    confidence = cal.predict_proba(logits)[order].max(axis=1)
    second = np.sort(p[order], axis=1)[:, -2] / (1 - p[order].max(axis=1))
    np.testing.assert_allclose(confidence, np.maximum(accuracy, second / (1 + second)), atol=1e-3)
    rest = cal.predict_proba(logits)
    rest[np.arange(len(y)), p.argmax(axis=1)] = 0
    others = p.copy()
    others[np.arange(len(y)), p.argmax(axis=1)] = 0
    np.testing.assert_allclose(
        rest / rest.sum(axis=1, keepdims=True), others / others.sum(axis=1, keepdims=True), atol=1e-12
    )
