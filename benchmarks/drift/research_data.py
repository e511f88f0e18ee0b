"""Logits for the research benchmark: ladders, perturbations of validation images to choose by, suites to judge by.

Validation images are the first 5,000 of a fixed shuffle of CIFAR-10's test set, test images the others. Ladders are climbed on
the first 2,500 validation images; choices are made on perturbations of the others. Sixteen perturbations, none of which is
in a test suite: eight that are like the ways of the tuning shift "varied", and eight that are not like them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from benchmarks.drift.cifar_resnet import load_cifar10_test, load_resnet
from driftcal.perturb import get_shift, get_suite
from driftcal.perturb.ladder import find_ladder

NETWORKS = ("resnet20", "resnet44")
HALF, VALIDATION = 2_500, 5_000
CLASSES = 10
Arrays = dict[str, np.ndarray]


def occlude(x, level, rng):
    side, x = (6, 10, 14, 18, 22)[level], x.copy()
    for image in x:
        a, b = rng.integers(0, 33 - side, 2)
        image[a : a + side, b : b + side] = rng.random(3)
    return x


def blend(x, level, rng):
    share = (0.15, 0.25, 0.35, 0.45, 0.55)[level]
    return (1 - share) * x + share * x[rng.permutation(len(x))]


def tiles(x, level, rng):
    n, share = len(x), (0.1, 0.25, 0.45, 0.7, 1.0)[level]
    t = x.reshape(n, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, 64, 4, 4, 3).copy()
    for image in t:
        moved = np.flatnonzero(rng.random(64) < share)
        image[moved] = image[rng.permutation(moved)]
    return t.reshape(n, 8, 8, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)


def solarise(x, level, rng):
    return np.where(x > (0.9, 0.75, 0.6, 0.45, 0.25)[level], 1 - x, x)


def posterise(x, level, rng):
    steps = (11, 6, 3, 2, 1)[level]
    return np.round(x * steps) / steps


def plasma(x, level, rng):
    z = gaussian_filter(rng.standard_normal(x.shape).astype(np.float32), (0, 3, 3, 0), mode="wrap")
    return np.clip(x + (0.08, 0.14, 0.22, 0.32, 0.45)[level] * z / z.std(), 0, 1)


def jitter(x, level, rng):
    reach, out = (1, 2, 3, 5, 8)[level], np.empty_like(x)
    for i in range(len(x)):
        for row, slip in enumerate(rng.integers(-reach, reach + 1, 32)):
            out[i, row] = np.roll(x[i, row], slip, 0)
    return out


def channels(x, level, rng):
    share = (0.3, 0.5, 0.7, 0.85, 1.0)[level]
    return (1 - share) * x + share * x[..., [2, 0, 1]]


def _warp(x, move):
    """Images read at other places: `move` takes coordinates in [-1, 1] to where they are read."""
    v, u = np.meshgrid(np.linspace(-1, 1, 32), np.linspace(-1, 1, 32), indexing="ij")
    out = np.empty_like(x)
    for i in range(len(x)):
        down, across = move(i, v, u)
        at = [(down + 1) * 31 / 2, (across + 1) * 31 / 2]
        for k in range(x.shape[-1]):
            out[i, ..., k] = map_coordinates(x[i, ..., k], at, order=1, mode="reflect")
    return out


def swirl(x, level, rng):
    turn, side = (0.4, 0.8, 1.2, 1.8, 2.6)[level], rng.choice([-1, 1], len(x))

    def move(i, v, u):
        r, angle = np.hypot(v, u), np.arctan2(v, u)
        angle = angle + side[i] * turn * np.exp(-2 * r**2)
        return r * np.sin(angle), r * np.cos(angle)

    return _warp(x, move)


def fisheye(x, level, rng):
    def move(i, v, u):
        pull = (np.hypot(v, u) / 1.2) ** (0.25, 0.5, 0.8, 1.2, 1.8)[level]
        return v * pull, u * pull

    return _warp(x, move)


def perspective(x, level, rng):
    tilt, way = (0.2, 0.35, 0.5, 0.65, 0.8)[level], rng.uniform(0, 2 * np.pi, len(x))

    def move(i, v, u):
        far = np.maximum(1 + tilt * (np.cos(way[i]) * u + np.sin(way[i]) * v), 0.15)
        return v / far, u / far

    return _warp(x, move)


def wave(x, level, rng):
    high, at = (0.06, 0.1, 0.15, 0.22, 0.3)[level], rng.uniform(0, 2 * np.pi, (2, len(x)))
    return _warp(x, lambda i, v, u: (v + high * np.sin(5 * u + at[0, i]), u + high * np.sin(5 * v + at[1, i])))


def gamma(x, level, rng):
    return x ** (1.6, 2.3, 3.2, 4.5, 6.5)[level]


def sharpen(x, level, rng):
    return np.clip(x + (1.0, 2.0, 4.0, 8.0, 16.0)[level] * (x - gaussian_filter(x, (0, 1, 1, 0))), 0, 1)


def phase(x, level, rng):
    waves = np.fft.rfft2(x, axes=(1, 2))
    turn = np.angle(np.fft.rfft2(rng.standard_normal(x.shape), axes=(1, 2)))
    waves = waves * np.exp(1j * (0.35, 0.55, 0.75, 1.0, 1.4)[level] * turn / 1.8)
    return np.clip(np.fft.irfft2(waves, s=(32, 32), axes=(1, 2)), 0, 1)


def lines(x, level, rng):
    x, gap, colour = x.copy(), (16, 10, 7, 5, 3)[level], rng.random((len(x), 1, 1, 3))
    for i, start in enumerate(rng.integers(0, gap, len(x))):
        x[i, start::gap] = colour[i, 0]
        x[i, :, start::gap] = colour[i, 0]
    return x


#: Set -> its perturbations: (images, level 0..4, generator) -> images.
SELECTION: dict[str, dict[str, Callable]] = {
    "select": {f.__name__: f for f in (occlude, blend, tiles, solarise, posterise, plasma, jitter, channels)},
    "second": {f.__name__: f for f in (swirl, fisheye, perspective, wave, gamma, sharpen, phase, lines)},
}


class Data:
    """Logits of one network: (levels, images, classes), the clean ones first; computed once, kept in `cache`."""

    dtype = np.float64

    def __init__(self, network: str, cifar10: Path, weights: Path, cache: Path, images: int) -> None:
        self.network, self.cifar10, self.weights, self.cache, self.images = network, cifar10, weights, cache, images

    @property
    def given(self) -> tuple[str, Path, Path, Path, int]:
        """What it was made from, to make another view of the same network."""
        return self.network, self.cifar10, self.weights, self.cache, self.images

    def get(self, name: str) -> Arrays:
        path = self.cache / f"{self.network}_{name}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **self._compute(name))
        with np.load(path) as file:
            return {key: file[key] for key in file.files}

    def _compute(self, name: str) -> Arrays:
        x, y = load_cifar10_test(self.cifar10)
        model = self._model()
        order = np.random.default_rng(0).permutation(len(x))
        if name.startswith(("ladder", "varied")):
            chosen = order[:HALF]
        elif name in SELECTION:
            chosen = order[HALF : min(HALF + self.images, VALIDATION)]
        else:
            chosen = order[VALIDATION : VALIDATION + self.images]
        x, y = (x[chosen] / np.float32(255)).astype(np.float32), y[chosen]
        if name.startswith(("ladder", "varied")):
            return self._climb(model, name, x, y, chosen)
        clean = model(x)
        found = {"labels": y}
        for kind, function in SELECTION.get(name, {}).items():
            drifted = [function(x, k, np.random.default_rng([k + 1, len(kind)])) for k in range(5)]
            found[kind] = np.stack([clean, *(model(one.astype(np.float32)) for one in drifted)])
        for shift in () if name in SELECTION else get_suite(name).shifts:
            found[shift.name] = np.stack([clean, *(model(shift(x, k, indices=chosen)) for k in shift.levels[1:])])
        return found

    def _model(self) -> Callable[[np.ndarray], np.ndarray]:
        return load_resnet(self.weights / f"cifar10_{self.network}.safetensors")

    def _climb(self, model, name: str, x, y, chosen) -> Arrays:
        shift, seed, seen = get_shift("gaussian" if name.startswith("ladder") else "varied"), int(name[6:]), {}

        def answers(level, rows):
            if rows is not None:
                return model(shift(x[rows], level, seed=seed, indices=chosen[rows]))[:, :CLASSES]
            if level not in seen:
                seen[level] = model(shift(x, level, seed=seed, indices=chosen))
            return seen[level][:, :CLASSES]

        eps = [level.epsilon for level in find_ladder(answers, y).levels]
        return {"logits": np.stack([seen[e] for e in eps]), "labels": y, "eps": np.array(eps)}

    def ladder(self, kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The rungs of "noise" or "varied"; "both": the clean rung, then those of noise, then the varied ones."""
        if kind == "both":
            (noise, labels), (varied, _) = self.ladder("noise", seed), self.ladder("varied", seed)
            return np.concatenate([noise, varied[1:]]), labels
        found = self.get(f"{'ladder' if kind == 'noise' else 'varied'}{seed}")
        return found["logits"][:, :HALF].astype(self.dtype), found["labels"][:HALF].astype(np.int64)

    def suite(self, name: str) -> tuple[Arrays, np.ndarray]:
        found = self.get(name)
        labels, clean = found.pop("labels")[: self.images].astype(np.int64), found.pop("clean", None)
        found.pop("gaussian_noise", None)  # the tuning noise under another name
        return {
            key: (value if clean is None else np.concatenate([clean, value]))[:, : self.images].astype(self.dtype)
            for key, value in found.items()
        }, labels
