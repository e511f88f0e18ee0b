"""Files that are damaged or that somebody else wrote: whatever they cause while they are read is one error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from driftcal.errors import ArtefactError, DriftcalError

#: What reading a value of the wrong type, shape or range can raise.
_CAUSES = (OSError, KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, DriftcalError)


@contextmanager
def as_artefact_error(path: object, requirement: str, way_out: str) -> Iterator[None]:
    """Inside, an exception that a damaged file causes becomes an `ArtefactError`; one that says more stays as it is.

    >>> with as_artefact_error("cal.safetensors", "must describe a calibrator; it does not", "Save it again."):
    ...     {}["params"]
    Traceback (most recent call last):
    driftcal.errors.ArtefactError: cal.safetensors must describe a calibrator; it does not: 'params'. Save it again.
    """
    try:
        yield
    except ArtefactError:
        raise
    except _CAUSES as error:
        raise ArtefactError(f"{path} {requirement}: {error}. {way_out}") from error
