"""A source that is cached in blocks: a run with more samples computes only those, with the same bits."""

import numpy as np
import pytest

from driftcal.cache import LogitCache
from driftcal.data import from_arrays
from driftcal.errors import InputError
from driftcal.models import open_model
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.run import Run
from driftcal.shifts import get_shift

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.random((23, 8, 8, 3), np.float32), np.arange(23) % 3
ORDER = RNG.permutation(23)
WEIGHTS = RNG.normal(size=(192, 3))
NOISE = get_shift("gaussian")
CONDITIONS = [(None, 0.0), (NOISE, 0.01), (NOISE, 0.04)]


def collector(n_samples, cache, *, block_size=4, fail_after=None):
    """A collector of the first samples; the model fails after so many calls."""
    calls = []

    def network(images):
        calls.append(len(images))
        if fail_after is not None and len(calls) > fail_after:
            raise RuntimeError("killed")
        return images.reshape(len(images), -1) @ WEIGHTS

    model = open_model(network, outputs="logits", batch_size=2)
    source = from_arrays(IMAGES, LABELS).subset(ORDER[:n_samples])
    return Collector(model, source, run=Run(cache=cache), model_fingerprint="m", block_size=block_size)


def test_more_samples_cost_their_own_passes_only(tmp_path):
    cache = LogitCache(tmp_path)
    few = collector(8, cache)
    assert [len(block.source) for block in few.blocks] == [4, 4]
    assert few.missing(CONDITIONS) == 3
    few.gather(CONDITIONS)
    assert few.evaluated == 8 * 3
    assert few.missing(CONDITIONS) == 0
    more = collector(23, cache)
    assert more.missing(CONDITIONS) == pytest.approx(3 * 15 / 23)
    whole = collector(23, None, block_size=None)
    for shift, level in CONDITIONS:
        np.testing.assert_array_equal(more.logits(shift, level), whole.logits(shift, level))
    assert more.evaluated == 15 * 3
    np.testing.assert_array_equal(collector(8, cache).logits(NOISE, 0.01), whole.logits(NOISE, 0.01)[:8])


def test_a_killed_run_goes_on_in_its_block(tmp_path):
    cache = LogitCache(tmp_path)
    with pytest.raises(RuntimeError, match="killed"):
        collector(12, cache, fail_after=7).gather(CONDITIONS)
    done = 3 - collector(12, cache).missing(CONDITIONS)
    assert 0 < done < 3
    resumed = collector(12, cache)
    resumed.gather(CONDITIONS)
    assert resumed.evaluated == pytest.approx((3 - done) * 12)


def test_without_a_cache_or_a_block_size_the_source_is_one_piece(tmp_path):
    assert collector(8, None).blocks == []
    assert collector(8, LogitCache(tmp_path), block_size=None).blocks == []
    with pytest.raises(InputError, match="multiple of the model's batch size 2; it is 3"):
        collector(8, LogitCache(tmp_path), block_size=3)
