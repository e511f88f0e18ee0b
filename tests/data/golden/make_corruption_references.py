"""Reference values of the corruptions from an independent implementation.

    pip install imagecorruptions-imaug==1.1.5
    python tests/data/golden/make_corruption_references.py

Writes into the folder data: ``corruption_images.npz``, outputs of the corruptions without randomness, and
``corruption_statistics.json``, mean, deviation and spectrum of the random ones over 200 images. Every file says which
versions made it.
"""

from __future__ import annotations

import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

import imagecorruptions
import numpy as np
from corruption_photographs import patches, statistics

DATA = Path(__file__).parent
EXACT = (
    "contrast", "brightness", "saturate", "pixelate", "jpeg_compression", "defocus_blur", "gaussian_blur", "zoom_blur",
)  # fmt: skip
RANDOM = (
    "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "glass_blur", "motion_blur", "snow", "frost", "fog",
    "spatter", "elastic_transform",
)  # fmt: skip


def corrupted(images: np.ndarray, name: str, severity: int) -> np.ndarray:
    return np.stack([imagecorruptions.corrupt(image, severity=severity, corruption_name=name) for image in images])


def main() -> None:
    warnings.simplefilter("ignore")
    np.random.seed(0)  # noqa: NPY002, the package draws from the global state
    packages = ("imagecorruptions-imaug", "numpy", "scikit-image", "scipy", "opencv-python", "pillow", "scikit-learn")
    made = {"python": platform.python_version(), **{package: version(package) for package in packages}}
    images = patches(2, 64, 64, seed=1)
    exact = {f"{name}_{s}": corrupted(images, name, s) for name in EXACT for s in range(1, 6)}
    np.savez_compressed(DATA / "corruption_images.npz", made=json.dumps(made), **exact)
    many = patches(200, 96, 96)
    random = {name: {str(s): statistics(corrupted(many, name, s) / 255) for s in (1, 3, 5)} for name in RANDOM}
    (DATA / "corruption_statistics.json").write_text(json.dumps({"made": made, "statistics": random}, indent=1) + "\n")


if __name__ == "__main__":
    main()
