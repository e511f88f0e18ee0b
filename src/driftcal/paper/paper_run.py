"""Runs the paper's experiments and writes their tables and figures."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftcal.cache import LogitCache
from driftcal.errors import InputError
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_plan import plan_experiments
from driftcal.paper.experiment_result import FIGURE_FORMATS, ExperimentResult
from driftcal.paper.experiments import Experiment, select_experiments
from driftcal.paper.paper_settings import OURS, PaperSettings
from driftcal.paper.published import citation
from driftcal.paper.setups import SetupOptions, open_setups
from driftcal.pipeline.collecting.run import OnProgress
from driftcal.pipeline.evaluating.versions import versions
from driftcal.pipeline.plan import Plan


@dataclass(frozen=True)
class WrittenResult:
    """The result of an experiment and the files it was written to."""

    result: ExperimentResult
    files: Sequence[Path]


@dataclass(frozen=True, eq=False)
class PaperRun:
    """Experiments on opened networks and data. `skipped` has a sentence for each experiment that lacks data."""

    context: ExperimentContext
    experiments: Sequence[Experiment]
    folder: Path
    skipped: Sequence[str] = ()
    command: str = ""
    formats: tuple[str, ...] = FIGURE_FORMATS

    @classmethod
    def open(
        cls,
        experiment: str,
        options: SetupOptions,
        *,
        settings: PaperSettings = OURS,
        output: str | os.PathLike[str] = "runs/paper",
        cache: str | os.PathLike[str] | None = None,
        command: str = "",
        dry_run: bool = False,
    ) -> PaperRun:
        """Open networks and data for an experiment.

        ``PaperRun.open("table1", SetupOptions({"cifar10": "DIR"}, ["resnet20"]))``

        Parameters
        ----------
        experiment : name of the experiment, or ``all`` for every experiment that the data allow.
        options : data, networks and weights.
        settings : driftcal's or the published settings.
        output : folder of tables and figures.
        cache : folder of logits; None for ``cache`` in the output folder.
        command : the command line, which is recorded with the results.
        dry_run : only plan: download no weights, and do not create the cache if it does not exist.
        """
        folder = Path(output)
        cache_folder = folder / "cache" if cache is None else Path(cache)
        to_remove = Path(tempfile.mkdtemp()) if dry_run and not cache_folder.is_dir() else None
        setups = open_setups(dataclasses.replace(options, scratch=to_remove or cache_folder, download=not dry_run))
        experiments, skipped = select_experiments(experiment, setups)
        if not experiments:
            raise InputError(f"{' '.join(skipped)}.")
        logit_cache = None if dry_run and not (cache_folder / "logits").is_dir() else LogitCache(cache_folder)
        run = cls(ExperimentContext(setups, settings, logit_cache), experiments, folder, tuple(skipped), command)
        if to_remove is not None:
            weakref.finalize(run, shutil.rmtree, to_remove, ignore_errors=True)
        return run

    @property
    def to_download(self) -> list[str]:
        """The networks whose weights a run downloads; in a dry run they have random weights."""
        return [setup.network.name for setup in self.context.setups if setup.network.needs_download]

    def plan(self, *, measure_time: bool = True) -> Plan:
        """The passes that are still to be computed."""
        return plan_experiments(self.context, self.experiments, measure_time=measure_time)

    def run(
        self,
        *,
        on_progress: OnProgress | None = None,
        on_written: Callable[[WrittenResult], None] | None = None,
    ) -> list[WrittenResult]:
        """Run the experiments one after the other; each result is written at once."""
        self.context.on_progress = on_progress
        written = []
        for experiment in self.experiments:
            result = dataclasses.replace(experiment.run(self.context), metadata=self._metadata(experiment))
            written.append(WrittenResult(result, result.write(self.folder, formats=self.formats)))
            if on_written is not None:
                on_written(written[-1])
        return written

    def _metadata(self, experiment: Experiment) -> dict[str, object]:
        context = self.context
        return {
            "experiment": experiment.name,
            "title": experiment.title,
            "paper": {"where": experiment.where, "source": citation()},
            "settings": dataclasses.asdict(context.settings),
            "command": self.command,
            "setups": [
                {**setup.metadata(), "perturbation": context.perturbed(setup).record} for setup in context.setups
            ],
            "versions": versions(),
        }
