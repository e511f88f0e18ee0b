"""The report without a browser: names are text, no number is lost, the same results give the same bytes."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_fixture import BREAKOUT, HOSTILE, digits_results, hostile_results

import driftcal
from driftcal.errors import ArtefactError
from driftcal.pipeline.evaluating.results import METRICS, Results
from driftcal.report import write_html
from driftcal.report.html import json_block, to_html
from driftcal.report.next_steps import next_steps
from driftcal.report.page_data import page_data
from driftcal.report.table import escape_html

ASSETS = resources.files("driftcal.report") / "assets"
SCRIPTS = ("charts.js", "page.js")


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "path", "rect", "br", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    def all_text(self) -> str:
        return "\n".join(part for tag, parts in self.texts.items() if tag not in ("script", "style") for part in parts)


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


# ---- one file that loads nothing ----


@given(st.recursive(st.text() | st.sampled_from([HOSTILE, BREAKOUT, "]]>", "\u2028\u2029", "<!--<script>"]), st.lists))
def test_a_json_block_can_be_read_back_and_cannot_end_its_element(value):
    block = json_block(value)
    assert json.loads(block) == value
    assert not set("<>&\u2028\u2029") & set(block)
    assert block.isascii()


@given(st.text(st.characters()) | st.text(st.characters(categories=["Cs", "Cc"])))
def test_text_is_never_markup_and_can_always_be_written(value):
    shown = escape_html(value)
    assert not set("<>\"'") & set(shown)
    shown.encode("utf-8")


def test_hostile_names_are_text_in_the_page():
    page = Page(to_html(hostile_results()))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    shown = page.all_text()
    for name in (HOSTILE, BREAKOUT, "$x_1$ & 50%", 'a "quoted"'):
        assert name in shown


def test_policy_allows_exactly_this_script_and_style():
    page = to_html(hostile_results())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        body = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(body) == 1
        digest = base64.b64encode(hashlib.sha256(body[0].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_page_names_no_address_to_load_from():
    for tag, attributes in Page(to_html(digits_results())).elements:
        for name in ("src", "href", "action", "poster", "data", "srcset"):
            if name in attributes:
                assert attributes[name].startswith(("#", "data:")), (tag, attributes)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_never_make_markup_from_data_nor_call_out(name):
    source = (ASSETS / name).read_text()
    assert len(source.splitlines()) < 500
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
        "import(",
    ):
        assert word not in source
    assert set(re.findall(r"https?://[^\"']*", source)) <= {"http://www.w3.org/2000/svg"}


def test_same_results_same_bytes(tmp_path):
    first = write_html(digits_results(), tmp_path / "a.html").read_bytes()
    again = Results.from_dict(json.loads(json.dumps(digits_results().to_dict())))
    assert write_html(again, tmp_path / "b.html").read_bytes() == first


def test_write_report_takes_results_or_the_folder_of_a_run(tmp_path):
    digits_results().save(tmp_path / "run")
    from_folder = driftcal.write_report(tmp_path / "run", tmp_path / "deep" / "one.html")
    from_results = driftcal.write_report(digits_results(), tmp_path / "two.html")
    assert from_folder.read_bytes() == from_results.read_bytes()
    assert (
        "<title>Mine &amp; yours</title>"
        in driftcal.write_report(digits_results(), tmp_path / "three.html", title="Mine & yours").read_text()
    )
    with pytest.raises(ArtefactError, match="Run evaluate first"):
        driftcal.write_report(tmp_path / "nowhere", tmp_path / "x.html")


# ---- the numbers ----


def test_page_holds_every_number_of_the_results():
    results = digits_results(grouped=True)
    data = data_of(to_html(results))
    assert data == json.loads(json.dumps(page_data(results)))
    assert len(data["rows"]) == len(results.rows)
    groups = [None, *results.groups]
    for short, row in zip(data["rows"], results.rows, strict=True):
        assert data["calibrators"][short["c"]]["name"] == row.calibrator
        assert data["shifts"][short["s"]]["name"] == row.shift
        assert (groups[short["g"]], short["l"], short["n"]) == (row.group, row.level, row.n_samples)
        assert short["v"] == pytest.approx([getattr(row, metric) for metric in METRICS], rel=1e-5)
        assert sum(entry[1] for entry in short["b"]) == pytest.approx(sum(row.bins["weight"]))
        for metric, pair in row.intervals.items():
            assert short["i"][str(METRICS.index(metric))] == pytest.approx(pair, rel=1e-5)


def test_rows_of_many_groups_come_without_bins(monkeypatch):
    results = digits_results(grouped=True)
    monkeypatch.setattr("driftcal.report.page_data._MAX_ROWS", 100)
    for short, row in zip(page_data(results)["rows"], results.rows, strict=True):
        assert bool(short["b"]) == (row.group is None)


def test_missing_metadata_are_left_out():
    plain = digits_results()
    bare = replace(
        plain, perturbation=None, metadata={}, rows=tuple(replace(row, intervals={}, bins={}) for row in plain.rows)
    )
    page = Page(to_html(bare)).all_text()
    assert "None" not in page
    assert "Seed" not in page
    assert "do not overlap" not in page
    for metadata in ({"model": None, "data": {"test": None}, "versions": {}}, {"model": "net.onnx", "seed": 0}):
        assert "None" not in Page(to_html(replace(bare, metadata=metadata))).all_text()
    empty = replace(bare, rows=(), calibrators=(), shifts=())
    assert "There are no results" in to_html(empty)


def test_calibrators_differ_in_more_than_colour():
    styles = [(c["colour"], c["style"]) for c in page_data(digits_results())["calibrators"]]
    assert len(set(styles)) == len(styles)
    assert page_data(digits_results())["calibrators"][0]["colour"] == 0


# ---- colours ----


def contrast(first: str, second: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(first), light(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_the_contrast_that_wcag_aa_requires():
    style = (ASSETS / "report.css").read_text()
    blocks = re.findall(r"color-scheme: (light|dark);(.*?)\}", style, re.DOTALL)
    assert [name for name, _ in blocks] == ["light", "dark", "dark", "light"]
    for _, block in blocks:
        colour = {
            name: value if len(value) == 7 else "#" + "".join(2 * c for c in value[1:])
            for name, value in re.findall(r"--(\w+): (#[0-9a-f]+)", block)
        }
        for ground in ("ground", "surface", "sunken"):
            for foreground in ("text", "soft"):
                assert contrast(colour[foreground], colour[ground]) >= 4.5, (foreground, ground)
        assert contrast(colour["accent"], colour["surface"]) >= 4.5
        assert contrast(colour["text"], colour["mark"]) >= 4.5
        for name in ("edge", "over", "under", *(f"s{i}" for i in range(9))):
            assert contrast(colour[name], colour["surface"]) >= 3, name


def test_the_page_ends_with_what_to_do_next():
    results = digits_results()
    files = {"model": "nets/it's.onnx", "calibrator": HOSTILE}
    page = to_html(replace(results, metadata={**results.metadata, "files": files}))
    last = page[page.rindex("<section") :]
    assert "What to do next" in last
    for verb in ("CalibratedModel.load(", "driftcal export", "driftcal monitor"):
        assert verb in last
    assert "it" in last
    assert HOSTILE not in page
    without = to_html(results)
    assert "calibrator.safetensors" in without[without.rindex("<section") :]


def table_results():
    """The digits as if they were the columns of a table, with a LightGBM object."""
    results = digits_results()
    data = {
        part: {"name": "frame", "samples": 600, "input_shape": [9], "fingerprint": "a1" * 32}
        for part in ("validation", "test")
    }
    steps = {"mean": [], "std": [], "size": None, "layout": "flat", "channels": "RGB", "scale": 1.0}
    model = {"name": "LGBMClassifier", "framework": "lightgbm", "preprocessing": steps, "fingerprint": "3f" * 32}
    infos = [info for info in results.calibrators if not info.label.endswith("-P")]
    return replace(results, calibrators=infos, metadata={"calibrator": "irm", "model": model, "data": data})


def test_the_report_of_a_table_speaks_of_no_images():
    text = Page(to_html(table_results())).all_text()
    for word in ("image", "badly lit", "RGB", "layout", "input shape", "model.onnx", "-P"):
        assert word not in text, word
    assert "9 columns" in text
    assert "'trees.txt'" in text


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"model": {"name": "risk.cbm", "framework": "catboost"}}, "'risk.cbm')"),
        ({"model": {"name": "Pipeline", "framework": "sklearn"}}, "model)  # the model that"),
        ({"model": {"name": "v1.2", "framework": "callable"}}, "model)  # the model that"),
        ({}, "'model.onnx')"),
    ],
)
def test_the_next_steps_name_the_model(metadata, expected):
    (_, _, load), *_ = next_steps(replace(digits_results(), metadata=metadata))
    assert expected in load


def test_the_suffix_of_the_paper_is_explained_only_if_it_is_there():
    assert "tuned on the perturbed validation set" in to_html(digits_results())
    assert "tuned on the perturbed validation set" not in to_html(table_results())


def test_shifts_have_human_names_beside_their_codes():
    page = to_html(digits_results())
    assert "turned right (rot_right)" in page
