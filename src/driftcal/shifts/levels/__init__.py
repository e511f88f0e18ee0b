"""Algorithm 1 of Tomani et al. 2021: the perturbation levels whose accuracies step evenly from clean down to chance."""
