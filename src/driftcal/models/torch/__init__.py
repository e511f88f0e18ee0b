"""torch: modules in memory, ``.pt2`` files, trusted TorchScript files, safetensors weights for a module."""

from driftcal.models.torch.model_file import from_file
from driftcal.models.torch.torch_backend import TorchBackend, from_module, load_weights

__all__ = ["TorchBackend", "from_file", "from_module", "load_weights"]
