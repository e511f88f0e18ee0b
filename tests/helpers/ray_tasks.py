"""What the tests of engines let workers do: functions and a model that other processes can import."""

import os
import signal
import time

import numpy as np

WEIGHTS = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)


def make():
    """A linear net for digits that takes its time."""
    return slow_net


def slow_net(batch):
    """10 logits per image."""
    time.sleep(0.002)
    return 3 * (batch.reshape(len(batch), -1) @ WEIGHTS) - 5


def square(base, task, tell):
    """The task's square, and a word about it."""
    tell("squared", task)
    return base + task * task


def process(task, tell):
    """Where it runs."""
    time.sleep(0.05)
    return os.getpid()


def poisoned(task, tell):
    """Task 3 cannot be done by anyone."""
    if task == 3:
        raise ValueError("image 'cat/3.jpg' cannot be decoded")
    return task


def flaky(folder, task, tell):
    """Fails the first time, works the second."""
    mark = os.path.join(folder, str(task))
    if not os.path.exists(mark):
        open(mark, "x").close()
        raise OSError("the network hiccupped")
    return task


def suicidal(folder, task, tell):
    """Task 2 kills its worker: every time, or with a folder to remember it in, the first time only."""
    mark = os.path.join(folder or "", "dead")
    if task == 2 and not (folder and os.path.exists(mark)):
        if folder:
            open(mark, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def straggling(folder, task, tell):
    """The first try of task 1 sleeps for an hour."""
    mark = os.path.join(folder, "slow")
    if task == 1 and not os.path.exists(mark):
        open(mark, "x").close()
        time.sleep(3600)
    return task


def threads_of(task, tell):
    """How many threads a worker believes it may use."""
    from driftcal.core.parallel import n_threads

    time.sleep(0.05)
    return n_threads(), os.environ["OMP_NUM_THREADS"]
