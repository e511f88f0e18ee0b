"""Float images must hold finite numbers in [0, 1]; each error names the image and the reason."""

import re

import numpy as np
import pytest

from driftcal.core.inputs.images import as_block, check_pixels
from driftcal.errors import ImagesError


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "minus infinity")])
@pytest.mark.parametrize("scale", [1, 255])
def test_pixels_that_are_not_finite_are_named(value, name, scale):
    images = np.full((5, 8, 8, 3), 0.5 * scale, np.float32)
    images[:3] = 0.5
    images[3, 1, 2, 0] = value
    text = f"images must hold finite numbers; image 103 holds {name} at (row, column, channel) (1, 2, 0). Repair or drop it."
    with pytest.raises(ImagesError, match=f"^{re.escape(text)}$"):
        as_block(images, 100)


@pytest.mark.parametrize(
    ("low", "high", "way_out"),
    [(0, 255, "divide by 255"), (-2.1, 2.6, "Already normalised"), (0, 1.0001, r"Clip them"), (-1e-6, 1, "Clip them")],
)
def test_pixels_outside_the_range_are_explained(low, high, way_out):
    images = np.linspace(low, high, 2 * 8 * 8 * 1).reshape(2, 8, 8, 1)
    with pytest.raises(ImagesError, match=rf"must lie in \[0, 1\]; image \d spans .*{way_out}"):
        check_pixels(images)
    check_pixels(np.clip(images, 0, 1))
    check_pixels(images[:0])
