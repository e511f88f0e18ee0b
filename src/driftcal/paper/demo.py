"""The demo: tune and evaluate on bundled photographs, write a report, and leave files to go on with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftcal.calibrators import PAPER_CALIBRATORS
from driftcal.data import Source, open_source
from driftcal.data.bundled import FASHION_NETWORK
from driftcal.errors import InputError
from driftcal.export import append_to_onnx
from driftcal.models import Model, open_model
from driftcal.paper.demo_files import (
    CALIBRATED,
    CALIBRATOR,
    MODEL,
    REPORT,
    next_commands,
    write_model_and_data,
    write_stream,
)
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

#: The data that bring a trained network.
FASHION = "fashion-mnist"


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo, the calibrated model, the path of the report, and commands to try next."""

    results: Results
    calibrated: CalibratedModel
    report: Path
    next_commands: Sequence[str] = ()


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
    bundled: bool = False

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        data: str = FASHION,
        model: Any = None,
        n_samples: int | None = None,
        seed: int = 0,
        n_bins: int = 15,
        model_options: Mapping[str, Any] | None = None,
    ) -> Demo:
        """Open the bundled network with its images, or the user's model and data.

        Parameters
        ----------
        folder : folder of the report, the results and the calibrator.
        data : ``fashion-mnist``, ``digits``, or data for `model`. The first half of a random permutation (seed 0) is for
            validation, the second half for testing.
        model : the user's model; None for the bundled network, or for one that is trained on the digits.
        n_samples : take only the first `n_samples` of the validation and of the test data; None for all.
        seed : seed of all noise.
        n_bins : bins of the ECE.
        model_options : options of :func:`driftcal.open_model`.
        """
        source = open_source(data).labelled()
        bundled = model is None and data == FASHION
        if bundled:
            validation, test = source.split(len(source) // 2, random_state=0)[:2]
            opened_model = open_model(FASHION_NETWORK, class_names=source.class_names)
            title = "driftcal demo: photographs of clothes"
        elif model is None:
            if data != "digits":
                raise InputError(
                    f"data {data!r} need a model; there is none. Give a file or package.module:factory; only {FASHION} and digits "
                    "bring one."
                )
            train, validation, test = split_digits(source)
            opened_model = open_digits_network(train).model
            title = "driftcal demo: handwritten digits"
        else:
            validation, test = source.split(len(source) // 2, random_state=0)[:2]
            opened_model = open_model(model, **(model_options or {}))
            title = f"driftcal demo: {opened_model.name} on {source.name}"
        validation, test = (first_samples(part, n_samples) for part in (validation, test))
        return cls(opened_model, validation, test, Path(folder), seed, n_bins, title, bundled)

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
        demo, run = self._with_files(), Run(cache=self._cache, progress=on_progress)
        calibrated = tune(demo.model, demo.validation, random_state=self.seed, run=run)
        calibrator = calibrated.save(self.folder / CALIBRATOR)
        candidates = compare_methods(calibrated, demo.validation, methods=PAPER_CALIBRATORS, run=run)
        results = evaluate(
            calibrated, demo.test, candidates=candidates, random_state=self.seed, n_bins=self.n_bins, run=run,
            metadata={"title": self.title, "files": self._files(), **(metadata or {})},
        )  # fmt: skip
        results.save(self.folder)
        commands: list[str] = []
        if self.bundled:
            append_to_onnx(self.folder / MODEL, calibrator, self.folder / CALIBRATED)
            write_stream(self.folder, demo.model, demo.test, seed=self.seed)
            commands = next_commands(self.folder, window_size=max(1, len(demo.test) // 2))
        return DemoResult(results, calibrated, write_report(results, self.folder / REPORT), commands)

    def _files(self) -> dict[str, str]:
        """The files that the report names in its snippets."""
        files = {"calibrator": str(self.folder / CALIBRATOR)}
        return {**files, "model": str(self.folder / MODEL)} if self.bundled else files

    def _with_files(self) -> Demo:
        """The same demo with the model and the data as files in the folder, if they are the bundled ones."""
        if not self.bundled:
            return self
        validation, test = write_model_and_data(self.folder, self.validation, self.test)
        model = open_model(self.folder / MODEL, class_names=validation.class_names)
        return replace(self, model=model, validation=validation, test=test)
