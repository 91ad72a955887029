"""How soon something happens: importing, ``dplan --help``, and compiling once per machine."""

import os
import subprocess
import sys
import tempfile

from benchmarks.bars import Bar, interleaved, seconds, show

FIT = """
import numpy as np
from dplan import DPLAN
X, y = np.random.default_rng(0).random((500, 4)), np.arange(500) < 20
DPLAN(random_state=0, n_steps=400, warmup_steps=200).fit(X, y).anomaly_score(X)
"""


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    bare, imported, helped = interleaved(
        [
            lambda: python("-c", "pass"),
            lambda: python("-c", "import dplan"),
            lambda: python("-m", "dplan", "--help"),
        ],
        5,
    )
    with tempfile.TemporaryDirectory() as cache:
        first = seconds(lambda: python("-c", FIT, cache=cache))
        second = seconds(lambda: python("-c", FIT, cache=cache))
    return show(
        "Starting",
        [
            Bar("import dplan", imported - bare, "beyond starting Python", at_most=0.1, unit=" s"),
            Bar("dplan --help", helped, "the whole command", at_most=0.5, unit=" s"),
            Bar(
                "compiling once per machine",
                first - second,
                f"first fit {first:.1f} s",
                at_most=25,
                unit=" s",
            ),
            Bar("first fit of a later process", second, "imports included", unit=" s"),
        ],
    )


def python(*arguments: str, cache: str | None = None) -> None:
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)
