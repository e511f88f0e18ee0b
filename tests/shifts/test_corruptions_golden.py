"""Our corruptions compared with imagecorruptions-imaug 1.1.5 (data made by make_corruption_references.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from corruption_photographs import patches, statistics

from driftcal.shifts import get_shift

pytestmark = pytest.mark.golden

DATA = Path(__file__).parents[1] / "data" / "golden"
IMAGES = np.load(DATA / "corruption_images.npz")
STATISTICS = json.loads((DATA / "corruption_statistics.json").read_text())["statistics"]

# Our frost is drawn, not photographed, and the reference enlarges its photographs by a tenth.
WIDE_TOLERANCES = {
    "frost": (0.02, 0.025, 0.4),
    # one angle for each image, and few images hold most of the fine detail
    "motion_blur": (0.005, 0.005, 0.3),
    "fog": (0.012, 0.015, 0.08),
}
TOLERANCES = (0.012, 0.008, 0.08)  # mean, deviation, log10 of the power


@pytest.mark.parametrize("name", sorted({key.rsplit("_", 1)[0] for key in IMAGES.files if key != "made"}))
def test_corruptions_without_randomness_equal_the_reference_images(name: str) -> None:
    images = patches(2, 64, 64, seed=1)
    for severity in range(1, 6):
        ours = get_shift(name, table="imagenet-c")(images, severity)
        assert np.abs(ours * 255 - IMAGES[f"{name}_{severity}"]).mean() <= 2, severity


@pytest.mark.parametrize("severity", ["1", "3", "5"])
@pytest.mark.parametrize("name", sorted(set(STATISTICS) - {"elastic_transform"}))
def test_corruptions_with_randomness_have_the_reference_statistics(name: str, severity: str) -> None:
    ours = statistics(get_shift(name, table="imagenet-c")(patches(200, 96, 96), int(severity), seed=1))
    compare(ours, STATISTICS[name][severity], *WIDE_TOLERANCES.get(name, TOLERANCES))


@pytest.mark.parametrize(("severity", "alpha"), [("1", 12.5), ("3", 21.25), ("5", 30.0)])
def test_elastic_transform_agrees_with_the_parameters_of_the_reference(severity: str, alpha: float) -> None:
    """imagecorruptions has its own elastic parameters; with them the displacement is the same."""
    from driftcal.core.random import keys_of
    from driftcal.shifts.corruptions.elastic import elastic_transform

    images = patches(200, 96, 96).astype(np.float32) / np.float32(255)
    out = np.empty_like(images)
    elastic_transform(images, out, keys_of("elastic_transform", 0, np.arange(200)), alpha * 0.005 * 96, 0.96, 0.0)
    compare(statistics(out), STATISTICS["elastic_transform"][severity], *TOLERANCES)


def compare(ours: dict, reference: dict, mean: float, deviation: float, power: float) -> None:
    assert ours["mean"] == pytest.approx(reference["mean"], abs=mean)
    assert ours["deviation"] == pytest.approx(reference["deviation"], abs=deviation)
    # below this the reference holds only the noise of rounding to 8 bits
    above_rounding = [i for i, p in enumerate(reference["spectrum"]) if p > -1.7]
    expected = np.array(reference["spectrum"])[above_rounding]
    assert np.array(ours["spectrum"])[above_rounding] == pytest.approx(expected, abs=power)
