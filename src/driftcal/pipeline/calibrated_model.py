"""A model with the calibrators tuned for it: `tune` returns it, `save` writes it, `evaluate` tests it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import CALIBRATORS, Calibrator, name_of
from driftcal.calibrators.serialization import WINDOWED_NAME, CalibratorFile, load_file
from driftcal.calibrators.serialization import save as save_file
from driftcal.calibrators.windowed.windowed_calibrator import MAX_KEYS, WINDOW_SIZE, WindowedCalibrator
from driftcal.core.display import Displayed
from driftcal.data import Source
from driftcal.decisions import CoverageCurve, Threshold, choose_threshold, masked_labels
from driftcal.decisions.metadata import DECISIONS, decisions_from_metadata, decisions_to_metadata
from driftcal.errors import ArtefactError, InputError, ModelError
from driftcal.models import Model, open_model, pooled_features
from driftcal.models.recorded_scores import SCORES, ScoresModel
from driftcal.pipeline.collecting.simulated import SIMULATED_SHIFTS
from driftcal.pipeline.collecting.source_inputs import as_inputs, labelled_source, scores_source
from driftcal.pipeline.evaluating.candidate import Candidate, uncalibrated
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES
from driftcal.pipeline.model_metadata import checked_metadata
from driftcal.pipeline.tuning.tune_calibrators import CLEAN_BASELINE, TS_BASELINE
from driftcal.pipeline.windowed_model import WindowedModel
from driftcal.types import AnyArray, Array, Inputs, Logits, LogProbs, Probs


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedModel(Displayed):
    """A model with calibrated confidence. :func:`driftcal.tune` makes one.

    Parameters
    ----------
    model
        The opened model.
    calibrator
        The per-sample calibrator that `predict_proba` uses.
    method
        Its short name.
    tuned_on
        "clean samples", or the name of the shift that perturbed the tuning samples.
    windowed_calibrator
        The calibrator that `windowed` uses, if there is one.
    baselines
        "ts": plain temperature scaling; "clean-tuned": the same method tuned on clean samples only.
    perturbation
        The shift and the levels that Algorithm 1 found, as plain values.
    explanation
        What was chosen and why, in plain sentences.
    class_names
        The class of each column.
    layers
        The layers whose features the calibrator reads.
    drift_reference
        What a monitor compares traffic with.
    metadata
        Seed, clean weight, accuracy, validation data and versions, as plain values.
    validation_curve
        Predictions of validation samples that the calibrator was not fitted on; `threshold` reads them.
    decision_threshold
        What `predict_or_abstain` accepts; `with_threshold` sets it.
    model_metadata
        `Model.metadata` at tuning, with the fingerprint, because hashing large weights takes seconds. Empty if unknown.

    >>> import driftcal
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(1500, n_informative=4, n_redundant=10, n_classes=3, random_state=0)
    >>> model = GaussianNB().fit(X[:500], y[:500])
    >>> path = driftcal.tune(model, X[500:1000], y[500:1000], method="ts", shift=None).save("cal.safetensors")
    >>> calibrated = driftcal.CalibratedModel.load(path, model)
    >>> confident = calibrated.with_threshold(calibrated.threshold(coverage=0.5))
    >>> confident.predict(X[1000:1004]), confident.predict_or_abstain(X[1000:1004]).filled(-1)
    (array([0, 1, 0, 0]), array([ 0, -1,  0, -1]))
    """

    model: Model
    calibrator: Calibrator
    method: str
    tuned_on: str = CLEAN_SAMPLES
    windowed_calibrator: WindowedCalibrator | None = None
    baselines: Mapping[str, Calibrator] = field(default_factory=dict)
    perturbation: Mapping[str, Any] | None = None
    explanation: str = ""
    class_names: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    drift_reference: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    model_metadata: Mapping[str, Any] = field(default_factory=dict)
    validation_curve: CoverageCurve | None = None
    decision_threshold: Threshold | None = None

    def __repr__(self) -> str:
        windowed = "" if self.windowed_calibrator is None else f", windowed {type(self.windowed_calibrator).__name__}"
        return f"CalibratedModel({self.model!r}, {self.method!r} tuned on {self.tuned_on}{windowed})\n{self.explanation}".strip()

    def labelled_source(self, X: Any, y: AnyArray = None) -> Source:
        """Labelled data for this model, with its class names and its categorical columns."""
        if isinstance(self.model, ScoresModel):
            return scores_source(self.model, X, y, class_names=self.class_names)
        self.model.check_columns(X)
        class_names = self.model.class_names or self.class_names
        categorical, tuned_on = self.metadata.get("categorical", ()), self.metadata.get("validation")
        return labelled_source(X, y, class_names=class_names, categorical=categorical, tuned_on=tuned_on)

    def logits(self, X: AnyArray) -> Logits:
        """The uncalibrated logits of the model."""
        self.model.check_columns(X)
        return self.model.logits(X if isinstance(self.model, ScoresModel) else self._inputs(X))

    def predict_proba(self, X: AnyArray) -> Probs:
        """Calibrated probabilities of new inputs, each independent of the others; uint8 images are divided by 255."""
        return self.calibrator.predict_proba(self.logits(X), features=self._features(X))

    def predict_log_proba(self, X: AnyArray) -> LogProbs:
        """Calibrated log-probabilities of new inputs, each independent of the others."""
        return self.calibrator.predict_log_proba(self.logits(X), features=self._features(X))

    def predict(self, X: AnyArray) -> Array:
        """The most likely class of new inputs: its name where classes have names, else its column."""
        scores = self.logits(X) if self.calibrator.keeps_accuracy else self.predict_proba(X)
        return self.as_labels(scores.argmax(axis=1))

    def threshold(
        self,
        X: Any = None,
        y: AnyArray = None,
        *,
        accuracy: float | None = None,
        coverage: float | None = None,
        cost: float | None = None,
        delta: float = 0.05,
    ) -> Threshold:
        """The confidence above which predictions are accepted; give one of `accuracy`, `coverage` and `cost`.

        Parameters
        ----------
        X, y
            Labelled data that this model was not tuned on. None: predictions of the validation samples by calibrators
            that were not fitted on them, which `tune` has kept.
        accuracy
            Accepted predictions have at least this accuracy, with probability 1 − `delta`.
        coverage
            At least this share of the predictions is accepted.
        cost
            The cost of an abstention if an error costs 1.
        delta
            The probability that the bound of the accuracy does not hold.
        """
        curve = self.validation_curve
        if X is not None:
            source = self.labelled_source(X, y)
            probabilities = self.predict_proba(source.inputs())
            curve = CoverageCurve.of(probabilities.max(axis=1), source.is_correct(probabilities.argmax(axis=1)))
        if curve is None:
            raise InputError(
                "a threshold needs predictions of samples that the calibrator was not fitted on; this model has none. Pass labelled "
                "data that it was not tuned on: threshold(X, y, accuracy=0.95); or tune again."
            )
        return choose_threshold(curve, accuracy=accuracy, coverage=coverage, cost=cost, delta=delta)

    def with_threshold(self, threshold: Threshold | None) -> CalibratedModel:
        """This model with a threshold for `predict_or_abstain`, files and results; None removes it."""
        return replace(self, decision_threshold=threshold)

    def predict_or_abstain(self, X: AnyArray, *, threshold: Threshold | None = None) -> np.ma.MaskedArray[Any, Any]:
        """The most likely class of each input as a masked array, masked where the model abstains.

        ``.mask`` tells where it abstains, ``.filled(-1)`` puts a value there, ``.compressed()`` drops these inputs.

        Parameters
        ----------
        X
            New inputs.
        threshold
            What is accepted. None: the threshold of the model.
        """
        probabilities = self.predict_proba(X)
        labels = self.as_labels(probabilities.argmax(axis=1))
        return masked_labels(labels, probabilities, self.decision_threshold if threshold is None else threshold)

    def windowed(self, window_size: int = WINDOW_SIZE, *, max_keys: int = MAX_KEYS) -> WindowedModel:
        """A model whose `predict_proba` follows the shift of the last `window_size` inputs, for each of at most `max_keys` keys."""
        return WindowedModel(self, self._windowed_calibrator.windowed(window_size, max_keys=max_keys))

    def adapt(self, X: AnyArray) -> CalibratedModel:
        """This model with a fixed per-sample calibrator for data like the unlabelled inputs `X`."""
        windowed, logits = self._windowed_calibrator, self.logits(X)
        method = name_of(windowed)
        return replace(
            self,
            calibrator=windowed.adapt(logits),
            method=method,
            windowed_calibrator=None,
            baselines={name: other for name, other in self.baselines.items() if name == TS_BASELINE},
            explanation=f"{method.upper()} was adapted to {len(logits)} unlabelled samples. Before: {self.explanation}",
            metadata={
                **self.metadata,
                "adapted_to": len(logits),
                "cross_validated_ece": None,
                "windowed_cross_validated_ece": None,
            },
            validation_curve=None,
            decision_threshold=None,
        )

    @property
    def _windowed_calibrator(self) -> WindowedCalibrator:
        if self.windowed_calibrator is None:
            raise InputError(
                f"a windowed calibrator is needed to follow a window; this model was tuned with {self.method!r} and has none. Tune with "
                "method='auto' or 'window-ts', and with a shift."
            )
        return self.windowed_calibrator

    def _features(self, X: AnyArray) -> Mapping[str, Array] | None:
        return pooled_features(self.model, self._inputs(X), self.layers) if self.calibrator.needs_features else None

    def _inputs(self, X: AnyArray) -> Inputs:
        return as_inputs(X, self.metadata.get("validation"))

    def as_labels(self, columns: Array) -> Array:
        """Columns as class names where classes have names."""
        names = self.class_names
        if not names or names == tuple(map(str, range(len(names)))):
            return columns
        classes = self.model.classes  # those of a scikit-learn model may be numbers
        return np.asarray(classes if classes is not None else names)[columns]

    @cached_property
    def candidates(self) -> list[Candidate]:
        """What an evaluation compares: the uncalibrated model, plain TS, the clean-tuned method, and this model."""
        candidates = [uncalibrated(self.calibrator.n_features_in_)]
        if TS_BASELINE in self.baselines:
            candidates.append(Candidate("ts", "ts", self.baselines[TS_BASELINE]))
        if CLEAN_BASELINE in self.baselines:
            candidates.append(Candidate(self.method, self.method, self.baselines[CLEAN_BASELINE]))
        if self.name not in {candidate.name for candidate in candidates}:
            candidates.append(Candidate(self.name, self.method, self.calibrator, self.tuned_on))
        return candidates

    @property
    def name(self) -> str:
        """The name of the per-sample calibrator in tables: "irm-p" where it was tuned on perturbed samples.

        It is "hts-simulated" where it was tuned on separate simulated shifts.
        A calibrator that was adapted or recalibrated has a name of its own: it is no longer what was tuned.
        """
        name = self.method
        if "adapted_to" in self.metadata:
            name += "-adapted"
        elif self.method != "base" and self.tuned_on != CLEAN_SAMPLES:
            suffix = "-simulated" if self.tuned_on == SIMULATED_SHIFTS else "-p"
            name += "-per-sample" if CALIBRATORS[self.method].needs_window else suffix
        return f"{name}-recalibrated" if self.metadata.get("recalibrations") else name

    def windowed_candidate(self, window_size: int = WINDOW_SIZE) -> Candidate | None:
        """The windowed form as a candidate of an evaluation; None if there is none."""
        if self.windowed_calibrator is None or self.perturbation is None:
            return None
        name, shift = name_of(self.windowed_calibrator), str(self.perturbation["shift"])
        return Candidate(name, name, self.windowed_calibrator, shift, window_size=window_size)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the calibrators with the model's fingerprint and preprocessing, but not the model itself."""
        metadata = {
            "model": dict(self.model_metadata) or self.model.metadata(),
            "method": self.method,
            "tuned_on": self.tuned_on,
            "perturbation": self.perturbation,
            "explanation": self.explanation,
            "class_names": list(self.class_names),
            **dict(self.metadata),
            **({} if self.drift_reference is None else {"drift_reference": dict(self.drift_reference)}),
            **({"layers": list(self.layers)} if self.layers else {}),
            **decisions_to_metadata(self.validation_curve, self.decision_threshold),
        }
        others: dict[str, Calibrator] = dict(self.baselines)
        if self.windowed_calibrator is not None:
            others[WINDOWED_NAME] = self.windowed_calibrator
        return save_file(self.calibrator, path, metadata=metadata, others=others)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | CalibratorFile,
        model: Any = None,
        *,
        force: bool = False,
        inputs: AnyArray = None,
        score_type: str | None = None,
        **options: Any,
    ) -> CalibratedModel:
        """Load saved calibrators for their model; refuse another model unless `force`.

        Parameters
        ----------
        path
            A file that `save` wrote, or the result of :func:`load_file`.
        model
            Anything that :func:`driftcal.open_model` takes; preprocessing and outputs are those of the file. None: the
            inputs are the scores of the model, as after :func:`driftcal.fit`.
        force
            Accept a model with another fingerprint.
        inputs
            A few inputs. A model that is a plain function has no name, so its outputs on them identify it.
        score_type
            Without a model: "logits" or "probabilities". None: as recorded by `fit`, or logits.
        options
            Further options of `open_model`.
        """
        file = path if isinstance(path, CalibratorFile) else load_file(path)
        metadata = checked_metadata(file)
        recorded = metadata.pop("model", None)
        if recorded is None:
            raise ArtefactError(
                f"{file.path} must have been saved by a CalibratedModel; it is a calibrator alone. Use driftcal.load(path) for logits."
            )
        opened: Model
        if model is None:
            recorded_type = recorded["outputs"] if recorded["framework"] == SCORES else "logits"
            opened = ScoresModel(score_type or recorded_type, file.calibrator.n_features_in_)
        else:
            options = {"preprocessing": recorded["preprocessing"], "outputs": recorded["outputs"], **options}
            opened = open_model(model, **({} if isinstance(model, Model) else options))
            if inputs is not None:
                opened.prepare(as_inputs(inputs, metadata.get("validation")))
            if not force:
                check_same_model(opened, recorded, file.path)
        others = dict(file.others)
        windowed = others.pop(WINDOWED_NAME, None)
        perturbation = metadata.pop("perturbation", None)
        decisions = decisions_from_metadata(metadata, file.path)
        metadata.pop(DECISIONS, None)
        default_tuned_on = CLEAN_SAMPLES if perturbation is None else str(perturbation["shift"])
        return cls(
            opened,
            file.calibrator,
            method=metadata.pop("method"),
            tuned_on=metadata.pop("tuned_on", default_tuned_on),
            windowed_calibrator=windowed if isinstance(windowed, WindowedCalibrator) else None,
            baselines=others,
            perturbation=perturbation,
            explanation=metadata.pop("explanation", ""),
            class_names=tuple(metadata.pop("class_names", ())),
            layers=tuple(metadata.pop("layers", ())),
            drift_reference=metadata.pop("drift_reference", None),
            metadata=metadata,
            model_metadata={} if force else recorded,  # with force it may be another model
            validation_curve=decisions.curve,
            decision_threshold=decisions.threshold,
        )


def check_same_model(model: Model, recorded: Mapping[str, Any], path: object) -> None:
    """Refuse a model that is not the one a calibrator was tuned on."""
    if recorded["framework"] == SCORES:
        raise ModelError(
            f"{path} was fitted on scores and records no model. Pass force=True (--force) if they are the scores of this model."
        )
    if model.fingerprint == recorded["fingerprint"]:
        return
    if model.framework != recorded["framework"]:
        raise ModelError(
            f"{path} was tuned for another model: {recorded['name']!r}, opened with {recorded['framework']}; this one is opened with "
            f"{model.framework}. The same network in another format has another fingerprint. If both give the same logits for the "
            "same inputs, pass force=True (--force); otherwise tune again."
        )
    raise ModelError(
        f"{path} was tuned for another model: {recorded['name']!r} with fingerprint {recorded['fingerprint'][:12]}…; this one "
        f"has {model.fingerprint[:12]}…. A calibrator fits one model only: tune again, or pass force=True (--force)."
    )
