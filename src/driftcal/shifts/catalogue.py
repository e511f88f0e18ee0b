"""What there is: one line about every shift and suite, for the command line and the docs."""

from __future__ import annotations

from typing import Any

from driftcal.shifts.affine import AFFINE
from driftcal.shifts.corruptions.corruption import CORRUPTIONS
from driftcal.shifts.shift import Shift
from driftcal.shifts.suites import SUITES
from driftcal.shifts.tabular.drifts import DRIFTS

ABOUT: dict[str, str] = {
    "gaussian": "noise of variance ε, the shift Algorithm 1 tunes on",
    "rot_left": "rotation, 350° down to 270°",
    "rot_right": "rotation, 10° up to 90°",
    "shear": "shear, 10° up to 90°",
    "xyshift": "translation down and across, 1/16 to 9/16 of the side",
    "xshift": "translation along the rows' axis, 1/16 to 9/16 of the height",
    "yshift": "translation along the columns' axis, 1/16 to 9/16 of the width",
    "xyzoom": "enlargement of the middle, by 1/0.9 to 1/0.1",
    "xzoom": "the same along the rows' axis only",
    "yzoom": "the same along the columns' axis only",
    "gaussian_noise": "noise of a dark sensor",
    "shot_noise": "few photons: Poisson noise",
    "impulse_noise": "salt and pepper",
    "speckle_noise": "noise in proportion to the value",
    "defocus_blur": "out of focus: a disk",
    "glass_blur": "frosted glass: pixels take a neighbour's colour",
    "motion_blur": "a moving camera, any angle within 45°",
    "zoom_blur": "a camera moving towards the scene",
    "gaussian_blur": "a Gaussian filter",
    "snow": "streaks of snow over a whitened image",
    "frost": "feathers of ice on the window (drawn, not photographed)",
    "fog": "a fractal cloud",
    "brightness": "the value of HSV raised",
    "contrast": "values drawn to their mean",
    "saturate": "colours paler, then stronger",
    "spatter": "drops of water, then mud",
    "elastic_transform": "a random affine map and a smooth displacement",
    "pixelate": "fewer, larger pixels",
    "jpeg_compression": "the losses of JPEG",
    "h_mixture": "one of the four -H corruptions for each image",
    "varied": "noise or one of eight ways that no suite tests, for each image: a tuning shift",
    "tabular_noise": "noise for feature matrices, scales learnt by .fit(x_val)",
    "feature_offset": "columns move up or down, by 0.25 to 2 standard deviations",
    "feature_spread": "columns spread around their means, ×1.25 to ×4",
    "feature_shrink": "columns shrink to their means, ×0.8 to ×0.1",
    "feature_missing": "10 % to 60 % of the entries are missing: the mean instead",
    "feature_dead": "5 % to 50 % of the columns are dead: the mean instead",
    "feature_shuffled": "10 % to 60 % of the entries are another row's",
    "feature_outliers": "1 % to 20 % of the entries are six standard deviations off",
}


def family_of(name: str) -> str:
    """Where a shift belongs: affine, corruption, noise, mixture, tabular or custom."""
    if name in AFFINE:
        return "affine"
    if name in CORRUPTIONS:
        return "corruption"
    if name in DRIFTS:
        return "tabular"
    return {"gaussian": "noise", "h_mixture": "mixture", "varied": "mixture", "tabular_noise": "tabular"}.get(
        name, "custom"
    )


def catalogue(shifts: dict[str, Shift]) -> dict[str, list[dict[str, Any]]]:
    """Every shift and suite as plain data: ``{"shifts": [...], "suites": [...]}``."""
    return {
        "shifts": [
            {
                "name": name,
                "family": family_of(name),
                "levels": None if shift.levels is None else list(shift.levels),
                "about": ABOUT.get(name, "your own"),
            }
            for name, shift in shifts.items()
        ],
        "suites": [
            {"name": s.name, "shifts": [shift.name for shift in s.shifts], "conditions": len(s), "about": s.about}
            for s in SUITES.values()
        ],
    }


def catalogue_text(shifts: dict[str, Shift]) -> str:
    """The same as a table to read."""
    listed = catalogue(shifts)
    rows = [
        (s["name"], s["family"], "any ε ≥ 0" if s["levels"] is None else f"0-{s['levels'][-1]}", s["about"])
        for s in listed["shifts"]
    ]
    suites = [
        (s["name"], f"{len(s['shifts'])} shifts", f"{s['conditions']} conditions", s["about"]) for s in listed["suites"]
    ]
    table = [("SHIFT", "FAMILY", "LEVELS", ""), *rows, ("", "", "", ""), ("SUITE", "", "", ""), *suites]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    return "\n".join(
        "  ".join([*(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=False)), row[3]]).rstrip() for row in table
    )
