"""The versions in metadata never stop the work."""

import importlib.metadata

import driftcal
from driftcal.pipeline.evaluating import versions


def test_packages_without_metadata_are_unknown(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    assert "unknown" not in versions.versions().values()
    monkeypatch.setattr(versions, "version", missing)
    found = versions.versions()
    assert found["driftcal"] == driftcal.__version__
    assert found["numpy"] == "unknown"
