"""Logits of a model on shifted data: computed once, kept in a store, resumed after a kill."""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from driftcal.errors import InputError
from driftcal.files import fingerprint
from driftcal.models import Model
from driftcal.perturb.shift import Shift
from driftcal.sources import Source
from driftcal.store import Key, Store
from driftcal.types import Array, Labels, Logits

#: Seconds of work that a kill may cost.
_PART_SECONDS = 2.0

#: Called after every batch with what is being computed and how many rows of it were just done.
OnRows = Callable[[str, int], None]


class Collector:
    """A model's logits on one source under any shift and level, each computed at most once.

    With a `store` they are kept on disk under the fingerprints of model, data and shift, batch by batch: a run that was
    killed goes on where it was and ends with the same bytes. Without one they are kept in memory. Level 0 of every shift
    is the same clean pass. `evaluated` counts the inputs the model was asked about.
    """

    def __init__(
        self, model: Model, source: Source, *, store: Store | None = None, seed: int = 0, on_rows: OnRows | None = None
    ) -> None:
        if not len(source):
            raise InputError(f"{source.name} must have rows to evaluate; it has none. Check the split.")
        self.model, self.source, self.store, self.seed = model, source, store, seed
        self.on_rows = on_rows
        self.evaluated = 0
        self._memory: dict[Any, Logits] = {}
        model.prepare(source.inputs(source.indices[:16]))
        self._model_print = model.fingerprint

    @property
    def labels(self) -> Labels:
        """The label of each row."""
        return self.source.labels

    @property
    def passes(self) -> float:
        """Inputs the model was asked about, as a multiple of the source."""
        return self.evaluated / len(self.source)

    def logits(self, shift: Shift, level: float = 0, *, keep: bool = True) -> Logits:
        """float32 (n, C) of the source under `shift` at `level`; with ``keep=False`` memory does not hold on to them."""
        if self.store is not None:
            return self._stored(self.store, shift, level)
        key = (shift_identity(shift), float(level)) if level else None
        if key in self._memory:
            return self._memory[key]
        logits = np.concatenate([part for _, part in self._compute(shift, level, [(0, len(self.source))])])
        if keep:
            self._memory[key] = logits
        return logits

    def some(self, shift: Shift, level: float, rows: Array) -> Logits:
        """The same for some rows only, computed anew: what a search looks at before it knows where to look."""
        part = Collector(self.model, self.source.subset(rows), seed=self.seed)
        logits = part.logits(shift, level)
        self.evaluated += len(rows)
        return logits

    def key(self, shift: Shift, level: float) -> Key:
        """What decides these logits."""
        common: dict[str, Any] = {
            "model": self._model_print,
            "source": self.source.fingerprint,
            "batch_size": self.model.batch_size,
        }
        if level == 0:
            return Key(**common)
        identity = {"shift": shift_identity(shift)}
        return Key(**common, shift=shift.name, level=float(level), seed=self.seed, extra=identity)

    def missing(self, conditions: Iterable[tuple[Shift, float]]) -> float:
        """How many passes over the source these conditions would take now: what is stored is free, level 0 shared."""
        keys = {key.digest: key for key in (self.key(shift, level) for shift, level in conditions)}
        n = len(self.source)
        if self.store is None:
            return float(len(keys))
        return sum(stop - start for key in keys.values() for start, stop in self.store.missing(key, n)) / n

    def _stored(self, store: Store, shift: Shift, level: float) -> Logits:
        key = self.key(shift, level)
        n = len(self.source)
        gaps = store.missing(key, n)
        waiting: list[tuple[int, Logits]] = []
        begun = time.monotonic()

        def flush() -> None:
            start = waiting[0][0]
            logits = np.concatenate([rows for _, rows in waiting])
            here = slice(start, start + len(logits))
            store.put_part(key, start, logits=logits, labels=self.labels[here], indices=self.source.indices[here])
            waiting.clear()

        for start, logits in self._compute(shift, level, gaps):
            if waiting and start != waiting[-1][0] + len(waiting[-1][1]):
                flush()
            waiting.append((start, logits))
            if time.monotonic() - begun > _PART_SECONDS:
                flush()
                begun = time.monotonic()
        if waiting:
            flush()
        return store.finish(key, n).logits

    def _compute(self, shift: Shift, level: float, gaps: list[tuple[int, int]]) -> Iterator[tuple[int, Logits]]:
        what = f"{shift.name} {level:g}" if level else "clean"
        for low, high in gaps:
            start = low
            for inputs, labels, indices in self.source.batches(self.model.batch_size, low, high):
                if level:
                    inputs = shift(inputs, level, seed=self.seed, indices=indices)
                yield start, self.model.logits(inputs)
                start += len(labels)
                self.evaluated += len(labels)
                if self.on_rows is not None:
                    self.on_rows(what, len(labels))


def shift_identity(shift: Shift) -> str:
    """A fingerprint of everything that decides what a shift does, its own parameters and a user's code included."""
    parts: dict[str, Any] = {"name": shift.name, "kind": type(shift).__name__}
    if dataclasses.is_dataclass(shift):
        parts |= {field.name: _plain(getattr(shift, field.name)) for field in dataclasses.fields(shift)}
    else:
        parts["code"] = _plain(type(shift).__call__)
    return fingerprint(parts)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype != object else [repr(v) for v in value.tolist()]
    if isinstance(value, tuple | list):
        return [fingerprint({"value": _plain(v)}) for v in value]
    if callable(value) and not dataclasses.is_dataclass(value):
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):  # typed in a console: its bytecode is all there is
            code = getattr(value, "__code__", None)
            return [code.co_code.hex(), repr(code.co_consts)] if code else repr(type(value))
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
