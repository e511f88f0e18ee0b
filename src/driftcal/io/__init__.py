"""Files: paths and URLs, atomic writing, safetensors, numpy files, fingerprints."""
