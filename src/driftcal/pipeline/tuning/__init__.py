"""From logits to fitted calibrators."""
