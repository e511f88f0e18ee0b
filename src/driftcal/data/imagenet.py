"""ImageNet's validation images and ImageNet-C, in the layouts they are published in."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from driftcal.data.image_folder import Decode, from_files, list_images, need_folder
from driftcal.data.source import Source
from driftcal.errors import DataError, InputError, UnknownName
from driftcal.io.paths import as_path

_WNID = re.compile(r"n\d{8}")
_LABEL_FILES = ("ILSVRC2012_validation_ground_truth.txt", "LOC_val_solution.csv", "val.txt", "labels.csv", "labels.txt")
_SYNSET_FILES = (
    "LOC_synset_mapping.txt", "synset_words.txt", "synsets.txt", "imagenet_class_index.json", "map_clsloc.txt", "meta.mat",
)  # fmt: skip
_CLASSES = 1000


@dataclass(frozen=True)
class Synsets:
    """The classes in the order of a model's outputs: WordNet ids sorted, with names; and the challenge's own numbers."""

    wnids: tuple[str, ...]
    names: tuple[str, ...]
    challenge: dict[int, str]  # ILSVRC2012_ID, counted from 1 in an order of its own, to WordNet id

    @classmethod
    def read(cls, file: Path) -> Synsets:
        """From any of the files that come with ImageNet (`_SYNSET_FILES`)."""
        try:
            if file.suffix == ".mat":
                rows = _read_devkit(file)
            elif file.suffix == ".json":
                rows = [(wnid, 0, name) for wnid, name in json.loads(file.read_text()).values()]
            else:
                rows = [_synset_line(line) for line in file.read_text().splitlines() if line.strip()]
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise DataError(f"{str(file)!r} must list WordNet ids, one per line with a name; {error}.") from error
        rows.sort()
        challenge = {number: wnid for wnid, number, _ in rows if number}
        return cls(tuple(row[0] for row in rows), tuple(row[2] or row[0] for row in rows), challenge)


def _synset_line(line: str) -> tuple[str, int, str]:
    """``n01440764 tench, Tinca tinca`` or, with the challenge's number, ``n01440764 449 tench``."""
    wnid, _, rest = line.strip().partition(" ")
    if not _WNID.fullmatch(wnid):
        raise ValueError(f"{line.strip()[:60]!r} does not begin with one")
    number, _, name = rest.partition(" ")
    return (wnid, int(number), name) if number.isdecimal() else (wnid, 0, rest)


def _read_devkit(file: Path) -> list[tuple[str, int, str]]:
    from scipy.io import loadmat

    synsets = np.atleast_1d(loadmat(file, squeeze_me=True)["synsets"])
    rows = [(str(s["WNID"]), int(s["ILSVRC2012_ID"]), str(s["words"])) for s in synsets]
    return [row for row in rows if row[1] <= _CLASSES]  # above are inner nodes of the tree


def _find(names: Sequence[str], *folders: Path) -> Path | None:
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def _synsets(root: Path, given: str | os.PathLike[str] | None) -> Synsets | None:
    if given is not None:
        return Synsets.read(as_path(given))
    found = _find(_SYNSET_FILES, root, root.parent, root.parent / "data", root / "data")
    return None if found is None else Synsets.read(found)


def _home(root: Path) -> Path:
    """The folder with the images: the one given, or its val."""
    return root / "val" if (root / "val").is_dir() else root


def imagenet(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    synsets: str | os.PathLike[str] | None = None,
    class_names: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = 224,
    crop: float = 0.875,
    threads: int | None = None,
) -> Source:
    """ImageNet's validation images with labels in the order of a model's 1,000 outputs (WordNet ids sorted).

    Three published styles: sub-folders named by WordNet id; a flat folder with
    ``ILSVRC2012_validation_ground_truth.txt``, whose numbers need the development kit's ``meta.mat`` or
    ``map_clsloc.txt``; a flat folder with a table of file names and labels (``LOC_val_solution.csv``, ``val.txt``,
    ``labels.csv``; a label is an index or a WordNet id). Files are found beside the images or one folder up, or named by
    `labels` and `synsets`. Rows are in the order of file names, as in `imagenet_c`, so splits pick the same images.
    """
    root = need_folder(path, "ImageNet's validation images")
    home = _home(root)
    table = as_path(labels) if labels is not None else _find(_LABEL_FILES, root, home, root.parent)
    known = _synsets(root, synsets)
    decode = Decode.of(size, crop=crop)
    folders = [item for item in home.iterdir() if item.is_dir() and _WNID.fullmatch(item.name)]
    if folders and labels is None:
        return _from_tree(root.name, home, known, class_names, decode, threads)
    if table is None:
        raise DataError(
            f"{str(path)!r} must hold sub-folders named by WordNet id (n01440764), or a label file beside the images: "
            f"{', '.join(_LABEL_FILES)}. Name it with labels=FILE."
        )
    paths = sorted(list_images(home), key=lambda item: item.name)
    names, numbers = _read_labels(table, paths, known, class_names)
    return from_files(root.name, paths, np.array(numbers, np.int64), names, decode=decode, root=home, threads=threads)


def _from_tree(
    name: str, home: Path, known: Synsets | None, class_names: Sequence[str] | None, decode: Decode, threads: int | None
) -> Source:
    folders = sorted(item.name for item in home.iterdir() if item.is_dir() and _WNID.fullmatch(item.name))
    if known is not None:
        wnids, names = known.wnids, known.names
    else:
        wnids = tuple(folders)
        expected = _CLASSES if class_names is None else len(class_names)
        if len(wnids) != expected:
            raise DataError(
                f"{str(home)!r} holds {len(wnids)} of {expected} class folders, so their place among the model's outputs is "
                f"unknown. Put one of {', '.join(_SYNSET_FILES)} beside them, or name it with synsets=FILE."
            )
        names = wnids
    number = {wnid: place for place, wnid in enumerate(wnids)}
    odd = [folder for folder in folders if folder not in number]
    if odd:
        raise DataError(f"folder {odd[0]!r} in {str(home)!r} is not among the {len(wnids)} known classes.")
    paths = sorted((file for folder in folders for file in list_images(home / folder)), key=lambda item: item.name)
    labels = np.array([number[item.relative_to(home).parts[0]] for item in paths], np.int64)
    return from_files(name, paths, labels, class_names or names, decode=decode, root=home, threads=threads)


def _read_labels(
    file: Path, paths: Sequence[Path], known: Synsets | None, class_names: Sequence[str] | None
) -> tuple[tuple[str, ...], list[int]]:
    """Class names, and the label of each path."""
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"label file {str(file)!r} cannot be read; {error}.") from error
    names = tuple(class_names or (known.names if known else [str(n) for n in range(_CLASSES)]))
    if all(line.strip().isdecimal() for line in lines):
        return names, _from_challenge(file, [int(line) for line in lines], paths, known)
    table: dict[str, str] = {}
    for row in csv.reader(lines, delimiter="," if "," in lines[0] else "\t" if "\t" in lines[0] else " "):
        cells = [cell.strip() for cell in row if cell.strip()]
        if len(cells) >= 2:
            table[Path(cells[0]).stem] = cells[1].split()[0]  # Kaggle adds boxes after the class
    order = {wnid: place for place, wnid in enumerate(known.wnids)} if known else {}
    numbers = []
    for path in paths:
        text = table.get(path.stem)
        if text is None:
            raise DataError(f"label file {str(file)!r} says nothing about image {path.name!r}.")
        if _WNID.fullmatch(text):
            if text not in order:
                raise DataError(
                    f"{file.name!r} names class {text!r}; to place it among the outputs, give synsets=FILE."
                )
            numbers.append(order[text])
        elif text.isdecimal():
            numbers.append(int(text))
        else:
            raise DataError(
                f"{file.name!r} must give each image an index from 0 or a WordNet id; {path.name!r} has {text!r}."
            )
    return names, numbers


def _from_challenge(file: Path, numbers: list[int], paths: Sequence[Path], known: Synsets | None) -> list[int]:
    if known is None or not known.challenge:
        raise DataError(
            f"{file.name!r} counts classes in the challenge's own order, not in that of models. Put the development kit's "
            "meta.mat or map_clsloc.txt beside it, or name it with synsets=FILE."
        )
    if len(numbers) != len(paths):
        raise DataError(
            f"{file.name!r} has {len(numbers)} labels for {len(paths)} images; they go by the order of file names."
        )
    order = {wnid: place for place, wnid in enumerate(known.wnids)}
    unknown = sorted(set(numbers) - set(known.challenge))
    if unknown:
        raise DataError(f"{file.name!r} holds class number {unknown[0]}, which the synset file does not list.")
    return [order[known.challenge[number]] for number in numbers]


def imagenet_c(
    path: str | os.PathLike[str],
    *,
    corruption: str,
    severity: int,
    synsets: str | os.PathLike[str] | None = None,
    class_names: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = 224,
    threads: int | None = None,
) -> Source:
    """ImageNet-C as published: ``<corruption>/<severity>/<WordNet id>/*.JPEG``, images already cut to 224 pixels.

    The archives' own folders (``blur/defocus_blur/…``) are found too. Hendrycks & Dietterich 2019.
    """
    there = imagenet_corruptions(path)
    if corruption not in there:
        raise UnknownName.of("corruption in this ImageNet-C folder", corruption, there)
    if severity not in range(1, 6):
        raise InputError(f"severity must be 1..5; it is {severity!r}.")
    home = need_folder(there[corruption] / str(severity), f"severity {severity} of {corruption}")
    known = _synsets(as_path(path), synsets)
    return _from_tree(f"imagenet-c/{corruption}/{severity}", home, known, class_names, Decode.of(size), threads)


def imagenet_corruptions(path: str | os.PathLike[str]) -> dict[str, Path]:
    """The corruptions that an ImageNet-C folder holds, and where."""
    root = need_folder(path, "ImageNet-C (gaussian_noise/1/n01440764/…)")
    places = [
        item for folder in (root, *sorted(root.iterdir())) if folder.is_dir() for item in sorted(folder.iterdir())
    ]
    return {
        item.name: item
        for item in places
        if item.is_dir() and any((item / str(level)).is_dir() for level in range(1, 6))
    }
