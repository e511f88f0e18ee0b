"""driftcal plan"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from driftcal.cli import options
from driftcal.cli.console import Console, Sentences
from driftcal.core.progress import duration


@options.with_model_options
def plan(
    model: Annotated[str, typer.Argument(help="As for tune.", metavar="MODEL")],
    data: Annotated[str, typer.Argument(help="Data as for tune and evaluate.", metavar="DATA")],
    suite: Annotated[
        str | None,
        typer.Option(help="Evaluate under this suite: {suites}.", show_default="tune with gaussian noise"),
    ] = None,
    n_levels: Annotated[int, typer.Option(min=1, help="tune: perturbation levels from clean to chance.")] = 10,
    workers: Annotated[
        str, typer.Option(help="Numbers of workers to estimate for.", metavar="K,K,…")
    ] = "1,2,4,8,16,64",
    n_samples: Annotated[
        int | None, typer.Option(min=1, help="Estimate for this many inputs.", show_default="as many as DATA has")
    ] = None,
    fits: Annotated[
        int | None, typer.Option(min=0, help="Calibrators to fit.", show_default="1 for tune, 0 for evaluate")
    ] = None,
    price: Annotated[float, typer.Option(min=0, help="Price of one worker for an hour.")] = 0.0,
    storage: Annotated[float, typer.Option(min=1, help="MB/s that all workers together get from storage.")] = 1000.0,
    start: Annotated[float, typer.Option(min=0, help="Seconds until a worker is ready.")] = 20.0,
    random_state: options.RandomState = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    *,
    model_options: dict[str, Any],
) -> None:
    """Estimate time and cost on any number of workers, and the largest useful number of workers.

    A few batches are run to measure the speed of the model, of the shifts and of a fit. The rest is estimated: workers
    have equal shares of the tasks, all workers share the storage, and one process merges statistics. docs/scale.md has
    the formula and compares it with measurements. With --dry-run nothing is run, and only the work is counted.

    \b
    Tuning with ten levels of noise:
      driftcal plan model.onnx val.npz --workers 1,8,64 --price 0.40
    \b
    ImageNet-C on fifty thousand images, estimated from a few of them:
      driftcal plan model.onnx some.npz --n-samples 50000 --suite imagenet-c
    """
    from driftcal.cli.tables import workers_table
    from driftcal.core.parallel import limited_threads
    from driftcal.data import open_source
    from driftcal.models import open_model
    from driftcal.pipeline.cluster_estimate import Assumptions, MeasuredSpeed, Workload, estimate_cluster
    from driftcal.pipeline.collecting.collect import Collector
    from driftcal.pipeline.collecting.perturbation import tuning_shift
    from driftcal.pipeline.evaluating.evaluate import suite_for

    console = Console(as_json, quiet)
    counts = [int(count) for count in options.numbers(workers, "--workers")]
    if not counts or min(counts) < 1:
        raise typer.BadParameter(
            f"must be whole numbers from 1, such as 1,8,64; it is {workers!r}.", param_hint="--workers"
        )
    source = open_source(data).labelled()
    opened_model = open_model(model, **{"threads": 1, **model_options})  # by default a worker has one processor
    collector = Collector(opened_model, source, random_state=random_state)
    if suite is None:
        shift = tuning_shift("gaussian", source)
        conditions = [(shift, 0.0), *((shift, 0.01 * level) for level in range(1, n_levels))]
    else:
        conditions = [(shift, float(level)) for shift, level in suite_for(suite, source)]
    work = Workload(
        n_samples or len(source),
        len({collector.key(shift, level).digest for shift, level in conditions}),
        opened_model.n_classes,
        opened_model.batch_size,
        int(suite is None) if fits is None else fits,
    )
    counted = {
        "inputs": work.n_inputs, "n_samples": work.n_samples, "n_conditions": work.n_conditions,
        "n_classes": work.n_classes, "logit_bytes": work.logit_bytes,
    }  # fmt: skip
    lines = [
        f"{work.n_inputs:,} model inputs: {work.n_samples:,} samples under {work.n_conditions} conditions",
        f"{work.logit_bytes / 1e9:,.2f} GB of logits in the cache",
    ]
    if dry_run:
        console.output(counted, *lines)
        return
    assumptions = Assumptions(storage_rate=storage * 1e6, price=price, start_seconds=start)
    with limited_threads(model_options.get("threads", 1)):
        speed = MeasuredSpeed.of(collector, conditions)
    cluster = estimate_cluster(work, speed, counts, assumptions)
    shortest = min(estimate.seconds for estimate in cluster.estimates)
    console.output(
        {
            **counted,
            "measured": vars(speed),
            "assumptions": vars(assumptions),
            "estimates": [estimate.to_dict() for estimate in cluster.estimates],
            "max_useful_workers": cluster.max_useful_workers,
            "limit": cluster.limit,
        },
        *lines,
        f"measured here: {1 / speed.seconds_per_input:,.0f} inputs/s, {speed.scores_per_second / 1e6:,.0f} million scores/s",
        workers_table(cluster.estimates, priced=price > 0),
        Sentences(
            f"Up to {cluster.max_useful_workers} workers the speed-up is at least half of the ideal one. Then {cluster.limit}. "
            f"The shortest time above is {duration(shortest)}."
        ),
    )
