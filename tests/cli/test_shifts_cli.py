"""driftcal shifts: the list, the contact sheet, and mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from driftcal.report.contact_sheet import contact_sheet, read_image
from driftcal.shifts import SHIFTS, SUITES
from driftcal.shifts.catalogue import DESCRIPTIONS


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    code = "from driftcal.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)).save(path)
    return path


def test_every_shift_and_suite_is_listed() -> None:
    out = run("shifts")
    assert out.returncode == 0
    for name in [*DESCRIPTIONS, *SUITES]:
        assert f"\n{name} " in out.stdout
    assert out.stderr == ""


def test_the_list_as_json() -> None:
    listed = json.loads(run("shifts", "--json").stdout)
    assert {shift["name"] for shift in listed["shifts"]} >= set(DESCRIPTIONS)
    assert {suite["name"] for suite in listed["suites"]} == set(SUITES)
    only = json.loads(run("shifts", "--json", "--suite", "affine").stdout)
    assert len(only["shifts"]) == 9


def test_the_contact_sheet_is_drawn(picture: Path, tmp_path: Path) -> None:
    out = run("shifts", "--contact-sheet", picture, "-o", tmp_path / "sheet.png", "--suite", "affine")
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == str(tmp_path / "sheet.png")
    assert "drew 9 shifts, 90 images" in out.stderr
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 1000
        assert sheet.height > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picture.png", "sheet.png"]


def test_a_dry_run_writes_nothing(picture: Path, tmp_path: Path) -> None:
    out = run("shifts", "--contact-sheet", picture, "-o", tmp_path / "sheet.png", "--dry-run")
    assert out.returncode == 0
    assert "would draw 29 shifts, 214 images" in out.stderr
    assert not (tmp_path / "sheet.png").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["shifts", "--suite", "afine"], 2, "driftcal: there is no suite 'afine'; did you mean 'affine'?"),
        (["shifts", "--contact-sheet", "missing.png"], 1, "driftcal: cannot read 'missing.png' as an image"),
        (["shifts", "--random-state", "-1"], 2, "--random-state"),
        (["shifts", "--colour"], 2, "--colour"),
        (["shfits"], 2, "shfits"),
    ],
)
def test_mistakes_are_one_line_or_usage(arguments: list[str], code: int, message: str) -> None:
    out = run(*arguments)
    assert out.returncode == code
    assert message in out.stderr
    assert "Traceback" not in out.stderr
    if code == 1:
        assert out.stderr.count("\n") == 1


def test_a_sheet_that_cannot_be_written_is_an_error(picture: Path, tmp_path: Path) -> None:
    target = picture / "sheet.png"  # below a file, not a folder
    out = run("shifts", "--contact-sheet", picture, "-o", target, "--suite", "affine")
    assert out.returncode == 1
    assert "cannot be written" in out.stderr


def test_a_cell_shows_the_shifted_image(tmp_path: Path) -> None:
    grey = tmp_path / "grey.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (600, 40), np.uint8)).save(grey)
    image = read_image(grey)
    assert image.shape == (512, 34, 1)
    small = np.zeros((8, 8, 1), np.float32)
    sheet = contact_sheet(small, [SHIFTS["brightness"], SHIFTS["gaussian"]])
    assert sheet.dtype == np.uint8
    assert sheet[26 + 56, 150 + 56].tolist() == [0, 0, 0]
    assert sheet[26 + 56, 150 + 56 + 5 * 116].tolist() == [round(0.3 * 255)] * 3
