"""The map of a fitted calibrator in plain numbers, which export/ turns into ONNX graphs and torch modules."""
