"""The windowed object: its window, its keys, its file, merging, threads."""

import functools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.calibrators.serialization import load
from driftcal.errors import ArtefactError, InputError
from driftcal.io.checked_tensors import digest_of_tensors
from driftcal.io.safetensors import read_tensors, write_tensors

NAMES = sorted(name for name, kind in CALIBRATORS.items() if kind.needs_window)
N, C, SIZE = 400, 4, 50


def level_data(level, seed, n=N):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    z = rng.normal(size=(n, C)) * 1.6
    z[np.arange(n), y] += 4.0 - level
    return 3 * z, y


@pytest.fixture(scope="module")
def fitted():
    data = [level_data(level, seed=level) for level in range(4)]
    logits, labels = (np.concatenate(part) for part in zip(*data, strict=True))
    return make_calibrator("level-ts").fit(logits, labels, levels=np.repeat(range(4), N))


@functools.cache  # hypothesis runs without a fixture
def two_levels():
    clean, noisy = level_data(0, seed=0), level_data(2, seed=1)
    logits, labels = (np.concatenate(part) for part in zip(clean, noisy, strict=True))
    return make_calibrator("level-ts").fit(logits, labels, levels=np.repeat([0, 1], N))


def batches(seed, sizes=(7, 1, 30, 64, 120, 3)):
    return [level_data(k % 4, seed + k, n)[0] for k, n in enumerate(sizes)]


@given(st.lists(st.integers(1, 130), min_size=1, max_size=8))
@settings(max_examples=30)
def test_each_block_is_calibrated_by_the_last_samples_including_itself(sizes):
    calibrator, z = two_levels(), batches(0, tuple(sizes))
    everything, live, first = np.concatenate(z), two_levels().windowed(SIZE), 0
    for batch in z:
        p = live.predict_proba(batch)
        for low in range(0, len(batch), SIZE):
            last = min(first + low + SIZE, first + len(batch))
            window = everything[max(0, last - SIZE) : last]
            expected = calibrator.adapt(window).predict_proba(batch[low : low + SIZE])
            np.testing.assert_array_equal(p[low : low + SIZE], expected)
        first += len(batch)


def test_the_same_batches_give_the_same_bits_and_the_memory_stays_the_same(fitted):
    first, second = fitted.windowed(SIZE), fitted.windowed(SIZE)
    for batch in batches(5) * 3:
        np.testing.assert_array_equal(first.predict_proba(batch), second.predict_proba(batch))
    assert first.window_state().n_samples == SIZE
    assert first._windows[None].base is None  # no view that keeps a large batch alive
    assert first._windows[None].shape == (SIZE, 2)


def test_a_key_has_its_own_window(fitted):
    live, alone = fitted.windowed(SIZE), fitted.windowed(SIZE)
    for batch in batches(10):
        live.predict_proba(batch / 20, key="hostile")
        np.testing.assert_array_equal(live.predict_proba(batch, key=7), alone.predict_proba(batch))
    assert live.keys == ["hostile", 7]
    assert live.window_state(None).n_samples == 0
    live.drop("hostile")
    assert live.keys == [7]


def test_the_least_recently_used_key_is_dropped(fitted):
    live, (z, _) = fitted.windowed(SIZE, max_keys=2), level_data(0, seed=3, n=30)
    for key in ("a", "b", "a", "c"):
        live.observe(z, key=key)
    assert live.keys == ["a", "c"]
    assert live.window_state("b").n_samples == 0
    assert live.window_state("a").n_samples == SIZE


def test_the_state_says_how_full_the_window_is_and_whether_it_extrapolates(fitted):
    live = fitted.windowed(SIZE)
    live.observe(level_data(0, seed=4, n=10)[0])
    assert vars(live.window_state()) == {"n_samples": 10, "window_size": SIZE, "adapts": False, "extrapolates": None}
    live.observe(level_data(0, seed=4, n=20)[0])
    assert (live.window_state().adapts, live.window_state().extrapolates) == (True, False)
    live.observe(level_data(0, seed=4, n=200)[0] / 50)
    assert live.window_state().extrapolates


def test_a_calibrator_without_shifts_never_adapts():
    logits, labels = level_data(0, seed=4, n=400)
    live = make_calibrator("window-ts").fit(logits, labels, levels=np.zeros(400, int)).windowed(SIZE)
    live.observe(level_data(3, seed=5, n=200)[0])
    assert vars(live.window_state()) == {"n_samples": SIZE, "window_size": SIZE, "adapts": False, "extrapolates": None}


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_state_continues_with_the_same_bits(name, tmp_path):
    data = [level_data(level, seed=level) for level in range(4)]
    logits, labels = (np.concatenate(part) for part in zip(*data, strict=True))
    calibrator = make_calibrator(name).fit(logits, labels, levels=np.repeat(range(4), N))
    live = calibrator.windowed(SIZE)
    for key, batch in zip((None, "ü" * 300, 2**70, "b", None), batches(20), strict=False):
        live.predict_proba(batch, key=key)
    path = live.save(tmp_path / "windows.safetensors")
    again = load(calibrator.save(tmp_path / "cal.safetensors")).windowed(SIZE)
    again.restore(path)
    assert again.keys == live.keys
    assert again.save(tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    for key in live.keys:
        batch = level_data(1, seed=30)[0]
        np.testing.assert_array_equal(again.predict_proba(batch, key=key), live.predict_proba(batch, key=key))


def test_a_state_without_windows_is_saved_and_a_smaller_object_keeps_the_newest(fitted, tmp_path):
    live = fitted.windowed(SIZE)
    live.restore(live.save(tmp_path / "none.safetensors"))
    assert live.keys == []
    for key in range(5):
        live.observe(level_data(0, seed=key, n=30)[0], key=key)
    small = fitted.windowed(SIZE, max_keys=2)
    small.restore(live.save(tmp_path / "five.safetensors"))
    assert small.keys == [3, 4]


def test_a_file_of_another_calibrator_or_size_or_a_damaged_one_is_refused(fitted, tmp_path):
    live = fitted.windowed(SIZE)
    live.observe(level_data(0, seed=4, n=30)[0], key="a")
    path = live.save(tmp_path / "windows.safetensors")
    with pytest.raises(
        ArtefactError, match=r"must hold windows of 60 samples; its windows have 50. Use windowed\(50\)"
    ):
        fitted.windowed(60).restore(path)
    z, y = level_data(0, seed=0)
    with pytest.raises(ArtefactError, match="must belong to this calibrator"):
        make_calibrator("level-ts").fit(z, y).windowed(SIZE).restore(path)
    with pytest.raises(ArtefactError, match="missing, truncated"):
        live.restore(tmp_path / "absent.safetensors")
    with pytest.raises(ArtefactError, match="driftcal-windows file"):
        live.restore(fitted.save(tmp_path / "cal.safetensors"))
    file = read_tensors(path)
    arrays = {name: np.array(value) for name, value in file.arrays.items()}
    arrays["samples"][1, 1] += 1
    with pytest.raises(ArtefactError, match="its own digest"):
        live.restore(write_tensors(tmp_path / "altered.safetensors", [arrays], file.metadata))
    arrays["samples"][1, 1] = 1e160  # its square is infinite
    metadata = {name: value for name, value in file.metadata.items() if name != "digest"}
    forged = {**metadata, "digest": digest_of_tensors(metadata, arrays)}
    with pytest.raises(ArtefactError, match="finite statistics"):
        live.restore(write_tensors(tmp_path / "forged.safetensors", [arrays], forged))
    assert live.window_state("a").n_samples == 30


def test_merging_gives_what_one_object_would_have_seen_or_is_refused(fitted):
    z = [level_data(k % 3, seed=k, n=35)[0] for k in range(6)]
    one, first, second = (fitted.windowed(SIZE) for _ in range(3))
    for live in (one, first):
        live.observe(z[0], key="a")
        live.observe(z[1], key="b")
    for live in (one, second):
        live.observe(z[2], key="c")
    first.merge(second)
    assert first.keys == one.keys
    np.testing.assert_array_equal(first.predict_proba(z[3], key="c"), one.predict_proba(z[3], key="c"))

    restarted = fitted.windowed(SIZE)
    for live in (one, restarted):
        live.observe(z[4][:20], key="a")
    with pytest.raises(InputError, match=r"both have one of 'a'.*later=True"):
        first.merge(restarted)
    first.merge(restarted, later=True)
    np.testing.assert_array_equal(first.predict_proba(z[5], key="a"), one.predict_proba(z[5], key="a"))


def test_what_cannot_be_merged_is_refused(fitted):
    live, other = fitted.windowed(SIZE, max_keys=1), fitted.windowed(SIZE)
    live.observe(level_data(0, seed=1, n=30)[0], key="a")
    other.observe(level_data(0, seed=1, n=30)[0], key="b")
    for unusable, message in (
        (other, "max_keys must be at least 2"),
        (fitted.windowed(60), "the same window_size"),
        (two_levels().windowed(SIZE), "the same calibrator"),
        (live, "another WindowedPredictor"),
    ):
        with pytest.raises(InputError, match=message):
            live.merge(unusable)
    assert live.keys == ["a"]


def test_unusable_keys_and_limits_are_refused(fitted):
    for key in (1.5, True, b"a", ("a",)):
        with pytest.raises(InputError, match="key must be text or a whole number"):
            fitted.windowed(SIZE).predict_proba(level_data(0, seed=1)[0], key=key)
    with pytest.raises(InputError, match="max_keys must be a whole number of windows"):
        fitted.windowed(SIZE, max_keys=0)


def test_the_repr_is_short(fitted):
    live = fitted.windowed(SIZE)
    live.observe(level_data(0, seed=1)[0])
    assert repr(live) == "WindowedPredictor(LevelTemperatureScaling(), window_size=50, windows of 1 key(s))"


def test_threads_share_the_object(fitted):
    """Each thread's own key gives the bits of a run alone; batches of a shared key join it whole, one after the other."""
    live, z = fitted.windowed(SIZE), [level_data(k % 4, seed=40 + k, n=10)[0] for k in range(8)]
    for batch in z:  # compiled before the threads start
        live.predict_proba(batch, key="shared")
    full = []
    start, interval = threading.Barrier(8), sys.getswitchinterval()

    def work(k):
        start.wait()
        own = [live.predict_proba(z[k] + i, key=k) for i in range(30)]
        for _ in range(300):
            live.observe(z[k], key="shared")
            full.append(live.window_state("shared").n_samples)
        return own

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert set(full) == {SIZE}  # a full window is never seen half-changed
    for k, own in enumerate(results):
        alone = fitted.windowed(SIZE)
        for i, p in enumerate(own):
            np.testing.assert_array_equal(p, alone.predict_proba(z[k] + i))
    shared = live._windows["shared"]
    whole = {fitted.window_statistics(batch).tobytes() for batch in z}
    assert {shared[low : low + 10].tobytes() for low in range(0, SIZE, 10)} <= whole


def test_keys_are_numbers_that_a_file_can_hold(fitted, tmp_path):
    live, (batch, _) = fitted.windowed(SIZE), level_data(1, seed=9, n=3)
    for key in (2**128, -(10**5000)):  # Python writes no number of more than 4,300 digits
        with pytest.raises(InputError, match="key must be"):
            live.observe(batch, key=key)
    live.observe(batch, key=2**128 - 1)  # as of a UUID
    again = fitted.windowed(SIZE)
    again.restore(live.save(tmp_path / "windows"))
    assert again.keys == [2**128 - 1]
