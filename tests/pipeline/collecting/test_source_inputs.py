"""Predictions check their inputs as the tuning does."""

from __future__ import annotations

import numpy as np
import pytest

import driftcal
from driftcal.errors import ImagesError, InputError
from driftcal.pipeline.collecting.source_inputs import as_inputs

RNG = np.random.default_rng(0)
IMAGES = RNG.random((300, 8, 8, 3), np.float32)
LABELS = (200 * IMAGES.mean((1, 2)) + RNG.normal(size=(300, 3)) * 8).argmax(axis=1)


def channel_means(x):
    return 200 * x.mean(axis=(1, 2))


@pytest.fixture(scope="module")
def tuned():
    model = driftcal.open_model(channel_means, name="means", preprocessing={"mean": (0.5,) * 3, "std": (0.25,) * 3})
    return driftcal.tune(model, IMAGES, LABELS, method="ts", shift=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x * 255, "pass uint8, or divide by 255"),
        (lambda x: (x - 0.5) / 0.25, "Already normalised for a model"),
        (lambda x: np.where(x > 0.9, np.nan, x), "finite"),
        (lambda x: x.transpose(0, 3, 1, 2), r"move the axis with x.transpose\(0, 2, 3, 1\)"),
        (lambda x: (x * 255).astype(int), "uint8"),
    ],
)
def test_predictions_refuse_the_images_that_tune_refuses_in_the_same_words(tuned, change, message):
    wrong = change(IMAGES)
    with pytest.raises(ImagesError, match=message) as of_tune:
        driftcal.tune(tuned.model, wrong, LABELS, method="ts", shift=None)
    accept_all = tuned.threshold(IMAGES, LABELS, coverage=0.9)
    for predict in (
        tuned.predict_proba,
        tuned.predict_log_proba,
        tuned.predict,
        lambda x: tuned.predict_or_abstain(x, threshold=accept_all),
    ):
        with pytest.raises(ImagesError) as of_prediction:
            predict(wrong)
        assert str(of_prediction.value) == str(of_tune.value)


def test_the_windowed_form_checks_its_inputs_and_keeps_its_window():
    model = driftcal.open_model(channel_means, name="means")
    tuned = driftcal.tune(model, IMAGES, LABELS, method="window-ts")
    live = tuned.windowed(50)
    for predict in (live.predict_proba, live.predict_log_proba, live.predict):
        with pytest.raises(ImagesError, match="divide by 255"):
            predict(255 * IMAGES)
    assert live.window_state().n_samples == 0


@pytest.mark.parametrize("inputs", [IMAGES[0], IMAGES.mean(axis=3), IMAGES.reshape(300, -1)])
def test_inputs_of_another_kind_than_those_of_the_tuning_are_refused(tuned, inputs):
    with pytest.raises(InputError, match=r"of shape \(8, 8, 3\) as those of the tuning"):
        tuned.predict_proba(inputs)


def test_one_image_gets_the_way_out(tuned):
    with pytest.raises(InputError, match=r"x\[None\]"):
        tuned.predict_proba(IMAGES[0])


@pytest.mark.parametrize(
    ("inputs", "shape"),
    [
        (IMAGES, [8, 8, 3]),
        ((255 * IMAGES).astype(np.uint8), [8, 8, 3]),
        (IMAGES[..., 0], [8, 8, 1]),
        (IMAGES[:, :, 0], [8, 3]),
        (1000 * IMAGES[:, 0, 0], [3]),
        (IMAGES, []),
    ],
)
def test_inputs_like_those_of_the_tuning_are_taken(inputs, shape):
    inputs = as_inputs(inputs, {"input_shape": shape})
    assert len(inputs) == len(IMAGES)
    assert list(inputs.shape[1:]) in (shape, [8, 8, 3])
