"""Checks of inputs, and passes over labelled logits. `core` imports no other folder of driftcal.

Checks: `validation` (logits, probabilities, weights), `labels` (labels to columns), `score_type`, `inputs/` (images, frames, texts).
Passes: `dataset` (`LabelledLogits`), `passes`, `blocks`, `chunks` (data larger than memory), `scan` (the first pass).
Numbers: `numerics` (exp, log, softmax), `optimize` (Newton, L-BFGS), `random`, `parallel` (threads).
"""
