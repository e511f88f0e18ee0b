"""A torch module with a threshold decides as the calibrated model does."""

import numpy as np
import pytest
import torch

import driftcal
from driftcal.export import to_torch


@pytest.fixture(scope="module")
def logits():
    return (4 * np.random.default_rng(1).normal(size=(300, 4))).astype(np.float32)


@pytest.fixture(scope="module")
def calibrated():
    rng = np.random.default_rng(0)
    scores = 4 * rng.normal(size=(800, 4))
    fitted = driftcal.fit(scores, (scores / 1.5 + rng.gumbel(size=scores.shape)).argmax(axis=1), method="irm")
    return fitted.with_threshold(fitted.threshold(accuracy=0.9))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_torch_module_accepts_also_when_it_is_scripted(calibrated, logits):
    module = to_torch(calibrated.calibrator, threshold=calibrated.decision_threshold)
    expected = ~calibrated.predict_or_abstain(logits).mask
    for form in (module, torch.jit.script(module)):
        np.testing.assert_array_equal(form.accept(torch.from_numpy(logits)).numpy(), expected)
    with pytest.raises(ValueError, match="no threshold"):
        to_torch(calibrated.calibrator).accept(torch.zeros(2, 4))
