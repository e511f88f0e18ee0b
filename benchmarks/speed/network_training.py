"""One training step of the paper's CIFAR-10 networks: our torch modules beside the same networks of Keras on torch.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.network_training [NETWORK …]

Processor time on one thread, so that other work on the machine counts little; the two take turns, medians are printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional

from driftcal.models.keras import import_keras
from driftcal.paper.networks import make_network

_KERAS = {"mobilenetv2": "MobileNetV2", "densenet121": "DenseNet121", "resnet50": "ResNet50", "vgg19": "VGG19"}


def our_step(name: str, images: np.ndarray, labels: np.ndarray) -> Callable[[], object]:
    """Forth, back and a step of gradient descent with momentum."""
    network = make_network(name).train()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    x, y = torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(labels)

    def step() -> None:
        optimiser.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()

    return step


def keras_step(name: str, images: np.ndarray, labels: np.ndarray) -> Callable[[], object]:
    """The same with ``train_on_batch``."""
    keras = import_keras()
    make = getattr(keras.applications, _KERAS[name])
    base = make(weights=None, include_top=False, input_shape=(32, 32, 3), pooling="avg")
    network = keras.Sequential([base, keras.layers.Dense(10)])
    network.compile(
        keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return lambda: network.train_on_batch(images, labels)


def milliseconds(steps: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The median of each, taking turns, after a round that prepares memory."""
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(repeats + 1):
        for times, step in zip(taken, steps, strict=True):
            begun = time.process_time()
            step()
            times.append(time.process_time() - begun)
    return [1000 * statistics.median(times[1:]) for times in taken]


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(_KERAS), help="all of them if left out")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    wish = parser.parse_args()
    warnings.simplefilter("ignore")  # Keras' own, about numpy 2
    torch.set_num_threads(1)
    chance = np.random.default_rng(0)
    images = chance.normal(size=(wish.batch, 32, 32, 3)).astype(np.float32)
    labels = chance.integers(0, 10, wish.batch)
    print(f"| network, {wish.batch} images | ours, ms | Keras 3 on torch, ms | ratio |\n|---|---|---|---|")
    for name in wish.networks:
        steps = [make(name, images, labels) for make in (our_step, keras_step)]
        ours, theirs = milliseconds(steps, wish.repeats)
        print(f"| {name} | {ours:.0f} | {theirs:.0f} | {theirs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
