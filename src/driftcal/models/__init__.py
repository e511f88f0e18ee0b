"""From inputs to logits: :class:`Model`, with one adapter per framework.

A framework is imported when one of its models is opened. No file is unpickled. Code runs only if the user names an
importable factory or trusts a TorchScript file.
"""

from driftcal.models.backend import Backend, LayerBackend
from driftcal.models.features import pooled_features
from driftcal.models.model import Model
from driftcal.models.opening import FILES, open_model
from driftcal.models.outputs import SMALLEST_PROBABILITY, Outputs
from driftcal.models.preprocessing import Preprocessing

__all__ = [
    "FILES",
    "SMALLEST_PROBABILITY",
    "Backend",
    "LayerBackend",
    "Model",
    "Outputs",
    "Preprocessing",
    "open_model",
    "pooled_features",
]
