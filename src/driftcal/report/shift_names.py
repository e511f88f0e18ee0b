"""Names of shifts for readers: "turned right" for ``rot_right``. Tables and files keep the short names."""

from __future__ import annotations

_TITLES = {
    "rot_left": "turned left",
    "rot_right": "turned right",
    "shear": "sheared",
    "xyshift": "moved down and right",
    "xshift": "moved down",
    "yshift": "moved right",
    "xyzoom": "enlarged",
    "xzoom": "made taller",
    "yzoom": "made wider",
    "gaussian": "Gaussian noise",
    "gaussian_noise": "Gaussian noise of a sensor",
    "jpeg_compression": "JPEG compression",
    "defocus_blur": "out of focus",
    "elastic_transform": "elastic deformation",
    "h_mixture": "a mixture of four corruptions",
    "feature_offset": "columns moved",
    "feature_spread": "wider distributions",
    "feature_shrink": "narrower distributions",
    "feature_missing": "missing entries",
    "feature_dead": "dead columns",
    "feature_shuffled": "shuffled entries",
    "feature_outliers": "outliers",
}


def shift_title(name: str) -> str:
    """The name of a shift for readers; other names lose their underscores only.

    >>> shift_title("rot_right"), shift_title("motion_blur"), shift_title("mine")
    ('turned right', 'motion blur', 'mine')
    """
    return _TITLES.get(name, name.replace("_", " "))


def shift_title_and_name(name: str) -> str:
    """Both, if they differ by more than underscores: "turned right (rot_right)"."""
    title = shift_title(name)
    return title if title in (name, name.replace("_", " ")) else f"{title} ({name})"
