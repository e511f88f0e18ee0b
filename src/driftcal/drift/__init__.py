"""How far a window of unlabelled inputs has shifted, and the accuracy of the model on it, from logits alone.

`label_free_statistics` and `window_statistics` are the statistics of samples and windows. `level_scale` places a window
between perturbation levels, `estimators` and `accuracy_regression` estimate its accuracy, and `reference` keeps what they
need of the validation samples.
"""
