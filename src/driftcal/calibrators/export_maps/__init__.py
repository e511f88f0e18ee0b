"""What a fitted calibrator does to logits, as plain numbers: export/ turns them into ONNX graphs and torch modules."""
