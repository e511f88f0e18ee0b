"""Calibrators as torch modules, in float64.

`to_torch.py` builds the module of a whole map; the files of the families build its parts. Their `forward` takes float64
logits z of shape (…, C) and returns scores of the same shape.
"""
