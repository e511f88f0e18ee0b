"""Names of calibrators: ``ts-ir-p`` in the code, ``TS-IR-P`` in tables and figures.

A suffix names the samples that a calibrator was tuned on. No suffix: clean samples. -P: perturbed samples (Algorithm
1). -H: held-out corruptions. The comparison of all calibrators also has -C, perturbed samples with a higher weight of
the clean ones, and -V, samples under varied shifts.
"""

from __future__ import annotations

from collections.abc import Iterable

#: The five methods of the paper's tables.
PAPER_METHODS = ("ts", "ets", "ts-ir", "ir", "irm")
#: The further baselines of the paper's appendix.
BASELINE_METHODS = ("ps", "hb", "pbmc")
_SUFFIXES = ("-P", "-H", "-C", "-V")


def label(name: str) -> str:
    """The name of a calibrator in tables and figures.

    >>> label("ts-ir-p"), label("base")
    ('TS-IR-P', 'Base')
    """
    return "Base" if name == "base" else name.upper()


def split_label(label: str) -> tuple[str, str]:
    """The method and the suffix of a label.

    >>> split_label("TS-IR-P"), split_label("TS-IR")
    (('TS-IR', 'P'), ('TS-IR', ''))
    """
    return (label[:-2], label[-1]) if label.endswith(_SUFFIXES) else (label, "")


def with_suffixes(methods: Iterable[str], *suffixes: str) -> list[str]:
    """The uncalibrated model, then every method with every suffix.

    >>> with_suffixes(["ts", "ir"], "", "-p")
    ['base', 'ts', 'ir', 'ts-p', 'ir-p']
    """
    method_names = list(methods)
    return ["base", *(f"{method}{suffix}" for suffix in suffixes for method in method_names)]


def headings(names: Iterable[str]) -> dict[str, str]:
    """The columns of a table with one column per calibrator."""
    return {name: label(name) for name in names}


#: The columns of the paper's tables.
PAPER_COLUMNS = with_suffixes(PAPER_METHODS, "", "-p")
