"""A model whose confidence is honest, and the proof of it on test data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.cache import LogitCache
from driftcal.calibrators import Calibrator, Identity
from driftcal.calibrators.serialization import load as load_calibrator
from driftcal.calibrators.serialization import notes as artefact_notes
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW, WindowedCalibrator
from driftcal.data import Source, open_source
from driftcal.engines import Engine
from driftcal.errors import ArtefactError, InputError, ModelError
from driftcal.models import Model, open_model, pooled_features
from driftcal.pipeline.collect import Collector, OnProgress
from driftcal.pipeline.evaluate import Candidate, evaluate_candidates
from driftcal.pipeline.results import Results
from driftcal.shifts import SUITES, Suite, get_suite
from driftcal.types import AnyArray, Array, Logits, LogProbs, Probs


@dataclass(frozen=True, eq=False)
class CalibratedModel:
    """A model and the calibrator tuned for it. `tune` makes one; `save` and `load` keep it.

    `standard` is the same method tuned on the clean validation rows alone, for comparison; `ladder` is what Algorithm 1
    found; `explanation` says in words what was chosen and why; `profile` is what the ladder looks like without
    labels, which a monitor reads traffic against; `layers` are those whose features the calibrator looks at, if it does.
    """

    model: Model
    calibrator: Calibrator
    method: str
    standard: Calibrator | None = None
    ladder: Mapping[str, Any] | None = None
    explanation: str = ""
    class_names: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    drift_reference: Mapping[str, Any] | None = None
    layers: tuple[str, ...] = ()

    def logits(self, x: AnyArray) -> Logits:
        """The model's own scores, before calibration."""
        self.model.check_columns(x)
        return self.model.logits(as_inputs(x))

    def predict_proba(self, x: AnyArray) -> Probs:
        """Calibrated probabilities of new inputs; uint8 images are divided by 255.

        A calibrator that adapts takes the inputs themselves as its window; a few are answered by its static map.
        `adapt` and `stream` choose the window.
        """
        logits = self.logits(x)
        return self._for(logits).predict_proba(logits, **self._beside(x))

    def predict_log_proba(self, x: AnyArray) -> LogProbs:
        """Calibrated log-probabilities of new inputs."""
        logits = self.logits(x)
        return self._for(logits).predict_log_proba(logits, **self._beside(x))

    def _for(self, window: Logits) -> Calibrator:
        return self.calibrator.adapt(window) if isinstance(self.calibrator, WindowedCalibrator) else self.calibrator

    def _beside(self, x: AnyArray) -> dict[str, Any]:
        """What the calibrator looks at beside the logits."""
        if not self.calibrator.needs_features:
            return {}
        return {"features": pooled_features(self.model, as_inputs(x), self.layers)}

    def adapt(self, x: AnyArray) -> CalibratedModel:
        """The same model with its calibrator frozen for data like the unlabelled inputs `x`; itself if it cannot adapt."""
        if not isinstance(self.calibrator, WindowedCalibrator):
            return self
        return replace(self, calibrator=self.calibrator.adapt(self.logits(x)))

    def stream(self, window: int = WINDOW) -> Callable[[AnyArray], Probs]:
        """A function for live traffic: batches of inputs in, probabilities out; it remembers the last `window` rows."""
        if not isinstance(self.calibrator, WindowedCalibrator):
            return self.predict_proba
        stream = self.calibrator.stream(window)
        return lambda x: stream.predict_proba(self.logits(x))

    def predict(self, x: AnyArray) -> Array:
        """The most likely class of new inputs, as a column number."""
        return self.calibrator.predict(self.logits(x))

    @property
    def candidates(self) -> list[Candidate]:
        """The model as it is, the method tuned on clean rows, and the method as it was tuned here."""
        listed = [Candidate("base", "base", _base(self.model.n_classes), "nothing")]
        if self.ladder is None:
            return [*listed, Candidate(self.method, self.method, self.calibrator)] if self.method != "base" else listed
        if self.standard is not None and self.method != "base":
            listed.append(Candidate(self.method, self.method, self.standard))
        return [*listed, Candidate(f"{self.method}-p", self.method, self.calibrator, str(self.ladder["shift"]))]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the calibrator with the model's fingerprint and preprocessing; the model itself stays where it is."""
        notes = {
            "model": self.model.metadata(),
            "method": self.method,
            "ladder": self.ladder,
            "explanation": self.explanation,
            "class_names": list(self.class_names),
            "about": dict(self.about),
            **({} if self.drift_reference is None else {"profile": dict(self.drift_reference)}),
            **({"layers": list(self.layers)} if self.layers else {}),
        }
        return self.calibrator.save(path, notes=notes)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any, *, force: bool = False, **options: Any) -> CalibratedModel:
        """Join a saved calibrator with its model (anything `open_model` takes); refuse another model unless `force`."""
        calibrator, notes = load_calibrator(path), artefact_notes(path)["notes"]
        recorded = notes.get("model")
        if recorded is None:
            raise ArtefactError(
                f"{path} must have been saved by a CalibratedModel; it is a calibrator alone. Use driftcal.load(path) for logits."
            )
        options = {"preprocessing": recorded["preprocessing"], "outputs": recorded["outputs"], **options}
        opened = open_model(model, **({} if isinstance(model, Model) else options))
        if not force:
            check_same_model(opened, recorded, path)
        return cls(
            opened,
            calibrator,
            notes["method"],
            ladder=notes["ladder"],
            explanation=notes["explanation"],
            class_names=tuple(notes["class_names"]),
            about=notes["about"],
            drift_reference=notes.get("profile"),
            layers=tuple(notes.get("layers", ())),
        )


def evaluate(
    tuned: CalibratedModel,
    x_test: AnyArray,
    y_test: AnyArray = None,
    *,
    suite: str | Suite | None = None,
    seed: int = 0,
    n_bins: int = 15,
    intervals: bool = True,
    candidates: Sequence[Candidate] | None = None,
    group: str | None = None,
    store: LogitCache | str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
    about: Mapping[str, Any] | None = None,
) -> Results:
    """Metrics of a tuned model on test data under every shift and level of `suite`, beside the model as it was.

    Without one it is "affine" for images and "tabular" for feature matrices, in the units of the test data.
    `engine` says where the work is done (``driftcal.open_engine``), without one here. `group` is "class", or "group" for the groups that the source names. The result prints, saves and frames itself.
    """
    if not isinstance(tuned, CalibratedModel):
        raise InputError(
            f"tuned must be a CalibratedModel; it is a {type(tuned).__name__}. driftcal.tune(model, x_val, y_val) makes one."
        )
    tuned.model.check_columns(x_test)
    source = as_source(x_test, y_test, model=tuned.model, class_names=tuned.class_names or None).labelled()
    chosen = suite_for(suite, source, tuned.about.get("categorical", ()))
    collector = Collector(tuned.model, source, store=as_store(store), seed=seed, on_progress=on_progress, engine=engine)
    return evaluate_candidates(
        collector,
        tuned.candidates if candidates is None else candidates,
        chosen.shifts,
        suite=chosen.name,
        n_bins=n_bins,
        intervals=intervals,
        groups=_groups(source, group),
        ladder=tuned.ladder,
        layers=tuned.layers,
        about={
            "seed": seed,
            "method": tuned.method,
            "explanation": tuned.explanation,
            "model": tuned.model.metadata(),
            "data": {"validation": dict(tuned.about.get("validation", {})), "test": source.metadata()},
            "class_names": list(tuned.class_names),
            **(about or {}),
        },
    )


def as_source(
    x: AnyArray, y: AnyArray = None, *, model: Model | None = None, class_names: Sequence[str] | None = None
) -> Source:
    """A source from arrays, a path, a name or a source; text labels need `class_names` or the model's classes."""
    classes = None if model is None else model.classes
    names = classes if class_names is None else class_names
    if y is not None:
        return open_source((x, y), class_names=names)
    numbered = names is None or [str(name) for name in names] == [str(column) for column in range(len(names))]
    return open_source(x) if numbered else open_source(x, class_names=names)


def suite_for(suite: str | Suite | None, source: Source, categorical: Sequence[int] = ()) -> Suite:
    """The suite to test this kind of inputs under: affine shifts of images, drifts of features in their own units."""
    features = source.kind == "features"
    chosen = get_suite(("tabular" if features else "affine") if suite is None else suite)
    if chosen.name in SUITES and features != (chosen.name == "tabular"):
        holds, fits = ("features", "tabular") if features else ("images", "affine")
        raise InputError(
            f"a suite must fit the data; {source.name!r} holds {holds}, and it is {chosen.name!r}. Take {fits!r}."
        )
    if endless := [shift.name for shift in chosen.shifts if shift.levels is None]:
        raise InputError(
            f"every shift of a suite must have levels; {endless[0]!r} takes any number. Register one with levels=range(6)."
        )
    return chosen.fit(source.inputs(), categorical=categorical) if features else chosen


def as_store(store: LogitCache | str | os.PathLike[str] | None) -> LogitCache | None:
    """A store from a path."""
    return store if store is None or isinstance(store, LogitCache) else LogitCache(store)


def check_same_model(model: Model, recorded: Mapping[str, Any], path: object) -> None:
    """Refuse a model that is not the one a calibrator was tuned on."""
    if model.fingerprint != recorded["fingerprint"]:
        raise ModelError(
            f"{path} was tuned for another model: {recorded['name']!r} with fingerprint {recorded['fingerprint'][:12]}…; this one "
            f"has {model.fingerprint[:12]}…. A calibrator fits one model only: tune again, or pass force=True (--force)."
        )


def _base(n_classes: int) -> Identity:
    flat = np.zeros((1, n_classes))
    return Identity().fit(flat, [0])


def _groups(source: Source, group: str | None) -> Array | None:
    if group is None:
        return None
    if group == "class":
        return np.array([source.class_names[label] for label in source.labels])
    if source.groups is None:
        raise InputError(
            f"group must be 'class' for {source.name}, which names no groups; it is {group!r}. Give the source groups."
        )
    return source.groups


def as_inputs(x: AnyArray) -> Array:
    """Inputs as a model wants them: uint8 images as numbers in [0, 1], grey ones with a channel."""
    array = np.asarray(x)
    if array.dtype == np.uint8 and array.ndim >= 3:
        array = array / np.float32(255)
    return array[..., None] if array.ndim == 3 else array
