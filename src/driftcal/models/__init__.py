"""From inputs to logits: one adapter per framework, all behind :class:`Model`.

Frameworks are imported when a model of theirs is opened. No file is unpickled: code runs only where the user names an
importable factory or trusts a TorchScript file.
"""

from driftcal.models.backend import Backend
from driftcal.models.features import pooled_features
from driftcal.models.model import Model
from driftcal.models.opening import FILES, open_model
from driftcal.models.outputs import SMALLEST_PROBABILITY, Outputs
from driftcal.models.preprocessing import Preprocessing

__all__ = [
    "FILES",
    "SMALLEST_PROBABILITY",
    "Backend",
    "Model",
    "Outputs",
    "Preprocessing",
    "open_model",
    "pooled_features",
]
