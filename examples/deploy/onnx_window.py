"""Serve the graph that `driftcal export --windowed` writes: keep the sums of the last batches, pad each batch to a fixed size."""

from collections import deque

import numpy as np
import onnxruntime


class OnnxWindow:
    """Probabilities that follow the last `window_size` samples; one object per client keeps their windows apart."""

    def __init__(self, path, batch_size, window_size=100):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.shapes = {value.name: value.shape for value in self.session.get_inputs()}
        self.batch_size, self.window_size, self.blocks = batch_size, window_size, deque()

    def predict_proba(self, batch):
        n, (inputs, *_) = len(batch), self.shapes
        while self.blocks and sum(sums[0] for sums in self.blocks) + n > self.window_size:  # the first sum is the count
            self.blocks.popleft()
        previous = np.sum([np.zeros(self.shapes["window_sums"]), *self.blocks], axis=0)
        padding = np.zeros((self.batch_size - n, *batch.shape[1:]), batch.dtype)
        mask = np.arange(self.batch_size) < n
        feed = {inputs: np.concatenate([batch, padding]), "window_sums": previous, "sample_mask": mask}
        probabilities, sums = self.session.run(["probabilities", "batch_sums"], feed)
        self.blocks.append(sums)
        return probabilities[:n]
