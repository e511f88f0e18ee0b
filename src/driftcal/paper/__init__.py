"""Reproduction of Tomani et al., "Post-hoc Uncertainty Calibration for Domain Drift Scenarios", CVPR 2021.

`experiments` has a file for each table and figure of the paper. `setups` opens networks with their data, `networks` and
`training` hold the networks, `figures` draws. `paper_run` runs experiments and writes their tables and figures.
"""
