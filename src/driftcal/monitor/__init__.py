"""Monitoring a calibrated model in production.

`monitor` holds `Monitor`. `alarm_rule` decides the state of a window without labels, `sequential_test` whether labels speak
against the calibration. `summary` joins both into a recommendation. `service` runs a monitor on a stream.
"""
