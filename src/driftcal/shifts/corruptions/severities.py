"""The published parameters of the 19 corruptions, severities 1 to 5, as data.

There are two sets: one for ImageNet-C with 224 pixels, one for CIFAR-10-C with 32 pixels. Hendrycks & Dietterich 2019,
"Benchmarking Neural Network Robustness to Common Corruptions and Perturbations". The function of a corruption takes its
parameters in the order of the comments. Lengths are pixels of the corrupted image; they do not grow with it.
"""

from __future__ import annotations

from typing import TypeAlias

#: corruption -> one tuple of parameters for each severity
Severities: TypeAlias = dict[str, tuple[tuple[float, ...], ...]]

_IMAGENET_C: Severities = {
    # standard deviation
    "gaussian_noise": ((0.08,), (0.12,), (0.18,), (0.26,), (0.38,)),
    # photons at full brightness
    "shot_noise": ((60,), (25,), (12,), (5,), (3,)),
    # share of the values that change
    "impulse_noise": ((0.03,), (0.06,), (0.09,), (0.17,), (0.27,)),
    # standard deviation as a share of the value
    "speckle_noise": ((0.15,), (0.2,), (0.35,), (0.45,), (0.6,)),
    # radius of the disk, standard deviation of its soft edge
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    # standard deviation of the blur, farthest copy, rounds
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    # radius, standard deviation
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    # number of zooms, step between them (a rounding error adds 1.11 and 1.06 to the published ranges)
    "zoom_blur": ((12, 0.01), (16, 0.01), (11, 0.02), (13, 0.02), (11, 0.03)),
    # standard deviation
    "gaussian_blur": ((1,), (2,), (3,), (4,), (6,)),
    # mean and deviation of the flakes, zoom, threshold, radius and deviation of their motion, share of the image
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    # share of the image, share of the frost, size of the texture
    "frost": ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    # thickness, decay of the detail
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    # added to the value of HSV
    "brightness": ((0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
    # factor on the distance to the mean
    "contrast": ((0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
    # factor and added term for the saturation of HSV
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    # mean, deviation, blur and threshold of the liquid, strength (water) or blur (mud), 0 water or 1 mud
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    # strength and blur of the displacement, reach of the random affine map
    "elastic_transform": (
        (488, 170.8, 24.4),
        (488, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    ),
    # size of the small image, as a share of the side
    "pixelate": ((0.6,), (0.5,), (0.4,), (0.3,), (0.25,)),
    # quality
    "jpeg_compression": ((25,), (18,), (15,), (10,), (7,)),
}

_CIFAR10_C: Severities = {
    "gaussian_noise": ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)),
    "shot_noise": ((500,), (250,), (100,), (75,), (50,)),
    "impulse_noise": ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),
    "speckle_noise": ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)),
    "gaussian_blur": ((0.4,), (0.6,), (0.7,), (0.8,), (1,)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)),
    "contrast": ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "elastic_transform": ((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
    "pixelate": ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),
    "jpeg_compression": ((80,), (65,), (58,), (50,), (40,)),
}

#: name of the parameter set -> its severities
TABLES: dict[str, Severities] = {"imagenet-c": _IMAGENET_C, "cifar10-c": _CIFAR10_C}

#: Images whose shorter side is below this are nearer to 32 than to 224 pixels (the geometric mean is 84.7).
SMALL_SIDE = 85


def table_for(height: int, width: int) -> str:
    """The parameter set whose image size is nearer to this one.

    >>> table_for(32, 32), table_for(224, 224), table_for(64, 512)
    ('cifar10-c', 'imagenet-c', 'cifar10-c')
    """
    return "cifar10-c" if min(height, width) < SMALL_SIDE else "imagenet-c"


def parameters(name: str, severity: int, table: str) -> tuple[float, ...]:
    """The parameters of corruption `name` at `severity` 1 to 5 in the set `table`."""
    return tuple(float(value) for value in TABLES[table][name][severity - 1])
