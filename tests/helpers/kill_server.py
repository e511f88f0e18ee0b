"""Runs `driftcal` commands in forked children, so that killing one costs no new start of Python.

Reads a JSON list of arguments, forks a child that runs it, answers with the child's id; at the next line waits for the child
and answers with its wait status. Started by test_resume.
"""

import json
import os
import sys
import time

import numpy as np

import driftcal.cli
import driftcal.models
import driftcal.pipeline.collecting.collect
import driftcal.pipeline.plan

WEIGHTS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


def make():
    """A linear net that takes its time."""

    def answer(batch):
        time.sleep(0.001)
        return batch.reshape(len(batch), -1) @ WEIGHTS

    return answer


def make_other():
    """Another one."""
    return lambda batch: -2 * batch.reshape(len(batch), -1) @ WEIGHTS


def serve(warm_up):
    driftcal.pipeline.collecting.shards._PART_SECONDS = (
        0.0  # every batch is a part on disk: a kill finds all the states there are
    )
    try:
        driftcal.cli.main(warm_up)  # loads and compiles everything once, before any fork
    except SystemExit as end:
        if end.code:
            raise
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            try:
                driftcal.cli.main(json.loads(line))
            except SystemExit as end:
                os._exit(int(end.code or 0))
        print(child, flush=True)
        sys.stdin.readline()  # until then a child that has ended keeps its id, and a kill hits nobody else
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
