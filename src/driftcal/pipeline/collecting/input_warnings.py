"""Warnings about suspicious validation data: accuracy near chance, few samples, missing classes, missing preprocessing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from driftcal.data import Source
from driftcal.errors import DriftcalError, SuspiciousInputWarning
from driftcal.models import Model, Preprocessing
from driftcal.types import Labels

#: Fewer samples cannot tell a calibrated model from an uncalibrated one: the ECE of a calibrated one is 0.07 with 100.
FEW_SAMPLES = 100
#: An accuracy within this many standard errors of chance is at chance.
STANDARD_ERRORS = 3.0
#: An accuracy less than this share of the way from chance to 1 is near chance.
NEAR_CHANCE = 0.05
#: Samples that preprocessing is tried on, and the gain in accuracy that counts as evidence.
TRIED_SAMPLES, TRIED_GAIN = 256, 0.15
#: Preprocessing that published networks use, for images in [0, 1].
USUAL_PREPROCESSING = {
    "mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225] (ImageNet)": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 1),
    "mean=[0.4914, 0.4822, 0.4465], std=[0.2470, 0.2435, 0.2616] (CIFAR-10)": (
        (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), 1,
    ),
    "mean=[0.5], std=[0.5]": ((0.5,), (0.5,), 1),
    "scale=255": ((), (), 255),
}  # fmt: skip


def find_warnings(accuracy: float, labels: Labels, class_names: Sequence[str], n_classes: int) -> list[str]:
    """What is suspicious about the accuracy and the labels of a validation set, as sentences.

    >>> find_warnings(0.95, np.arange(1000) % 10, [], 10)
    []
    >>> find_warnings(0.12, np.arange(1000) % 10, [], 10)[0][:54]
    'The validation accuracy is 0.120, near chance (0.100).'
    """
    n, chance = len(labels), 1 / n_classes
    found = []
    error = math.sqrt(chance * (1 - chance) / n)
    if accuracy < chance + max(STANDARD_ERRORS * error, NEAR_CHANCE * (1 - chance)):
        found.append(
            f"The validation accuracy is {accuracy:.3f}, near chance ({chance:.3f}). Check the labels, the order of the classes and "
            "the preprocessing."
        )
    if n < FEW_SAMPLES:
        found.append(
            f"There are only {n} validation samples. Calibration needs some hundreds; {FEW_SAMPLES} or more are usual."
        )
    missing = np.flatnonzero(np.bincount(labels, minlength=n_classes) == 0)
    if len(missing):
        names = [class_names[column] if len(class_names) == n_classes else str(column) for column in missing[:5]]
        found.append(
            f"{len(missing)} of {n_classes} classes have no validation sample: {', '.join(names)}{' …' * (len(missing) > 5)}. "
            "Their confidence cannot be checked."
        )
    return found


def preprocessing_warning(model: Model, source: Source, accuracy: float) -> str:
    """A sentence where usual preprocessing makes an image model much more accurate; empty where it does not.

    Only a model opened without mean, std and scale is tried, on a few hundred samples.
    """
    plain = not model.preprocessing.mean and not model.preprocessing.std and model.preprocessing.scale == 1
    if source.kind != "images" or not plain or model.framework in ("sklearn", "callable") or accuracy > 0.9:
        return ""
    chosen = np.linspace(0, len(source) - 1, min(TRIED_SAMPLES, len(source))).astype(int)
    sample = source.subset(np.unique(chosen))
    inputs, labels = sample.inputs(), sample.labels
    best, best_accuracy = "", float(np.mean(model.logits(inputs).argmax(axis=1) == labels)) + TRIED_GAIN
    for name, (mean, std, scale) in USUAL_PREPROCESSING.items():
        if len(mean) not in (0, 1, inputs.shape[-1]):
            continue
        steps = {**model.preprocessing.to_dict(), "mean": mean, "std": std, "scale": scale}
        tried = model.with_options(preprocessing=Preprocessing.from_dict(steps))
        try:
            value = float(np.mean(tried.logits(inputs).argmax(axis=1) == labels))
        except DriftcalError:  # a network that refuses such numbers does not want them
            continue
        if value > best_accuracy:
            best, best_accuracy = name, value
    if not best:
        return ""
    return (
        f"The model seems to expect preprocessing: with {best} its accuracy is {best_accuracy:.3f} on {len(labels)} samples, without "
        f"{accuracy:.3f}. Pass open_model(model, preprocessing=...) (--mean, --std, --scale)."
    )


def warn(sentences: Sequence[str], stacklevel: int = 3) -> None:
    """Show each sentence as a Python warning."""
    for sentence in sentences:
        warnings.warn(sentence, SuspiciousInputWarning, stacklevel=stacklevel)
