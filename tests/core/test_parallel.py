"""Threads: one count, one pool, and calls that cannot block each other."""

import os
import threading

import numpy as np
import pytest

from driftcal.core.parallel import limited_threads, map_in_threads, n_cores, n_threads, run_in_threads
from driftcal.errors import InputError
from driftcal.shifts import get_shift


@pytest.mark.parametrize("value", ["abc", "0", "-1", "1.5", "2 threads"])
def test_a_bad_number_of_threads_names_the_variable_and_the_way_out(monkeypatch, value):
    monkeypatch.setenv("DRIFTCAL_THREADS", value)
    message = f"DRIFTCAL_THREADS must be a whole number of at least 1; it is '{value}'. Unset it"
    for call in (n_threads, lambda: get_shift("gaussian")(np.zeros((2, 8, 8, 1), np.float32), 0.1)):
        with pytest.raises(InputError, match=message):
            call()


def test_the_number_of_threads_is_the_variable_or_the_cores(monkeypatch):
    monkeypatch.setenv("DRIFTCAL_THREADS", "3")
    assert n_threads() == 3
    with limited_threads(2):
        assert n_threads() == 2
    assert n_threads() == 3
    monkeypatch.setenv("DRIFTCAL_THREADS", "")
    assert n_threads() == n_cores() >= 1
    monkeypatch.delenv("DRIFTCAL_THREADS")
    with limited_threads(2):
        assert n_threads() == 2
    assert n_threads() == n_cores()


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_results_come_in_the_order_of_the_items(monkeypatch, threads):
    monkeypatch.setenv("DRIFTCAL_THREADS", threads)
    assert map_in_threads(lambda k: k * k, range(100)) == [k * k for k in range(100)]
    assert map_in_threads(str, []) == []
    out = np.zeros(50)
    run_in_threads(lambda k: out.__setitem__(k, k), range(50))
    np.testing.assert_array_equal(out, np.arange(50))


def test_nested_calls_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setenv("DRIFTCAL_THREADS", "2")
    totals = []

    def outer(k):
        return sum(map_in_threads(lambda j: 10 * k + j, range(5)))

    caller = threading.Thread(target=lambda: totals.extend(map_in_threads(outer, range(8))), daemon=True)
    caller.start()
    caller.join(timeout=30)
    assert totals == [50 * k + 10 for k in range(8)]


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setenv("DRIFTCAL_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda k: 1 // k, [3, 2, 1, 0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_its_own_pool(monkeypatch):
    monkeypatch.setenv("DRIFTCAL_THREADS", "2")
    assert map_in_threads(abs, [-1, -2]) == [1, 2]  # the pool of this process exists
    child = os.fork()
    if child == 0:
        os._exit(0 if map_in_threads(abs, [-1, -2]) == [1, 2] else 1)
    for _ in range(300):
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            break
        threading.Event().wait(0.1)
    else:
        os.kill(child, 9)
    assert finished
    assert os.waitstatus_to_exitcode(status) == 0
