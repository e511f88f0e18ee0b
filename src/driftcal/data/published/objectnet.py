"""ObjectNet and its mapping files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.labels import NO_CLASS
from driftcal.data.image_files import ImageDecoder, from_files, list_images, need_folder
from driftcal.data.source import Source
from driftcal.errors import DataError
from driftcal.io.json_text import parse_json
from driftcal.io.paths import AnyPath, as_path

_FOLDERS_FILE = "folder_to_objectnet_label.json"
_SHARED_FILE = "objectnet_to_imagenet_1k.json"
_OUTPUTS_FILE = "pytorch_to_imagenet_2012_id.json"
_NAMES_FILE = "imagenet_to_label_2012_v2"


def objectnet(
    path: AnyPath,
    *,
    mappings: AnyPath | None = None,
    size: int | tuple[int, int] | None = 224,
    crop: float = 0.875,
    threads: int | None = None,
) -> Source:
    """ObjectNet for a model with ImageNet's outputs. Barbu et al. 2019.

    The 113 classes that ObjectNet shares with ImageNet get a label. If several ImageNet classes are correct,
    `Source.correct_outputs` lists all of them, and ``source.is_correct(predicted)`` accepts each. All other classes are
    out of distribution, with the label -1. ``source.labelled()`` and ``source.unlabelled()`` separate the two kinds.
    The group of a sample is its ObjectNet class.

    Parameters
    ----------
    path
        The folder with ``images/<class>/*.png`` and ``mappings/``, as published.
    mappings
        The folder with the mapping files, if it is another one.
    size, crop
        See :class:`driftcal.data.image_files.ImageDecoder`. The red border of 2 pixels is always removed.
    threads
        Threads that read files; one per core by default.
    """
    root = need_folder(path, "ObjectNet (images/, mappings/)")
    root = root / "objectnet-1.0" if (root / "objectnet-1.0").is_dir() else root
    images = need_folder(root / "images", "ObjectNet's images")
    folder_outputs, output_names = read_mappings(as_path(mappings) if mappings is not None else root / "mappings")
    folder_labels, correct_outputs = _choose_labels(folder_outputs)
    folders = sorted(item.name for item in images.iterdir() if item.is_dir() and not item.name.startswith("."))
    unknown = [folder for folder in folders if folder not in folder_outputs]
    if unknown:
        raise DataError(
            f"folder {unknown[0]!r} of ObjectNet is not in {_FOLDERS_FILE}. Do images and mappings belong together?"
        )
    paths = [file for folder in folders for file in list_images(images / folder)]
    groups = np.array([file.relative_to(images).parts[0] for file in paths])
    return from_files(
        "objectnet",
        paths,
        np.array([folder_labels.get(group, NO_CLASS) for group in groups.tolist()], np.int64),
        output_names,
        decoder=ImageDecoder(size, crop=crop, border=2),
        root=images,
        threads=threads,
        groups=groups,
        correct_outputs=correct_outputs,
    )


def read_mappings(folder: Path) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """The correct model outputs of each image folder, () if there is none; and the names of all outputs."""
    files = (_FOLDERS_FILE, _SHARED_FILE, _OUTPUTS_FILE, _NAMES_FILE)
    root = need_folder(folder, f"ObjectNet's mapping files: {', '.join(files)}")
    folder_labels: Mapping[str, str] = _read_json(root / _FOLDERS_FILE)
    shared: Mapping[str, str] = _read_json(root / _SHARED_FILE)
    output_lines: Mapping[str, int] = _read_json(root / _OUTPUTS_FILE)
    try:
        text = (root / _NAMES_FILE).read_text(encoding="utf-8").splitlines()
        lines = [line.strip() for line in text if line.strip()]
        outputs = {int(output): lines[int(line)] for output, line in output_lines.items()}
        names = tuple(outputs[output] for output in range(len(outputs)))
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        raise DataError(
            f"ObjectNet's {_OUTPUTS_FILE} and {_NAMES_FILE} in {str(folder)!r} do not fit each other; {error!r}."
        ) from error
    for name, mapping in ((_FOLDERS_FILE, folder_labels), (_SHARED_FILE, shared)):
        if not all(isinstance(value, str) for value in mapping.values()):
            raise DataError(f"ObjectNet's {name} in {str(folder)!r} must map text to text. Download it again.")
    output_of = {name: output for output, name in enumerate(names)}
    folder_outputs = {}
    for image_folder, label in folder_labels.items():
        imagenet_names = [name.strip() for name in shared[label].split(";")] if label in shared else []
        missing = [name for name in imagenet_names if name not in output_of]
        if missing:
            raise DataError(f"{_SHARED_FILE} maps {label!r} to {missing[0]!r}, which {_NAMES_FILE} does not list.")
        folder_outputs[image_folder] = tuple(output_of[name] for name in imagenet_names)
    return folder_outputs, names


def _read_json(file: Path) -> Any:
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"ObjectNet's mapping file {str(file)!r} cannot be read; {error}.") from error
    if not isinstance(content, dict):
        raise DataError(f"ObjectNet's mapping file {str(file)!r} must be a JSON object.")
    return content


def _choose_labels(
    folder_outputs: Mapping[str, tuple[int, ...]],
) -> tuple[dict[str, int], dict[int, tuple[int, ...]]]:
    """A label for each shared class, one of its outputs, different for all classes; and the outputs of each label."""
    labels: dict[str, int] = {}
    correct_outputs: dict[int, tuple[int, ...]] = {}
    for folder, outputs in sorted(folder_outputs.items(), key=lambda item: (len(item[1]), item[0])):
        if outputs:
            free = [output for output in outputs if output not in correct_outputs]
            if not free:
                raise DataError(
                    f"ObjectNet's class {folder!r} shares all its ImageNet classes with others; it needs one of its own."
                )
            labels[folder], correct_outputs[free[0]] = free[0], outputs
    return labels, correct_outputs
