"""Every error driftcal raises on purpose.

::

    DriftcalError
    ├── InputError (ValueError)          an argument has the wrong shape, type or range
    │   ├── LogitsError                  logits: NaN, +inf, a sample of -inf only, wrong shape or class count
    │   ├── LabelsError                  labels: out of range, wrong length, unknown class, ambiguous
    │   ├── ProbabilitiesError           probabilities: outside [0, 1], samples that do not sum to 1
    │   ├── WeightsError                 sample weights: negative, NaN, all zero, wrong length
    │   ├── ImagesError                  images: outside [0, 1], NaN, wrong shape or dtype
    │   └── UnknownName                  a name that is in no registry, with the nearest ones
    ├── NotFittedError (ValueError, AttributeError)   used before ``fit``
    ├── DidNotConverge (RuntimeError)    a fit without a certified optimum
    │   └── NoFiniteOptimum              the optimum lies at T -> 0 or T -> infinity
    ├── NoThreshold (RuntimeError)       no threshold of the confidence reaches the accuracy that was asked for
    ├── WouldBeWorse (RuntimeError)      a refitted calibrator that is worse on held-out samples
    ├── ArtefactError (ValueError)       a file that is foreign, truncated, altered or too new
    ├── CacheError (RuntimeError)        a cache of logits that cannot be read or written
    ├── ModelError (RuntimeError)        a model that cannot be opened or returns the wrong outputs
    ├── DataError (RuntimeError)         a data set that is missing, damaged or cannot be fetched
    ├── EngineError (RuntimeError)       workers that cannot be started, or that failed
    │   └── WorkFailed                   tasks that failed on every worker that tried them, by name
    └── MissingExtra (ImportError)       a framework that is missing or too old, with its install line

    SuspiciousInputWarning (UserWarning)   validation data that look wrong, shown as a Python warning

A message names the argument, what it must be, what it is, and the way out.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable
from types import ModuleType


class DriftcalError(Exception):
    """Any error that driftcal raises on purpose."""


class InputError(DriftcalError, ValueError):
    """An argument has the wrong shape, type or range."""


class LogitsError(InputError):
    """Logits that cannot be used."""


class LabelsError(InputError):
    """Labels that cannot be used."""


class ProbabilitiesError(InputError):
    """Probabilities outside [0, 1], or samples that do not sum to 1."""


class WeightsError(InputError):
    """Sample weights that cannot be used."""


class ImagesError(InputError):
    """Images outside [0, 1], with NaN, or of the wrong shape."""


class UnknownName(InputError):
    """A name that is in no registry."""

    @classmethod
    def of(cls, kind: str, name: object, registered: Iterable[str]) -> UnknownName:
        """The error for `name`, with the nearest registered names.

        >>> print(UnknownName.of("calibrator", "tss", ["ts", "ets", "irm"]))
        there is no calibrator 'tss'; did you mean 'ts' or 'ets'? Known: ets, irm, ts.
        """
        names = sorted(registered)
        nearest = difflib.get_close_matches(str(name), names, n=2)
        hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."
        return cls(f"there is no {kind} {name!r}{hint} Known: {', '.join(names)}.")


class SuspiciousInputWarning(UserWarning):
    """Data that can be used but look wrong: accuracy near chance, few samples, missing preprocessing."""


class NotFittedError(DriftcalError, ValueError, AttributeError):
    """A calibrator was used before it was fitted."""


class DidNotConverge(DriftcalError, RuntimeError):
    """A fit ended without a certified optimum."""


class NoFiniteOptimum(DidNotConverge):
    """The best temperature is 0 or infinite: the tuning samples are separable, or no better than chance."""


class NoThreshold(DriftcalError, RuntimeError):
    """No threshold of the confidence reaches the accuracy, or costs less than abstaining on all samples."""


class WouldBeWorse(DriftcalError, RuntimeError):
    """A refitted calibrator is worse than the old one on held-out samples."""


class ArtefactError(DriftcalError, ValueError):
    """A file that is not an intact driftcal artefact."""


class CacheError(DriftcalError, RuntimeError):
    """A cache of logits that cannot be read or written."""


class ModelError(DriftcalError, RuntimeError):
    """A model that cannot be opened, or that returns the wrong outputs."""


class DataError(DriftcalError, RuntimeError):
    """A data set that is missing, damaged or cannot be fetched."""


class EngineError(DriftcalError, RuntimeError):
    """Workers that cannot be started, or that failed."""


class WorkFailed(EngineError):
    """Tasks that failed on every worker that tried them; the message names them."""


class MissingExtra(DriftcalError, ImportError):
    """An optional framework is not installed, or too old to open model files safely."""


def need(module: str, extra: str) -> ModuleType:
    """Import an optional `module`, or raise an error that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f'this needs {module!r}, which is not installed ({error}). Install it with: pip install "driftcal[{extra}]"'
        ) from error


#: The first versions of frameworks that neither run code from a model file nor read other files that it names.
SAFE_VERSIONS = {"keras": (3, 14), "onnxruntime": (1, 31), "torch": (2, 6)}


def need_safe(module: str, extra: str) -> ModuleType:
    """Import an optional `module` to open a model file with it; refuse a version for which that is not safe."""
    imported = need(module, extra)
    installed = str(getattr(imported, "__version__", ""))
    lowest = SAFE_VERSIONS[module]
    if tuple(int(number) for number in re.findall(r"[0-9]+", installed)[:2]) < lowest:
        raise MissingExtra(
            f"opening a model file needs {module} {'.'.join(map(str, lowest))} or newer, because older ones can run code from the file or "
            f'read other files; {installed} is installed. Install it with: pip install --upgrade "driftcal[{extra}]"'
        )
    return imported
