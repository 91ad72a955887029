"""Processes that compile at the same time, are interrupted, or cannot write."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from dplan._kernels.compiling import MESSAGE
from dplan.detectors import _saving
from dplan.review.table import as_file
from dplan.review.worker import Worker
from tests.detectors.quick import QUICK

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes share nothing there")

# Uses a few small kernels, and tells which of them this process compiled.
PROGRAM = """
import numpy as np
from numba.core import event

class Compiled(event.Listener):
    def on_start(self, started):
        print(started.data["dispatcher"].py_func.__qualname__, started.data["args"])

    def on_end(self, ended):
        pass

event.register("numba:compile", Compiled())
import sys
from dplan._kernels.perceptron import biases, layer_sizes, rows_per_block
from dplan._kernels.scaling import scale_rows
{limits}
sys.stdin.readline()
out = np.empty((2, 1), dtype=np.float32)
for kind in (np.float32, np.float64):
    scale_rows(np.ones((2, 1), dtype=kind), np.zeros(1), np.ones(1), out)
assert out.ravel().tolist() == [0.5, 0.5]
assert rows_per_block(1000, 196, 20) == 250
assert len(biases(np.zeros(11, dtype=np.float32), layer_sizes(3, (2,), 1), 0)) == 2
"""

HOLD = """
import sys
from pathlib import Path
from dplan._kernels.sharing import alone
with alone(Path(sys.argv[1]), "dplan._kernels.perceptron.rows_per_block"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def start(code, cache, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )


def own(lines):
    """Return what was compiled of this package; numba's own parts are compiled wherever they are needed."""
    names = ("scale_rows", "rows_per_block", "biases", "kernel")
    return sorted(line for line in lines.splitlines() if line.startswith(names))


def test_two_processes_compile_each_kernel_once(tmp_path):
    both = [start(PROGRAM.format(limits=""), tmp_path) for _ in range(2)]
    found = [process.communicate("go\n") for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    compiled = own(found[0][0] + found[1][0])
    assert len(compiled) == 4  # one of them for two types
    assert len(set(compiled)) == 4
    third = start(PROGRAM.format(limits=""), tmp_path)
    assert own(third.communicate("go\n")[0]) == []


def test_a_process_that_was_killed_keeps_nobody_waiting(tmp_path):
    probe = "from dplan._kernels.perceptron import rows_per_block as k; print(k._cache.cache_path)"
    folder = start(probe, tmp_path).communicate()[0].strip()
    with start(HOLD, tmp_path, folder) as holder:
        assert holder.stdout.readline() == "held\n"
        with start(PROGRAM.format(limits=""), tmp_path) as waiting:
            waiting.stdin.write("go\n")
            waiting.stdin.flush()
            until_here = iter(waiting.stdout.readline, "")
            assert sum(1 for _ in zip(range(2), filter(own, until_here), strict=False)) == 2  # for two types
            holder.send_signal(signal.SIGKILL)
            rest, errors = waiting.communicate()
    assert waiting.returncode == 0, errors
    assert [line.split()[0] for line in own(rest)] == ["biases", "rows_per_block"]


def test_a_full_disk_stops_nothing(tmp_path):
    limits = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"  # every write fails
    process = start(PROGRAM.format(limits=limits), tmp_path)
    out, errors = process.communicate("go\n")
    assert process.returncode == 0, errors
    assert len(own(out)) == 4
    assert "could not be cached" in errors
    again = start(PROGRAM.format(limits=""), tmp_path)  # nothing that is half written is loaded
    assert len(own(again.communicate("go\n")[0])) == 4
    assert again.returncode == 0


EXPLAIN = """
import sys
import numpy as np
from numba.core import event

class Compiled(event.Listener):
    def on_start(self, started):
        print(started.data["dispatcher"].py_func.__module__)

    def on_end(self, ended):
        pass

event.register("numba:compile", Compiled())
from dplan.detectors import _saving
from dplan.explain.explanation import effects
rows = np.random.default_rng(0).random((30, 3), dtype=np.float32)
effects(_saving.load(sys.argv[1]).detector, rows[:2], rows)
"""


def test_a_helper_compiles_what_explaining_needs(tmp_path):
    X, y = np.random.default_rng(0).random((100, 3)), np.arange(100) < 10
    _saving.save(tmp_path / "m.dplan", QUICK["DPLANEnsemble"].fit(X, y))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-m", "dplan.cli._ahead", "explain", ""], env=environment, check=True)
    out, errors = start(EXPLAIN, tmp_path / "cache", str(tmp_path / "m.dplan")).communicate()
    modules = out.split()
    assert modules, errors  # scoring the rows
    assert not [name for name in modules if name.startswith("dplan._kernels.replaced")]


FIT = """
import sys
import numpy as np
from numba.core import event
from dplan import DPLAN

class Compiled(event.Listener):
    def on_start(self, started):
        print(started.data["dispatcher"].py_func.__module__)

    def on_end(self, ended):
        pass

event.register("numba:compile", Compiled())
DPLAN(n_steps=200, warmup_steps=100, random_state=0).fit(np.random.default_rng(0).random((300, 4)), np.arange(300) < 9)
"""


def test_a_helper_compiles_what_an_agent_needs(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "dplan.cli._ahead", "fit", "dplan"], env=environment, check=True)
    out, errors = start(FIT, tmp_path).communicate()
    assert out, errors  # numbers of another type than those of a prepared table are scaled
    assert not [name for name in out.split() if name.startswith("dplan.agent")]


TELL = """
import logging, sys
import numpy as np
from dplan.detectors.iforest import IForest
verbose = int(sys.argv[1])
if not verbose:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
detector = IForest(n_estimators=5, random_state=0, verbose=verbose).fit(np.random.default_rng(0).random((50, 2)))
detector.anomaly_score(np.zeros((1, 2)))
"""


@pytest.mark.parametrize("verbose", ["0", "1"])
def test_python_users_are_told_once(tmp_path, verbose):
    out, errors = start(TELL, tmp_path, verbose).communicate()
    assert out.splitlines().count(MESSAGE) == 1, errors
    out, _ = start(TELL, tmp_path, verbose).communicate()
    assert MESSAGE not in out


def test_the_page_of_a_review_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    table = tmp_path / "t.csv"
    table.write_text("id,a\n" + "".join(f"{k},{k * k % 97}\n" for k in range(200)))
    for times in (1, 0):
        stages = []
        with Worker() as worker:
            worker.begin(as_file(table, ("id",), None, tmp_path), None)
            worker.open([], lambda stage, *_, told=stages: told.append(stage))
        assert stages.count(MESSAGE) == times
        assert stages[-1] == "Scoring rows"
