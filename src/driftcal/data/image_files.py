"""Sources of image files, which are decoded when they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.parallel import map_in_threads
from driftcal.core.scalars import is_whole
from driftcal.data.decode_image import FORMATS, check_pixel_count, decode_image, is_deep
from driftcal.data.source import Source
from driftcal.errors import DataError, InputError
from driftcal.io.fingerprint import fingerprint, sha256_file
from driftcal.io.paths import AnyPath, as_path
from driftcal.types import Array, Images, Indices, Labels

#: Endings of image files. Other files in a folder (Thumbs.db, notes) are ignored.
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


@dataclass(frozen=True)
class ImageDecoder:
    """Reads an image file as an array, scaled and cut to one size.

    Images of 8 bits are divided by 255. Grey images of 16 or 32 bits keep their depth; floats must lie in [0, 1].
    It removes `border` pixels, scales the shorter side to size / crop, and cuts out the centre.
    `size` is one number or (height, width). None keeps the size, and all images must then have the same. A `crop` of
    0.875 is ImageNet's 256 -> 224.
    """

    size: int | tuple[int, int] | None = None
    crop: float = 1.0
    border: int = 0
    grey: bool = False

    def __post_init__(self) -> None:
        sides = (self.size, self.size) if isinstance(self.size, int) else self.size
        is_pair = isinstance(sides, tuple | list) and len(sides) == 2 and all(map(is_whole, sides))
        if sides is not None and not (is_pair and min(sides) >= 1):
            raise InputError(f"size must be one number or (height, width), at least 1; it is {self.size!r}.")
        if not (isinstance(self.crop, int | float) and 0 < self.crop <= 1):
            raise InputError(
                f"crop must be the share of the shorter side that is kept, above 0 and at most 1; it is {self.crop!r}."
            )
        object.__setattr__(self, "size", None if sides is None else tuple(sides))
        object.__setattr__(self, "crop", float(self.crop))
        object.__setattr__(self, "grey", bool(self.grey))

    def __call__(self, path: Path) -> Images:
        """One image as float32 (H, W, C) in [0, 1]."""
        picture = decode_image(path, grey=self.grey)
        if self.border:
            width, height = picture.size
            picture = picture.crop((self.border, self.border, width - self.border, height - self.border))
        if isinstance(self.size, tuple) and (picture.height, picture.width) != self.size:
            picture = _scale_and_cut(picture, self.size, self.crop, path)
        pixels: Array = np.asarray(picture)
        if picture.mode == "F":  # a deep image, which is grey
            return np.repeat(pixels[..., None], 1 if self.grey else 3, axis=2)
        return np.divide(pixels if pixels.ndim == 3 else pixels[..., None], np.float32(255), dtype=np.float32)


def _scale_and_cut(picture: Any, size: tuple[int, int], crop: float, path: Path) -> Any:
    """Scale so that `size` covers the share `crop` of the picture, then cut out the centre."""
    from PIL import Image

    height, width = size
    scale = max(height / crop / picture.height, width / crop / picture.width)
    scaled = (max(width, round(picture.width * scale)), max(height, round(picture.height * scale)))
    check_pixel_count(path, *scaled)  # a picture of one row would become a huge one
    left, top = (scaled[0] - width) // 2, (scaled[1] - height) // 2
    resized = picture.resize(scaled, Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + width, top + height))


def from_files(
    name: str,
    paths: Sequence[Path],
    labels: Labels,
    class_names: Sequence[str],
    *,
    decoder: ImageDecoder,
    root: Path,
    threads: int | None = None,
    groups: Array | None = None,
    correct_outputs: Mapping[int, tuple[int, ...]] | None = None,
) -> Source:
    """A source of image files. Its fingerprint covers every byte of every file, and the settings of the decoder.

    Parameters
    ----------
    name, class_names, groups, correct_outputs
        As in `Source`.
    paths, labels
        The files and one label each.
    decoder
        Reads a file as an array.
    root
        The folder that holds all files.
    threads
        Threads that read files; one per core by default.
    """
    if not paths:
        raise DataError(
            f"there is no image under {str(root)!r}. Expected files ending in {', '.join(sorted(SUFFIXES))}."
        )
    files = list(paths)

    def read(indices: Indices) -> Array:
        selected = [files[index] for index in indices]
        images = map_in_threads(decoder, selected, threads=threads)
        for path, image in zip(selected, images, strict=True):
            if image.shape != images[0].shape:
                raise DataError(
                    f"images must have one size; {str(path)!r} is {image.shape[:2]}, {str(selected[0])!r} is "
                    f"{images[0].shape[:2]}. Give size=(height, width) to scale them; on the command line FOLDER?size=224."
                )
        return np.stack(images)

    def read_content() -> str:
        digest = hashlib.sha256()
        for path, file_digest in zip(files, map_in_threads(sha256_file, files, threads=threads), strict=True):
            digest.update(f"{path.relative_to(root).as_posix()}\0{file_digest}\n".encode("utf-8", "surrogateescape"))
        parts = {
            "files": digest.hexdigest(), "size": decoder.size, "crop": decoder.crop, "border": decoder.border, "grey": decoder.grey,
        }  # fmt: skip
        # version 0.1 clipped deep images at 255: its cached logits must not be used for them
        is_any_deep = any(map_in_threads(_is_deep_file, files, threads=threads))
        return fingerprint({**parts, "deep": True} if is_any_deep else parts)

    contents: list[str] = []

    def content() -> str:
        if not contents:  # the subsets of a source share it: files are hashed once
            contents.append(read_content())
        return contents[0]

    return Source(
        name, read, labels, tuple(class_names), content, all_groups=groups, correct_outputs=correct_outputs or {}
    )


def _is_deep_file(path: Path) -> bool:
    """Whether a file is an image of more than 8 bits per channel; False if it cannot be read."""
    from PIL import Image

    try:
        with path.open("rb") as stream, Image.open(stream, formats=FORMATS) as file:
            return is_deep(file)
    except Exception:  # the error is raised when the image is decoded
        return False


def list_images(folder: Path) -> list[Path]:
    """The image files below `folder`, sorted by their path."""
    return sorted(
        path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )  # fmt: skip


def need_folder(path: AnyPath, content: str) -> Path:
    """`path` as an existing folder, or an error that says what its `content` should be."""
    folder = as_path(path)
    if not folder.is_dir():
        problem = "it is a file" if folder.is_file() else "there is none"
        raise DataError(f"{str(path)!r} must be the folder of {content}; {problem}.")
    return folder
