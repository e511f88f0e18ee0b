"""Simulated shifts: many separate shifts on which windowed calibrators and accuracy estimators are fitted.

`image_changes` and `resampling` hold the changes of images, `conditions` lists which are used at which levels. Those of
feature tables are kinds of :class:`~driftcal.shifts.tabular.drifts.FeatureDrift`.
"""
