"""Functions and a model for the tests of engines, which other processes can import."""

import os
import signal
import time

import numpy as np

WEIGHTS = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)


def make():
    """A slow linear net for digits."""
    return slow_net


def slow_net(batch):
    """10 logits per image."""
    time.sleep(0.002)
    return 3 * (batch.reshape(len(batch), -1) @ WEIGHTS) - 5


def square(base, task, report):
    """The square of the task; reports that it is done."""
    report("squared", task)
    return base + task * task


def process(task, report):
    """The process that it runs in."""
    time.sleep(0.05)
    return os.getpid()


def poisoned(task, report):
    """Task 3 always fails."""
    if task == 3:
        raise ValueError("image 'cat/3.jpg' cannot be decoded")
    return task


def flaky(folder, task, report):
    """Fails the first time, works the second."""
    marker = os.path.join(folder, str(task))
    if not os.path.exists(marker):
        open(marker, "x").close()
        raise OSError("the network hiccupped")
    return task


def kill_worker(folder, task, report):
    """Task 2 kills its worker: every time, or the first time only if there is a folder for a marker file."""
    marker = os.path.join(folder or "", "dead")
    if task == 2 and not (folder and os.path.exists(marker)):
        if folder:
            open(marker, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def straggling(folder, task, report):
    """The first try of task 1 sleeps for an hour."""
    marker = os.path.join(folder, "slow")
    if task == 1 and not os.path.exists(marker):
        open(marker, "x").close()
        time.sleep(3600)
    return task


def threads_of(task, report):
    """The number of threads of a worker."""
    from driftcal.core.parallel import n_threads

    time.sleep(0.05)
    return n_threads(), os.environ["OMP_NUM_THREADS"]
