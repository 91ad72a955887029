"""Compiled once per machine: a process that only scores finds all its kernels on disk."""

import gc
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numba.core import event
from numba.core.errors import TypingError

from dplan._kernels import cache, compile
from dplan._kernels.compile import compiled_exactly
from dplan._kernels.compiling import MESSAGE, Compiling
from dplan._kernels.views import matrix

MODEL = Path(__file__).parents[1] / "persistence" / "golden" / "dplanensemble-format-1.dplan"

SCORE = """
import sys
from numba.core import event
from numba.core.errors import TypingError

class Compiled(event.Listener):
    def on_start(self, started):
        print(started.data["dispatcher"].py_func.__qualname__)

    def on_end(self, ended):
        pass

event.register("numba:compile", Compiled())
from dplan.detectors import _saving
found = _saving.load(sys.argv[1])
found.detector.anomaly_score(found.arrays["rows"])
"""


def test_scoring_in_a_second_process_compiles_nothing():
    first, second = (
        subprocess.run([sys.executable, "-c", SCORE, MODEL], capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert second.stdout == "", (first.stdout, second.stdout)


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_while_a_kernel_compiles(monkeypatch, enabled):
    class Seen(event.Listener):
        def on_start(self, started):
            seen.append(gc.isenabled())

        def on_end(self, ended):
            pass

    monkeypatch.setattr(cache, "place", lambda: cache.Place(cache.Kind.NONE, None))
    seen = []
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with event.install_listener("numba:compile", Seen()):
            inner = compiled_exactly(lambda x: x + 1)
            assert compiled_exactly(lambda x: 2 * inner(x))(1) == 4
        assert seen == [False, False]
        assert gc.isenabled() is enabled
        failing = compiled_exactly(lambda x: x.no_such_attribute)
        with pytest.raises(Exception, match="no_such_attribute"):
            failing(1)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_matrix_is_a_view_of_elements_from_a_place_on():
    view = njit(lambda array, start: matrix(array, start, 2, 3))
    array = np.arange(10.0)
    found = view(array, 3)
    with pytest.raises(TypingError, match="C-contiguous"):
        view(array[::2], 0)
    assert found.tolist() == [[3, 4, 5], [6, 7, 8]]
    found[1, 2] = -1
    assert array[8] == -1
    del array
    gc.collect()
    assert found.tolist() == [[3, 4, 5], [6, 7, -1]]  # it keeps the memory


def test_people_are_told_once_and_reported_times_leave_compilation_out(monkeypatch):
    from dplan.cli import _terminal

    said = []
    own = Compiling(said.append)
    monkeypatch.setattr(compile, "compiling", own)
    monkeypatch.setattr(_terminal, "compiling", own)
    monkeypatch.setattr(cache, "place", lambda: cache.Place(cache.Kind.NONE, None))

    @compiled_exactly
    def twice(x):
        return 2 * x

    started = time.perf_counter()
    with _terminal.stopwatch() as seconds:
        assert (twice(2), twice(2.5), twice(3)) == (4, 5.0, 6)
        reported, elapsed = seconds(), time.perf_counter() - started
    assert said == [MESSAGE]
    assert own.seconds > 0
    assert reported <= elapsed - own.seconds
    before = own.seconds
    twice(4)
    assert own.seconds == before
