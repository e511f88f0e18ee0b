"""The demo: tune and evaluate the paper's calibrators on bundled data, and write a report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftcal.calibrators import PAPER_CALIBRATORS
from driftcal.data import Source, open_source
from driftcal.errors import InputError
from driftcal.models import Model, open_model
from driftcal.paper.setups.digits_network import open_digits_network, split_digits
from driftcal.paper.setups.open_setups import first_samples
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.run import OnProgress, Run
from driftcal.pipeline.evaluating.compare import compare_methods
from driftcal.pipeline.evaluating.evaluate import evaluate
from driftcal.pipeline.evaluating.results import Results
from driftcal.pipeline.plan import Part, Plan, plan_tuning
from driftcal.pipeline.tuning.tune import tune
from driftcal.report import write_report
from driftcal.shifts import get_suite


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo, the calibrated model, and the path of the report."""

    results: Results
    calibrated: CalibratedModel
    report: Path


@dataclass(frozen=True, eq=False)
class Demo:
    """A model with validation and test data."""

    model: Model
    validation: Source
    test: Source
    folder: Path
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
        n_samples: int | None = None,
        seed: int = 0,
        n_bins: int = 15,
        model_options: Mapping[str, Any] | None = None,
    ) -> Demo:
        """Train a network on scikit-learn's digits, or open the user's model and data.

        Parameters
        ----------
        folder : folder of the report, the results and the calibrator.
        data : ``digits``, or data for `model`. The first half of a random permutation (seed 0) is for validation, the
            second half for testing.
        model : the user's model; None for a network that is trained on the digits.
        n_samples : take only the first `n_samples` of the validation and of the test data; None for all.
        seed : seed of all noise.
        n_bins : bins of the ECE.
        model_options : options of :func:`driftcal.open_model`.
        """
        source = open_source(data).labelled()
        if model is None:
            if data != "digits":
                raise InputError(
                    f"data {data!r} need a model; there is none. Give a file or package.module:factory; only the digits bring one."
                )
            train, validation, test = split_digits(source)
            opened_model = open_digits_network(train).model
            title = "driftcal demo: handwritten digits"
        else:
            validation, test = source.split(len(source) // 2, random_state=0)[:2]
            opened_model = open_model(model, **(model_options or {}))
            title = f"driftcal demo: {opened_model.name} on {source.name}"
        validation, test = (first_samples(part, n_samples) for part in (validation, test))
        return cls(opened_model, validation, test, Path(folder), seed, n_bins, title)

    @property
    def _cache(self) -> Path:
        return self.folder / "cache"

    def plan(self, *, measure_time: bool = True) -> Plan:
        """The fewest and the most passes of the demo in an empty folder."""
        run = Run(cache=str(self._cache))
        tuning = plan_tuning(self.model, self.validation, random_state=self.seed, run=run, timed=measure_time)
        n_conditions = 1 + sum(1 for _, level in get_suite("affine") if level)
        part = Part(self.test.name, len(self.test), n_conditions, n_conditions)
        seconds_per_input = tuning.seconds / max(1, tuning.n_inputs)
        seconds = tuning.seconds + seconds_per_input * n_conditions * len(self.test)
        at_most = None if tuning.at_most is None else tuning.at_most + n_conditions
        return Plan([*tuning.parts, part], seconds, at_most)

    def run(self, *, on_progress: OnProgress | None = None, metadata: Mapping[str, Any] | None = None) -> DemoResult:
        """Tune, compare, save and report. Logits are kept in the folder, so a second run is fast."""
        run = Run(cache=self._cache, progress=on_progress)
        calibrated = tune(self.model, self.validation, random_state=self.seed, run=run)
        calibrated.save(self.folder / "calibrator.safetensors")
        candidates = compare_methods(calibrated, self.validation, methods=PAPER_CALIBRATORS, run=run)
        results = evaluate(
            calibrated, self.test, candidates=candidates, random_state=self.seed, n_bins=self.n_bins, run=run,
            metadata={"title": self.title, **(metadata or {})},
        )  # fmt: skip
        results.save(self.folder)
        return DemoResult(results, calibrated, write_report(results, self.folder / "report.html"))
