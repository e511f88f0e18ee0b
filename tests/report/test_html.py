"""The report without a browser: nothing escapes its quotes, nothing is lost, the same results give the same bytes."""

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
from driftcal.pipeline.results import METRICS, POOLED, Results
from driftcal.report import write_html
from driftcal.report.html import json_block, to_html
from driftcal.report.numbers import find_featured, find_twin, lines_of, page_data
from driftcal.report.table import escape_html
from driftcal.report.text import GLOSSARY, tell

ASSETS = resources.files("driftcal.report") / "assets"
SCRIPTS = ("charts.js", "page.js")


class Page(HTMLParser):
    """What a browser would find: elements with attributes, the text of each kind of element."""

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


# ---- one file, sealed ----


@given(st.recursive(st.text() | st.sampled_from([HOSTILE, BREAKOUT, "]]>", "\u2028\u2029", "<!--<script>"]), st.lists))
def test_json_block_comes_back_and_cannot_end_its_element(value):
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
    one = driftcal.write_report(tmp_path / "run", tmp_path / "deep" / "one.html")
    two = driftcal.write_report(digits_results(), tmp_path / "two.html")
    assert one.read_bytes() == two.read_bytes()
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


def test_a_great_many_groups_leave_the_page_light(monkeypatch):
    results = digits_results(grouped=True)
    monkeypatch.setattr("driftcal.report.numbers._MOST_ROWS", 100)
    for short, row in zip(page_data(results)["rows"], results.rows, strict=True):
        assert bool(short["b"]) == (row.group is None)


def test_what_is_missing_is_left_out():
    plain = digits_results()
    bare = replace(
        plain, perturbation=None, metadata={}, rows=tuple(replace(row, intervals={}, bins={}) for row in plain.rows)
    )
    page = Page(to_html(bare)).all_text()
    assert "None" not in page
    assert "Seed" not in page
    assert "Beyond chance" not in page
    for about in ({"model": None, "data": {"test": None}, "versions": {}}, {"model": "net.onnx", "seed": 0}):
        assert "None" not in Page(to_html(replace(bare, metadata=about))).all_text()
    empty = replace(bare, rows=(), calibrators=(), shifts=())
    assert "There are no results" in to_html(empty)


def test_calibrators_differ_in_more_than_colour():
    looks = [(c["colour"], c["style"]) for c in page_data(digits_results())["calibrators"]]
    assert len(set(looks)) == len(looks)
    assert page_data(digits_results())["calibrators"][0]["colour"] == 0


def test_featured_is_what_was_chosen_else_the_best_under_drift():
    lines = lines_of(digits_results())
    assert find_featured(lines, "ts").info.name == "ts-p"
    assert find_featured(lines, "TS-P").info.name == "ts-p"
    best = min((line for line in lines if line.info.name.endswith("-p")), key=lambda line: line.summary.mean_ece)
    assert find_featured(lines) is best
    assert find_featured(lines, "unheard of") is best
    assert find_twin(lines, best).info.name == best.info.name.removesuffix("-p")


# ---- the words ----


def with_ece(results: Results, values: dict[str, tuple[float, float]]) -> Results:
    """The results with other ECEs (in domain, under drift) for some calibrators."""

    def changed(row):
        if row.calibrator not in values:
            return row
        ece = values[row.calibrator][row.level == POOLED]
        return replace(row, ece=ece, intervals={"ece": (ece - 0.01, ece + 0.01)})

    return replace(results, rows=tuple(map(changed, results.rows)), metadata={"method": "irm-p"})


@pytest.mark.parametrize(
    ("base", "plain", "tuned", "says"),
    [
        (
            (0.02, 0.21),
            (0.01, 0.15),
            (0.03, 0.05),
            "Under drift, IRM-P states confidence that is off by 0.05 on average; without calibration it is 0.21. "
            "The price in domain: 0.03 instead of 0.01 with IRM.",
        ),
        ((0.02, 0.21), (0.04, 0.15), (0.03, 0.05), "In domain it is better too: 0.03 instead of 0.04 with IRM."),
        ((0.02, 0.21), (0.03, 0.15), (0.03, 0.05), "In domain it costs nothing: 0.030, as with IRM."),
        ((0.02, 0.05), (0.01, 0.15), (0.03, 0.21), "does not help: its confidence is off by 0.21 on average"),
        ((0.02, 0.21), (0.01, 0.21), (0.03, 0.21), "changes nothing that shows"),
    ],
)
def test_headline_is_honest(base, plain, tuned, says):
    story = tell(with_ece(digits_results(), {"base": base, "irm": plain, "irm-p": tuned}))
    assert says in story.headline
    worse = tuned[1] > base[1]
    same = tuned[1] == base[1]
    assert f"better on {0 if worse or same else 3} of 3 shifts and worse on {3 if worse else 0}." in " ".join(
        story.notes
    )
    assert [line.info.name for line in story.cards] == ["base", "irm", "irm-p"]


def test_a_gain_within_chance_is_not_sold_as_one():
    results = with_ece(digits_results(), {"base": (0.02, 0.21), "irm": (0.01, 0.2), "irm-p": (0.03, 0.2)})
    assert "not beyond chance" in tell(results).headline


def test_headline_without_a_base_or_with_nothing_else():
    results = digits_results()
    only = replace(results, calibrators=results.calibrators[:1])
    assert tell(only).headline.startswith("Under drift, without calibration, the model states confidence")
    assert (
        "IRM-P states confidence that is off by" in tell(replace(results, calibrators=results.calibrators[1:])).headline
    )
    assert tell(only).cards[0].info.name == "base"


def test_every_term_of_the_page_is_in_the_glossary():
    assert {"ECE", "Floor", "NLL", "Brier", "-P", "Entropy", "Interval"} <= set(GLOSSARY)


# ---- colours ----


def contrast(one: str, two: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_the_contrast_that_wcag_aa_asks_for():
    style = (ASSETS / "report.css").read_text()
    blocks = re.findall(r"color-scheme: (light|dark);(.*?)\}", style, re.DOTALL)
    assert [name for name, _ in blocks] == ["light", "dark", "dark", "light"]
    for _, block in blocks:
        colour = {
            name: value if len(value) == 7 else "#" + "".join(2 * c for c in value[1:])
            for name, value in re.findall(r"--(\w+): (#[0-9a-f]+)", block)
        }
        for ground in ("ground", "surface", "sunken"):
            for ink in ("ink", "soft"):
                assert contrast(colour[ink], colour[ground]) >= 4.5, (ink, ground)
        assert contrast(colour["accent"], colour["surface"]) >= 4.5
        assert contrast(colour["ink"], colour["mark"]) >= 4.5
        for name in ("edge", "over", "under", *(f"s{i}" for i in range(9))):
            assert contrast(colour[name], colour["surface"]) >= 3, name
