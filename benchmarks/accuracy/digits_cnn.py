"""All calibrators on scikit-learn's digits with a convolutional network, which has layer features.

    python -m benchmarks.accuracy.digits_cnn [--output FOLDER]

As `driftcal paper beyond`, whose network for the digits has no layers: 597 images to train on, 600 to tune on, 600 to test on,
the nine affine shifts. Trains on one thread with seed 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from driftcal.cache import LogitCache
from driftcal.data import Source, digits
from driftcal.models import open_model
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiments.all_calibrators import all_calibrators
from driftcal.paper.networks.onnx_runner import stage_layers
from driftcal.paper.networks.registry import Network
from driftcal.paper.setups import Setup
from driftcal.paper.setups.digits_network import split_digits
from driftcal.shifts import get_suite

SHAPE = (1, 8, 8)
STEPS, BATCH = 600, 64


def train(source: Source) -> nn.Module:
    """Three stages at 8, 4 and 2 pixels; no augmentation."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    stages, channels = [], SHAPE[0]
    for width in (16, 32, 64):
        stages.append(nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()))
        stages.append(nn.MaxPool2d(2))
        channels = width
    net = nn.Sequential(*stages, nn.Flatten(), nn.Linear(channels, 10))
    x = torch.from_numpy(np.moveaxis(source.inputs(), -1, 1).copy())
    y = torch.from_numpy(source.labels)
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-4)
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        batch = torch.from_numpy(rng.integers(0, len(x), BATCH))
        optimiser.zero_grad()
        functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimiser.step()
    return net.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/digits-cnn"))
    options = parser.parse_args()
    training, validation, test = split_digits(digits())
    net = train(training)
    model = open_model(net, name="convolutional network")
    network = Network("cnn", model, layers=stage_layers(net, model, SHAPE))
    shifts = get_suite("affine").shifts
    setup = Setup(network, "digits", validation, test, "affine", shifts, training=lambda: training)
    result = all_calibrators(ExperimentContext([setup], cache=LogitCache(options.output / "cache")))
    for file in result.write(options.output):
        print(file)


if __name__ == "__main__":
    main()
