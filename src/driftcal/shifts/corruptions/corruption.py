"""The 19 corruptions of Hendrycks & Dietterich (2019), severities 1 to 5."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar

from driftcal.errors import UnknownName
from driftcal.shifts.arguments import as_step
from driftcal.shifts.corruptions.severities import TABLES, parameters, table_for
from driftcal.shifts.shift import shift_images
from driftcal.types import AnyArray, Images

#: corruption -> the module of this folder with its function, in the published order
CORRUPTIONS: dict[str, str] = {
    "gaussian_noise": "noise",
    "shot_noise": "noise",
    "impulse_noise": "noise",
    "speckle_noise": "noise",
    "defocus_blur": "blur",
    "glass_blur": "blur",
    "motion_blur": "blur",
    "zoom_blur": "blur",
    "gaussian_blur": "blur",
    "snow": "weather",
    "frost": "frost",
    "fog": "weather",
    "brightness": "colour",
    "contrast": "colour",
    "saturate": "colour",
    "spatter": "spatter",
    "elastic_transform": "elastic",
    "pixelate": "colour",
    "jpeg_compression": "jpeg",
}


@dataclass(frozen=True)
class Corruption:
    """One corruption; level 0 is the identity, 1 to 5 the published severities.

    `table` names the parameter set, ``"imagenet-c"`` or ``"cifar10-c"``. None: the set whose image size is nearer.
    """

    name: str
    table: str | None = None
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    def __post_init__(self) -> None:
        if self.table is not None and self.table not in TABLES:
            raise UnknownName.of("parameter table", self.table, TABLES)

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Images:
        """The images corrupted at this severity."""
        severity = as_step(level, self.levels, self.name)
        if severity == 0:
            return shift_images(inputs, self.name, seed, indices, None)
        function = getattr(importlib.import_module(f"driftcal.shifts.corruptions.{CORRUPTIONS[self.name]}"), self.name)

        def fill(block: Images, out: Images, keys: Any) -> None:
            table = self.table or table_for(*block.shape[1:3])
            function(block, out, keys, *parameters(self.name, severity, table))

        return shift_images(inputs, self.name, seed, indices, fill)
