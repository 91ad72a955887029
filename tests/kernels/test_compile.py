"""Compiled once per machine: a process that only scores finds all its kernels on disk."""

import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).parents[1] / "persistence" / "golden" / "dplanensemble-format-1.dplan"

SCORE = """
import sys
from numba.core import event

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
