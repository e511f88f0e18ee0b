"""ONNX nodes of export maps: one file per family of maps, and the parts that several of them use."""
