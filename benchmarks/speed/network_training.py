"""One training step of the paper's CIFAR-10 networks: our torch modules beside the same networks of Keras on torch.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.network_training [NETWORK …]

CPU time on one thread, so that other programs on the machine count little. The two alternate; medians are printed.
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

from benchmarks.measure import seconds_of, table_head, table_row
from driftcal.models.keras import import_keras
from driftcal.paper.networks import make_network

KERAS_NAMES = {"mobilenetv2": "MobileNetV2", "densenet121": "DenseNet121", "resnet50": "ResNet50", "vgg19": "VGG19"}


def our_step(name: str, images: np.ndarray, labels: np.ndarray) -> Callable[[], object]:
    """Forward pass, backward pass and a step of gradient descent with momentum."""
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
    make = getattr(keras.applications, KERAS_NAMES[name])
    base = make(weights=None, include_top=False, input_shape=(32, 32, 3), pooling="avg")
    network = keras.Sequential([base, keras.layers.Dense(10)])
    network.compile(
        keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return lambda: network.train_on_batch(images, labels)


def median_milliseconds(steps: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The median CPU time of each step; steps alternate, and the first round, which allocates memory, does not count."""
    rounds = [[seconds_of(step, time.process_time) for step in steps] for _ in range(repeats + 1)]
    return [1000 * statistics.median(times) for times in zip(*rounds[1:], strict=True)]


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(KERAS_NAMES), help="all of them if left out")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # Keras warns about numpy 2
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(arguments.batch, 32, 32, 3)).astype(np.float32)
    labels = rng.integers(0, 10, arguments.batch)
    print(table_head([f"network, {arguments.batch} images", "ours, ms", "Keras 3 on torch, ms", "ratio"]))
    for name in arguments.networks:
        steps = [make(name, images, labels) for make in (our_step, keras_step)]
        ours, theirs = median_milliseconds(steps, arguments.repeats)
        print(table_row([name, f"{ours:.0f}", f"{theirs:.0f}", f"{theirs / ours:.1f}"]), flush=True)


if __name__ == "__main__":
    main()
