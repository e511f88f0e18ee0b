"""How far a window of unlabelled inputs has shifted, and the accuracy of the model on it, from logits alone.

`statistics` are the label-free statistics of samples and windows, `level_scale` places a window between perturbation
levels, `estimators` estimate its accuracy, and `reference` keeps what they need of the validation samples.
"""
