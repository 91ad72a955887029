"""Chunks are scored in threads, and Ctrl-C reaches the main thread alone."""

import _thread
import threading
import time

import pytest

from dplan._kernels import threads
from dplan.tables.workers import in_threads


def a_minute(model, ended):
    """Do what scoring a chunk with a large model does: one block after the other."""
    try:
        for _ in range(600):
            threads.check_stopped()
            time.sleep(0.1)
    except threads.Stopped:
        ended.append(model)
        raise


def test_ctrl_c_does_not_wait_for_chunks_under_way():
    ended, started = [], time.perf_counter()
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt), in_threads("model", 2) as run:
        list(run(a_minute, [(ended,), (ended,), (ended,)]))
    assert time.perf_counter() - started < 20
    assert ended == ["model", "model"]


def test_results_come_in_order():
    with in_threads(10, 2) as run:
        assert list(run(lambda model, number: model * number, [(number,) for number in range(9)])) == [
            10 * number for number in range(9)
        ]
