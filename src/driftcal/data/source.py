"""A data set: inputs that are read when they are needed, labels, and a fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict
from driftcal.core.inputs.frames import is_frame
from driftcal.core.labels import NO_CLASS
from driftcal.core.validation import column_indices, column_names
from driftcal.errors import DataError, InputError
from driftcal.io.fingerprint import fingerprint
from driftcal.types import Array, Indices, Inputs, Labels

#: Indices in the whole data set -> inputs: float32 images (n, H, W, C) in [0, 1]; features (n, F), float32 or float64;
#: series (n, length, channels);
#: a pandas data frame; texts (n,); or a dictionary of arrays.
Read = Callable[[Indices], Inputs]


class InputBatch(NamedTuple):
    """Consecutive samples of a source: their inputs, their labels, and their indices in the whole data set."""

    inputs: Inputs
    labels: Labels
    indices: Indices


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """Labelled inputs. Every format is one function that returns a source.

    A source consists of some samples of a data set. A sample keeps its index in the whole data set in every subset and
    split. Its index decides its noise.

    Parameters
    ----------
    name
        The name of the data in results.
    read
        Indices in the whole data set -> float32 inputs, or a data frame.
    all_labels
        One column of the model's outputs per sample of the whole data set; -1 if no class is correct (out of
        distribution) or the class is unknown.
    class_names
        The classes in the order of the model's outputs.
    content
        Returns a text that changes when the inputs change, such as a digest.
    all_groups
        One group (camera, site, …) per sample of the whole data set.
    correct_outputs
        For data whose classes are coarser than the model's (ObjectNet): label -> all correct outputs. Without an entry,
        only the label itself is correct.
    selections
        How the samples were chosen from the whole data set, one entry per step.
    indices
        The samples of this source, by their indices in the whole data set; by default all.
    categorical
        The columns of features that hold categories, by number. Those of a data frame that are categorical by their
        dtype need not be named.
    holds_whole_numbers
        Whether features are a matrix of integers: counts, but perhaps codes or tokens, on which noise means nothing.

    >>> x, y = np.zeros((10, 4), np.float32), np.arange(10) % 3
    >>> source = Source("mine", lambda indices: x[indices], y, ("a", "b", "c"), content=lambda: "v1")
    >>> validation, test = source.split(0.5, random_state=0)
    >>> len(validation), len(test), [len(batch.labels) for batch in test.batches(2)]
    (5, 5, [2, 2, 1])
    """

    name: str
    read: Read
    all_labels: Labels
    class_names: tuple[str, ...]
    content: Callable[[], str]
    all_groups: Array | None = None
    correct_outputs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    selections: tuple[Mapping[str, Any], ...] = ()
    indices: Indices = None  # type: ignore[assignment]  # __post_init__ fills it
    categorical: tuple[int, ...] = ()
    holds_whole_numbers: bool = False

    def __post_init__(self) -> None:
        labels = np.asarray(self.all_labels)
        object.__setattr__(self, "all_labels", labels.astype(np.int64, copy=False))
        if self.indices is None:
            object.__setattr__(self, "indices", np.arange(len(labels), dtype=np.int64))
        if self.all_groups is not None and len(self.all_groups) != len(labels):
            raise InputError(
                f"groups must name one group per sample; there are {len(labels)} samples and {len(self.all_groups)} groups."
            )
        outside = np.flatnonzero((self.all_labels < NO_CLASS) | (self.all_labels >= self.n_classes))
        if len(outside):
            raise DataError(
                f"labels of {self.name} must be 0..{self.n_classes - 1}, or -1 for none; sample {outside[0]} has "
                f"{self.all_labels[outside[0]]}. If your file counts from 1, subtract 1; if a class has no sample here, "
                "pass class_names with all classes."
            )

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self)} samples, {self.n_classes} classes)"

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def labels(self) -> Labels:
        """int64 (n,), -1 where no class is correct."""
        labels: Labels = self.all_labels[self.indices]
        return labels

    @property
    def groups(self) -> Array | None:
        """One group per sample; None for data without groups."""
        return None if self.all_groups is None else self.all_groups[self.indices]

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input: (height, width, channels) or (features,)."""
        if not len(self):
            raise DataError(f"{self.name} must have at least one sample; it has none.")
        return tuple(int(n) for n in self.read(self.indices[:1]).shape[1:])

    @property
    def kind(self) -> str:
        """``images``, ``features``, ``series``, ``text`` or ``dictionaries``."""
        if not self.input_shape:
            return "dictionaries" if isinstance(self.read(self.indices[:1]), ArrayDict) else "text"
        return {3: "images", 2: "series"}.get(len(self.input_shape), "features")

    @cached_property
    def is_table(self) -> bool:
        """Whether samples are rows of a data frame."""
        return self.kind == "features" and is_frame(self.read(self.indices[:1]))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over inputs, labels and the choice of samples. It reads every file once."""
        return fingerprint(  # with the keys of version 0.1, because cached logits are stored under this digest
            {"content": self.content(), "labels": self.labels, "rows": self.indices, "classes": list(self.class_names),
             "answers": {str(label): list(outputs) for label, outputs in sorted(self.correct_outputs.items())}}
        )  # fmt: skip

    def batches(self, batch_size: int, start: int = 0, stop: int | None = None) -> Iterator[InputBatch]:
        """The samples [start, stop) in batches that end at multiples of `batch_size`."""
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1; it is {batch_size}.")
        end = len(self) if stop is None else min(stop, len(self))
        position = start
        while position < end:
            batch_end = min(end, (position // batch_size + 1) * batch_size)
            indices = self.indices[position:batch_end]
            yield InputBatch(self.inputs(indices), self.all_labels[indices], indices)
            position = batch_end

    def inputs(self, indices: Indices | None = None) -> Inputs:
        """The inputs of the samples with these indices in the whole data set; by default of all samples here."""
        selected = self.indices if indices is None else np.asarray(indices, np.int64)
        inputs = self.read(selected)
        if (is_frame(inputs) or isinstance(inputs, ArrayDict) or inputs.dtype == object) and len(inputs) == len(
            selected
        ):
            return inputs
        allowed = (np.float32, np.float64) if inputs.ndim == 2 else (np.float32,)
        if len(inputs) != len(selected) or inputs.dtype not in allowed:
            raise DataError(
                f"{self.name} must give {len(selected)} float32 inputs (features may be float64); it gave {len(inputs)} of "
                f"{inputs.dtype}. Correct its read function."
            )
        return inputs

    def subset(
        self, positions: Sequence[int] | Array, *, name: str | None = None, selection: Mapping[str, Any] | None = None
    ) -> Source:
        """The samples at `positions` of this source, in that order; `selection` is appended to `selections`."""
        selected = np.asarray(positions)
        if selected.dtype == bool:
            selected = np.flatnonzero(selected)
        selected = selected.astype(np.int64, copy=False)
        if len(selected) and not (selected.min() >= 0 and selected.max() < len(self)):
            raise InputError(
                f"positions must be 0..{len(self) - 1} for {self.name}; they reach from {selected.min()} to {selected.max()}."
            )
        step = {"of": len(self), **({"subset": len(selected)} if selection is None else selection)}
        return replace(
            self, name=name or self.name, indices=self.indices[selected], selections=(*self.selections, step)
        )

    def split(self, *sizes: int | float, random_state: int = 0) -> tuple[Source, ...]:
        """Disjoint random parts, fixed by `random_state`. Remaining samples become the last part.

        A size is a number of samples, or a share of them between 0 and 1. The order of the samples is
        ``numpy.random.default_rng(random_state).permutation(n)``.
        """
        counts = [round(size * len(self)) if isinstance(size, float) and 0 < size < 1 else int(size) for size in sizes]
        if not counts or min(counts) < 1 or sum(counts) > len(self):
            raise InputError(
                f"sizes must be numbers of samples, at least 1 each and at most {len(self)} together, or shares between 0 and "
                f"1; they are {', '.join(map(str, sizes)) or 'missing'}."
            )
        order = np.random.default_rng(random_state).permutation(len(self))
        edges = [0, *np.cumsum(counts).tolist()]
        if edges[-1] < len(self):
            edges.append(len(self))
        return tuple(
            self.subset(
                order[begin:end],
                name=f"{self.name}[{number}]",
                selection={"split": number, "samples": [begin, end], "seed": random_state},
            )
            for number, (begin, end) in enumerate(pairwise(edges))
        )

    def split_classes(self, n_per_class: int, *, random_state: int = 0) -> tuple[Source, Source]:
        """Two disjoint parts: `n_per_class` random samples of each class, and the remaining ones.

        Each part holds one sample of every class first, then a second one, and so on, in a random order of the classes.
        The first samples of a part are therefore spread over the classes. Samples without a class are left out.
        """
        order = np.random.default_rng(random_state).permutation(len(self))
        labels = self.labels[order]
        order, labels = order[labels >= 0], labels[labels >= 0]
        by_label = np.argsort(labels, kind="stable")
        starts = np.searchsorted(labels[by_label], labels[by_label])
        rank = np.empty(len(labels), np.int64)  # how many samples of its class come before a sample
        rank[by_label] = np.arange(len(labels)) - starts
        rounds = np.argsort(rank, kind="stable")
        n_first = int((rank < n_per_class).sum())
        if n_per_class < 1 or n_first == len(labels):
            raise InputError(
                f"n_per_class must be at least 1 and leave samples for the second part; it is {n_per_class}, and a class of "
                f"{self.name} has at most {int(rank.max(initial=-1)) + 1} samples."
            )
        parts = order[rounds[:n_first]], order[rounds[n_first:]]
        step = {"per_class": n_per_class, "seed": random_state}
        first, second = (
            self.subset(part, name=f"{self.name}[{number}]", selection={"split": number, **step})
            for number, part in enumerate(parts)
        )
        return first, second

    def with_groups(self, groups: Array) -> Source:
        """The same samples, each in a group (camera, site, …): one value per sample of this source."""
        values = np.asarray(groups)
        if values.shape != (len(self),):
            raise InputError(
                f"groups must name one group per sample, shape ({len(self)},); their shape is {values.shape}."
            )
        all_groups = np.zeros(len(self.all_labels), values.dtype)
        all_groups[self.indices] = values
        return replace(self, all_groups=all_groups)

    def with_categorical(self, columns: Sequence[int | str], names: Sequence[str] | None = None) -> Source:
        """The same samples with `columns` of their features as categories; `names` are the names of all columns.

        >>> source = Source("mine", lambda indices: np.zeros((len(indices), 3)), [0, 1], ("a", "b"), content=lambda: "")
        >>> source.with_categorical([-1, "size"], names=["size", "weight", "colour"]).categorical
        (0, 2)
        """
        columns = [columns] if isinstance(columns, str) else columns
        if not len(columns):
            return replace(self, categorical=()) if self.categorical else self
        if self.kind != "features":
            raise InputError(
                f"categorical needs features (n, columns); {self.name} holds {self.kind} of shape {self.input_shape}. Leave it out."
            )
        names = names or column_names(self.read(self.indices[:1]))
        return replace(self, categorical=column_indices(columns, self.input_shape[0], names))

    @property
    def has_class_names(self) -> bool:
        """Whether classes have names, and not only numbers."""
        return self.class_names != tuple(map(str, range(self.n_classes)))

    def with_classes(self, class_names: Sequence[Any]) -> Source:
        """The same samples with labels as columns of `class_names`, the classes in the order of the model's outputs.

        Classes are matched by name, because data that lack a class number the others differently. Data without names
        match by number, if all their numbers are among `class_names`.
        """
        names = tuple(map(str, class_names))
        if self.correct_outputs or self.class_names == names or names == tuple(map(str, range(len(names)))):
            return self
        labels = np.unique(self.all_labels[self.all_labels >= 0])
        name_of = {label: self.class_names[label] if self.has_class_names else str(label) for label in labels.tolist()}
        unknown = [
            name for name in (self.class_names if self.has_class_names else name_of.values()) if name not in names
        ]
        if unknown:
            if self.n_classes == len(names) or not self.has_class_names:
                return self  # other names for the same classes, or numbers that are columns
            raise InputError(
                f"classes of {self.name} must be among {', '.join(names[:10])}; {unknown[0]!r} is not. Rename it, or "
                "pass class_names in the order of the model's outputs."
            )
        columns = np.full(self.n_classes + 1, NO_CLASS)  # the label -1 indexes the last entry
        for label, name in name_of.items():
            columns[label] = names.index(name)
        return replace(self, all_labels=columns[self.all_labels], class_names=names)

    def labelled(self) -> Source:
        """The samples that have a correct class; this source itself, with the same fingerprint, if all have one."""
        if (self.labels >= 0).all():
            return self
        return self.subset(self.labels >= 0, selection={"only": "labelled"})

    def unlabelled(self) -> Source:
        """The samples without a correct class: out-of-distribution data."""
        return self.subset(self.labels < 0, selection={"only": "out of distribution"})

    def is_correct(self, predicted: Array) -> Array:
        """Whether each predicted class is correct; False for samples without a correct class.

        >>> names, correct = ("a", "b", "c"), {2: (1, 2)}
        >>> source = Source("mine", lambda indices: indices, [0, 2, -1], names, lambda: "", correct_outputs=correct)
        >>> source.is_correct(np.array([0, 1, 1]))
        array([ True,  True, False])
        """
        labels, predictions = self.labels, np.asarray(predicted)
        correct: Array = (predictions == labels) & (labels >= 0)
        for label, outputs in self.correct_outputs.items():
            in_class = labels == label
            correct[in_class] = np.isin(predictions[in_class], outputs)
        return correct

    def metadata(self) -> dict[str, Any]:
        """The description of this source in files of results."""
        return {
            "name": self.name, "samples": len(self), "classes": self.n_classes, "input_shape": list(self.input_shape),
            "categorical": list(self.categorical), "out_of_distribution": int((self.labels < 0).sum()),
            "selections": [dict(step) for step in self.selections], "fingerprint": self.fingerprint,
        }  # fmt: skip
