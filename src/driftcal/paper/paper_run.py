"""The paper's experiments from networks and data to tables and figures on disk."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from driftcal.cache import LogitCache
from driftcal.errors import InputError
from driftcal.paper.cases import Wish, open_cases
from driftcal.paper.experiments import Experiment, chosen_experiments
from driftcal.paper.outcome import Outcome
from driftcal.paper.output import FIGURE_FORMATS, write_outcome
from driftcal.paper.plan import plan
from driftcal.paper.published import source
from driftcal.paper.settings import AS_PUBLISHED, OURS
from driftcal.paper.workbench import Workbench
from driftcal.pipeline.collect import OnProgress
from driftcal.pipeline.evaluate import versions
from driftcal.pipeline.plan import Plan


@dataclass(frozen=True)
class Written:
    """An experiment that was done: what it found, and the files."""

    outcome: Outcome
    files: Sequence[Path]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Experiments on open networks and data, to be planned before they are run; `skipped` says which cannot be, and why."""

    bench: Workbench
    experiments: Sequence[Experiment]
    folder: Path
    skipped: Sequence[str] = ()
    command: str = ""
    formats: tuple[str, ...] = field(default=FIGURE_FORMATS)

    @classmethod
    def open(
        cls,
        experiment: str,
        *,
        data: Mapping[str, str],
        networks: Sequence[str] = (),
        weights: str | os.PathLike[str] | None = None,
        as_published: bool = False,
        images: int | None = None,
        output: str | os.PathLike[str] = "runs/paper",
        store: str | os.PathLike[str] | None = None,
        seed: int = 0,
        draws: int = 200,
        command: str = "",
        dry: bool = False,
    ) -> Reproduction:
        """``open("table1", data={"cifar10": "DIR"}, networks=["resnet20"])``; ``all`` takes every experiment that data allow.

        A `dry` one makes no store where there is none.
        """
        folder = Path(output)
        place = folder / "store" if store is None else Path(store)
        cases = open_cases(Wish(dict(data), tuple(networks), None if weights is None else Path(weights), images, place))
        wanted, skipped = chosen_experiments(experiment, cases)
        if not wanted:
            raise InputError(f"{' '.join(skipped)}.")
        settings = dataclasses.replace(AS_PUBLISHED if as_published else OURS, seed=seed)
        opened = None if dry and not (place / "logits").is_dir() else LogitCache(place)
        bench = Workbench(cases, settings, opened, seed, draws)
        return cls(bench, wanted, folder, tuple(skipped), command)

    def plan(self, *, clock: bool = True) -> Plan:
        """What is still to be computed."""
        return plan(self.bench, self.experiments, clock=clock)

    def run(
        self, *, on_progress: OnProgress | None = None, on_done: Callable[[Written], None] | None = None
    ) -> list[Written]:
        """Run the experiments one after the other and write each as soon as it is done."""
        self.bench.on_progress = on_progress
        done = []
        for experiment in self.experiments:
            outcome = experiment.run(self.bench)
            outcome = dataclasses.replace(outcome, about={**self._about(experiment), **outcome.about})
            written = Written(outcome, write_outcome(outcome, self.folder, formats=self.formats))
            if on_done is not None:
                on_done(written)
            done.append(written)
        return done

    def _about(self, experiment: Experiment) -> dict[str, object]:
        bench = self.bench
        return {
            "experiment": experiment.name,
            "title": experiment.title,
            "paper": {"where": experiment.paper, "source": source()},
            "settings": dataclasses.asdict(bench.settings),
            "seed": bench.seed,
            "command": self.command,
            "cases": [{**case.describe(), "ladder": bench.ladder(case)[0]} for case in bench.cases],
            "versions": versions(),
        }
