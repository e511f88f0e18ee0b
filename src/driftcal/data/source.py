"""A data set as the rest of driftcal sees it: rows to read, labels, and a fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from driftcal.errors import DataError, InputError
from driftcal.io.fingerprint import fingerprint
from driftcal.types import Array, Indices, Labels

#: Rows (by their position in the whole data set) to inputs: float32 images (n, H, W, C) in [0, 1], or features (n, F) of either precision.
Read = Callable[[Indices], Array]


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Labelled inputs, read when they are needed. Every format is one function that returns one of these.

    `read` gets positions in the whole data set and returns float32 inputs; `labels` holds one class number per row of
    the whole set, -1 where no class is right (out of distribution) or none is known; `content` returns a digest of
    what `read` can give. `rows` are the positions this source consists of: `subset` and `split` narrow them and nothing
    else, so a sample keeps its position, and with it its noise, in every split.

    `answers` is for data whose classes are coarser than the model's: it maps a label to every model output that counts
    as right (ObjectNet); where it is silent only the label itself is.

    >>> x, y = np.zeros((10, 4), np.float32), np.arange(10) % 3
    >>> source = Source("mine", lambda rows: x[rows], y, ("a", "b", "c"), content=lambda: "v1")
    >>> validation, test = source.split(0.5, seed=0)
    >>> len(validation), len(test), [len(labels) for _, labels, _ in test.batches(2)]
    (5, 5, [2, 2, 1])
    """

    name: str
    read: Read
    all_labels: Labels
    class_names: tuple[str, ...]
    content: Callable[[], str]
    all_groups: Array | None = None
    answers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    rows: Indices | None = None

    def __post_init__(self) -> None:
        labels = np.asarray(self.all_labels)
        object.__setattr__(self, "all_labels", labels.astype(np.int64, copy=False))
        if self.rows is None:
            object.__setattr__(self, "rows", np.arange(len(labels), dtype=np.int64))
        if self.all_groups is not None and len(self.all_groups) != len(labels):
            raise InputError(
                f"groups must name one group per sample; there are {len(labels)} samples and {len(self.all_groups)} groups."
            )
        outside = np.flatnonzero((self.all_labels < -1) | (self.all_labels >= self.n_classes))
        if len(outside):
            raise DataError(
                f"labels of {self.name} must be 0..{self.n_classes - 1}, or -1 for none; row {outside[0]} holds "
                f"{self.all_labels[outside[0]]}. If your file counts from 1, subtract 1; if a class has no sample here, "
                "give class_names for all of them."
            )

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self)} rows, {self.n_classes} classes)"

    @property
    def n_classes(self) -> int:
        """How many classes labels may name."""
        return len(self.class_names)

    @property
    def indices(self) -> Indices:
        """Position of each row in the whole data set."""
        assert self.rows is not None
        return self.rows

    @property
    def labels(self) -> Labels:
        """int64 (n,), -1 where no class is right."""
        labels: Labels = self.all_labels[self.indices]
        return labels

    @property
    def groups(self) -> Array | None:
        """One group per row, where the data has them."""
        return None if self.all_groups is None else self.all_groups[self.indices]

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input: (height, width, channels) or (features,)."""
        if not len(self):
            raise DataError(f"{self.name} has no rows.")
        return tuple(int(n) for n in self.read(self.indices[:1]).shape[1:])

    @property
    def kind(self) -> str:
        """``images`` or ``features``."""
        return "images" if len(self.input_shape) == 3 else "features"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over contents, labels and the choice of rows. Files are read through once for it."""
        return fingerprint(
            {"content": self.content(), "labels": self.labels, "rows": self.indices, "classes": list(self.class_names),
             "answers": {str(label): list(right) for label, right in sorted(self.answers.items())}}
        )  # fmt: skip

    def batches(
        self, batch_size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Array, Labels, Indices]]:
        """Inputs, labels and indices of the rows [start, stop), cut at fixed multiples of `batch_size` from 0."""
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1; it is {batch_size}.")
        end = len(self) if stop is None else min(stop, len(self))
        position = start
        while position < end:
            cut = min(end, (position // batch_size + 1) * batch_size)
            rows = self.indices[position:cut]
            yield self.inputs(rows), self.all_labels[rows], rows
            position = cut

    def inputs(self, rows: Indices | None = None) -> Array:
        """The inputs of the given positions of the whole data set, or of all rows of this source."""
        chosen = self.indices if rows is None else np.asarray(rows, np.int64)
        values = self.read(chosen)
        known = (np.float32, np.float64) if values.ndim == 2 else (np.float32,)
        if len(values) != len(chosen) or values.dtype not in known:
            raise DataError(
                f"{self.name} must give {len(chosen)} float32 rows (features may be float64); it gave {len(values)} of {values.dtype}. "
                "Correct its read function."
            )
        return values

    def subset(self, positions: Sequence[int] | Array, *, name: str | None = None, note: Mapping[str, Any] | None = None) -> Source:  # fmt: skip
        """The rows at `positions` of this source, in that order; `note` is kept in `history`."""
        chosen = np.asarray(positions)
        if chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64, copy=False)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(self)):
            raise InputError(
                f"positions must be 0..{len(self) - 1} for {self.name}; they reach from {chosen.min()} to {chosen.max()}."
            )
        step = dict(note) if note is not None else {"subset": len(chosen)}
        return replace(
            self, name=name or self.name, rows=self.indices[chosen], history=(*self.history, {"of": len(self), **step})
        )

    def split(self, *sizes: int | float, seed: int = 0) -> tuple[Source, ...]:
        """Disjoint parts drawn at random, fixed by `seed`; what is left over is the last part.

        A size is a number of rows, or a share of them between 0 and 1. Rows keep the order of
        ``numpy.random.default_rng(seed).permutation(n)``, which anyone can repeat.
        """
        counts = [round(size * len(self)) if isinstance(size, float) and 0 < size < 1 else int(size) for size in sizes]
        if not counts or min(counts) < 1 or sum(counts) > len(self):
            raise InputError(
                f"sizes must be row counts of at least 1 that sum to at most {len(self)}, or shares between 0 and 1; they "
                f"are {', '.join(map(str, sizes)) or 'missing'}."
            )
        order = np.random.default_rng(seed).permutation(len(self))
        edges = [0, *np.cumsum(counts).tolist()]
        if edges[-1] < len(self):
            edges.append(len(self))
        return tuple(
            self.subset(
                order[begin:end],
                name=f"{self.name}[{number}]",
                note={"split": number, "rows": [begin, end], "seed": seed},
            )
            for number, (begin, end) in enumerate(pairwise(edges))
        )

    def with_groups(self, groups: Array) -> Source:
        """The same rows, each in a group (camera, site, …): one value per row of this source."""
        values = np.asarray(groups)
        if values.shape != (len(self),):
            raise InputError(
                f"groups must name one group per row, shape ({len(self)},); their shape is {values.shape}."
            )
        everywhere = np.zeros(len(self.all_labels), values.dtype)
        everywhere[self.indices] = values
        return replace(self, all_groups=everywhere)

    @property
    def names_classes(self) -> bool:
        """Whether classes have names of their own, and not only numbers."""
        return self.class_names != tuple(map(str, range(self.n_classes)))

    def with_classes(self, names: Sequence[Any]) -> Source:
        """The same rows with labels that count in `names`, what a model's outputs stand for, in order.

        Classes are known by name; numbers are taken for names where all of them are some. A folder without one of the
        classes, say, would otherwise number the others differently.
        """
        known = tuple(map(str, names))
        place = {name: number for number, name in enumerate(known)}
        labels = np.unique(self.all_labels[self.all_labels >= 0])
        own = self.class_names if self.names_classes else tuple(str(label) for label in labels)
        if self.answers or self.class_names == known or known == tuple(map(str, range(len(known)))):
            return self
        if not set(own) <= set(known):
            if self.n_classes == len(known) or not self.names_classes:
                return self  # other names for the same, or numbers that count outputs
            unknown = next(name for name in own if name not in place)
            raise InputError(
                f"classes of {self.name} must be some of {', '.join(known[:10])}; {unknown!r} is none of them. Rename it, or "
                "give class_names in the order of the model's outputs."
            )
        table = np.full(self.n_classes + 1, -1)  # the last place is that of no class, -1
        for label in labels:
            table[label] = place[self.class_names[label] if self.names_classes else str(label)]
        return replace(self, all_labels=table[self.all_labels], class_names=known)

    def labelled(self) -> Source:
        """Only the rows that have a right answer; the source itself, fingerprint and all, when every row has one."""
        if (self.labels >= 0).all():
            return self
        return self.subset(self.labels >= 0, note={"only": "labelled"})

    def unlabelled(self) -> Source:
        """Only the rows without one: out-of-distribution data."""
        return self.subset(self.labels < 0, note={"only": "out of distribution"})

    def right(self, predicted: Array, labels: Labels | None = None) -> Array:
        """Whether each predicted class is a right answer; False where there is none.

        >>> source = Source("s", lambda rows: rows, np.array([0, 2, -1]), ("a", "b", "c"), lambda: "", answers={2: (1, 2)})
        >>> source.right(np.array([0, 1, 1]))
        array([ True,  True, False])
        """
        truth = self.labels if labels is None else np.asarray(labels)
        correct: Array = (np.asarray(predicted) == truth) & (truth >= 0)
        for label, outputs in self.answers.items():
            here = truth == label
            correct[here] = np.isin(np.asarray(predicted)[here], outputs)
        return correct

    def metadata(self) -> dict[str, Any]:
        """What to record about this source beside results."""
        return {
            "name": self.name, "rows": len(self), "classes": self.n_classes, "input_shape": list(self.input_shape),
            "out_of_distribution": int((self.labels < 0).sum()), "history": [dict(step) for step in self.history],
            "fingerprint": self.fingerprint,
        }  # fmt: skip
