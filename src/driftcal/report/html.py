"""The report as one HTML file with numbers, text, styles and script, which loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from driftcal.io.atomic import write_atomic
from driftcal.models.recorded_scores import SCORES
from driftcal.pipeline.evaluating.results import Results
from driftcal.report.comparison import ComparisonLine, form_text, is_tuned_on_shift, is_uncalibrated
from driftcal.report.decisions import decision_section
from driftcal.report.headline import ReportText, glossary_of, percent, report_text
from driftcal.report.next_steps import next_steps
from driftcal.report.page_data import page_data
from driftcal.report.result_tables import headline_table
from driftcal.report.shift_names import shift_title, shift_title_and_name
from driftcal.report.table import escape_html
from driftcal.report.table import to_html as table_html

#: Preprocessing that leaves features as they are.
_NO_STEPS = {"layout": "flat", "channels": "RGB", "scale": 1.0}
_ASSETS = resources.files("driftcal.report") / "assets"


def write_html(results: Results, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report as one HTML file that works offline; return its path.

    The same results give the same bytes. Names from models, files and classes are always shown as text.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(target, to_html(results, title=title).encode())


def to_html(results: Results, *, title: str | None = None) -> str:
    """The page that :func:`write_html` writes."""
    metadata, texts = results.metadata, report_text(results)
    script = f'"use strict";\n{asset("charts.js")}\n{asset("page.js")}'
    style = asset("report.css")
    version = _mapping(metadata, "versions").get("driftcal")
    decisions, terms = decision_section(results), glossary_of(results)
    has_levels = bool((results.perturbation or {}).get("levels"))
    parts = {
        "policy": policy(script, style),
        "title": escape_html(title or metadata.get("title") or _default_title(results)),
        "compare_title": "On these samples" if results.in_domain_only else "In domain and under shift",
        "style": style,
        "script": script,
        "headline": " ".join(
            f"<span>{escape_html(sentence).replace(' ×', '&nbsp;×')}</span>" for sentence in texts.sentences
        ),
        "cards": _cards(texts, in_domain_only=results.in_domain_only),
        "notes": _list(texts.notes),
        "tuning_link": '<a href="#tuning">Tuning</a>' if has_levels else "",
        "plain_table": table_html(replace(headline_table(results), title="Table of calibrators")),
        "provenance": _provenance(results),
        "decisions": decisions,
        "decisions_link": '<a href="#decisions">Decisions</a>' if decisions else "",
        "glossary": _definitions(terms.items(), "glossary"),
        "best_p": " ÷ best -P: divided by the lowest ECE of the calibrators with the suffix -P."
        if "-P" in terms
        else "",
        "next_steps": _next_steps(results),
        "version": escape_html(f" {version}") if version is not None else "",
        "data": json_block(page_data(results)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], asset("page.html"))


def _default_title(results: Results) -> str:
    return "Calibration without shift" if results.in_domain_only else f"Calibration under shift ({results.suite})"


def json_block(value: Any) -> str:
    """JSON for a script element, escaped so that it cannot end the element or start a comment.

    >>> json_block("</script><!--")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--"'
    """
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """A file with styles or scripts of the pages."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def policy(script: str, style: str) -> str:
    """A content security policy that allows this script and this style, by their hash, and nothing else."""
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (script, style)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _cards(texts: ReportText, *, in_domain_only: bool) -> str:
    if not texts.cards:
        return ""
    cards = (
        _card(line, name, line is texts.featured, in_domain_only)
        for line, name in zip(texts.cards, texts.names, strict=True)
    )
    return f'<div class="cards">{"".join(cards)}</div>'


def _next_steps(results: Results) -> str:
    blocks = (
        f"<h3>{escape_html(title)}</h3><p>{escape_html(sentence)}</p><pre><code>{escape_html(snippet)}</code></pre>"
        for title, sentence, snippet in next_steps(results)
    )
    return f'<div class="panel">{"".join(blocks)}</div>'


def _card(line: ComparisonLine, name: str, featured: bool, in_domain_only: bool) -> str:
    info, summary, ratios = line.info, line.summary, line.ratios
    kind = f"tuned on {info.tuned_on}, {form_text(info)}"
    if is_uncalibrated(info):
        kind = "the model as it was trained"
    elif is_tuned_on_shift(info):
        kind = f"tuned on shift: {info.tuned_on}, {form_text(info)}"
    facts = [
        ("÷ TS under shift", _ratio(ratios.under_shift_to_ts)),
        ("ECE in domain", f"{summary.in_domain_ece:.3f}"),
        ("÷ TS in domain", _ratio(ratios.in_domain_to_ts)),
        (f"Worst shift, {shift_title(summary.worst_shift)}", f"{summary.worst_ece:.3f}"),
        ("Mean confidence under shift", percent(line.mean_confidence)),
        ("Accuracy under shift", percent(summary.mean_accuracy)),
    ]
    ece, where = summary.mean_ece, "ECE under shift"
    if in_domain_only:
        ece, where = summary.in_domain_ece, "ECE"
        facts = [
            ("÷ TS", _ratio(ratios.in_domain_to_ts)),
            ("Mean confidence", percent(line.mean_confidence)),
            ("Accuracy", percent(summary.in_domain_accuracy)),
        ]
    return (
        f'<div class="card{" featured" if featured else ""}"><h3>{escape_html(name)}</h3>'
        f'<p class="kind">{escape_html(kind)}</p>'
        f'<p class="big">{ece:.3f}<small>{where}</small></p>{_definitions(((name, value) for name, value in facts if value), "short")}</div>'
    )


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _provenance(results: Results) -> str:
    metadata = results.metadata
    blocks = []
    if metadata.get("command"):
        blocks.append(
            f'<div class="command"><pre id="command">{escape_html(metadata["command"])}</pre>'
            '<button type="button" id="copy" hidden>Copy</button></div>'
        )
    shifts = ", ".join(shift_title_and_name(shift.name) for shift in results.shifts)
    versions = ", ".join(f"{name} {version}" for name, version in _mapping(metadata, "versions").items())
    facts = [
        ("Method", _entry(metadata.get("method"))),
        ("Why this method", _entry(metadata.get("explanation"))),
        ("Model", _entry(metadata.get("model"))),
        *((f"{name.capitalize()} data", _entry(entry)) for name, entry in _mapping(metadata, "data").items()),
        ("Suite", "" if results.in_domain_only else escape_html(f"{results.suite}: {shifts}")),
        ("Bins of the ECE", escape_html(results.n_bins)),
        ("Seed", _entry(metadata.get("random_state", metadata.get("seed")))),  # version 0.1 wrote "seed"
        ("Versions", escape_html(versions)),
    ]
    rows = "".join(f"<dt>{escape_html(name)}</dt><dd>{value}</dd>" for name, value in facts if value)
    blocks.append(f'<dl class="facts">{rows}</dl>')
    warnings = [f"{info.label}: {warning}" for info in results.calibrators for warning in info.warnings]
    for name, entries in (("Class names", metadata.get("class_names") or ()), ("Warnings of the fits", warnings)):
        if len(entries):
            items = "".join(f"<li><bdi>{escape_html(entry)}</bdi></li>" for entry in entries)
            blocks.append(f"<details><summary>{name} ({len(entries)})</summary><ul>{items}</ul></details>")
    return f'<div class="panel">{"".join(blocks)}</div>'


def _entry(value: Any) -> str:
    """A value of the metadata as HTML: for a model or a data set its name, its properties and its fingerprint."""
    if not isinstance(value, Mapping):
        return "" if value is None else escape_html(value)
    phrases = [str(value[key]) for key in ("name", "framework") if value.get(key) is not None]
    counts = {"samples": "samples", "rows": "samples", "classes": "classes"}  # version 0.1 wrote "rows"
    phrases += [f"{value[key]:,} {unit}" for key, unit in counts.items() if isinstance(value.get(key), int)]
    phrases = list(dict.fromkeys(phrases))  # recorded scores are the name and the framework of their model
    hidden = {"preprocessing"} if value.get("framework") == SCORES else set()
    others = (key for key in value if key not in {"name", "framework", "fingerprint", *counts, *hidden})
    phrases += [phrase for key in others if (phrase := _phrase(key, value[key]))]
    code = f"<code>{escape_html(value['fingerprint'])}</code>" if value.get("fingerprint") else ""
    return escape_html(", ".join(phrases)) + code


def _phrase(key: str, value: Any) -> str:
    """A property as text; empty if it is not set.

    >>> _phrase("input_shape", [8, 8, 1]), _phrase("preprocessing", {"mean": [], "layout": "NHWC", "scale": 1.0})
    ('input shape 8 × 8 × 1', 'preprocessing (layout NHWC)')
    >>> _phrase("input_shape", [9]), _phrase("preprocessing", {"layout": "flat", "channels": "RGB", "scale": 1.0})
    ('9 columns', '')
    """
    if key == "preprocessing" and isinstance(value, Mapping):  # steps that change nothing are not worth a word
        value = {step: entry for step, entry in value.items() if entry != _NO_STEPS.get(step)}
    if not value and value is not False:
        return ""
    if key == "input_shape" and len(value) == 1:
        return f"{value[0]} columns"
    name = key.replace("_", " ")
    if isinstance(value, Mapping):
        inner = [phrase for k, v in value.items() if (phrase := _phrase(str(k), v))]
        return f"{name} ({', '.join(inner)})" if inner else ""
    if isinstance(value, list | tuple):
        if all(isinstance(part, Mapping) for part in value):
            steps = (", ".join(filter(None, (_phrase(str(k), v) for k, v in part.items()))) for part in value)
            return f"{name} ({'; '.join(steps)})"
        return f"{name} {(' × ' if 'shape' in key else ', ').join(map(str, value))}"
    return f"{name} {value}"


def _definitions(entries: Iterable[tuple[str, Any]], kind: str) -> str:
    body = "".join(f"<div><dt>{escape_html(name)}</dt><dd>{escape_html(value)}</dd></div>" for name, value in entries)
    return f'<dl class="{kind}">{body}</dl>'


def _list(notes: Iterable[str]) -> str:
    body = "".join(f"<li>{escape_html(note)}</li>" for note in notes)
    return f'<ul class="notes">{body}</ul>' if body else ""


def _mapping(metadata: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = metadata.get(key)
    return value if isinstance(value, Mapping) else {}
