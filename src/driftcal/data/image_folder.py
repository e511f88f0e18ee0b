"""Images on disk, decoded when they are read: one folder per class, and the parts other image trees share."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.parallel import map_in_threads
from driftcal.data.source import Source
from driftcal.errors import DataError, InputError
from driftcal.io.fingerprint import fingerprint, sha256_file
from driftcal.io.paths import as_path
from driftcal.types import Array, Images, Indices, Labels

#: What counts as an image in a folder; everything else (Thumbs.db, notes) is passed over.
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


@dataclass(frozen=True)
class Decode:
    """How a file becomes an array: cut `border` pixels, scale the shorter side to size / crop, cut the centre.

    `size` None keeps images as they are, which works when all have one size. `crop` 0.875 is ImageNet's 256 -> 224.
    """

    size: tuple[int, int] | None = None
    crop: float = 1.0
    border: int = 0
    grey: bool = False

    @classmethod
    def of(
        cls, size: int | tuple[int, int] | None, *, crop: float = 1.0, border: int = 0, grey: bool = False
    ) -> Decode:
        """Checked settings; one number means a square."""
        pair = (size, size) if isinstance(size, int) else size
        if pair is not None and (len(pair) != 2 or min(pair) < 1):
            raise InputError(f"size must be one number or (height, width), at least 1; it is {size!r}.")
        if not 0 < crop <= 1:
            raise InputError(f"crop must be the kept share of the shorter side, above 0 and at most 1; it is {crop!r}.")
        return cls(pair, float(crop), int(border), bool(grey))

    def __call__(self, path: Path) -> Images:
        """One image as float32 (H, W, C) in [0, 1]."""
        from PIL import Image

        try:
            with path.open("rb") as stream, Image.open(stream) as file:
                picture = file.convert("L" if self.grey else "RGB")
        except FileNotFoundError as error:
            raise DataError(
                f"there is no image {str(path)!r} any more; it was there when the folder was listed."
            ) from error
        except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
            raise DataError(
                f"image {str(path)!r} cannot be decoded: {error}. Replace the file, or take it out."
            ) from error
        if self.border:
            width, height = picture.size
            picture = picture.crop((self.border, self.border, width - self.border, height - self.border))
        if self.size is not None and (picture.height, picture.width) != self.size:
            picture = _fit(picture, self.size, self.crop)
        pixels = np.asarray(picture, np.uint8)
        return np.divide(pixels if pixels.ndim == 3 else pixels[..., None], np.float32(255), dtype=np.float32)


def _fit(picture: Any, size: tuple[int, int], crop: float) -> Any:
    """Scale so that the wanted size covers `crop` of the picture, then cut the centre."""
    from PIL import Image

    height, width = size
    scale = max(height / crop / picture.height, width / crop / picture.width)
    scaled = (max(width, round(picture.width * scale)), max(height, round(picture.height * scale)))
    left, top = (scaled[0] - width) // 2, (scaled[1] - height) // 2
    resized = picture.resize(scaled, Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + width, top + height))


def from_files(
    name: str,
    paths: Sequence[Path],
    labels: Labels,
    class_names: Sequence[str],
    *,
    decode: Decode,
    root: Path,
    threads: int | None = None,
    **more: Any,
) -> Source:
    """A source that decodes `paths`; its fingerprint covers every byte of every file and how they are decoded."""
    if not paths:
        raise DataError(
            f"there is no image under {str(root)!r}. Expected files ending in {', '.join(sorted(SUFFIXES))}."
        )
    listed = list(paths)

    def read(rows: Indices) -> Array:
        chosen = [listed[row] for row in rows]
        pictures = map_in_threads(decode, chosen, threads=threads)
        for path, picture in zip(chosen, pictures, strict=True):
            if picture.shape != pictures[0].shape:
                raise DataError(
                    f"images must have one size; {str(path)!r} is {picture.shape[:2]}, {str(chosen[0])!r} is "
                    f"{pictures[0].shape[:2]}. Give size=(height, width) to scale them; on the command line FOLDER?size=224."
                )
        return np.stack(pictures)

    def content() -> str:
        digest = hashlib.sha256()
        for path, value in zip(listed, map_in_threads(sha256_file, listed, threads=threads), strict=True):
            digest.update(f"{path.relative_to(root).as_posix()}\0{value}\n".encode("utf-8", "surrogateescape"))
        return fingerprint(
            {"files": digest.hexdigest(), "size": decode.size, "crop": decode.crop, "border": decode.border, "grey": decode.grey}
        )  # fmt: skip

    return Source(name, read, labels, tuple(class_names), content, **more)


def list_images(folder: Path) -> list[Path]:
    """The image files below `folder`, sorted by their path."""
    return sorted(
        path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )  # fmt: skip


def need_folder(path: str | os.PathLike[str], what: str) -> Path:
    """`path` as an existing folder, or an error that says what was expected there."""
    folder = as_path(path)
    if not folder.is_dir():
        fact = "it is a file" if folder.is_file() else "there is none"
        raise DataError(f"{str(path)!r} must be the folder of {what}; {fact}.")
    return folder


def image_folder(
    path: str | os.PathLike[str],
    *,
    size: int | tuple[int, int] | None = None,
    crop: float = 1.0,
    grey: bool = False,
    class_names: Sequence[str] | None = None,
    groups: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> Source:
    """One sub-folder per class, images anywhere below it. Classes are the sorted folder names, or `class_names`.

    A folder that `class_names` does not name is an error, so a model's class order cannot slip. Images are converted to
    RGB, or to grey with ``grey=True``. `groups` is a CSV file that says for each image, by its path below the folder,
    which group (camera, site, …) it belongs to.
    """
    root = need_folder(path, "images, with one sub-folder per class")
    folders = sorted(item for item in root.iterdir() if item.is_dir() and not item.name.startswith("."))
    names = [item.name for item in folders] if class_names is None else [str(item) for item in class_names]
    unknown = [item.name for item in folders if item.name not in names]
    if unknown:
        raise DataError(f"folder {unknown[0]!r} in {str(path)!r} is not among class_names: {', '.join(names[:20])}.")
    if len(names) < 2:
        raise DataError(f"{str(path)!r} must hold one sub-folder per class, at least two; it holds {len(names)}.")
    paths: list[Path] = []
    labels: list[int] = []
    for folder in folders:
        found = list_images(folder)
        paths += found
        labels += [names.index(folder.name)] * len(found)
    decode = Decode.of(size, crop=crop, grey=grey)
    named = None if groups is None else _read_groups(as_path(groups), paths, root)
    return from_files(
        root.name, paths, np.array(labels, np.int64), names, decode=decode, root=root, threads=threads, all_groups=named
    )


def _read_groups(file: Path, paths: Sequence[Path], root: Path) -> Array:
    try:
        with file.open("r", newline="", encoding="utf-8") as stream:
            table = {row[0].strip(): row[1].strip() for row in csv.reader(stream) if len(row) >= 2}
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"groups must be a CSV file of path and group; {str(file)!r} cannot be read: {error}."
        ) from error
    names = [path.relative_to(root).as_posix() for path in paths]
    missing = [name for name in names if name not in table]
    if missing:
        raise DataError(
            f"groups file {str(file)!r} says nothing about {missing[0]!r}; each image needs a line: path,group."
        )
    return np.array([table[name] for name in names])
