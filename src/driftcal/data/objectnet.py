"""ObjectNet with its own mapping files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.data.image_folder import Decode, from_files, list_images, need_folder
from driftcal.data.source import Source
from driftcal.errors import DataError
from driftcal.io.paths import as_path

_FILES = (
    "folder_to_objectnet_label.json", "objectnet_to_imagenet_1k.json", "pytorch_to_imagenet_2012_id.json",
    "imagenet_to_label_2012_v2",
)  # fmt: skip


def objectnet(
    path: str | os.PathLike[str],
    *,
    mappings: str | os.PathLike[str] | None = None,
    size: int | tuple[int, int] | None = 224,
    crop: float = 0.875,
    threads: int | None = None,
) -> Source:
    """ObjectNet for a model with ImageNet's outputs. Barbu et al. 2019.

    ``images/<class>/*.png`` and ``mappings/`` as published. Images lose their red border of 2 pixels. The classes shared
    with ImageNet (113) get a label; where several ImageNet classes are right, `answers` lists all of them and
    ``source.right(predicted)`` scores over all outputs. Every other class is out of distribution: label -1.
    ``source.labelled()`` and ``source.unlabelled()`` take the two apart; the group of a row is its ObjectNet class.
    """
    root = need_folder(path, "ObjectNet (images/, mappings/)")
    root = root / "objectnet-1.0" if (root / "objectnet-1.0").is_dir() else root
    images = need_folder(root / "images", "ObjectNet's images")
    folder_outputs, names = read_mappings(as_path(mappings) if mappings is not None else root / "mappings")
    canonical, answers = _canonical(folder_outputs)
    folders = sorted(item.name for item in images.iterdir() if item.is_dir() and not item.name.startswith("."))
    unknown = [folder for folder in folders if folder not in folder_outputs]
    if unknown:
        raise DataError(
            f"folder {unknown[0]!r} of ObjectNet is not in {_FILES[0]}. Do images and mappings belong together?"
        )
    paths = [file for folder in folders for file in list_images(images / folder)]
    groups = np.array([file.relative_to(images).parts[0] for file in paths])
    labels = np.array([canonical.get(group, -1) for group in groups.tolist()], np.int64)
    return from_files(
        "objectnet",
        paths,
        labels,
        names,
        decode=Decode.of(size, crop=crop, border=2),
        root=images,
        threads=threads,
        all_groups=groups,
        answers=answers,
    )


def read_mappings(folder: Path) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """Image folder to the model outputs that are right for it, () where none is; and the names of all outputs."""
    place = need_folder(folder, f"ObjectNet's mapping files: {', '.join(_FILES)}")
    labels: Mapping[str, str] = _read(place / _FILES[0])
    shared: Mapping[str, str] = _read(place / _FILES[1])
    lines_of_outputs: Mapping[str, int] = _read(place / _FILES[2])
    try:
        text = (place / _FILES[3]).read_text(encoding="utf-8").splitlines()
        lines = [line.strip() for line in text if line.strip()]
        outputs = {int(output): lines[int(line)] for output, line in lines_of_outputs.items()}
        names = tuple(outputs[output] for output in range(len(outputs)))
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise DataError(
            f"ObjectNet's {_FILES[2]} and {_FILES[3]} in {str(folder)!r} do not fit each other; {error!r}."
        ) from error
    number = {name: output for output, name in enumerate(names)}
    found = {}
    for image_folder, label in labels.items():
        wanted = [name.strip() for name in shared[label].split(";")] if label in shared else []
        missing = [name for name in wanted if name not in number]
        if missing:
            raise DataError(f"{_FILES[1]} maps {label!r} to {missing[0]!r}, which {_FILES[3]} does not list.")
        found[image_folder] = tuple(number[name] for name in wanted)
    return found, names


def _read(file: Path) -> Any:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"ObjectNet's mapping file {str(file)!r} cannot be read; {error}.") from error
    if not isinstance(content, dict):
        raise DataError(f"ObjectNet's mapping file {str(file)!r} must be a JSON object.")
    return content


def _canonical(outputs: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, int], dict[int, tuple[int, ...]]]:
    """One output to stand for each shared class, no two classes the same; and all that are right for it."""
    labels: dict[str, int] = {}
    answers: dict[int, tuple[int, ...]] = {}
    for folder, right in sorted(outputs.items(), key=lambda item: (len(item[1]), item[0])):
        if right:
            free = [output for output in right if output not in answers]
            if not free:
                raise DataError(
                    f"ObjectNet's class {folder!r} shares all its ImageNet classes with others; it needs one of its own."
                )
            labels[folder], answers[free[0]] = free[0], right
    return labels, answers
