"""Every example notebook runs from its first cell to its last, in one kernel after the other."""

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore")  # of the kernel's own libraries
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "store notebooks without outputs"
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [data for cell in notebook.cells for out in cell.get("outputs", ()) for data in out.get("data", {})]
    assert "text/html" in shown or path.stem == "logits_only"
    assert shown


def test_there_are_notebooks_for_four_kinds_of_users():
    assert [path.stem for path in NOTEBOOKS] == ["image_classifier", "logits_only", "monitoring", "tables"]
