"""Training of the paper's CIFAR-10 networks."""
