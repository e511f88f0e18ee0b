"""`make matrix` runs the laws with other block sizes."""

import os

import pytest


@pytest.fixture(autouse=True)
def block_scores(monkeypatch):
    """Scores per block, from DRIFTCAL_TEST_BLOCK_SCORES."""
    if "DRIFTCAL_TEST_BLOCK_SCORES" in os.environ:
        monkeypatch.setattr("driftcal.core.blocks.BLOCK_SCORES", int(os.environ["DRIFTCAL_TEST_BLOCK_SCORES"]))
