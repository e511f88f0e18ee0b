"""What an exported model takes, in words: preprocessing stays outside the graph."""

from __future__ import annotations

from typing import Any

from driftcal.models.preprocessing import Preprocessing

_TYPES = {"float": "float32", "double": "float64"}


def input_text(declared: Any, preprocessing: Preprocessing | None = None) -> str:
    """The declared input of a graph, and the steps from the inputs of the tuning to it; None if they are unknown.

    >>> from types import SimpleNamespace
    >>> declared = SimpleNamespace(name="x", type="tensor(float)", shape=["n", 3, 32, 32])
    >>> input_text(declared, Preprocessing(mean=(0.5,), std=(0.25,), layout="NCHW"))
    'x, float32 (n, 3, 32, 32): images from 0 to 1, minus mean 0.5, divided by std 0.25; axes NCHW'
    """
    word = declared.type.removeprefix("tensor(").removesuffix(")")
    axes = [str(axis) if axis else "n" for axis in declared.shape]
    shape = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    text = f"{declared.name}, {_TYPES.get(word, word)} {shape}"
    if preprocessing is None:
        return text
    is_image = len(axes) == 4
    steps = ["images from 0 to 1" if is_image else "as in the tuning"]
    if preprocessing.size is not None:
        steps.append(f"scaled to {preprocessing.size[0]} x {preprocessing.size[1]}")
    if preprocessing.channels != "RGB":
        steps.append("blue first")
    if preprocessing.scale != 1:
        steps.append(f"times {preprocessing.scale:g}")
    if any(preprocessing.mean):
        steps.append(f"minus mean {_numbers(preprocessing.mean)}")
    if any(value != 1 for value in preprocessing.std):
        steps.append(f"divided by std {_numbers(preprocessing.std)}")
    layout = f"; axes {preprocessing.layout}" if is_image else ""
    return f"{text}: {', '.join(steps)}{layout}"


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
