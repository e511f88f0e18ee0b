"""All calibrators on scikit-learn's digits with a convolutional network, into which calibrators can look: a check on other data.

    python -m benchmarks.drift.digits_inside [--output FOLDER]

As `driftcal paper beyond`, whose network for the digits has no layers to look at: 597 images to train on, 600 to tune on, 600 to
test on, the nine affine shifts. Trains on one thread, from seed 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from driftcal.bench.cases import Case
from driftcal.bench.digits import SPLIT
from driftcal.bench.experiments.beyond import beyond_paper
from driftcal.bench.through_onnx import stage_layers
from driftcal.bench.workbench import Workbench
from driftcal.models import open_model
from driftcal.perturb import get_suite
from driftcal.report.paper import write_outcome
from driftcal.sources import Source, digits
from driftcal.store import Store

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
        rows = torch.from_numpy(rng.integers(0, len(x), BATCH))
        optimiser.zero_grad()
        functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimiser.step()
    return net.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/digits-inside"))
    options = parser.parse_args()
    training, validation, test = digits().split(*SPLIT, seed=0)
    net = train(training)
    model = open_model(net, name="convolutional network")
    layers = stage_layers(net, model, SHAPE)
    case = Case(
        "cnn", "digits", model, validation, test, "affine", get_suite("affine").shifts, layers=layers,
        training=lambda: training,
    )  # fmt: skip
    outcome = beyond_paper(Workbench([case], store=Store(options.output / "store")))
    for file in write_outcome(outcome, options.output):
        print(file)


if __name__ == "__main__":
    main()
