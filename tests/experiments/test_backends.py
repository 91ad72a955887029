"""The same cells on a real cluster of two worker processes, one of which is killed on the way."""

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from experiments.backends import on_dask
from experiments.runner import run
from tests.experiments.small_cells import figures, make_small_plan

pytest.importorskip("distributed", reason="the extra [dask] is not installed")


def dask(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def cluster():
    """A scheduler and two workers on this machine: its address and the workers' processes."""
    scheduler = dask("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    processes = [scheduler]
    try:
        address = None
        while address is None:
            line = scheduler.stderr.readline()
            assert line, "the scheduler ended"
            found = re.search(r"Scheduler at:\s+(tcp://127\.0\.0\.1:\d+)", line)
            address = found.group(1) if found else None
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
        workers = [dask("dask_worker", address, *options) for _ in range(2)]
        processes += workers
        for process in processes:  # a full pipe would stop them
            threading.Thread(target=process.stderr.read, daemon=True).start()
        yield address, workers
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stderr.close()


class KillOneOnTheWay:
    """A listener that kills a worker once both have work and some cells are done."""

    def __init__(self, worker):
        self._worker, self.killed_after, self.done = worker, None, 0

    def start(self, cells, skipped):
        pass

    def finish(self, cell, outcome):
        self.done += 1
        if self.done == 5:
            os.kill(self._worker.pid, signal.SIGKILL)
            self._worker.wait()
            self.killed_after = self.done


@pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed.*", "ignore::ResourceWarning")
def test_a_cluster_that_loses_a_worker_gives_the_same_figures(cluster, tmp_path):
    plan = make_small_plan(runs=4)
    address, workers = cluster
    listener = KillOneOnTheWay(workers[0])
    summary = run(plan, tmp_path / "cluster", backend=on_dask(address), workers=2, listener=listener)
    assert listener.killed_after == 5
    assert (summary.done, summary.failed) == (24, 0)
    run(plan, tmp_path / "here")
    assert figures(tmp_path / "cluster") == figures(tmp_path / "here")


def test_where_no_scheduler_is_that_is_said(tmp_path):
    with pytest.raises(OSError, match=r"tcp://127\.0\.0\.1:9"):
        run(make_small_plan(), tmp_path, backend=on_dask("tcp://127.0.0.1:9", timeout=1))
