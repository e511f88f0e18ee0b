"""Warnings about suspicious validation data: accuracy near chance, few samples, missing classes or preprocessing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from driftcal.data import Source
from driftcal.errors import DriftcalError, SuspiciousInputWarning
from driftcal.models import Model, Preprocessing
from driftcal.shifts.shift import Shift
from driftcal.types import Labels, Logits

#: With fewer samples a warning is shown: on 100 samples even a perfectly calibrated model has an ECE of 0.07.
FEW_SAMPLES = 100
#: An accuracy within this many standard errors of chance is near chance.
STANDARD_ERRORS = 3.0
#: An accuracy within this share of the way from chance to 1 is near chance, too.
NEAR_CHANCE = 0.05
#: Usual preprocessing is tried on this many samples. It is suggested if it raises the accuracy by at least this much.
TRIED_SAMPLES, MIN_GAIN = 256, 0.15
#: A class that lies this far below the top one has a probability of less than 1e-34: a rounded 0.
NO_PROBABILITY = 80.0
#: A model with a higher accuracy needs no other preprocessing.
HIGH_ACCURACY = 0.9
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
    sentences = []
    standard_error = math.sqrt(chance * (1 - chance) / n)
    if accuracy < chance + max(STANDARD_ERRORS * standard_error, NEAR_CHANCE * (1 - chance)):
        sentences.append(
            f"The validation accuracy is {accuracy:.3f}, near chance ({chance:.3f}). Check the labels, the order of the classes and "
            "the preprocessing."
        )
    if n < FEW_SAMPLES:
        sentences.append(
            f"There are only {n} validation samples. Calibration needs some hundreds; {FEW_SAMPLES} or more are usual."
        )
    counts = np.bincount(labels, minlength=n_classes)
    missing = np.flatnonzero(counts == 0)
    if n and len(missing) == n_classes - 1:
        column = int(counts.argmax())
        name = repr(class_names[column]) if len(class_names) == n_classes else column
        sentences.append(f"All {n} validation samples have the label {name}. Take samples of every class.")
    elif len(missing):
        names = [class_names[column] if len(class_names) == n_classes else str(column) for column in missing[:5]]
        sentences.append(
            f"{len(missing)} of {n_classes} classes have no validation sample: {', '.join(names)}{' …' * (len(missing) > 5)}. "
            "Their confidence cannot be checked."
        )
    return sentences


def impossible_label_warnings(logits: Logits, labels: Labels) -> list[str]:
    """A sentence if the model gives the true class of some samples no probability at all; none if not.

    >>> impossible_label_warnings(np.array([[0.0, -87.3], [0.0, -1.0]]), np.array([1, 1]))[0][:57]
    '1 of 2 validation samples have a true class with probabil'
    """
    below = logits.max(axis=1) - logits[np.arange(len(labels)), labels]
    n_impossible = int(np.count_nonzero(below > NO_PROBABILITY))
    if not n_impossible:
        return []
    return [
        f"{n_impossible} of {len(labels)} validation samples have a true class with probability 0 according to the model. Each of them "
        "lowers the confidence of temperature scaling a lot; compare it with the uncalibrated model. A tree ensemble with more trees, "
        "or smoothed leaves, gives no zeros."
    ]


def preprocessing_warnings(model: Model, source: Source, accuracy: float) -> list[str]:
    """A sentence if usual preprocessing makes an image model much more accurate; none if not.

    It is tried on a few hundred samples, and only for a model that was opened without mean, std and scale.
    """
    steps = model.preprocessing
    is_normalised = bool(steps.mean) or bool(steps.std) or steps.scale != 1
    if source.kind != "images" or is_normalised or model.framework in ("sklearn", "callable"):
        return []
    if accuracy > HIGH_ACCURACY:
        return []
    indices = np.linspace(0, len(source) - 1, min(TRIED_SAMPLES, len(source))).astype(int)
    subset = source.subset(np.unique(indices))
    inputs, labels = subset.inputs(), subset.labels
    best, best_accuracy = "", float(np.mean(model.logits(inputs).argmax(axis=1) == labels)) + MIN_GAIN
    for name, (mean, std, scale) in USUAL_PREPROCESSING.items():
        if len(mean) not in (0, 1, inputs.shape[-1]):
            continue
        tried_steps = Preprocessing.from_dict({**steps.to_dict(), "mean": mean, "std": std, "scale": scale})
        try:
            logits = model.with_options(preprocessing=tried_steps).logits(inputs)
        except DriftcalError:  # a network that refuses such numbers needs other preprocessing
            continue
        tried_accuracy = float(np.mean(logits.argmax(axis=1) == labels))
        if tried_accuracy > best_accuracy:
            best, best_accuracy = name, tried_accuracy
    if not best:
        return []
    return [
        f"The model seems to expect preprocessing: with {best} its accuracy is {best_accuracy:.3f} on {len(labels)} samples, without "
        f"{accuracy:.3f}. Pass open_model(model, preprocessing=...) (--mean, --std, --scale)."
    ]


def whole_numbers_warnings(shift: str | Shift | None, source: Source) -> list[str]:
    """A sentence if the default noise would be added to a matrix of integers, which may be codes or tokens."""
    if shift != "gaussian" or not source.holds_whole_numbers or source.categorical:
        return []
    return [
        "The features are whole numbers, and tuning adds Gaussian noise to them. If they are counts or measurements, say so with "
        'shift="tabular_noise". Name columns of codes with open_source((X, y), categorical=[...]). Noise on tokens means nothing: pass the '
        "texts, which have shifts of their own (the suite 'text'), or a shift of yours: register_shift(name, function)."
    ]


def warn(sentences: Sequence[str], stacklevel: int = 3) -> None:
    """Show each sentence as a Python warning."""
    for sentence in sentences:
        warnings.warn(sentence, SuspiciousInputWarning, stacklevel=stacklevel)
