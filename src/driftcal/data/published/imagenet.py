"""ImageNet's validation images and ImageNet-C, in their published layouts."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from driftcal.data.image_files import ImageDecoder, from_files, list_images, need_folder
from driftcal.data.source import Source
from driftcal.errors import DataError, InputError, UnknownName
from driftcal.io.json_text import parse_json
from driftcal.io.paths import AnyPath, as_path

_WNID = re.compile(r"n\d{8}")
_LABEL_FILES = ("ILSVRC2012_validation_ground_truth.txt", "LOC_val_solution.csv", "val.txt", "labels.csv", "labels.txt")
_SYNSET_FILES = (
    "LOC_synset_mapping.txt", "synset_words.txt", "synsets.txt", "imagenet_class_index.json", "map_clsloc.txt", "meta.mat",
)  # fmt: skip
_N_CLASSES = 1000
_MAX_DIGITS = 10  # a number with more is no column


class Synset(NamedTuple):
    """One class: its WordNet id, its number in the challenge (0: not listed) and its name."""

    wnid: str
    challenge_number: int
    name: str


@dataclass(frozen=True)
class Synsets:
    """The classes in the order of a model's outputs: sorted WordNet ids, their names, their challenge numbers."""

    wnids: tuple[str, ...]
    names: tuple[str, ...]
    wnid_of_number: dict[int, str]  # ILSVRC2012_ID -> WordNet id; the challenge counts from 1, in another order

    @classmethod
    def read(cls, file: Path) -> Synsets:
        """The classes of one of ImageNet's files (`_SYNSET_FILES`)."""
        try:
            if file.suffix == ".mat":
                synsets = _read_devkit(file)
            elif file.suffix == ".json":
                synsets = [Synset(wnid, 0, name) for wnid, name in parse_json(file.read_text()).values()]
            else:
                synsets = [_parse_synset(line) for line in file.read_text().splitlines() if line.strip()]
            synsets.sort()
        except Exception as error:  # damaged files fail in many ways, inside scipy's reader of .mat files
            raise DataError(f"{str(file)!r} must list WordNet ids, one per line with a name; {error}.") from error
        return cls(
            tuple(synset.wnid for synset in synsets),
            tuple(synset.name or synset.wnid for synset in synsets),
            {synset.challenge_number: synset.wnid for synset in synsets if synset.challenge_number},
        )

    @property
    def columns(self) -> dict[str, int]:
        """WordNet id -> column of the model's outputs."""
        return {wnid: column for column, wnid in enumerate(self.wnids)}


def _parse_synset(line: str) -> Synset:
    """``n01440764 tench, Tinca tinca`` or, with the number of the challenge, ``n01440764 449 tench``."""
    wnid, _, rest = line.strip().partition(" ")
    if not _WNID.fullmatch(wnid):
        raise ValueError(f"{line.strip()[:60]!r} does not begin with one")
    number, _, name = rest.partition(" ")
    return Synset(wnid, int(number), name) if number.isdecimal() else Synset(wnid, 0, rest)


def _read_devkit(file: Path) -> list[Synset]:
    """The classes of the development kit's ``meta.mat``."""
    from scipy.io import loadmat

    records = np.atleast_1d(loadmat(file, squeeze_me=True)["synsets"])
    synsets = [Synset(str(s["WNID"]), int(s["ILSVRC2012_ID"]), str(s["words"])) for s in records]
    # larger numbers are inner nodes of the tree
    return [synset for synset in synsets if synset.challenge_number <= _N_CLASSES]


def _find_file(names: Sequence[str], *folders: Path) -> Path | None:
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def _find_synsets(root: Path, path: AnyPath | None) -> Synsets | None:
    if path is not None:
        return Synsets.read(as_path(path))
    file = _find_file(_SYNSET_FILES, root, root.parent, root.parent / "data", root / "data")
    return None if file is None else Synsets.read(file)


def imagenet(
    path: AnyPath,
    *,
    labels: AnyPath | None = None,
    synsets: AnyPath | None = None,
    class_names: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = 224,
    crop: float = 0.875,
    threads: int | None = None,
) -> Source:
    """ImageNet's validation images with labels in the order of a model's 1,000 outputs (sorted WordNet ids).

    There are three published layouts. (1) Sub-folders named by WordNet id. (2) A flat folder with
    ``ILSVRC2012_validation_ground_truth.txt``; it needs the development kit's ``meta.mat`` or ``map_clsloc.txt``. (3) A
    flat folder with a table of file names and labels (``LOC_val_solution.csv``, ``val.txt``, ``labels.csv``); a label
    is a column or a WordNet id. Samples are in the order of file names, as in `imagenet_c`, so equal splits hold equal
    images.

    Parameters
    ----------
    path
        The folder of the images, or the folder above ``val``.
    labels
        The label file, if it is neither beside the images nor one folder up.
    synsets
        The file that lists the classes, if it is neither beside the images nor one folder up.
    class_names
        Names of the classes in the order of the model's outputs, instead of those in the file.
    size, crop
        See :class:`driftcal.data.image_files.ImageDecoder`.
    threads
        Threads that read files; one per core by default.
    """
    root = need_folder(path, "ImageNet's validation images")
    folder = root / "val" if (root / "val").is_dir() else root
    label_file = as_path(labels) if labels is not None else _find_file(_LABEL_FILES, root, folder, root.parent)
    classes = _find_synsets(root, synsets)
    decoder = ImageDecoder(size, crop=crop)
    has_class_folders = any(item.is_dir() and _WNID.fullmatch(item.name) for item in folder.iterdir())
    if has_class_folders and labels is None:
        return _from_class_folders(root.name, folder, classes, class_names, decoder, threads)
    if label_file is None:
        raise DataError(
            f"{str(path)!r} must hold sub-folders named by WordNet id (n01440764), or a label file beside the images: "
            f"{', '.join(_LABEL_FILES)}. Name it with labels=FILE."
        )
    paths = sorted(list_images(folder), key=lambda file: file.name)
    columns = _read_labels(label_file, paths, classes)
    names = class_names or (classes.names if classes else [str(column) for column in range(_N_CLASSES)])
    return from_files(
        root.name, paths, np.array(columns, np.int64), names, decoder=decoder, root=folder, threads=threads
    )


def _from_class_folders(
    name: str,
    folder: Path,
    classes: Synsets | None,
    class_names: Sequence[str] | None,
    decoder: ImageDecoder,
    threads: int | None,
) -> Source:
    """A source of images in sub-folders named by WordNet id."""
    wnids = sorted(item.name for item in folder.iterdir() if item.is_dir() and _WNID.fullmatch(item.name))
    if classes is None:
        expected = _N_CLASSES if class_names is None else len(class_names)
        if len(wnids) != expected:
            raise DataError(
                f"{str(folder)!r} holds {len(wnids)} of {expected} class folders, so their columns in the model's outputs are "
                f"unknown. Put one of {', '.join(_SYNSET_FILES)} beside them, or name it with synsets=FILE."
            )
        classes = Synsets(tuple(wnids), tuple(wnids), {})
    column_of = classes.columns
    unknown = [wnid for wnid in wnids if wnid not in column_of]
    if unknown:
        raise DataError(
            f"folder {unknown[0]!r} in {str(folder)!r} is not among the {len(column_of)} classes of the synset file."
        )
    paths = sorted((file for wnid in wnids for file in list_images(folder / wnid)), key=lambda file: file.name)
    labels = np.array([column_of[file.relative_to(folder).parts[0]] for file in paths], np.int64)
    return from_files(name, paths, labels, class_names or classes.names, decoder=decoder, root=folder, threads=threads)


def _read_labels(file: Path, paths: Sequence[Path], classes: Synsets | None) -> list[int]:
    """The column of each image, from a file of any published style."""
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"label file {str(file)!r} cannot be read; {error}.") from error
    if all(line.strip().isdecimal() for line in lines):
        return _from_challenge_numbers(file, [int(line) for line in lines], len(paths), classes)
    label_of: dict[str, str] = {}
    delimiter = next((character for character in ",\t" if character in lines[0]), " ")
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"label file {str(file)!r} cannot be read; {error}.") from error
    for row in rows:
        cells = [cell.strip() for cell in row if cell.strip()]
        if len(cells) >= 2:
            label_of[Path(cells[0]).stem] = cells[1].split()[0]  # Kaggle adds boxes after the class
    column_of = classes.columns if classes else {}
    columns = []
    for path in paths:
        label = label_of.get(path.stem)
        if label is None:
            raise DataError(
                f"label file {str(file)!r} has no line for image {path.name!r}. Add one, or remove the image."
            )
        if _WNID.fullmatch(label):
            if label not in column_of:
                raise DataError(
                    f"{file.name!r} names class {label!r}, whose column in the model's outputs is unknown. Give synsets=FILE."
                )
            columns.append(column_of[label])
        elif label.isdecimal() and len(label) < _MAX_DIGITS:
            columns.append(int(label))
        else:
            raise DataError(
                f"{file.name!r} must give each image a column from 0 or a WordNet id; {path.name!r} has {label!r}."
            )
    return columns


def _from_challenge_numbers(file: Path, numbers: list[int], n_images: int, classes: Synsets | None) -> list[int]:
    """The columns of labels that are numbers of the challenge."""
    if classes is None or not classes.wnid_of_number:
        raise DataError(
            f"{file.name!r} counts classes in the challenge's own order, not in that of models. Put the development kit's "
            "meta.mat or map_clsloc.txt beside it, or name it with synsets=FILE."
        )
    if len(numbers) != n_images:
        raise DataError(
            f"{file.name!r} has {len(numbers)} labels for {n_images} images; they follow the order of file names."
        )
    unknown = sorted(set(numbers) - set(classes.wnid_of_number))
    if unknown:
        raise DataError(f"{file.name!r} holds class number {unknown[0]}, which the synset file does not list.")
    column_of = classes.columns
    return [column_of[classes.wnid_of_number[number]] for number in numbers]


def imagenet_c(
    path: AnyPath,
    *,
    corruption: str,
    severity: int,
    synsets: AnyPath | None = None,
    class_names: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = 224,
    threads: int | None = None,
) -> Source:
    """ImageNet-C as published: ``<corruption>/<severity>/<WordNet id>/*.JPEG``. Hendrycks & Dietterich 2019.

    Parameters
    ----------
    path
        The folder. It may contain the folders of the archives (``blur/defocus_blur/…``).
    corruption, severity
        The name of the corruption, and 1 to 5.
    synsets, class_names, threads
        As in `imagenet`.
    size
        Images are published at 224 pixels; None keeps them.
    """
    corruptions = imagenet_corruptions(path)
    if corruption not in corruptions:
        raise UnknownName.of("corruption in this ImageNet-C folder", corruption, corruptions)
    if severity not in range(1, 6):
        raise InputError(f"severity must be 1..5; it is {severity!r}.")
    folder = need_folder(corruptions[corruption] / str(severity), f"severity {severity} of {corruption}")
    classes = _find_synsets(as_path(path), synsets)
    name = f"imagenet-c/{corruption}/{severity}"
    return _from_class_folders(name, folder, classes, class_names, ImageDecoder(size), threads)


def imagenet_corruptions(path: AnyPath) -> dict[str, Path]:
    """The corruptions that an ImageNet-C folder holds, and their folders."""
    root = need_folder(path, "ImageNet-C (gaussian_noise/1/n01440764/…)")
    folders = [
        item for folder in (root, *sorted(root.iterdir())) if folder.is_dir() for item in sorted(folder.iterdir())
    ]
    return {
        folder.name: folder
        for folder in folders
        if folder.is_dir() and any((folder / str(severity)).is_dir() for severity in range(1, 6))
    }
