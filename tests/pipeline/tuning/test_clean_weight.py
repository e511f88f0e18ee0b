"""The weight of the clean level: a trade-off between calibration in domain and under shift."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import driftcal
from driftcal.calibrators.levels import level_weights
from driftcal.engines import open_engine
from driftcal.errors import InputError


@pytest.fixture(scope="module")
def task():
    x, y = make_classification(700, 8, n_informative=5, n_classes=3, flip_y=0.05, class_sep=1.5, random_state=0)
    model = LogisticRegression(C=100, max_iter=1000).fit(x[:150], y[:150])
    return model, x[150:].astype(np.float32), y[150:]


def tune(task, **options):
    return driftcal.tune(*task, **{"method": "ts", "n_levels": 5, **options})


def test_weights_give_the_clean_level_its_share_and_are_1_on_average():
    for n, share in ((5, 0.2), (10, 0.5), (3, 0.9)):
        weights = np.array(level_weights(n, share))
        assert weights.mean() == pytest.approx(1)
        assert weights[0] / weights.sum() == pytest.approx(share)
        assert len(set(weights[1:].tolist())) == 1
    assert level_weights(4, None) is None
    assert level_weights(1, 0.5) == [1.0]


def test_a_larger_clean_weight_than_the_papers_moves_towards_the_clean_fit(task):
    plain = tune(task)
    even = tune(task, clean_weight=1 / len(plain.perturbation["levels"]))
    assert even.calibrator.temperature_ == pytest.approx(plain.calibrator.temperature_, rel=1e-9)
    half, most = (tune(task, clean_weight=share).calibrator.temperature_ for share in (0.5, 0.9))
    clean = plain.baselines["ts"].temperature_
    assert clean < most < half < plain.calibrator.temperature_
    assert tune(task, clean_weight=0.9).baselines["ts"].temperature_ == clean


def test_the_fit_is_that_of_weighted_samples(task):
    from driftcal.data import open_source
    from driftcal.models import open_model
    from driftcal.pipeline.collecting.collect import Collector
    from driftcal.pipeline.collecting.perturbation import perturb, tuning_shift

    source = open_source(task[1:])
    by_level = perturb(Collector(open_model(task[0]), source), tuning_shift("gaussian", source), n_levels=5).by_level
    weights = np.concatenate(
        [
            np.full(len(level_data), 0.6 if k == 0 else 0.4 / (len(by_level) - 1))
            for k, level_data in enumerate(by_level)
        ]
    )
    expected = driftcal.make_calibrator("irm").fit(
        np.concatenate(by_level), np.tile(task[2], len(by_level)), sample_weight=weights
    )
    calibrator = tune(task, method="irm", clean_weight=0.6).calibrator
    np.testing.assert_allclose(calibrator.predict_proba(by_level[1]), expected.predict_proba(by_level[1]), atol=1e-12)


def test_the_file_and_compare_methods_use_the_clean_weight(task, tmp_path):
    tuned = tune(task, clean_weight=0.7)
    path = tuned.save(tmp_path / "cal.safetensors")
    again = driftcal.CalibratedModel.load(path, task[0])
    assert again.metadata["clean_weight"] == 0.7
    compared = {c.name: c.calibrator for c in driftcal.compare_methods(again, *task[1:], methods=["hts"])}
    assert compared["ts-p"].temperature_ == tuned.calibrator.temperature_
    other = {c.name: c.calibrator for c in driftcal.compare_methods(tune(task), *task[1:], methods=["hts"])}
    assert compared["hts"].intercept_ == other["hts"].intercept_
    assert compared["hts-p"].intercept_ != other["hts-p"].intercept_


def test_cached_levels_get_the_same_weights(task, tmp_path):
    in_memory = tune(task, clean_weight=0.7).calibrator.temperature_
    stored = tune(task, clean_weight=0.7, run=driftcal.Run(tmp_path, open_engine("local", workers=2)))
    assert stored.calibrator.temperature_ == pytest.approx(in_memory, rel=1e-12)


def test_auto_tunes_its_candidates_with_the_clean_weight(task):
    from driftcal.pipeline.collecting.perturbation import PerturbedLogits
    from driftcal.pipeline.tuning.select import Selection, choose

    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    by_level = [3 * (rng.normal(size=(300, 3)) + (3 - level) * np.eye(3)[y]) for level in range(3)]
    choice = choose(Selection(candidates=["irm"]), PerturbedLogits({}, by_level), y, clean_weight=0.6)
    assert {trial.variant.clean_weight for trial in choice.trials} == {1.0, 0.6}


def test_the_scikit_learn_classifier_takes_a_clean_weight(task):
    model, x, y = task
    temperature = [
        driftcal.DriftCalibratedClassifier(model, "ts", cv="prefit", n_levels=4, clean_weight=share)
        .fit(x, y)
        .calibrator_.temperature_
        for share in (None, 0.9)
    ]
    assert temperature[1] < temperature[0]


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, "half", True, float("nan")])
def test_other_shares_are_refused(task, share):
    with pytest.raises(InputError, match="clean_weight must be between 0 and 1"):
        tune(task, clean_weight=share)


def test_a_clean_weight_without_a_shift_is_refused(task):
    with pytest.raises(InputError, match="without a shift all are clean"):
        tune(task, clean_weight=0.5, shift=None)
