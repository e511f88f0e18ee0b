"""The paper's experiments: what to run, running it, and what was found, as plain values.

`experiments.EXPERIMENTS` lists them, `cases` opens networks with their data, `workbench` shares the model's answers
between them. `driftcal.paper.reproduction` joins this with the ink of `driftcal.report`.
"""
