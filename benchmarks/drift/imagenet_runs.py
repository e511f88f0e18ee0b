"""What the two ImageNet runs share: a labelled folder cut in halves, the paper's experiments on it, files small enough to keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from driftcal.bench.cases import Case
from driftcal.bench.experiments import EXPERIMENTS
from driftcal.bench.settings import OURS
from driftcal.bench.workbench import Workbench
from driftcal.models import Model
from driftcal.paper import Reproduction
from driftcal.perturb.shift import Shift
from driftcal.sources import Source, imagenet
from driftcal.store import Store

#: Tables that one sweep of the model serves; `val-size` shows what few images per class do.
WANTED = ("table1", "per-shift", "by-level", "in-domain", "accuracy", "baselines", "delta", "val-size")


def halves(folder: Path, images: int, tested: int, *, seed: int = 0) -> tuple[Source, Source]:
    """Tuning and test images: half of `images` each, drawn by `seed`; of the test half the first `tested`."""
    source = imagenet(folder, size=224, crop=1.0)  # the files are centre-cropped to 224 already
    tuning, test = source.split(images // 2, images // 2, seed=seed)[:2]
    return tuning, test.subset(range(min(tested, len(test))))


def run(
    network: str,
    model: Model,
    data: tuple[Source, Source],
    shifts: Sequence[Shift],
    folder: Path,
    store: Path,
    command: str,
) -> None:
    """Every experiment of `WANTED`, resumable through `store`; tables as CSV and Markdown, and one JSON, in `folder`."""
    case = Case(network, "imagenet", model, *data, "imagenet-c", shifts)
    bench = Workbench([case], OURS, Store(store))
    wanted = [EXPERIMENTS[name] for name in WANTED]
    reproduction = Reproduction(bench, wanted, folder, command=command, formats=("png",))
    print("planned:", json.dumps(reproduction.plan(clock=False).to_dict())[:2000], flush=True)
    last = [0]

    def on_rows(what: str, rows: int) -> None:
        last[0] += rows
        if last[0] % 2000 < rows:
            print(f"{last[0]:,} inputs, {what}", flush=True)

    done = reproduction.run(on_rows=on_rows, on_done=lambda written: print(written.outcome.experiment, flush=True))
    print(sum(len(written.files) for written in done), "files in", folder)
