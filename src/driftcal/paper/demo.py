"""The whole pipeline on real data: Algorithm 1, the paper's calibrators with and without -P, the affine suite, a report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import PAPER_CALIBRATORS
from driftcal.data import Source, open_source
from driftcal.errors import InputError
from driftcal.models import Model, open_model
from driftcal.paper.digits import SPLIT, train_digits
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collect import OnProgress
from driftcal.pipeline.plan import EvaluationRun, Part, Plan, TuningRun
from driftcal.pipeline.results import Results
from driftcal.report import write_report
from driftcal.shifts import get_suite


@dataclass(frozen=True)
class DemoOutcome:
    """What the demo leaves behind."""

    results: Results
    tuned: CalibratedModel
    folder: Path
    report: Path


@dataclass(frozen=True, eq=False)
class Demo:
    """A model and two halves of labelled data, ready to be planned or run into `folder`."""

    model: Model
    validation: Source
    test: Source
    folder: Path
    methods: Sequence[str] = PAPER_CALIBRATORS
    seed: int = 0
    n_bins: int = 15
    title: str = "driftcal demo"

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        data: str = "digits",
        model: Any = None,
        rows: int | None = None,
        seed: int = 0,
        n_bins: int = 15,
        model_options: Mapping[str, Any] | None = None,
    ) -> Demo:
        """scikit-learn's digits with a network trained on the spot, or your data with your model.

        Your data are halved by ``numpy.random.default_rng(0).permutation``: validation first, then test. `rows` takes
        only so many of each half.
        """
        source = open_source(data).labelled()
        if model is None:
            if data != "digits":
                raise InputError(
                    f"data {data!r} need a model; there is none. Give a file or package.module:factory; only the digits bring one."
                )
            train, validation, test = source.split(*SPLIT, seed=0)
            opened = open_model(train_digits(train), name="small neural network")
            title = "driftcal demo: handwritten digits"
        else:
            validation, test = source.split(len(source) // 2, seed=0)[:2]
            opened = open_model(model, **(model_options or {}))
            title = f"driftcal demo: {opened.name} on {source.name}"
        if rows is not None:
            validation, test = (
                part.subset(np.arange(min(rows, len(part))), selection={"first": rows}) for part in (validation, test)
            )
        return cls(opened, validation, test, Path(folder), seed=seed, n_bins=n_bins, title=title)

    @property
    def _tuning(self) -> TuningRun:
        # whoever runs a demo has not said that answers may change, nor that inputs come in windows
        options = {"seed": self.seed, "keep_accuracy": True, "adaptive": False}
        return TuningRun(self.model, self.validation, options, self.folder / "store")

    def plan(self, *, clock: bool = True) -> Plan:
        """The fewest and the most passes it can take on an empty folder."""
        tuning = self._tuning.plan(clock=clock)
        conditions = 1 + sum(1 for _, level in get_suite("affine") if level)
        per_input = tuning.seconds / max(1, tuning.inputs)
        part = Part(self.test.name, len(self.test), conditions, conditions)
        seconds = tuning.seconds + per_input * conditions * len(self.test)
        most = None if tuning.at_most is None else tuning.at_most + conditions
        return Plan([*tuning.parts, part], seconds, most)

    def run(self, *, on_progress: OnProgress | None = None, about: Mapping[str, Any] | None = None) -> DemoOutcome:
        """Tune, compare, save and report; the model's answers stay in a store, so a second run is quick."""
        tuned = self._tuning.run(on_progress=on_progress)
        tuned.save(self.folder / "calibrator.safetensors")
        evaluation = EvaluationRun(
            tuned, self.test, validation=self.validation, methods=self.methods, seed=self.seed, n_bins=self.n_bins,
            store=self.folder / "store",
        )  # fmt: skip
        results = evaluation.run(on_progress=on_progress, about={"title": self.title, **(about or {})})
        results.save(self.folder)
        return DemoOutcome(results, tuned, self.folder, write_report(results, self.folder / "report.html"))
