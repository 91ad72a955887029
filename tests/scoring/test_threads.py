"""Chunks are scored in threads, and Ctrl-C reaches the main thread alone."""

import _thread
import signal
import threading
import time

import pytest

from dplan._kernels import threads
from dplan.scoring.threads import in_threads


def an_hour(model, both_begun, ended):
    """Do what scoring a chunk with a large model does: one block after the other."""
    both_begun.wait()
    try:
        for _ in range(36_000):
            threads.check_stopped()
            time.sleep(0.1)
    except threads.Stopped:
        ended.append(model)
        raise


def test_ctrl_c_does_not_wait_for_chunks_under_way():
    both_begun, ended, submitted = threading.Barrier(3), [], threading.Event()

    def jobs():
        yield from [(both_begun, ended)] * 3
        submitted.set()  # the main thread waits for results from now on

    def interrupt():
        both_begun.wait()
        submitted.wait()
        _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in the background
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt), in_threads("model", 2) as run:
            list(run(an_hour, jobs()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["model", "model"]


def test_results_come_in_order():
    with in_threads(10, 2) as run:
        assert list(run(lambda model, number: model * number, [(number,) for number in range(9)])) == [
            10 * number for number in range(9)
        ]
