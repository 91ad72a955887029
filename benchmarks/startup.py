"""How soon something happens: importing, commands in a new process, and compiling once per machine."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.bars import Bar, interleaved, seconds, show

# What numba takes to compile something fixed: a measure of how fast this machine compiles.
COMPILE = """
import numba, numpy as np
for i in range(4):
    numba.njit(lambda a: np.sort(a))(np.ones(3, dtype=f"f{4 + 4 * (i % 2)}"))
    numba.njit(lambda a, b: np.dot(a, b).sum() + i)(np.ones((3, 3)), np.ones((3, 3)))
"""
NUMBA = "import numba"

# The revision before commands compiled less and side by side.
BEFORE = "cfff0f6"


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    with tempfile.TemporaryDirectory() as folder:
        bars = [*starting(), *first_fit(Path(folder)), *commands(Path(folder)), *first_minute(Path(folder))]
        return show("Starting", bars)


def starting() -> list[Bar]:
    bare, imported, helped = interleaved(
        [
            lambda: python("-c", "pass"),
            lambda: python("-c", "import dplan"),
            lambda: python("-m", "dplan", "--help"),
        ],
        5,
    )
    return [
        Bar("import dplan", imported - bare, "beyond starting Python", at_most=0.1, unit=" s"),
        Bar("dplan --help", helped, "the whole command", at_most=0.5, unit=" s"),
    ]


def first_fit(folder: Path) -> list[Bar]:
    """Compare the first ``dplan fit`` of the example table on a machine with a later one."""
    python("-m", "dplan", "example", "-o", str(folder))
    table, model = str(folder / "forest-train.csv"), str(folder / "forest.dplan")
    fit = ("-m", "dplan", "fit", table, "--label", "label", "--anomaly", "cottonwood", "--id", "plot")
    whole_fit = (*fit, "--no-estimate", "--overwrite", "-o", model)
    demo = (
        "-c",
        "from dplan import DPLAN; import numpy as np; X = np.random.default_rng(0).random((500, 4)); "
        "DPLAN(random_state=0).fit(X, np.arange(500) < 20).anomaly_score(X)",
    )
    commands = {"dplan fit of the example table": whole_fit, "the demo's first detector": demo}
    fixed, first, again = np.inf, dict.fromkeys(commands, np.inf), dict.fromkeys(commands, np.inf)
    for turn in range(3):  # best of all turns: other load slows compilers down even by processor time
        fixed = min(fixed, cpu_seconds("-c", COMPILE) - cpu_seconds("-c", NUMBA))
        for name, command in commands.items():
            cache = str(folder / f"{name} {turn}")
            first[name] = min(first[name], cpu_seconds(*command, cache=cache))
            again[name] = min(again[name], cpu_seconds(*command, cache=cache))
    bars = []
    for name in commands:
        compiling = first[name] - again[name]
        detail = f"{compiling:.1f} s of {first[name]:.1f} s; fixed workload {fixed:.1f} s (processor time)"
        bars.append(Bar(f"compiling for {name} / a fixed workload", compiling / fixed, detail, at_most=2.8))
    return bars


def commands(folder: Path) -> list[Bar]:
    """Compare commands in a new process with what their libraries take to be imported."""
    model, table = str(folder / "forest.dplan"), folder / "thousand.csv"
    pl.read_csv(folder / "forest-new.csv").head(1_000).write_csv(table)
    score = ("-m", "dplan", "score", "-m", model, str(table), "--overwrite", "-o", str(folder / "scores.csv"))
    python(*score)  # compile, or load what was compiled before
    polars, libraries, inspected, scored = interleaved(
        [
            lambda: python("-c", "import polars"),
            lambda: python("-c", "import numba, sklearn"),
            lambda: python("-m", "dplan", "inspect", model),
            lambda: python(*score),
        ],
        5,
    )
    detail = f"{inspected:.2f} s and {polars:.2f} s"
    both = f"{scored:.2f} s and {libraries:.2f} s"
    return [
        Bar("dplan inspect / import polars", inspected / polars, detail, at_most=3),
        Bar("dplan score, 1,000 rows / import numba, sklearn", scored / libraries, both, at_most=2),
    ]


def first_minute(folder: Path) -> list[Bar]:
    """Compare what first commands lose to compiling with an earlier revision, and later commands with their imports.

    The earlier revision is unpacked from the repository's history; without it, only later commands are measured.
    """
    table, new, model = (
        str(folder / name) for name in ("forest-train.csv", "forest-new.csv", "minute.dplan")
    )
    options = ("-m", "dplan", "fit", table, "--label", "label", "--anomaly", "cottonwood", "--id", "plot")
    fit = (*options, "--no-estimate", "--overwrite", "-o", model)
    score = ("-m", "dplan", "score", new, "-m", model, "--overwrite", "-o", str(folder / "minute.csv"))
    explain = (*score, "--budget", "50", "--explain")
    sources = {BEFORE: unpacked(BEFORE, folder / BEFORE), "now": None}
    lost: dict[tuple[str, str], float] = {}
    for revision, source in sources.items():
        if revision == "now" or source is not None:
            cache = str(folder / f"kernels {revision}")
            for name, command in (("fit", fit), ("score --explain", explain)):
                first, again = (
                    seconds(lambda c=command, k=cache, s=source: python(*c, cache=k, source=s))  # type: ignore[misc]
                    for _ in range(2)
                )
                lost[name, revision] = first - again
    bars = []
    for name, most in (("fit", 0.4), ("score --explain", 0.25)):
        if (name, BEFORE) in lost:
            ours, before = lost[name, "now"], lost[name, BEFORE]
            detail = f"{ours:.1f} s and {before:.1f} s"
            bars.append(
                Bar(f"compiling for the first {name} / at {BEFORE}", ours / before, detail, at_most=most)
            )
    imports, scored, fitted = interleaved(
        [lambda: python("-c", "import numpy, polars, numba"), lambda: python(*score), lambda: python(*fit)], 3
    )
    for name, figure, most in (("score", scored, 2.5), ("fit", fitted, 5)):
        detail = f"{figure:.2f} s and {imports:.2f} s"
        bars.append(
            Bar(f"a later dplan {name} / import numpy, polars, numba", figure / imports, detail, at_most=most)
        )
    return bars


def unpacked(revision: str, folder: Path) -> str | None:
    """Return the source folder of an earlier revision, or None if it is not in the history."""
    archive = folder.with_suffix(".tar")
    command = ["git", "archive", "-o", str(archive), revision, "src"]
    if subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True).returncode != 0:
        return None
    shutil.unpack_archive(archive, folder)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(folder)], check=True)
    return str(folder / "src")


def python(*arguments: str, cache: str | None = None, source: str | None = None) -> None:
    more = ({"NUMBA_CACHE_DIR": cache} if cache else {}) | ({"PYTHONPATH": source} if source else {})
    subprocess.run([sys.executable, *arguments], env=environment(**more), check=True, capture_output=True)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of this process with some variables, and with bytecode on disk, as pip leaves it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | more


def cpu_seconds(*arguments: str, cache: str | None = None) -> float:
    """Return the processor time of a command: compiling is long, and other load must not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(*arguments, cache=cache)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
