"""Settings of a training: optimiser and learning-rate schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingSettings:
    """Stochastic gradient descent with Nesterov's momentum and one cycle of learning rates (Smith & Topin 2019).

    The learning rate rises linearly from a tenth of its peak, then falls to zero as half a cosine.

    Parameters
    ----------
    peak_learning_rate : the highest learning rate.
    batch_size : images per step.
    momentum : Nesterov's momentum.
    weight_decay : penalty on squared weights.
    warm_up : share of the steps in which the learning rate rises.
    max_gradient_norm : longer gradients are scaled down to it.
    bfloat16 : layers multiply in bfloat16; weights, sums and the loss stay float32.

    >>> settings = TrainingSettings(peak_learning_rate=0.1, warm_up=0.25)
    >>> [round(settings.learning_rate(step, 101), 4) for step in (0, 25, 100)]
    [0.01, 0.1, 0.0]
    """

    peak_learning_rate: float = 0.1
    batch_size: int = 128
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warm_up: float = 0.25
    max_gradient_norm: float = 1.0
    bfloat16: bool = False

    def learning_rate(self, step: int, n_steps: int) -> float:
        """The learning rate of a step."""
        done = step / max(1, n_steps - 1)
        if done < self.warm_up:
            return self.peak_learning_rate * (0.1 + 0.9 * done / self.warm_up)
        return self.peak_learning_rate * 0.5 * (1 + math.cos(math.pi * (done - self.warm_up) / (1 - self.warm_up)))


#: Networks that need other settings. Those without batch normalisation diverge at higher learning rates.
SETTINGS = {
    "vgg19": TrainingSettings(peak_learning_rate=0.03),
    "plain-cnn": TrainingSettings(peak_learning_rate=0.03),
}
