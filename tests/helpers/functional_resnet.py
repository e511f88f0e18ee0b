"""An independent implementation of the CIFAR-10 ResNets of He et al. 2016, straight from a weights file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from torch.nn import functional as F

_MEAN, _DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def load_resnet(weights: Path) -> Callable[[np.ndarray], np.ndarray]:
    """images (n, 32, 32, 3) in [0, 1] -> logits (n, 10), for batches of any size."""
    w = {name: torch.from_numpy(array) for name, array in load_file(weights).items()}
    blocks = sum(1 for name in w if name.startswith("layer1.") and name.endswith("conv1.weight"))

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        running = (w[f"{name}.running_mean"], w[f"{name}.running_var"])
        return F.batch_norm(x, *running, w[f"{name}.weight"], w[f"{name}.bias"])

    def block(x: torch.Tensor, name: str, stride: int) -> torch.Tensor:
        y = F.relu(norm(F.conv2d(x, w[f"{name}.conv1.weight"], stride=stride, padding=1), f"{name}.bn1"))
        y = norm(F.conv2d(y, w[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
        if stride == 2:
            pad = (y.shape[1] - x.shape[1]) // 2
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad))
        return F.relu(x + y)

    @torch.inference_mode()
    def logits(images: np.ndarray) -> np.ndarray:
        parts = []
        for part in np.array_split(images, max(1, len(images) // 500)):
            x = torch.from_numpy(np.ascontiguousarray(np.moveaxis((part - _MEAN) / _DEVIATION, -1, 1)))
            x = F.relu(norm(F.conv2d(x, w["conv1.weight"], padding=1), "bn1"))
            for stage in (1, 2, 3):
                for i in range(blocks):
                    x = block(x, f"layer{stage}.{i}", 2 if stage > 1 and i == 0 else 1)
            parts.append(F.linear(x.mean((2, 3)), w["linear.weight"], w["linear.bias"]).numpy())
        return np.concatenate(parts)

    return logits
