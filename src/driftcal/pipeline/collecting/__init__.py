"""From inputs and a model to logits: clean, perturbed, cached."""
