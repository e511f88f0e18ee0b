"""The default `tune` of a ResNet-20 beside the bare model passes of the same inputs, in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.tune_overhead --weights cifar10_resnet20.safetensors --cifar10 FOLDER

Bare means the network alone on normalised batches in memory, as many inputs as `tune` ran it on; half of them before `tune` and half
after. The seconds are CPU seconds of one thread: other work on the machine does not change them, and on an idle machine they are the
time on the clock. A small `tune` before compiles kernels. Writes tune_overhead.md beside this file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import driftcal
from benchmarks.measure import table_head, table_row, write_page
from driftcal.data import cifar10
from driftcal.paper.networks.registry import open_cifar10_network
from driftcal.pipeline.tuning import tune as tune_module

PAGE = Path(__file__).with_suffix(".md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--images", type=int, default=2500)
    options = parser.parse_args()
    model = open_cifar10_network(f"resnet20={options.weights}", None).model
    source = cifar10(str(options.cifar10)).split(options.images, random_state=0)[0]
    driftcal.tune(model, source.split(100, random_state=0)[0])
    selection, select = [], tune_module.tune_calibrators

    def timed_selection(*arguments, **keywords):
        start = time.process_time()
        tuned = select(*arguments, **keywords)
        selection.append(time.process_time() - start)
        return tuned

    batches = [model.preprocessing(inputs) for inputs, _, _ in source.batches(model.batch_size)]

    def bare() -> float:
        start = time.process_time()
        for batch in batches:
            model.backend.run(batch)
        return time.process_time() - start

    bare()
    before = [bare() for _ in range(4)]
    tune_module.tune_calibrators = timed_selection
    start, wall = time.process_time(), time.perf_counter()
    calibrated = driftcal.tune(model, source)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    after = [bare() for _ in range(4)]
    algorithm_1 = float(calibrated.perturbation["passes"])
    simulated = calibrated.perturbation["simulated"]["inputs"] / len(source)
    forward = (algorithm_1 + simulated) * sum(before + after) / len(before + after)
    rows = [
        ["bare model passes of the same inputs", forward, 1.0],
        ["tune, in all", seconds, seconds / forward],
        ["of which choosing and fitting the calibrators", selection[-1], selection[-1] / forward],
    ]
    lines = [
        "# The default `tune` beside its bare model passes\n",
        f"ResNet-20 on CIFAR-10, {len(source):,} validation images, one thread. Algorithm 1 took {algorithm_1:.1f} passes, the separate simulated "
        f"shifts {simulated:.1f}; together {(algorithm_1 + simulated) / algorithm_1:.2f} times the passes of Algorithm 1 alone. CPU seconds; the "
        f"machine was busy with other work, and `tune` took {wall:.0f} seconds on the clock.\n",
        "    OMP_NUM_THREADS=1 python -m benchmarks.speed.tune_overhead --weights cifar10_resnet20.safetensors --cifar10 FOLDER\n",
        table_head(["", "CPU seconds", "ratio"]),
        *(table_row([name, f"{value:.1f}", f"{ratio:.2f}"]) for name, value, ratio in rows),
        f"\n{calibrated.explanation}",
    ]
    write_page(PAGE, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
