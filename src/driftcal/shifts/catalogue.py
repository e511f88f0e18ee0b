"""The list of shifts and suites, each with one line of description, for the command line and the docs."""

from __future__ import annotations

from typing import Any

from driftcal.shifts.affine import Affine
from driftcal.shifts.corruptions.corruption import Corruption
from driftcal.shifts.gaussian import Gaussian
from driftcal.shifts.mixture import Mixture
from driftcal.shifts.series.series_shift import SeriesNoise, SeriesShift
from driftcal.shifts.shift import Shift
from driftcal.shifts.simulated.image_changes import ImageChange
from driftcal.shifts.suites import SUITES
from driftcal.shifts.tabular.drifts import FeatureDrift
from driftcal.shifts.tabular.tabular_noise import TabularNoise
from driftcal.shifts.text.text_shift import TextShift, WordNoise
from driftcal.shifts.varied import Varied

#: name of a built-in shift -> description
DESCRIPTIONS: dict[str, str] = {
    "gaussian": "Gaussian noise of variance ε, the shift that Algorithm 1 tunes on",
    "rot_left": "rotation, 350° down to 270°",
    "rot_right": "rotation, 10° up to 90°",
    "shear": "shear, 10° up to 90°",
    "xyshift": "translation down and across, 1/16 to 9/16 of the side",
    "xshift": "translation along the row axis, 1/16 to 9/16 of the height",
    "yshift": "translation along the column axis, 1/16 to 9/16 of the width",
    "xyzoom": "enlargement of the centre, by 1/0.9 to 1/0.1",
    "xzoom": "enlargement along the row axis only, by 1/0.9 to 1/0.1",
    "yzoom": "enlargement along the column axis only, by 1/0.9 to 1/0.1",
    "gaussian_noise": "Gaussian noise, as of a sensor in low light",
    "shot_noise": "Poisson noise of few photons",
    "impulse_noise": "pixel values set to 0 or 1 (salt and pepper)",
    "speckle_noise": "Gaussian noise in proportion to the value",
    "defocus_blur": "blur of a lens out of focus: a disk",
    "glass_blur": "frosted glass: a pixel takes the colour of a neighbour",
    "motion_blur": "blur of a moving camera, at an angle within ±45°",
    "zoom_blur": "blur of a camera that moves towards the scene",
    "gaussian_blur": "blur with a Gaussian filter",
    "snow": "streaks of snow over a whitened image",
    "frost": "ice on a window (drawn, not photographed)",
    "fog": "a fractal cloud",
    "brightness": "a higher value in HSV",
    "contrast": "lower contrast: values nearer to their mean",
    "saturate": "paler colours at severities 1 and 2, stronger ones above",
    "spatter": "drops of water at severities 1 to 3, mud above",
    "elastic_transform": "a random affine map and a smooth displacement",
    "pixelate": "fewer, larger pixels",
    "jpeg_compression": "losses of JPEG compression",
    "h_mixture": "one of the four -H corruptions for each image",
    "varied": "Gaussian noise or one of eight perturbations that no suite has, for each image: a tuning shift",
    "cover": "a rectangle of one colour covers 9 % to 70 % of each side (simulated, for fitting, like those that follow)",
    "ghost": "the image is mixed with itself upside down",
    "shuffle": "some tiles of a grid change positions",
    "solarise": "bright values are inverted",
    "posterise": "values are rounded to a few",
    "cloud": "a smooth random field of each colour is added",
    "jitter": "every row of pixels moves sideways by its own distance",
    "recolour": "colour channels are exchanged",
    "darken": "values are multiplied, ×0.8 to ×0.18",
    "brighten": "values are multiplied, ×1.2 to ×3.2",
    "gamma_up": "values are raised to a power, 1.3 to 4: darker",
    "gamma_down": "values are raised to a power, 0.75 to 0.24: brighter",
    "fade": "distances from mid-grey shrink, ×0.75 to ×0.17",
    "downscale": "fewer pixels, 85 % to 30 % of each side, interpolated",
    "soften": "half-pixel moves average neighbouring pixels",
    "crop": "a random crop of 90 % to 50 % of each side is enlarged",
    "zoom_out": "the image shrinks by 1.15 to 2.6, its mirror image around it",
    "tabular_noise": "noise for feature tables, in units learnt by .fit(x_val)",
    "feature_offset": "columns move up or down, by 0.25 to 2 standard deviations",
    "feature_spread": "distances from the mean grow, ×1.25 to ×4",
    "feature_shrink": "distances from the mean shrink, ×0.8 to ×0.1",
    "feature_missing": "10 % to 60 % of the entries are replaced by the mean",
    "feature_dead": "5 % to 50 % of the columns are replaced by the mean",
    "feature_shuffled": "10 % to 60 % of the entries are replaced by those of other samples",
    "feature_outliers": "1 % to 20 % of the entries move by six standard deviations",
    "feature_scaled": "a sample's distances from the mean get a random factor (simulated, for fitting, like those that follow)",
    "feature_warped": "distances from the mean are raised to a power, 0.8 to 0.2",
    "feature_tilted": "samples move along one direction, by up to 0.4 to 3 standard deviations",
    "feature_blended": "entries move towards those of other samples, by 10 % to 70 %",
    "feature_redrawn": "5 % to 60 % of the columns are replaced by entries of other samples",
    "feature_dropped": "5 % to 50 % of the entries are replaced by the column's lowest value",
    "feature_rounded": "values are rounded to multiples of 0.3 to 2.5 standard deviations",
    "text_noise": "words are left out or scrambled, down to nothing: the tuning shift of text",
    "text_typos": "2 % to 25 % of the letters are hit beside their key, left out, doubled or exchanged",
    "text_ocr": "3 % to 30 % of the characters are taken for those that look alike",
    "text_word_dropout": "10 % to 70 % of the words are left out",
    "text_casing": "20 % to 100 % of the words change between upper and lower case",
    "text_truncation": "the last 20 % to 90 % of the words are cut off",
    "text_unknown_words": "10 % to 70 % of the words are replaced by random letters",
    "text_letters": "2 % to 35 % of the letters are replaced (simulated, for fitting, like those that follow)",
    "text_vowels": "5 % to 70 % of the vowels are left out",
    "text_order": "20 % to 100 % of the words change places",
    "text_repeated": "20 % to 100 % of the words are doubled",
    "text_beginning_cut": "the first 20 % to 90 % of the words are cut off",
    "series_noise": "white noise on time series, in units learnt by .fit(x_val): their tuning shift",
    "series_coloured_noise": "noise whose values follow their predecessors, 0.1 to 1.2 standard deviations",
    "series_spikes": "1 % to 25 % of the values move by five standard deviations",
    "series_dropout": "a value is held over 10 % to 70 % of the series",
    "series_drift": "a rising or falling baseline, 0.25 to 2.5 standard deviations",
    "series_scaling": "the amplitude is multiplied or divided by 1.2 to 4.5",
    "series_stretch": "time runs faster or slower by 1.08 to 2.2",
    "series_offset": "the series moves by 0.2 to 2 standard deviations (simulated, for fitting, like those that follow)",
    "series_hum": "a sine of 0.2 to 2 standard deviations is added",
    "series_smooth": "the mean over 6 % to 60 % of the series",
    "series_rounded": "values are rounded to 0.3 to 2.5 standard deviations",
    "series_clipped": "values are clipped at 1.3 to 0.12 standard deviations",
    "series_warped": "values are raised to a power, 0.85 to 0.15",
    "series_delay": "the series begins earlier or later by 5 % to 45 % of its length",
}


#: class of a shift -> family; all others are the user's own
_FAMILIES: dict[type, str] = {
    Gaussian: "noise",
    Affine: "affine",
    Corruption: "corruption",
    Mixture: "mixture",
    Varied: "mixture",
    ImageChange: "simulated",
    TabularNoise: "tabular",
    FeatureDrift: "tabular",
    WordNoise: "text",
    TextShift: "text",
    SeriesNoise: "series",
    SeriesShift: "series",
}


def catalogue(shifts: dict[str, Shift]) -> dict[str, list[dict[str, Any]]]:
    """Every shift and suite as plain data: ``{"shifts": [...], "suites": [...]}``."""
    return {
        "shifts": [
            {
                "name": name,
                "family": _FAMILIES.get(type(shift), "custom"),
                "levels": None if shift.levels is None else list(shift.levels),
                "description": DESCRIPTIONS.get(name, "your own"),
            }
            for name, shift in shifts.items()
        ],
        "suites": [
            {
                "name": suite.name,
                "shifts": [shift.name for shift in suite.shifts],
                "conditions": len(suite),
                "description": suite.description,
            }
            for suite in SUITES.values()
        ],
    }


def catalogue_text(shifts: dict[str, Shift]) -> str:
    """The same as a table for a terminal."""
    entries = catalogue(shifts)
    table = [("SHIFT", "FAMILY", "LEVELS", "")]
    for shift in entries["shifts"]:
        levels = "any ε ≥ 0" if shift["levels"] is None else f"0-{shift['levels'][-1]}"
        table.append((shift["name"], shift["family"], levels, shift["description"]))
    table += [("", "", "", ""), ("SUITE", "", "", "")]
    for suite in entries["suites"]:
        size = f"{len(suite['shifts'])} shifts"
        table.append((suite["name"], size, f"{suite['conditions']} conditions", suite["description"]))
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    return "\n".join(
        "  ".join([*(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=False)), row[3]]).rstrip() for row in table
    )
