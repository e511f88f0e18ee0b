"""Our corruptions beside imagecorruptions-imaug 1.1.5 (versions in the data files; made by make_corruption_references.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from corruption_photographs import patches, statistics

from driftcal.shifts import get_shift

DATA = Path(__file__).parents[1] / "data" / "golden"
IMAGES = np.load(DATA / "corruption_images.npz")
STATISTICS = json.loads((DATA / "corruption_statistics.json").read_text())["statistics"]

# Our frost is drawn, not photographed, and the reference enlarges its photographs by a tenth.
LOOSE = {
    "frost": (0.02, 0.025, 0.4),
    # one angle for each image, and few images hold most of the fine detail
    "motion_blur": (0.005, 0.005, 0.3),
    "fog": (0.012, 0.015, 0.08),
}
USUAL = (0.012, 0.008, 0.08)  # mean, deviation, log10 of the power


@pytest.mark.parametrize("name", sorted({key.rsplit("_", 1)[0] for key in IMAGES.files if key != "made"}))
def test_without_randomness_the_images_agree(name: str) -> None:
    images = patches(2, 64, 64, seed=1)
    for severity in range(1, 6):
        ours = get_shift(name, table="imagenet-c")(images, severity)
        assert np.abs(ours * 255 - IMAGES[f"{name}_{severity}"]).mean() <= 2, severity


@pytest.mark.parametrize("severity", ["1", "3", "5"])
@pytest.mark.parametrize("name", sorted(set(STATISTICS) - {"elastic_transform"}))
def test_with_randomness_the_statistics_agree(name: str, severity: str) -> None:
    ours = statistics(get_shift(name, table="imagenet-c")(patches(200, 96, 96), int(severity), seed=1))
    compare(ours, STATISTICS[name][severity], *LOOSE.get(name, USUAL))


@pytest.mark.parametrize(("severity", "alpha"), [("1", 12.5), ("3", 21.25), ("5", 30.0)])
def test_elastic_agrees_when_given_the_references_parameters(severity: str, alpha: float) -> None:
    """imagecorruptions left the published elastic parameters for its own; with those the displacement is the same."""
    from driftcal.core.random import keys_of
    from driftcal.shifts.corruptions.elastic import elastic_transform

    images = patches(200, 96, 96).astype(np.float32) / np.float32(255)
    out = np.empty_like(images)
    elastic_transform(images, out, keys_of("elastic_transform", 0, np.arange(200)), alpha * 0.005 * 96, 0.96, 0.0)
    compare(statistics(out), STATISTICS["elastic_transform"][severity], *USUAL)


def compare(ours: dict, theirs: dict, mean: float, deviation: float, power: float) -> None:
    assert ours["mean"] == pytest.approx(theirs["mean"], abs=mean)
    assert ours["deviation"] == pytest.approx(theirs["deviation"], abs=deviation)
    # below this the reference holds nothing but the noise of rounding to 8 bits
    audible = [i for i, p in enumerate(theirs["spectrum"]) if p > -1.7]
    ours_, theirs_ = np.array(ours["spectrum"])[audible], np.array(theirs["spectrum"])[audible]
    assert ours_ == pytest.approx(theirs_, abs=power)
