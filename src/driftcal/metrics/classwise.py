"""Metrics of every class: the class-wise ECE needs one pass, because residuals per class and bin add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftcal.core.blocks import block_length
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, softmax, softmax_row
from driftcal.core.parallel import map_in_threads
from driftcal.metrics.bins import bin_edges, bin_index
from driftcal.metrics.bootstrap import resample_weights
from driftcal.metrics.scores_and_labels import LabelledProbabilities
from driftcal.metrics.sorted_samples import SortedSamples, debiased_squared_error, prefix_sums
from driftcal.types import Array, Float64, Labels, Logits, Probs, Weights

#: Numbers that are in memory at once: 64 MB of float64.
_MAX_NUMBERS = 1 << 23


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Probabilities of all classes, from an array or from logits that are read block by block."""

    source: LabelledLogits | Probs
    labels: Labels
    weights: Weights
    n_classes: int

    @classmethod
    def of(cls, data: LabelledLogits | LabelledProbabilities) -> ClassProbabilities:
        """Probabilities from an array, or computed from logits when they are needed."""
        if isinstance(data, LabelledProbabilities):
            weights = np.ones(len(data)) if data.weights is None else data.weights
            return cls(data.probabilities, data.labels, weights, data.n_classes)
        pairs = [(block.labels, block.weights) for block in data.blocks()]
        labels, weights = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return cls(data, labels, weights, data.n_classes)

    def blocks(self) -> Iterator[tuple[int, Probs]]:
        """The start of each block, and its probabilities."""
        if isinstance(self.source, LabelledLogits):
            yield from ((block.start, softmax(block.logits)) for block in self.source.blocks())
            return
        step = block_length(self.n_classes)
        yield from ((low, self.source[low : low + step]) for low in range(0, len(self.source), step))

    def columns(self, first: int, last: int) -> Float64:
        """(classes, n): the probabilities of classes first..last-1."""
        if isinstance(self.source, LabelledLogits):
            return np.ascontiguousarray(self.source.map_samples(_take_columns, last - first, first).T)
        return np.ascontiguousarray(self.source[:, first:last].T)

    def residuals(self, n_bins: int) -> Float64:
        """(C, M): Σ w (p_c − [y = c]) over the samples of each bin of each class; shards add."""
        if isinstance(self.source, LabelledLogits):
            return self.source.reduce_sum(_add_logits, (self.n_classes, n_bins), bin_edges(n_bins))
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

    def classwise_replicates(self, n_bins: int, images: Array, kept: Array, n_resamples: int, seed: int) -> Float64:
        """The class-wise ECE of each bootstrap replicate, as products of weights and probabilities."""
        step = max(1, min(n_resamples, _MAX_NUMBERS // len(self.labels), _MAX_NUMBERS // (self.n_classes * n_bins)))
        values = []
        for first in range(0, n_resamples, step):
            weights = self._resampled(images, kept, range(first, min(first + step, n_resamples)), seed)
            weights_by_sample = np.ascontiguousarray(weights.T)
            sums = np.zeros((n_bins, self.n_classes, len(weights)))
            for low, p in self.blocks():
                w = weights_by_sample[low : low + len(p)]
                sums[0] += p.T @ w  # as if every probability were in the first bin, where nearly all are
                _move_to_bins(p, self.labels[low : low + len(p)], w, sums, bin_edges(n_bins))
            values.append(np.abs(sums).sum(axis=(0, 1)) / weights.sum(axis=1) / self.n_classes)
        return np.concatenate(values)

    def marginal_replicates(self, n_bins: int, images: Array, kept: Array, n_resamples: int, seed: int) -> Float64:
        """The marginal debiased error of each bootstrap replicate."""
        step = max(1, min(n_resamples, _MAX_NUMBERS // len(self.labels)))
        parts = [range(first, min(first + step, n_resamples)) for first in range(0, n_resamples, step)]
        squared = [self._marginal(self._resampled(images, kept, part, seed), n_bins) for part in parts]
        values: Float64 = np.sqrt(np.concatenate(squared))
        return values

    def _resampled(self, images: Array, kept: Array, replicates: range, seed: int) -> Float64:
        """(replicates, n): the weights of each replicate."""
        all_weights = np.zeros((len(replicates), len(self.labels)))
        weights, counts = np.empty(len(kept)), np.empty(int(images.max()) + 1)
        for i, replicate in enumerate(replicates):
            resample_weights(seed, replicate, images, self.weights[kept], counts, weights)
            all_weights[i, kept] = weights
        return all_weights

    def _marginal(self, weights: Float64, n_bins: int) -> Float64:
        """The mean over classes of the squared debiased error, for each row of `weights`."""
        step = max(1, _MAX_NUMBERS // len(self.labels))
        total = np.zeros(len(weights))
        for first in range(0, self.n_classes, step):
            columns = self.columns(first, min(first + step, self.n_classes))

            def error(c: int, columns: Float64 = columns, first: int = first) -> Float64:
                of_class = SortedSamples.of(columns[c], (self.labels == first + c).astype(np.float64), self.weights)
                out = np.empty(len(weights))
                _debiased_replicates(
                    of_class.order, of_class.confidence, of_class.outcome, weights, n_bins, of_class.whole_weights,
                    of_class.samples_per_weight, out,
                )  # fmt: skip
                return out

            for out in map_in_threads(error, range(len(columns))):
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
def _add_sample(p: Float64, y: int, w: float, sums: Float64, edges: Float64) -> None:
    for c in range(p.shape[0]):
        m = 0 if p[c] <= edges[1] else bin_index(p[c], edges)
        sums[c, m] += w * p[c]
    sums[y, bin_index(p[y], edges)] -= w


@kernel
def _add_logits(logits: Logits, labels: Labels, weights: Weights, sums: Float64, edges: Float64) -> None:
    p = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        softmax_row(logits[i], 1.0, p)
        _add_sample(p, labels[i], weights[i], sums, edges)


@kernel
def _add_probabilities(p: Probs, labels: Labels, weights: Weights, sums: Float64, edges: Float64) -> None:
    for i in range(p.shape[0]):
        _add_sample(p[i], labels[i], weights[i], sums, edges)


@kernel
def _move_to_bins(p: Probs, labels: Labels, weights: Float64, sums: Float64, edges: Float64) -> None:
    """Move probabilities above the first edge to their bins and subtract the labels, for all replicates at once."""
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
def _debiased_replicates(
    order: Array,
    confidence: Float64,
    outcome: Float64,
    weights: Float64,
    n_bins: int,
    whole_weights: bool,
    samples_per_weight: float,
    out: Float64,
) -> None:
    """:func:`debiased_squared_error` for each row of `weights`."""
    sums = np.empty((3, confidence.shape[0] + 1))
    for r in range(weights.shape[0]):
        prefix_sums(order, confidence, outcome, weights[r], sums)
        out[r] = debiased_squared_error(confidence, sums, n_bins, whole_weights, samples_per_weight)
