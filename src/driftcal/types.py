"""Type aliases of driftcal's signatures: shape, dtype and range of every array."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]
Float64: TypeAlias = NDArray[np.float64]

#: What a caller may pass: an array, a memory map, a torch tensor, a pandas object, a list.
AnyArray: TypeAlias = ArrayLike | Any

#: float (n, C): any real scores whose softmax is the model's probability. -inf masks a class.
#: Callers may also pass (n,) or (n, 1) for binary problems, and (n, height, width, C) where each pixel is a sample.
Logits: TypeAlias = NDArray[Any]

#: float64 (n, C); the log-sum-exp of each sample is 0. Log-probabilities are valid logits.
LogProbs: TypeAlias = NDArray[np.float64]

#: float64 (n, C) in [0, 1]; each sample sums to 1.
Probs: TypeAlias = NDArray[np.float64]

#: int64 (n,) in 0..C-1, after the checks. Callers may pass integers, class names or one-hot samples.
Labels: TypeAlias = NDArray[np.int64]

#: float64 (n,), at least 0.
Weights: TypeAlias = NDArray[np.float64]

#: float32 (n, height, width, channels) in [0, 1]; channels are 1 (grey) or 3 (RGB).
Images: TypeAlias = NDArray[np.float32]

#: int64 (n,): the position of each sample in its data set. Seed and position fix a sample's random numbers.
Indices: TypeAlias = NDArray[np.int64]

#: A batch of inputs: images (n, height, width, channels), features (n, F), a pandas data frame, texts,
#: or a dictionary of arrays.
Inputs: TypeAlias = Any
