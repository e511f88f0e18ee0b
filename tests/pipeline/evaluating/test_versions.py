"""The versions in metadata never stop the work."""

import importlib.metadata

import driftcal
from driftcal.pipeline.evaluating import versions


def test_the_packages_of_the_model_and_of_tables_are_named():
    found = versions.versions("lightgbm", tables=True)
    assert {"lightgbm", "pandas"} < set(found)
    assert not {"lightgbm", "pandas"} & set(versions.versions("sklearn"))


def test_packages_without_metadata_are_unknown(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    assert "unknown" not in versions.versions().values()
    monkeypatch.setattr(versions, "version", missing)
    found = versions.versions()
    assert found["driftcal"] == driftcal.__version__
    assert found["numpy"] == "unknown"
