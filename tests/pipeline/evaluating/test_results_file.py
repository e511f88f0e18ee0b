"""results.json: a changed number is found, damage is one kind of error, and old files stay readable."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_fixture import digits_results

from driftcal.errors import ArtefactError
from driftcal.pipeline.evaluating.results import Results
from driftcal.pipeline.evaluating.results_file import results_text

RESULTS = digits_results(grouped=True)
TEXT = results_text(RESULTS.to_dict())
PLAIN = {key: value for key, value in json.loads(TEXT).items() if key != "digest"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("results") / "results.json"


def test_results_are_read_as_they_were_written(tmp_path):
    RESULTS.save(tmp_path)
    assert "digest" in json.loads((tmp_path / "results.json").read_text())
    assert json.loads(results_text(Results.load(tmp_path).to_dict())) == json.loads(TEXT)


def test_results_without_a_digest_stay_readable(path):
    path.write_text(json.dumps(PLAIN))
    assert len(Results.load(path).rows) == len(RESULTS.rows)


@pytest.mark.law
@settings(max_examples=300)
@given(st.integers(0, len(TEXT) - 1), st.sampled_from('0123456789.-eE"[]{},:nul x'))
def test_a_changed_character_is_found(path, position, character):
    if TEXT[position] == character:
        return
    path.write_text(TEXT[:position] + character + TEXT[position + 1 :])
    try:
        read = Results.load(path)
    except ArtefactError:
        return
    assert json.loads(results_text(read.to_dict())) == json.loads(TEXT), "only the way a value is written has changed"


HOSTILE = [None, True, -1, 10**400, "x", [], {}, [[]], {"a": 1}, "1", 1.5, [1, "x"]]


def places(value, path=()):
    """The path of every value in nested JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


PLACES = [place for place in places(PLAIN) if place]


@pytest.mark.law
@settings(max_examples=300)
@given(st.sampled_from(PLACES), st.one_of(st.sampled_from(HOSTILE), st.just("remove")))
def test_wrong_types_are_found_or_harmless(path, place, value):
    """Also where the digest is right: the author of the file made it so, or the file is an old one."""
    from driftcal.report import result_table
    from driftcal.report.html import to_html

    values = copy.deepcopy(PLAIN)
    owner = values
    for key in place[:-1]:
        owner = owner[key]
    if value == "remove":
        del owner[place[-1]]
    else:
        owner[place[-1]] = value
    path.write_text(json.dumps(values))
    try:
        read = Results.load(path)
    except ArtefactError:
        return
    if place[0] in ("metadata", "perturbation"):  # free values, which the report shows as they are
        return
    to_html(read)
    repr(read)
    result_table(read)


@pytest.mark.parametrize("text", ["", "[]", "1", "[" * 100_000, '{"format": NaN}', '{"rows": 1e400}', "\ud7ff{"])
def test_other_files_are_refused(path, text):
    path.write_text(text)
    with pytest.raises(ArtefactError, match=r"must be results\.json as evaluate writes it"):
        Results.load(path)


def test_large_files_are_refused(path, monkeypatch):
    path.write_text(TEXT)
    monkeypatch.setenv("DRIFTCAL_MAX_JSON_BYTES", "1000")
    with pytest.raises(ArtefactError, match=r"at most 1,000 bytes; it has .*DRIFTCAL_MAX_JSON_BYTES"):
        Results.load(path)
