"""Order statistics and sums below edges are those of the sorted scores."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from driftcal.calibrators import make_calibrator
from driftcal.calibrators.nonparametric.kernels.quantiles import order_statistics, sums_up_to

scores_of_a_class = arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.one_of(st.sampled_from([0.0, 0.25, 1.0, 5e-324]), st.floats(0, 1), st.floats(0, 1e-200)),
)


@given(scores_of_a_class, st.integers(2, 12))
def test_they_are_those_of_sorted_scores(scores, bins):
    ranks = -(-np.arange(1, bins) * len(scores) // bins) - 1
    edges = order_statistics(scores, ranks)
    np.testing.assert_array_equal(edges, np.sort(scores)[ranks])
    counts, sums = sums_up_to(scores, edges)
    np.testing.assert_array_equal(counts, [(scores <= edge).sum() for edge in edges])
    np.testing.assert_allclose(sums, [scores[scores <= edge].sum() for edge in edges], rtol=1e-13)


def test_few_bins_and_many_are_cut_by_the_same_rule():
    """Weights that differ a little use the path with sorting, which agrees with the other one."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(500, 4)), rng.integers(0, 4, 500)
    for name in ("hb", "pbmc"):
        selected = make_calibrator(name).fit(logits, labels)
        nearly_even = 1 + 1e-13 * rng.random(500)
        by_sorting = make_calibrator(name).fit(logits, labels, sample_weight=nearly_even)
        np.testing.assert_allclose(selected.bin_edges_, by_sorting.bin_edges_, rtol=1e-9)
        np.testing.assert_allclose(selected.bin_values_, by_sorting.bin_values_, rtol=1e-9)
