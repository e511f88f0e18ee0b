"""What a file or folder of driftcal's holds, in plain values and in words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftcal.cache import LogitCache
from driftcal.calibrators.serialization import load, notes
from driftcal.errors import ArtefactError
from driftcal.pipeline.results import Results


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A calibrator file, a run (its folder or its results.json) or a store, after checking it; ``kind`` says which."""
    place = Path(path)
    if place.name == "results.json" or (place / "results.json").is_file():
        return _run(Results.load(place))
    if (place / "store.json").is_file():
        return {"kind": "store", "conditions": LogitCache(place).metadata()}
    if place.is_dir():
        raise ArtefactError(
            f"{str(place)!r} must be a calibrator file, a run folder with results.json or a store with store.json; it is another folder."
        )
    return _calibrator(place)


def _calibrator(path: Path) -> dict[str, Any]:
    note = notes(path)
    kept = dict(note["notes"])
    calibrator = load(path)
    return {
        "kind": "calibrator",
        "calibrator": note["calibrator"],
        "classes": len(calibrator.classes_),
        "keeps_accuracy": calibrator.keeps_accuracy,
        "temperature": getattr(calibrator, "temperature_", None),
        "params": note["params"],
        "fit": note["fit_report"],
        "explanation": kept.pop("explanation", ""),
        "model": kept.pop("model", None),
        "ladder": kept.pop("ladder", None),
        "class_names": kept.pop("class_names", []),
        "about": kept.pop("about", {}),
        "library": note["library"],
        "format_version": note["version"],
        "notes": kept,
    }


def _run(results: Results) -> dict[str, Any]:
    return {
        "kind": "run",
        "suite": results.suite,
        "shifts": [shift.name for shift in results.shifts],
        "calibrators": [info.name for info in results.calibrators],
        "groups": results.groups,
        "rows": len(results.rows),
        "bins": results.n_bins,
        "ladder": results.perturbation,
        "about": dict(results.metadata),
    }


def lines_of(found: Mapping[str, Any]) -> list[str]:
    """The same for a reader: one fact per line."""
    words = {"calibrator": _calibrator_facts, "run": _run_facts, "store": _store_facts}[found["kind"]](found)
    width = max(len(name) for name in words)
    return [f"{name:<{width}}  {value}" for name, value in words.items() if value not in (None, "")]


def _calibrator_facts(found: Mapping[str, Any]) -> dict[str, Any]:
    model, about = found["model"] or {}, found["about"]
    ladder, steps = found["ladder"], model.get("preprocessing") or {}
    temperature = found["temperature"]
    wanted = ", ".join(f"{name} {value}" for name, value in steps.items() if value not in (None, [], 1.0, "RGB"))
    tuned_on = "clean rows" if ladder is None else f"{len(ladder['levels'])} levels of {ladder['shift']}"
    return {
        "calibrator": found["calibrator"].upper(),
        "tuned on": tuned_on if model else None,
        "why": found["explanation"],
        "temperature": None if temperature is None else f"{temperature:.4g}",
        "keeps accuracy": "yes" if found["keeps_accuracy"] else "no",
        "classes": ", ".join(found["class_names"]) or found["classes"],
        "model": f"{model['name']} ({model['framework']}, gives {model['outputs']})" if model else None,
        "preprocessing": wanted if model else None,
        "model fingerprint": model.get("fingerprint"),
        "validation data": _data(about.get("validation")),
        "seed": about.get("seed"),
        "written by": f"driftcal {found['library']}",
    }


def _run_facts(found: Mapping[str, Any]) -> dict[str, Any]:
    about = found["about"]
    data = about.get("data", {})
    return {
        "suite": f"{found['suite']}: {', '.join(found['shifts'])}",
        "calibrators": ", ".join(found["calibrators"]),
        "groups": ", ".join(found["groups"]),
        "rows": found["rows"],
        "bins": found["bins"],
        "model": about.get("model", {}).get("name"),
        "validation data": _data(data.get("validation")),
        "test data": _data(data.get("test")),
        "seed": about.get("seed"),
        "command": about.get("command"),
    }


def _store_facts(found: Mapping[str, Any]) -> dict[str, Any]:
    conditions = found["conditions"]
    facts: dict[str, Any] = {
        "conditions": len(conditions),
        "models": len({entry["model"] for entry in conditions}),
        "data sets": len({entry["source"] for entry in conditions}),
        "bytes": f"{sum(entry['bytes'] for entry in conditions):,}",
    }
    for shift in sorted({entry["shift"] for entry in conditions}):
        levels = sorted(entry["level"] for entry in conditions if entry["shift"] == shift)
        facts[f"  {shift}"] = ", ".join(f"{level:.4g}" for level in levels)
    return facts


def _data(data: Mapping[str, Any] | None) -> str | None:
    if not data:
        return None
    n_samples = data["samples"] if "samples" in data else data["rows"]  # as version 0.1 wrote it
    return f"{data['name']}, {n_samples:,} samples, fingerprint {data['fingerprint'][:12]}…"
