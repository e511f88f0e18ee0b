"""Records a CIFAR-10 network's logits under all conditions of the study of windowed calibrators; a killed run continues.

    python -m benchmarks.accuracy.collect_study resnet20 --data cifar10=DIR --weights DIR --natural FILE.npz -o DIR

It writes DIR/NETWORK.npz with arrays of float16 logits (images, classes):

- ``val_labels``, ``val/clean``, ``val/<shift>/<level>``: validation images, clean and under every simulated shift of
  `driftcal.shifts.simulated_conditions`; for Gaussian noise the level is its place in the list, 1 to 9. ``val/mixture/<1-5>``
  are mixtures with another validation image of any class, which the library does not have.
- ``levels/gaussian/<0-9>``, ``levels/varied/<0-9>``: validation images at the levels that Algorithm 1 finds, the paper's.
- ``test_labels``, ``test/clean``, ``test/affine/<shift>/<1-9>``, ``test/corruptions/<shift>/<1-5>``,
  ``test/simple/<change>/<mild|strong>``: other images under the suites and simple changes.
- ``natural``, ``natural_labels``: the natural shift.
- ``clean``, ``clean_labels``: more clean test images, for errors in domain and label shift; the test images come first.
- ``ood``: unrelated images, with ``--unrelated DIR`` (the folder of Fashion-MNIST's files).
- ``views/mirror/...`` with ``--views``: logits of the mirrored image, clean and at odd levels.
- ``families``: JSON, the family of each simulated shift.

The published ResNets were trained on all training images: their validation and test images are the two halves of the test
batch, as in `driftcal paper`. Other networks have 5,000 held-out training images for validation.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from driftcal.data import Source, cifar10
from driftcal.models import Model
from driftcal.paper.networks.registry import open_cifar10_network
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.perturbation import perturb
from driftcal.shifts import SUITES, get_shift, simulated_conditions
from driftcal.shifts.affine import Affine

#: Simple changes of images: name -> (mild, strong) strength.
SIMPLE = {
    "darker": (0.6, 0.35),
    "brighter": (0.2, 0.4),
    "lower_contrast": (0.5, 0.3),
    "gamma": (1.5, 2.5),
    "rotation": (5.0, 12.0),
    "blur": (0.6, 1.0),
}
#: Weights of the other image in a mixture of two.
MIXTURE = (0.1, 0.2, 0.3, 0.4, 0.5)
#: Clean test images.
N_CLEAN = 2000


def simple_change(images: np.ndarray, name: str, strength: float) -> np.ndarray:
    """One of the simple changes; images and result lie in [0, 1]."""
    from scipy.ndimage import gaussian_filter, rotate

    if name == "darker":
        changed = images * strength
    elif name == "brighter":
        changed = images + strength
    elif name == "lower_contrast":
        mean = images.mean(axis=(1, 2), keepdims=True)
        changed = mean + strength * (images - mean)
    elif name == "gamma":
        changed = images**strength
    elif name == "rotation":
        changed = rotate(images, strength, axes=(1, 2), reshape=False, order=1, mode="nearest")
    else:
        changed = gaussian_filter(images, (0, strength, strength, 0), mode="nearest")
    return np.clip(changed, 0, 1).astype(np.float32)


def mixed_images(images: np.ndarray, share: float) -> np.ndarray:
    """Each image mixed with another one."""
    return (1 - share) * images + share * np.roll(images, 7, axis=0)


def conditions(
    validation: np.ndarray, test: np.ndarray, natural: np.ndarray, clean: np.ndarray
) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Every array of the file, and the function that makes its images."""
    yield "val/clean", lambda: validation
    yield "test/clean", lambda: test
    yield "natural", lambda: natural
    yield "clean", lambda: clean
    level_of_noise = 0
    for condition in simulated_conditions():
        if condition.family == "noise":
            level_of_noise += 1
        level = level_of_noise if condition.family == "noise" else condition.level
        yield (
            f"val/{condition.shift.name}/{level:g}",
            lambda c=condition: c.shift(validation, c.level, seed=0),
        )
    for number, share in enumerate(MIXTURE, 1):
        yield f"val/mixture/{number}", lambda share=share: mixed_images(validation, share)
    for shift, level in [*SUITES["affine"], *SUITES["cifar10-c"]]:
        suite = "affine" if isinstance(shift, Affine) else "corruptions"
        if level:
            yield f"test/{suite}/{shift.name}/{level}", lambda s=shift, k=level: s(test, k, seed=1)
    for name, strengths in SIMPLE.items():
        for word, strength in zip(("mild", "strong"), strengths, strict=True):
            yield f"test/simple/{name}/{word}", lambda n=name, s=strength: simple_change(test, n, s)


def unrelated_images(folder: Path, n_images: int) -> np.ndarray:
    """The first test images of Fashion-MNIST in the middle of 32 x 32 colour images."""
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as stream:
        pixels = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 28, 28)[:n_images]
    padded = np.pad(pixels, ((0, 0), (2, 2), (2, 2))).astype(np.float32) / 255
    return np.repeat(padded[..., None], 3, axis=3)


def families() -> dict[str, str]:
    """Simulated shift -> family."""
    return {c.shift.name: c.family for c in simulated_conditions()} | {"mixture": "mixture"}


def save(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the file whole or not at all."""
    temporary = file.with_suffix(".partial.npz")
    np.savez(temporary, **arrays)
    temporary.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--data", required=True, help="cifar10=DIR")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--natural", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--validation", type=int, default=1000)
    parser.add_argument("--test", type=int, default=600)
    parser.add_argument("--unrelated", type=Path, help="folder of Fashion-MNIST's files")
    parser.add_argument("--views", action="store_true", help="record the mirrored view too, as views/mirror/...")
    options = parser.parse_args()
    folder = options.data.partition("=")[2]
    network = open_cifar10_network(options.network, options.weights)
    first_half, second_half = cifar10(folder).split(0.5, random_state=0)[:2]
    held_out = first_half if network.held_out is None else network.held_out(cifar10(folder, part="train"))
    validation, test, clean = (
        source.subset(np.arange(n))
        for source, n in ((held_out, options.validation), (second_half, options.test), (second_half, N_CLEAN))
    )
    with np.load(options.natural) as stored:
        natural, natural_labels = stored["x"].astype(np.float32) / 255, stored["y"]
    file = options.output / f"{options.network}.npz"
    arrays: dict[str, np.ndarray] = {}
    if file.exists():
        with np.load(file) as stored:
            arrays = {name: stored[name] for name in stored.files}
    arrays |= {
        "val_labels": validation.labels.astype(np.uint8),
        "test_labels": test.labels.astype(np.uint8),
        "clean_labels": clean.labels.astype(np.uint8),
        "natural_labels": natural_labels.astype(np.uint8),
        "families": np.array(json.dumps(families())),
    }
    if options.unrelated is not None and "ood" not in arrays:
        arrays["ood"] = batched(network.model, unrelated_images(options.unrelated, options.validation // 2)).astype(
            np.float16
        )
    add_levels(network.model, validation, arrays, file)
    listed = conditions(validation.inputs(), test.inputs(), natural, clean.inputs())
    record(network.model, listed, arrays, file, views=options.views)


def add_levels(model: Model, validation: Source, arrays: dict[str, np.ndarray], file: Path) -> None:
    """The levels of Algorithm 1, unless the arrays hold them."""
    collector = Collector(model, validation, random_state=0)
    for name in ("gaussian", "varied"):
        if f"levels/{name}/0" not in arrays:
            by_level = perturb(collector, get_shift(name)).by_level
            arrays |= {f"levels/{name}/{k}": np.asarray(logits, np.float16) for k, logits in enumerate(by_level)}
            save(file, arrays)


def record(
    model: Model,
    listed: Iterator[tuple[str, Callable[[], np.ndarray]]],
    arrays: dict[str, np.ndarray],
    file: Path,
    *,
    views: bool,
) -> None:
    """Run the model on every condition that the arrays lack; write them once a minute."""
    saved, begun, done = time.monotonic(), time.monotonic(), 0
    for name, make_images in listed:
        seen_mirrored = views and (name.endswith(("clean", "natural", "mild", "strong")) or name[-1] in "13579")
        missing = [view for view in ("", "views/mirror/")[: 1 + seen_mirrored] if view + name not in arrays]
        if not missing:
            continue
        images = make_images()
        for view in missing:
            seen = images[:, :, ::-1] if view else images
            arrays[view + name] = batched(model, seen).astype(np.float16)
            done += len(images)
        if time.monotonic() - saved > 60:
            save(file, arrays)
            saved = time.monotonic()
            print(f"{name}: {done} images, {done / (saved - begun):.0f} a second", flush=True)
    save(file, arrays)
    print(f"{file.name}: {len(arrays)} arrays", flush=True)


def batched(model: Model, images: np.ndarray, size: int = 100) -> np.ndarray:
    """Logits in batches."""
    return np.concatenate(
        [model.logits(np.ascontiguousarray(images[i : i + size])) for i in range(0, len(images), size)]
    )


if __name__ == "__main__":
    main()
