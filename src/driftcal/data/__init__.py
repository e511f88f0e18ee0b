"""Labelled data: arrays, tables, loaders, ``.npz`` files, image folders and the published data sets.

Every format is one function that returns a :class:`Source`. `SOURCES` lists the functions by name.
"""

from __future__ import annotations

from driftcal.data.arrays import digits, from_arrays, npz
from driftcal.data.bundled import fashion_mnist
from driftcal.data.formats import SOURCES, is_data_set, open_source
from driftcal.data.image_folder import image_folder
from driftcal.data.published.cifar10 import cifar10, cifar10_c, cifar10_corruptions
from driftcal.data.published.download import DOWNLOADS, fetch
from driftcal.data.published.imagenet import imagenet, imagenet_c, imagenet_corruptions
from driftcal.data.published.objectnet import objectnet
from driftcal.data.source import InputBatch, Source

__all__ = [
    "DOWNLOADS",
    "SOURCES",
    "InputBatch",
    "Source",
    "cifar10",
    "cifar10_c",
    "cifar10_corruptions",
    "digits",
    "fashion_mnist",
    "fetch",
    "from_arrays",
    "image_folder",
    "imagenet",
    "imagenet_c",
    "imagenet_corruptions",
    "is_data_set",
    "npz",
    "objectnet",
    "open_source",
]
