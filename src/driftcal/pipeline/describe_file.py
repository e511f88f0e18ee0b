"""Describing a file or folder that driftcal wrote, as plain values and as lines of text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftcal.cache import LogitCache
from driftcal.calibrators import name_of
from driftcal.calibrators.serialization import load_file
from driftcal.decisions import Threshold
from driftcal.decisions.metadata import DECISIONS, decisions_from_metadata
from driftcal.errors import ArtefactError
from driftcal.pipeline.collecting.simulated import SIMULATED_SHIFTS
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES, Results
from driftcal.pipeline.model_metadata import checked_metadata


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The checked content of a calibrator file, a run (its folder or its results.json) or a cache, as plain values.

    ``kind`` is "calibrator", "run" or "cache".
    """
    target = Path(path)
    if target.name == "results.json" or os.path.isfile(target / "results.json"):
        return _run(Results.load(target))
    if os.path.isfile(target / "store.json"):
        return {"kind": "cache", "conditions": LogitCache.read_only(target).metadata()}
    if os.path.isdir(target):
        raise ArtefactError(
            f"{str(target)!r} must be a calibrator file, a run folder with results.json or a cache with store.json; it is another folder."
        )
    return _calibrator(target)


def _calibrator(path: Path) -> dict[str, Any]:
    file = load_file(path)
    metadata, description = checked_metadata(file), file.description
    threshold = decisions_from_metadata(metadata, path).threshold
    metadata.pop(DECISIONS, None)
    return {
        "kind": "calibrator",
        "calibrator": description["calibrator"],
        "classes": len(file.calibrator.classes_),
        "keeps_accuracy": file.calibrator.keeps_accuracy,
        "temperature": getattr(file.calibrator, "temperature_", None),
        "params": description["params"],
        "fit": description["fit_report"],
        "others": {name: name_of(other) for name, other in file.others.items()},
        "explanation": metadata.pop("explanation", ""),
        "model": metadata.pop("model", None),
        "perturbation": metadata.pop("perturbation", None),
        "class_names": metadata.pop("class_names", []),
        "threshold": None if threshold is None else threshold.to_dict(),
        "library": description["library"],
        "format_version": description["version"],
        "metadata": metadata,
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
        "perturbation": results.perturbation,
        "metadata": dict(results.metadata),
    }


def lines_of(description: Mapping[str, Any]) -> list[str]:
    """A description as text: one fact per line."""
    describe_kind = {"calibrator": _calibrator_facts, "run": _run_facts, "cache": _cache_facts}[description["kind"]]
    facts = describe_kind(description)
    width = max(len(name) for name in facts)
    return [f"{name:<{width}}  {value}" for name, value in facts.items() if value not in (None, "")]


def _calibrator_facts(description: Mapping[str, Any]) -> dict[str, Any]:
    model, metadata = description["model"] or {}, description["metadata"]
    perturbation, steps = description["perturbation"], model.get("preprocessing") or {}
    temperature = description["temperature"]
    set_steps = ", ".join(f"{name} {value}" for name, value in steps.items() if value not in (None, [], 1.0, "RGB"))
    tuned_on = metadata.get("tuned_on")
    if tuned_on not in (CLEAN_SAMPLES, SIMULATED_SHIFTS):  # files of version 0.1 lack it
        tuned_on = CLEAN_SAMPLES
        if perturbation is not None:
            tuned_on = f"{len(perturbation['levels'])} levels of {perturbation['shift']}"
    return {
        "calibrator": description["calibrator"].upper(),
        "tuned on": tuned_on if model else None,
        "windowed": description["others"].get("windowed", "").upper(),
        "why": description["explanation"],
        "threshold": None if description["threshold"] is None else str(Threshold.from_dict(description["threshold"])),
        "temperature": None if temperature is None else f"{temperature:.4g}",
        "keeps accuracy": "yes" if description["keeps_accuracy"] else "no",
        "classes": ", ".join(description["class_names"]) or description["classes"],
        "model": f"{model['name']} ({model['framework']}, gives {model['outputs']})" if model else None,
        "preprocessing": set_steps if model else None,
        "model fingerprint": model.get("fingerprint"),
        "validation data": _data(metadata.get("validation")),
        "random state": metadata.get("random_state"),
        "written by": f"driftcal {description['library']}",
    }


def _run_facts(description: Mapping[str, Any]) -> dict[str, Any]:
    metadata = description["metadata"]
    data, model = _object(metadata.get("data")), _object(metadata.get("model"))
    return {
        "suite": f"{description['suite']}: {', '.join(description['shifts'])}",
        "calibrators": ", ".join(description["calibrators"]),
        "groups": ", ".join(description["groups"]),
        "rows": description["rows"],
        "bins": description["bins"],
        "model": model.get("name"),
        "validation data": _data(data.get("validation")),
        "test data": _data(data.get("test")),
        "random state": metadata.get("random_state"),
        "command": metadata.get("command"),
    }


def _cache_facts(description: Mapping[str, Any]) -> dict[str, Any]:
    conditions = description["conditions"]
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


def _data(value: Any) -> str | None:
    data = _object(value)
    n_samples = data.get("samples", data.get("rows", 0))
    return (
        f"{data.get('name')}, {n_samples} samples, fingerprint {str(data.get('fingerprint'))[:12]}…" if data else None
    )


def _object(value: Any) -> Mapping[str, Any]:
    """A JSON object; results may hold anything in its place."""
    return value if isinstance(value, Mapping) else {}
