"""Recalibrating a calibrator file: the new calibrator gets a file of its own, and the old one is kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftcal.calibrators.serialization import load_file, save
from driftcal.decisions.metadata import DECISIONS
from driftcal.errors import InputError
from driftcal.io.atomic import as_target
from driftcal.io.fingerprint import sha256_file
from driftcal.pipeline.recalibrating.recalibrate import Recalibration, recalibrate
from driftcal.types import AnyArray


@dataclass(frozen=True, eq=False)
class RecalibratedFile:
    """The result of a recalibration, the paths of the new and the old calibrator, and an explanation."""

    result: Recalibration
    path: Path
    old_path: Path
    explanation: str


def recalibrate_file(
    path: str | os.PathLike[str],
    logits: AnyArray,
    y: AnyArray,
    output: str | os.PathLike[str] | None = None,
    *,
    on_compared: Callable[[Recalibration], None] | None = None,
    **options: Any,
) -> RecalibratedFile:
    """Recalibrate the file `path`, and write the new calibrator to a file.

    Without `output` the new file is ``cal-2.safetensors`` next to ``cal.safetensors``, or the next free number. If
    `output` is `path` itself, the old calibrator is first copied to such a name. No other existing file is replaced.
    The new file holds both forms if the old one does; the explanation says whether the windowed one was refitted.
    """
    source = Path(path)
    target = next_name(source) if output is None else Path(output)
    in_place = target.resolve() == source.resolve()
    if target.exists() and not in_place:
        raise InputError(
            f"output must be a new file or the calibrator itself; {str(target)!r} exists. Choose another name."
        )
    as_target(target)
    file = load_file(source)
    result = recalibrate(file, logits, y, **options)
    if on_compared is not None:  # before the check: a refused result is shown as well
        on_compared(result)
    result.check()
    metadata = dict(file.metadata)
    record = {"from": sha256_file(source), **result.to_dict()}
    metadata["recalibrations"] = [*metadata.get("recalibrations", []), record]
    for name in ("cross_validated_ece", DECISIONS):  # those of the old calibrator
        metadata.pop(name, None)
    if result.windowed is None or result.windowed.refitted:
        metadata.pop("windowed_cross_validated_ece", None)
    explanation = _explanation(result)
    if "explanation" in metadata:
        metadata["explanation"] = f"{explanation} Before: {metadata['explanation']}"
    baselines = {name: other for name, other in file.others.items() if not other.needs_window}
    old_path = _copy_to_free_name(source) if in_place else source
    written = save(result.calibrator, target, metadata=metadata, others={**baselines, **result.windowed_form})
    return RecalibratedFile(result, written, old_path, explanation)


def _explanation(result: Recalibration) -> str:
    """What a recalibration did, in plain sentences."""
    windowed = "" if result.windowed is None else f" {result.windowed.explanation}"
    return (
        f"Recalibrated with {result.n_samples} labelled samples and weight {result.weight:g}: held-out ECE {result.before.ece:.3f} "
        f"before, {result.after.ece:.3f} after.{windowed}"
    )


def next_name(path: Path) -> Path:
    """The first free name: ``cal-2.safetensors``, ``cal-3.safetensors``, …"""
    number = 2
    while (name := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return name


def _copy_to_free_name(path: Path) -> Path:
    """Copy `path` to the next free name, and wait until the copy is on the disk."""
    while True:
        copy = next_name(path)
        try:
            with open(copy, "xb") as file:
                try:
                    shutil.copymode(path, copy)  # the old calibrator may be private
                    file.write(path.read_bytes())
                    file.flush()
                    os.fsync(file.fileno())
                except BaseException:
                    copy.unlink()  # an incomplete copy is no calibrator
                    raise
        except FileExistsError:  # another process was faster
            continue
        return copy
