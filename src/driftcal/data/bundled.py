"""Photographs that come with driftcal: 2,000 test images of Fashion-MNIST, and a network that was trained on others."""

from __future__ import annotations

from pathlib import Path

from driftcal.data.arrays import npz
from driftcal.data.source import Source

_FOLDER = Path(__file__).parent / "bundled"
#: An ONNX network for these images (n, 1, 28, 28) in [0, 1]. ``bundled/README.md`` says how it was trained.
FASHION_NETWORK = _FOLDER / "fashion-mnist.onnx"
FASHION_IMAGES = _FOLDER / "fashion-mnist.npz"


def fashion_mnist() -> Source:
    """2,000 test images of Fashion-MNIST: grey photographs of clothes, 28×28 pixels, 10 classes. driftcal contains them."""
    return npz(FASHION_IMAGES)
