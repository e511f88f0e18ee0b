"""From a model and labelled data to a calibrated model, its evaluation, and its recalibration."""
