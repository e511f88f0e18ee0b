"""Suspicious validation data give a Python warning, which the explanation repeats after the accuracy."""

import warnings

import numpy as np
import pytest
import torch

import driftcal
from driftcal.errors import SuspiciousInputWarning
from driftcal.pipeline.collecting.input_warnings import find_warnings

RNG = np.random.default_rng(0)
Y = np.arange(400) % 4
X = (RNG.normal(size=(400, 4)) + 2 * np.eye(4)[Y]).astype(np.float32)


def tune(x, y, **options):
    return driftcal.tune(
        driftcal.open_model(lambda batch: 2 * batch, name="doubled"), x, y, method="ts", shift=None, **options
    )


def test_the_accuracy_is_always_in_the_explanation():
    tuned = tune(X, Y)
    assert f"Validation accuracy {np.mean(X.argmax(axis=1) == Y):.3f} on 400 samples." in tuned.explanation
    assert tuned.metadata["accuracy"] == pytest.approx(np.mean(X.argmax(axis=1) == Y))


def test_good_data_raise_no_warning(recwarn):
    tune(X, Y)
    assert not [w for w in recwarn if issubclass(w.category, SuspiciousInputWarning)]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, (Y + 1) % 4, "near chance"),
        (X[:60], Y[:60], "only 60 validation samples"),
        (X[Y < 3], Y[Y < 3], "1 of 4 classes have no validation sample: 3"),
    ],
    ids=["chance", "few", "missing class"],
)
def test_suspicious_data_give_a_warning(x, y, message):
    with pytest.warns(SuspiciousInputWarning, match=message):
        tuned = tune(x, y)
    assert message in tuned.explanation


def test_a_single_class_is_named():
    assert find_warnings(1.0, np.ones(200, int), ["no", "yes"], 2)[-1].startswith(
        "All 200 validation samples have the label 'yes'."
    )


def test_an_accuracy_slightly_above_chance_is_near_chance():
    assert find_warnings(0.14, np.arange(10_000) % 10, [], 10)
    assert not find_warnings(0.35, np.arange(10_000) % 10, [], 10)


def test_missing_preprocessing_is_found_by_trying_the_usual_ones():
    """A network that was trained on normalised images, opened without mean and std."""
    images = np.clip(0.5 + 0.1 * RNG.normal(size=(400, 6, 6, 3)), 0, 1).astype(np.float32)
    images[np.arange(400), Y, 0, :] += 0.25  # the position of the bright pixel is the class
    images = np.clip(images, 0, 1)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            bright = x[:, :, :4, 0].mean(1)
            return self.scale * torch.relu(bright * 8) - 9 * (x.mean(dim=(1, 2, 3)) > 0.3)[:, None] * torch.arange(4)

    with pytest.warns(
        SuspiciousInputWarning, match=r"seems to expect preprocessing: with mean=.* its accuracy is 1\.000"
    ):
        tuned = driftcal.tune(Net(), images, Y, method="ts", shift=None)
    assert "--mean" in tuned.explanation
    with_it = driftcal.open_model(Net(), preprocessing=driftcal.Preprocessing(mean=0.5, std=0.5, layout="NCHW"))
    assert "preprocessing" not in driftcal.tune(with_it, images, Y, method="ts", shift=None).explanation


def test_a_true_class_without_probability_is_a_warning_and_in_the_explanation():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    probabilities = np.full((300, 3), 0.1)
    probabilities[np.arange(300), np.where(rng.random(300) < 0.8, y, (y + 1) % 3)] = 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        driftcal.fit(probabilities, y, method="ts", score_type="probabilities")
    probabilities[0] = 0.0
    probabilities[0, (y[0] + 1) % 3] = 1.0
    with pytest.warns(SuspiciousInputWarning, match="1 of 300 validation samples have a true class with probability 0"):
        calibrated = driftcal.fit(probabilities, y, method="ts", score_type="probabilities")
    assert "probability 0" in calibrated.explanation
