"""Monitoring a calibrated model in production.

`monitor` holds `Monitor`. `alarm_rule` gives the state of a window without labels, `sequential_test` tests the
calibration with labels. `summary` combines both into a recommendation. `reading/` reads a stream, `serving/` runs a monitor on it.
"""
