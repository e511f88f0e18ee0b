"""Mean ECE of the paper's calibrators on recorded logits of a CIFAR-10 ResNet-20, against independent computations.

A part of the logits is in the repository, with numbers from scikit-learn and scipy (make_paper_subset.py). If the
complete recording is next to the repository, the numbers of the published code are checked too.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from driftcal.calibrators import make_calibrator
from driftcal.metrics import expected_calibration_error

pytestmark = pytest.mark.golden

DATA = Path(__file__).parents[1] / "data" / "golden"
WHOLE = Path(__file__).parents[2].parent / "shared" / "golden"
SUBSET = json.loads((DATA / "paper_subset.json").read_text())["figures"]
NAMES = ["base", "ts", "ets", "ts-ir", "ir", "irm"]


class Recording:
    """Clean and perturbed tuning samples, and test logits under shifts of ten levels."""

    def __init__(self, path):
        stored = np.load(path)
        levels, labels, self.test = stored["ladder_logits"].astype(float), stored["val_labels"], stored["test_labels"]
        self.tuning = {"": (levels[0], labels), "-p": (levels.reshape(-1, 10), np.tile(labels, 10))}
        shifts = [name for name in stored.files if name.startswith("test_") and name != "test_labels"]
        self.shifts = {name: stored[name].astype(float) for name in shifts}

    def errors(self, name, suffix, t_max):
        cal = make_calibrator(name, **({"t_max": t_max} if t_max and name in ("ts", "ets", "ts-ir") else {}))
        cal.fit(*self.tuning[suffix])

        def ece(logits):
            p = cal.predict_proba(logits.reshape(-1, 10))
            return expected_calibration_error(np.tile(self.test, len(p) // len(self.test)), p, n_bins=10)

        clean = next(iter(self.shifts.values()))[0]
        return cal, float(np.mean([ece(logits) for logits in self.shifts.values()])), ece(clean)


@pytest.fixture(scope="module")
def subset():
    return Recording(DATA / "paper_subset.npz")


@pytest.mark.parametrize("label", SUBSET)
def test_errors_on_the_part_are_those_of_scikit_learn_and_scipy(label, subset):
    key, _, cap = label.partition(", T at most ")
    name, suffix = (key[:-2], "-p") if key.endswith("-p") else (key, "")
    cal, mean, clean = subset.errors(name, suffix, float(cap) if cap else None)
    expected = SUBSET[label]
    if expected["temperature"] is not None:
        assert cal.temperature_ == pytest.approx(expected["temperature"], rel=1e-6)
    assert mean == pytest.approx(expected["mean_ece10"], abs=1e-5)
    assert clean == pytest.approx(expected["in_domain_ece10"], abs=1e-5)


def test_tuning_on_perturbed_samples_lowers_the_ece_under_shift():
    for name in ("ts", "ir", "irm"):
        assert SUBSET[f"{name}-p"]["mean_ece10"] < SUBSET[name]["mean_ece10"] < SUBSET["base"]["mean_ece10"]


#: mean ECE-10 under nine affine shifts and ECE-10 in domain, as the published code computes them (T at most 5)
PUBLISHED = {
    "base": 0.305, "ts": 0.158, "ets": 0.162, "ts-ir": 0.168, "ir": 0.170, "irm": 0.164,
    "ts-p": 0.094, "ets-p": 0.105, "ts-ir-p": 0.101, "ir-p": 0.090, "irm-p": 0.093,
}  # fmt: skip
IN_DOMAIN = {"ts": 0.007, "ir": 0.012, "irm": 0.010, "ts-p": 0.162, "ir-p": 0.100, "irm-p": 0.163}


if (WHOLE / "cifar10_resnet20.npz").exists():

    def test_errors_on_the_whole_recording_are_the_published_ones():
        recording = Recording(WHOLE / "cifar10_resnet20.npz")
        reference = json.loads((WHOLE / "cifar10_resnet20.json").read_text())
        for label, expected in PUBLISHED.items():
            name, suffix = (label[:-2], "-p") if label.endswith("-p") else (label, "")
            _, mean, clean = recording.errors(name, suffix, 5.0)
            by_authors = reference["results"][label.upper() if label != "base" else "Base"]
            assert mean == pytest.approx(expected, abs=1e-3)
            assert mean == pytest.approx(by_authors["mean_ece10"], abs=1e-3)
            assert clean == pytest.approx(IN_DOMAIN.get(label, by_authors["in_domain_ece10"]), abs=1e-3)
        cal, mean, clean = recording.errors("ts", "-p", None)  # exact
        assert cal.temperature_ == pytest.approx(5.540826363029211, rel=1e-6)
        assert (mean, clean) == pytest.approx((0.115, 0.200), abs=1e-3)
