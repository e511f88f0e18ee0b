"""One self-contained page: numbers, words, styles and script in a single file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from driftcal.io.atomic import write_atomic
from driftcal.pipeline.results import Results
from driftcal.report.numbers import Line, is_drift_tuned, is_uncalibrated, lines_of, page_data
from driftcal.report.table import escape_html
from driftcal.report.text import GLOSSARY, Story, percent, tell

_ASSETS = resources.files("driftcal.report") / "assets"


def write_html(results: Results, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report as one HTML file that works offline; returns its path.

    The same results give the same bytes. Names from models, files and classes appear as text, whatever is in them.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(target, to_html(results, title=title).encode())


def to_html(results: Results, *, title: str | None = None) -> str:
    """The page that :func:`write_html` writes."""
    about, story = results.metadata, tell(results)
    script = f'"use strict";\n{asset("charts.js")}\n{asset("page.js")}'
    style = asset("report.css")
    parts = {
        "policy": policy(script, style),
        "title": escape_html(title or about.get("title") or f"Calibration under {results.suite} drift"),
        "style": style,
        "script": script,
        "headline": escape_html(story.headline),
        "cards": _cards(story),
        "notes": _list(story.notes),
        "ladder_link": '<a href="#ladder">Ladder</a>' if (results.perturbation or {}).get("levels") else "",
        "plain_table": _plain_table(lines_of(results)),
        "provenance": _provenance(results),
        "glossary": _definitions(GLOSSARY.items(), "glossary"),
        "version": escape_html(f" {versions['driftcal']}")
        if "driftcal" in (versions := _mapping(about, "versions"))
        else "",
        "data": json_block(page_data(results)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], asset("page.html"))


def json_block(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element or start a comment.

    >>> json_block("</script><!--")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--"'
    """
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """A file of the pages' styles and scripts."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def policy(script: str, style: str) -> str:
    """Allow this script and this style, by their hash, and nothing from anywhere else."""
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (script, style)]
    return (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _cards(story: Story) -> str:
    if not story.cards:
        return ""
    return f'<div class="cards">{"".join(_card(line, line is story.cards[-1]) for line in story.cards)}</div>'


def _card(line: Line, featured: bool) -> str:
    info, summary = line.info, line.summary
    kind = f"tuned on {info.tuned_on}"
    if is_uncalibrated(info):
        kind = "the model as it came"
    elif is_drift_tuned(info):
        kind = f"tuned on {info.tuned_on} drift"
    facts = [
        ("ECE in domain", f"{summary.in_domain_ece:.3f}"),
        (f"Worst shift, {summary.worst_shift}", f"{summary.worst_ece:.3f}"),
        ("Says under drift", percent(line.mean_confidence)),
        ("Is right under drift", percent(summary.mean_accuracy)),
    ]
    label = "No calibration" if is_uncalibrated(info) and info.label.casefold() == "base" else info.label
    return (
        f'<div class="card{" featured" if featured else ""}"><h3>{escape_html(label)}</h3><p class="kind">{escape_html(kind)}</p>'
        f'<p class="big">{summary.mean_ece:.3f}<small>ECE under drift</small></p>{_definitions(facts, "short")}</div>'
    )


def _plain_table(lines: Iterable[Line]) -> str:
    """For readers without script."""
    head = ("Calibrator", "ECE in domain", "ECE under drift", "Worst shift", "Accuracy under drift")
    body = "".join(
        f"<tr><td>{escape_html(line.info.label)}</td>"
        + "".join(
            f"<td>{value:.3f}</td>"
            for value in (
                line.summary.in_domain_ece,
                line.summary.mean_ece,
                line.summary.worst_ece,
                line.summary.mean_accuracy,
            )
        )
        + "</tr>"
        for line in lines
    )
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    return (
        f'<div class="scroll"><table class="data"><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _provenance(results: Results) -> str:
    about = results.metadata
    blocks = []
    if about.get("command"):
        blocks.append(
            f'<div class="command"><pre id="command">{escape_html(about["command"])}</pre>'
            '<button type="button" id="copy" hidden>Copy</button></div>'
        )
    shifts = ", ".join(shift.name for shift in results.shifts)
    facts = [("Method", _known(about.get("method"))), ("Why this method", _known(about.get("explanation")))]
    facts.append(("Model", _described(about.get("model"))))
    facts += [(f"{name.capitalize()} data", _described(entry)) for name, entry in _mapping(about, "data").items()]
    facts.append(("Suite", escape_html(f"{results.suite}: {shifts}")))
    facts.append(("Bins of the ECE", escape_html(results.n_bins)))
    facts.append(("Seed", _known(about.get("seed"))))
    facts.append(("Versions", escape_html(", ".join(f"{k} {v}" for k, v in _mapping(about, "versions").items()))))
    listed = "".join(f"<dt>{escape_html(name)}</dt><dd>{value}</dd>" for name, value in facts if value)
    blocks.append(f'<dl class="facts">{listed}</dl>')
    warned = [f"{info.label}: {note}" for info in results.calibrators for note in info.warnings]
    for name, entries in (("Class names", about.get("class_names") or ()), ("Notes from fitting", warned)):
        if len(entries):
            items = "".join(f"<li><bdi>{escape_html(entry)}</bdi></li>" for entry in entries)
            blocks.append(f"<details><summary>{name} ({len(entries)})</summary><ul>{items}</ul></details>")
    return f'<div class="panel">{"".join(blocks)}</div>'


def _known(value: Any) -> str:
    return "" if value is None else escape_html(value)


def _described(entry: Any) -> str:
    """A model or a data set as HTML: its name, what is known about it, its fingerprint."""
    if not isinstance(entry, Mapping):
        return "" if entry is None else escape_html(entry)
    words = [str(entry[key]) for key in ("name", "framework") if entry.get(key) is not None]
    words += [f"{entry[key]:,} {key}" for key in ("samples", "rows", "classes") if isinstance(entry.get(key), int)]
    known = {"name", "framework", "samples", "rows", "classes", "fingerprint"}
    words += [phrase for key, value in entry.items() if key not in known and (phrase := _phrase(key, value))]
    code = f"<code>{escape_html(entry['fingerprint'])}</code>" if entry.get("fingerprint") else ""
    return escape_html(", ".join(words)) + code


def _phrase(key: str, value: Any) -> str:
    """A detail in words, nothing for what is not set.

    >>> _phrase("input_shape", [8, 8, 1]), _phrase("preprocessing", {"mean": [], "layout": "NHWC"}), _phrase("size", None)
    ('input shape 8 × 8 × 1', 'preprocessing (layout NHWC)', '')
    """
    if not value and value is not False:
        return ""
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


def _mapping(about: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = about.get(key)
    return value if isinstance(value, Mapping) else {}
