"""ONNX: files through onnxruntime, and the weight files that they refer to."""
