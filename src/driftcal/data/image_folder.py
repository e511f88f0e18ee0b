"""Images in one sub-folder per class."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftcal.data.image_files import ImageDecoder, from_files, list_images, need_folder
from driftcal.data.source import Source
from driftcal.errors import DataError
from driftcal.io.paths import AnyPath, as_path
from driftcal.types import Array


def image_folder(
    path: AnyPath,
    *,
    size: int | tuple[int, int] | None = None,
    crop: float = 1.0,
    grey: bool = False,
    class_names: Sequence[str] | None = None,
    groups: AnyPath | None = None,
    threads: int | None = None,
) -> Source:
    """One sub-folder per class, with images anywhere below it.

    Parameters
    ----------
    path
        The folder.
    size, crop
        See :class:`driftcal.data.image_files.ImageDecoder`.
    grey
        Convert images to grey; otherwise they are converted to RGB.
    class_names
        The classes in the order of the model's outputs; the sorted folder names by default. Any other folder is an
        error.
    groups
        A CSV file with two columns: the path of each image below the folder, and its group (camera, site, …).
    threads
        Threads that read files; one per core by default.
    """
    root = need_folder(path, "images, with one sub-folder per class")
    folders = sorted(item for item in root.iterdir() if item.is_dir() and not item.name.startswith("."))
    names = [folder.name for folder in folders] if class_names is None else [str(name) for name in class_names]
    unknown = [folder.name for folder in folders if folder.name not in names]
    if unknown:
        raise DataError(f"folder {unknown[0]!r} in {str(path)!r} is not among class_names: {', '.join(names[:20])}.")
    if len(names) < 2:
        raise DataError(f"{str(path)!r} must hold one sub-folder per class, at least two; it holds {len(names)}.")
    files = [(file, names.index(folder.name)) for folder in folders for file in list_images(folder)]
    paths = [file for file, _ in files]
    return from_files(
        root.name,
        paths,
        np.array([label for _, label in files], np.int64),
        names,
        decoder=ImageDecoder(size, crop=crop, grey=grey),
        root=root,
        threads=threads,
        groups=None if groups is None else _read_groups(as_path(groups), paths, root),
    )


def _read_groups(file: Path, paths: Sequence[Path], root: Path) -> Array:
    """The group of each image, from a CSV file of path and group."""
    try:
        with file.open("r", newline="", encoding="utf-8") as stream:
            group_of = {row[0].strip(): row[1].strip() for row in csv.reader(stream) if len(row) >= 2}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"groups must be a CSV file of path and group; {str(file)!r} cannot be read: {error}."
        ) from error
    names = [path.relative_to(root).as_posix() for path in paths]
    missing = [name for name in names if name not in group_of]
    if missing:
        raise DataError(
            f"groups file {str(file)!r} has no line for {missing[0]!r}; each image needs a line: path,group."
        )
    return np.array([group_of[name] for name in names])
