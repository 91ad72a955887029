"""How long kinds of 1,000 alerts take, against explaining the same rows, and how much memory those of 100,000 need."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.bars import Bar, show
from benchmarks.tables import measured
from dplan import DPLANEnsemble
from dplan.kinds.finding import find_kinds
from dplan.kinds.table import ScoredTable
from dplan.scoring.files import chunks_of
from dplan.scoring.scorer import AlertPolicy, Scorer
from dplan.tables import TableModel, fit_table, from_table

ROUNDS = 2
ROWS, COLUMNS, ALERTS, KNOWN = 20_000, 200, 1_000, 60
MANY_ROWS, FEW_ALERTS, MANY_ALERTS = 400_000, 2_000, 100_000

WRITE = """
import sys
import numpy as np, polars as pl
from dplan import DPLANEnsemble
from dplan.tables import fit_table, from_table
path, model, n_rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(0)
X = rng.normal(size=(n_rows, 20)).astype(np.float32)
for kind in range(4):
    X[kind::16, kind * 3 : kind * 3 + 3] += 4
table = pl.from_numpy(X)
table.write_parquet(path)
label = pl.Series("label", (np.arange(20_000) % 16 < 4) & (np.arange(20_000) < 300)).cast(pl.Int64)
own = from_table(table[:20_000].with_columns(label), label="label")
fit_table(own, DPLANEnsemble(n_jobs=-1, random_state=0), estimate=False).save(model)
"""

KINDS = """
import dplan
begin()
found = dplan.kinds(sys.argv[2], sys.argv[1], budget=int(sys.argv[3]))
figures["kinds"] = len(found.groups)
"""


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    return show(f"Kinds, {ALERTS:,} alerts, {ROWS:,}×{COLUMNS}", [*finding(), memory()])


def make_table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    for kind in range(4):
        X[kind * 250 : (kind + 1) * 250, kind * 3 : kind * 3 + 3] += 4
    return pl.from_numpy(X)


def finding() -> list[Bar]:
    """Find kinds of scored rows, which explains the alerts, groups them, and makes and measures rules."""
    table = make_table()
    label = pl.Series("label", (np.arange(ROWS) % 250 < KNOWN // 4) & (np.arange(ROWS) < ALERTS))
    own = from_table(table[::4].with_columns(label[::4].cast(pl.Int64)), label="label")
    model = fit_table(own, DPLANEnsemble(n_jobs=-1, random_state=0), estimate=False)
    scorer = Scorer(model, alerts=AlertPolicy(budget=ALERTS))
    scored = ScoredTable.of(scorer, lambda: chunks_of(table, model))
    turns = []
    for _ in range(ROUNDS):
        with seconds_of_explaining() as explaining:
            start = time.perf_counter()
            find_kinds(scored)
            turns.append((time.perf_counter() - start, sum(explaining)))
    ratio = min(whole / explaining for whole, explaining in turns)
    rest = min(whole - explaining for whole, explaining in turns)
    about = " and ".join(f"{whole:.2f} s, {explaining:.2f} s of it explaining" for whole, explaining in turns)
    return [
        Bar("kinds of scored rows / explaining them", ratio, about, at_most=1.3),
        Bar("kinds without explaining", rest, "grouping, rules, names", at_most=2, unit=" s"),
    ]


@contextmanager
def seconds_of_explaining() -> Iterator[list[float]]:
    """Note how long each explanation takes."""
    spent, explain = list[float](), TableModel.explain

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = explain(*arguments, **options)
        spent.append(time.perf_counter() - start)
        return found

    TableModel.explain = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        TableModel.explain = explain  # type: ignore[method-assign]


def memory() -> Bar:
    """Compare the peak memory of kinds of many alerts and of few, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        table, model = str(Path(folder, "table.parquet")), str(Path(folder, "m.dplan"))
        subprocess.run([sys.executable, "-c", WRITE, table, model, str(MANY_ROWS)], check=True)
        few, many = (measured(KINDS, table, model, str(n)) for n in (FEW_ALERTS, MANY_ALERTS))
    return Bar(
        f"peak memory of kinds of {MANY_ALERTS:,} alerts / of {FEW_ALERTS:,}, {MANY_ROWS:,}×20",
        many["megabytes"] / few["megabytes"],
        f"{many['megabytes']:.0f} MB and {few['megabytes']:.0f} MB; {many['seconds']:.0f} s and {few['seconds']:.0f} s",
        at_most=1.2,
    )


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
