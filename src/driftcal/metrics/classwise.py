"""Metrics that look at every class: residuals per class and bin add, so one pass gives the class-wise ECE."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from driftcal.cores import threads
from driftcal.metrics.bootstrap import draw_weights
from driftcal.metrics.ordered import Ordered, debiased_of, prefix_sums
from driftcal.metrics.statistics import bin_edges, bin_index
from driftcal.numerics import kernel, softmax, softmax_row
from driftcal.rows import BLOCK_SCORES, Rows
from driftcal.types import Array, Float64, Labels, Logits, Probs, Weights

#: Numbers that a pass may keep at once: 64 MB.
_KEEP = 1 << 23


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Probabilities of all classes, from an array or from logits that are read block by block."""

    source: Rows | Probs
    labels: Labels
    weights: Weights
    n_classes: int

    @classmethod
    def of_logits(cls, rows: Rows) -> ClassScores:
        """Probabilities that are computed from logits whenever they are needed."""
        pairs = [(block.labels, block.weights) for block in rows.blocks()]
        labels, weights = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return cls(rows, labels, weights, rows.n_classes)

    @classmethod
    def of_probabilities(cls, labels: Labels, p: Probs, weights: Weights | None) -> ClassScores:
        """Probabilities from an array."""
        return cls(p, labels, np.ones(len(p)) if weights is None else weights, p.shape[1])

    def blocks(self) -> Iterator[tuple[int, Probs]]:
        """Where each block starts, and its probabilities."""
        if isinstance(self.source, Rows):
            yield from ((block.start, softmax(block.logits)) for block in self.source.blocks())
            return
        step = max(1, BLOCK_SCORES // self.n_classes)
        yield from ((low, self.source[low : low + step]) for low in range(0, len(self.source), step))

    def columns(self, first: int, last: int) -> Float64:
        """The probabilities of classes first..last-1, a row per class."""
        if isinstance(self.source, Rows):
            return np.ascontiguousarray(self.source.each(_take_columns, last - first, first).T)
        return np.ascontiguousarray(self.source[:, first:last].T)

    def residuals(self, n_bins: int) -> Float64:
        """(C, M): Σ w (p_c − [y = c]) over the rows of each bin of each class; shards add."""
        if isinstance(self.source, Rows):
            return self.source.sums(_add_logits, (self.n_classes, n_bins), bin_edges(n_bins))
        sums = np.zeros((self.n_classes, n_bins))
        for low, p in self.blocks():
            high = low + len(p)
            _add_probabilities(p, self.labels[low:high], self.weights[low:high], sums, bin_edges(n_bins))
        return sums

    def classwise_ece(self, n_bins: int) -> float:
        """The mean over classes of each class's ECE."""
        return float(np.abs(self.residuals(n_bins)).sum() / self.weights.sum() / self.n_classes)

    def marginal_debiased(self, n_bins: int) -> float:
        """The root mean square over classes of each class's debiased error."""
        return float(np.sqrt(self._marginal(self.weights[None], n_bins)[0]))

    def classwise_replicates(self, n_bins: int, units: Array, kept: Array, draws: int, seed: int) -> Float64:
        """The class-wise ECE of each bootstrap replicate, as products of weights and probabilities."""
        step = max(1, min(draws, _KEEP // len(self.labels), _KEEP // (self.n_classes * n_bins)))
        values = []
        for first in range(0, draws, step):
            drawn = self._drawn(units, kept, range(first, min(first + step, draws)), seed)
            columns = np.ascontiguousarray(drawn.T)
            sums = np.zeros((n_bins, self.n_classes, len(drawn)))
            for low, p in self.blocks():
                w = columns[low : low + len(p)]
                sums[0] += p.T @ w  # as if every score lay in the first bin, where nearly all do
                _move(p, self.labels[low : low + len(p)], w, sums, bin_edges(n_bins))
            values.append(np.abs(sums).sum(axis=(0, 1)) / drawn.sum(axis=1) / self.n_classes)
        return np.concatenate(values)

    def marginal_replicates(self, n_bins: int, units: Array, kept: Array, draws: int, seed: int) -> Float64:
        """The marginal debiased error of each bootstrap replicate."""
        step = max(1, min(draws, _KEEP // len(self.labels)))
        pieces = [range(first, min(first + step, draws)) for first in range(0, draws, step)]
        squared = [self._marginal(self._drawn(units, kept, piece, seed), n_bins) for piece in pieces]
        values: Float64 = np.sqrt(np.concatenate(squared))
        return values

    def _drawn(self, units: Array, kept: Array, replicates: range, seed: int) -> Float64:
        drawn = np.zeros((len(replicates), len(self.labels)))
        weights, counts = np.empty(len(kept)), np.empty(int(units.max()) + 1)
        for row, replicate in enumerate(replicates):
            draw_weights(seed, replicate, units, self.weights[kept], counts, weights)
            drawn[row, kept] = weights
        return drawn

    def _marginal(self, weights: Float64, n_bins: int) -> Float64:
        step = max(1, _KEEP // len(self.labels))
        total = np.zeros(len(weights))
        with ThreadPoolExecutor(threads()) as pool:
            for first in range(0, self.n_classes, step):
                columns = self.columns(first, min(first + step, self.n_classes))

                def error(c: int, columns: Float64 = columns, first: int = first) -> Float64:
                    rows = Ordered.of(columns[c], (self.labels == first + c).astype(np.float64), self.weights)
                    out = np.empty(len(weights))
                    _debiased_many(rows.order, rows.claims, rows.outcomes, weights, n_bins, rows.whole, rows.unit, out)
                    return out

                for out in pool.map(error, range(len(columns))):
                    total += out
        return total / self.n_classes


@kernel
def _take_columns(logits: Logits, labels: Labels, weights: Weights, out: Float64, first: int) -> None:
    p = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        softmax_row(logits[i], 1.0, p)
        for c in range(out.shape[1]):
            out[i, c] = p[first + c]


@kernel
def _add_row(p: Float64, y: int, w: float, sums: Float64, edges: Float64) -> None:
    for c in range(p.shape[0]):
        m = 0 if p[c] <= edges[1] else bin_index(p[c], edges)
        sums[c, m] += w * p[c]
    sums[y, bin_index(p[y], edges)] -= w


@kernel
def _add_logits(logits: Logits, labels: Labels, weights: Weights, sums: Float64, edges: Float64) -> None:
    p = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        softmax_row(logits[i], 1.0, p)
        _add_row(p, labels[i], weights[i], sums, edges)


@kernel
def _add_probabilities(p: Probs, labels: Labels, weights: Weights, sums: Float64, edges: Float64) -> None:
    for i in range(p.shape[0]):
        _add_row(p[i], labels[i], weights[i], sums, edges)


@kernel
def _move(p: Probs, labels: Labels, weights: Float64, sums: Float64, edges: Float64) -> None:
    """Move scores above the first edge to their own bins, and take the labels away, for all replicates at once."""
    for i in range(p.shape[0]):
        w = weights[i]
        for c in range(p.shape[1]):
            if p[i, c] > edges[1]:
                m = bin_index(p[i, c], edges)
                for r in range(w.shape[0]):
                    sums[0, c, r] -= p[i, c] * w[r]
                    sums[m, c, r] += p[i, c] * w[r]
        m = bin_index(p[i, labels[i]], edges)
        for r in range(w.shape[0]):
            sums[m, labels[i], r] -= w[r]


@kernel
def _debiased_many(
    order: Array,
    claims: Float64,
    outcomes: Float64,
    weights: Float64,
    n_bins: int,
    whole: bool,
    unit: float,
    out: Float64,
) -> None:
    sums = np.empty((3, claims.shape[0] + 1))
    for r in range(weights.shape[0]):
        prefix_sums(order, claims, outcomes, weights[r], sums)
        out[r] = debiased_of(claims, sums, n_bins, whole, unit)
