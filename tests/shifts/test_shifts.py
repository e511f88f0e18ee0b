"""Laws of every image shift: level 0 is the identity, randomness depends on (seed, index), outputs are images."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import affine_transform
from sklearn.datasets import load_sample_images

import driftcal
from driftcal.shifts import SHIFTS, get_shift, image_shifts
from driftcal.shifts.affine import AFFINE, affine_map
from driftcal.shifts.corruptions.severities import TABLES

NAMES = [shift.name for shift in image_shifts()]
RANDOM = [
    "gaussian", "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "glass_blur", "motion_blur", "snow",
    "frost", "fog", "spatter", "elastic_transform",
]  # fmt: skip


def photographs(n: int = 6, height: int = 32, width: int = 32, channels: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    whole = load_sample_images().images
    crops = []
    for i in range(n):
        y, x = rng.integers(0, 427 - min(height, 426)), rng.integers(0, 640 - min(width, 639))
        crops.append(np.resize(whole[i % 2][y : y + height, x : x + width], (height, width, 3)))
    images = np.stack(crops).astype(np.float32) / np.float32(255)
    return images if channels == 3 else images.mean(axis=3, keepdims=True)


def strongest(name: str) -> float:
    levels = SHIFTS[name].levels
    return 0.05 if levels is None else levels[-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 3])
def test_level_0_is_the_identity_to_the_bit(name: str, channels: int) -> None:
    images = photographs(3, channels=channels)
    out = get_shift(name)(images, 0)
    assert out.tobytes() == images.tobytes()
    assert not np.shares_memory(out, images)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_depend_on_batch_order_or_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images, shift, level = photographs(500, 16, 16), get_shift(name), strongest(name)
    monkeypatch.setenv("DRIFTCAL_THREADS", "1")
    whole = shift(images, level, seed=3)
    monkeypatch.setenv("DRIFTCAL_THREADS", "2")
    assert shift(images, level, seed=3).tobytes() == whole.tobytes()
    some = np.arange(21)
    for size in (1, 7):
        parts = [shift(images[i : i + size], level, seed=3, indices=some[i : i + size]) for i in range(0, 21, size)]
        assert np.concatenate(parts).tobytes() == whole[:21].tobytes()
    order = np.random.default_rng(1).permutation(500)
    assert shift(images[order], level, seed=3, indices=order).tobytes() == whole[order].tobytes()


def test_a_large_image_does_not_depend_on_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    images = photographs(9, 160, 200)
    for name in NAMES:
        monkeypatch.setenv("DRIFTCAL_THREADS", "2")
        whole = get_shift(name)(images, strongest(name))
        monkeypatch.setenv("DRIFTCAL_THREADS", "1")
        last = get_shift(name)(images[8:], strongest(name), indices=[8])
        assert last.tobytes() == whole[8:].tobytes(), name


def digest() -> str:
    images = photographs(4, 24, 40)
    total = hashlib.sha256()
    for name in NAMES:
        total.update(get_shift(name)(images, strongest(name), seed=11).tobytes())
    return total.hexdigest()


def test_a_fresh_process_gives_the_same_bytes() -> None:
    code = f"import sys; sys.path.insert(0, {str(__file__).rsplit('/', 1)[0]!r}); import test_shifts as t; print(t.digest())"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert fresh.stdout.strip() == digest()


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_images_of_the_same_shape(name: str) -> None:
    shift = get_shift(name)
    for height, width, channels in ((8, 8, 1), (8, 8, 3), (9, 33, 1), (47, 30, 3), (90, 130, 1), (100, 91, 3)):
        images = photographs(2, height, width, channels)
        for level in (0.01, 100.0) if shift.levels is None else shift.levels:
            out = shift(images, level, seed=1)
            assert out.shape == images.shape
            assert out.dtype == np.float32
            assert out.min() >= 0
            assert out.max() <= 1


def test_large_images_and_empty_batches_work() -> None:
    images = np.random.default_rng(0).random((1, 512, 520, 3), np.float32)
    for name in NAMES:
        assert get_shift(name)(images, strongest(name)).shape == images.shape
        assert get_shift(name)(images[:0], strongest(name)).shape == (0, 512, 520, 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_black_and_white_images_stay_finite(name: str, value: float) -> None:
    images = np.full((2, 16, 16, 3), value, np.float32)
    for level in (0.3,) if SHIFTS[name].levels is None else SHIFTS[name].levels:
        assert np.isfinite(get_shift(name)(images, level)).all()


@pytest.mark.parametrize("name", NAMES)
def test_bytes_and_other_floats_give_the_same_images(name: str) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)
    level, floats = strongest(name), images / np.float32(255)
    out = get_shift(name)(images, level)
    assert np.array_equal(out, get_shift(name)(floats, level))
    assert np.array_equal(out, get_shift(name)(floats.astype(np.float64), level))
    backwards = np.asfortranarray(floats)
    assert np.array_equal(out, get_shift(name)(backwards, level))


@pytest.mark.parametrize("name", RANDOM)
def test_seeds_and_indices_matter_where_there_is_randomness(name: str) -> None:
    images = np.repeat(photographs(1), 3, axis=0)
    out = get_shift(name)(images, strongest(name), seed=0)
    assert not np.array_equal(out[0], out[1])
    assert not np.array_equal(out, get_shift(name)(images, strongest(name), seed=1))
    assert get_shift(name)(images, strongest(name), seed=2**64 - 1, indices=[2**62] * 3).shape == images.shape


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("name", NAMES)
def test_distortion_grows_with_the_level(name: str, table: str) -> None:
    side = 96 if table == "imagenet-c" else 32
    images = photographs(40, side, side)
    shift = get_shift(name, table=table) if name in TABLES[table] else get_shift(name)
    levels = (1e-4, 1e-3, 1e-2, 0.1, 1.0) if shift.levels is None else shift.levels[1:]
    quality = [psnr(images, shift(images, level)) for level in levels]
    # the published parameters of these do not always grow: another kind of damage begins, or one part becomes weaker
    if name in ("glass_blur", "frost", "saturate", "elastic_transform") or (name, table) == ("spatter", "cifar10-c"):
        assert max(quality) < 45
        assert quality[-1] < quality[0] or name in ("saturate", "elastic_transform")
    else:
        assert np.all(np.diff(quality) < 1e-3), quality


def psnr(clean: np.ndarray, shifted: np.ndarray) -> float:
    return float(np.mean(-10 * np.log10(np.mean((clean - shifted) ** 2, axis=(1, 2, 3)) + 1e-12)))


def test_saturate_leaves_grey_images_alone() -> None:
    images = photographs(2, channels=1)
    assert np.array_equal(get_shift("saturate")(images, 5), images)


@settings(max_examples=25)
@given(
    name=st.sampled_from(sorted(AFFINE)),
    level=st.integers(0, 9),
    height=st.integers(8, 40),
    width=st.integers(8, 40),
    channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 9),
)
def test_affine_shifts_equal_scipy(name: str, level: int, height: int, width: int, channels: int, seed: int) -> None:
    images = np.random.default_rng(seed).random((2, height, width, channels), np.float32)
    matrix, offset = affine_map(name, level, height, width)
    out = get_shift(name)(images, level)
    for image, shifted in zip(images, out, strict=True):
        for c in range(channels):
            reference = affine_transform(image[..., c].astype(float), matrix, offset, order=1, mode="nearest")
            assert np.abs(reference - shifted[..., c]).max() <= 1e-4


def test_affine_shifts_move_in_the_direction_of_their_name() -> None:
    image = np.zeros((1, 33, 33, 1), np.float32)
    image[0, 16, 26] = 1  # right of the centre
    row, column = (int(i) for i in np.argwhere(get_shift("rot_right")(image, 9)[0, ..., 0] > 0.5)[0])
    assert (row, column) == (26, 16)
    assert np.argwhere(get_shift("rot_left")(image, 9)[0, ..., 0] > 0.5)[0].tolist() == [6, 16]
    assert np.argwhere(get_shift("yshift")(image[:, :32, :32], 3)[0, ..., 0] > 0.5)[0].tolist() == [16, 20]
    assert np.argwhere(get_shift("xshift")(image[:, :32, :32], 3)[0, ..., 0] > 0.5)[0].tolist() == [10, 26]
    assert get_shift("xyzoom")(image, 5)[0, 16].sum() == 0  # the middle half is enlarged: the point leaves


def test_translations_scale_with_the_side() -> None:
    small, large = np.zeros((1, 32, 32, 1), np.float32), np.zeros((1, 64, 128, 1), np.float32)
    small[0, 20, 20], large[0, 40, 80] = 1, 1
    assert np.argwhere(get_shift("xyshift")(small, 2)[0, ..., 0])[0].tolist() == [16, 16]
    assert np.argwhere(get_shift("xyshift")(large, 2)[0, ..., 0])[0].tolist() == [32, 64]


def test_gaussian_is_one_draw_scaled_by_the_root_of_the_variance() -> None:
    images = np.full((50, 32, 32, 3), 0.5, np.float32)
    free = get_shift("gaussian", clip=False)
    weak, strong = free(images, 0.0001, seed=5) - images, free(images, 0.01, seed=5) - images
    assert np.allclose(strong, 10 * weak, atol=1e-5)
    assert strong.var() == pytest.approx(0.01, rel=0.02)
    assert abs(strong.mean()) < 1e-3
    assert np.mean(np.abs(strong) > 0.196) == pytest.approx(0.05, abs=0.003)
    clipped = get_shift("gaussian")(images, 1.0)
    assert clipped.min() == 0
    assert clipped.max() == 1
    assert free(images, 1.0).min() < 0


def test_gaussian_noise_is_independent_between_samples_seeds_and_pixels() -> None:
    images = np.zeros((400, 16, 16, 1), np.float32)
    noise = get_shift("gaussian", clip=False)
    a, b = noise(images, 1.0, seed=0).reshape(400, -1), noise(images, 1.0, seed=1).reshape(400, -1)
    n = a.size
    assert abs(np.mean(a * b)) < 5 / np.sqrt(n)
    assert abs(np.mean(a[1:] * a[:-1])) < 5 / np.sqrt(n)
    assert abs(np.mean(a[:, 1:] * a[:, :-1])) < 5 / np.sqrt(n)
    assert np.mean(a**4) == pytest.approx(3, abs=0.1)


def test_shot_noise_is_poisson_for_values_between_bytes() -> None:
    shift = get_shift("shot_noise", table="imagenet-c")
    for value in (0.1, 0.3015, 0.4999):
        counts = shift(np.full((20, 32, 32, 1), value, np.float32), 1) * 60
        assert counts.mean() == pytest.approx(60 * value, rel=0.01)
        assert counts.var() == pytest.approx(60 * value, rel=0.05)


def test_parameters_depend_on_the_image_size_or_are_chosen() -> None:
    small, large = photographs(1, 32, 32), photographs(1, 160, 160)
    assert np.array_equal(get_shift("contrast")(small, 1), get_shift("contrast", table="cifar10-c")(small, 1))
    assert np.array_equal(get_shift("contrast")(large, 1), get_shift("contrast", table="imagenet-c")(large, 1))
    assert not np.array_equal(get_shift("contrast", table="cifar10-c")(large, 1), get_shift("contrast")(large, 1))


def test_the_mixture_gives_each_image_one_of_its_corruptions() -> None:
    images = photographs(40)
    out = driftcal.get_shift("h_mixture")(images, 4, seed=2)
    parts = [get_shift(n)(images, 4, seed=2) for n in ("speckle_noise", "gaussian_blur", "spatter", "saturate")]
    matches = np.array([[np.array_equal(o, p) for p in (part[i] for part in parts)] for i, o in enumerate(out)])
    assert (matches.sum(axis=1) == 1).all()
    assert (matches.sum(axis=0) > 3).all()
    again = driftcal.get_shift("h_mixture")(images[7:9], 4, seed=2, indices=[7, 8])
    assert np.array_equal(again, out[7:9])
