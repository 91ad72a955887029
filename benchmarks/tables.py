"""People's tables: scoring a large Parquet file against polars rewriting it, and preparing against training.

The detector is DPLANEnsemble, which ``dplan fit`` takes if none is named.

Everything that is compared runs in the same run, each in a process of its own, so that peak memory is its own.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, show
from benchmarks.startup import BEFORE, environment, unpacked

N_COLUMNS, N_CSV_ROWS = 50, 1_000_000

WRITE = """
import sys
import numpy as np, polars as pl
from pathlib import Path
path, n_rows, n_columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, piece = np.random.default_rng(0), 250_000
parts = []
for start in range(0, n_rows, piece):
    X = rng.normal(100, 20, (n_columns, min(piece, n_rows - start))).round(2)
    X[:, ::500] += 90
    parts.append(Path(f"{path}.{start}"))
    label = (np.arange(start, start + X.shape[1]) % 50_000 == 0).astype(np.int8)
    pl.DataFrame({f"c{j}": X[j] for j in range(n_columns)} | {"label": label}).write_parquet(parts[-1])
pl.scan_parquet(parts, glob=False).sink_parquet(path, row_group_size=piece)
for part in parts:
    part.unlink()
"""

REWRITE = """
import polars as pl
pl.scan_parquet(sys.argv[1], glob=False).sink_parquet(sys.argv[2])
"""

SCORE = """
from pathlib import Path
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from dplan.scoring import Scorer, score_table
from dplan.tables.writing import Output
model = TableModel.load(sys.argv[3])
model.score(table)  # compiled and loaded
begin()
score_table(Scorer(model), Input(Path(sys.argv[1])), Output(Path(sys.argv[2]), "parquet"))
"""

FIT = """
import polars as pl
from dplan import DPLANEnsemble
from dplan.tables import from_table
from dplan.tables import fit_table
table = pl.read_parquet(sys.argv[1], n_rows=100_000).drop("label")
table = table.with_columns(label=(pl.int_range(pl.len()) % 2000 == 0).cast(pl.Int64))
own = from_table(table, label="label")
fit_table(own, DPLANEnsemble(n_jobs=-1, random_state=0, n_steps=400, warmup_steps=200), estimate=False)  # compiled
begin()
model = fit_table(own, DPLANEnsemble(n_jobs=-1, random_state=0))
model.save(sys.argv[2])
figures.update(model.summary.seconds)
"""

CSV = """
import sys
import numpy as np, polars as pl
n, rng = int(sys.argv[2]), np.random.default_rng(0)
columns = {f"c{j}": rng.normal(100, 20, n).round(2) for j in range(36)}
columns |= {f"i{j}": rng.integers(0, 100_000, n) for j in range(6)}
german = [f"{x:,.2f} €".translate(str.maketrans(",.", ".,")) for x in rng.lognormal(5, 2, 100_000)]
columns["g"] = rng.choice(german, n)
moments = 1_700_000_000_000_000 + rng.integers(0, 10**14, n)
columns["d"] = pl.Series(moments).cast(pl.Datetime("us")).dt.strftime("%d.%m.%Y %H:%M")
columns |= {f"t{j}": rng.choice(["alpha", "beta", "gamma", "delta"], n) for j in range(5)}
columns["f"] = rng.choice(["ja", "nein"], n)
pl.DataFrame(columns).write_csv(sys.argv[1], separator=";")
"""

READ = """
import polars as pl
begin()
pl.read_csv(sys.argv[1], separator=";", infer_schema_length=10_000)
"""

UNDERSTAND = """
from pathlib import Path
import polars as pl
from dplan.tables.chunks import MISSING
from dplan.tables.input import Input
from dplan.columns.deciding import understand
frames = [chunk() for chunk in Input(Path(sys.argv[1])).chunks(raw=True)]
text = pl.concat(frames, rechunk=False).get_columns()
begin()
table, meanings = understand(text, {}, MISSING)
figures["kinds"] = sorted({meaning.type for meaning in meanings.values()})
"""

SCAN = """
import polars as pl
scan = pl.scan_parquet(sys.argv[1], glob=False)
scan.select(pl.all().min(), pl.all().max().name.suffix(" max")).collect(engine="streaming")
"""

FIT_LARGE = """
from dplan import DPLANEnsemble
from dplan.tables import fit_table, from_table
from dplan.tables.sampling import SAMPLE_ROWS
begin()
own = from_table(sys.argv[1], label="label", sample=SAMPLE_ROWS)
figures["reading"] = time.perf_counter() - figures["started"]
fit_table(own, DPLANEnsemble(n_jobs=-1, random_state=0), estimate=False)
"""

LEVELS = """
import sys
import numpy as np, polars as pl
n, rng = int(sys.argv[2]), np.random.default_rng(0)
columns = {f"customer{j}": rng.zipf(1.3, n) % 5_000 for j in range(5)}
table = pl.DataFrame(columns).with_columns(pl.format("c{}", pl.all()).name.keep())
table = table.with_columns(amount=rng.lognormal(3, 1, n), label=(np.arange(n) % 1_000 == 0).astype(np.int8))
table.write_parquet(sys.argv[1])
"""

FIT_LEVELS = """
from dplan import DPLANEnsemble
from dplan.tables import fit_table, from_table
from dplan.tables.model import TableModel
import polars as pl
few = pl.read_parquet(sys.argv[1], n_rows=3_000)
fit_table(from_table(few, label="label"), DPLANEnsemble(n_jobs=-1, random_state=0), estimate=False)  # compiled
begin()
fit_table(from_table(sys.argv[1], label="label"), DPLANEnsemble(n_jobs=-1, random_state=0), estimate=False).save(
    sys.argv[2]
)
TableModel.load(sys.argv[2])
"""

READ_TABLE = """
from dplan.tables import read_table
begin()
read_table(sys.argv[1])
"""

EXPLAIN = """
import numpy as np
from dplan import DPLANEnsemble
from dplan.explain import effects
X = np.random.default_rng(0).random((3000, 200))
detector = DPLANEnsemble(n_jobs=-1, random_state=0).fit(X, np.arange(3000) < 60)
effects(detector, X[:2], X)  # compiled
begin()
found = effects(detector, X[:1000], X[60:])
figures["gap"] = float(abs(found.effects.sum(axis=1) + found.baseline - found.scores).max())
"""

AROUND = """
import json, sys, time
from pathlib import Path
figures = {{}}
def begin():
    figures["started"], figures["before"] = time.perf_counter(), time.process_time()
begin()
{before}
{body}
figures["seconds"] = time.perf_counter() - figures.pop("started")
figures["processor"] = time.process_time() - figures.pop("before")
# Not ru_maxrss, which begins with the memory of the process that started this one.
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
figures["megabytes"] = int(peak.split()[1]) / 1024
print(json.dumps(figures))
"""


def run(n_rows: int = 10_000_000) -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=".") as folder:
        table, model, out = (str(Path(folder, name)) for name in ("table.parquet", "m.dplan", "out.parquet"))
        subprocess.run([sys.executable, "-c", WRITE, table, str(n_rows), str(N_COLUMNS)], check=True)
        fit = measured(FIT, table, model)
        head = "import polars as pl\ntable = pl.read_parquet(sys.argv[1], n_rows=1000)"
        rewrite, score = [], []
        for _ in range(2):  # take turns: other load then hits both
            rewrite.append(measured(REWRITE, table, out))
            score.append(measured(SCORE, table, out, model, before=head))
        scan, large = measured(SCAN, table), measured(FIT_LARGE, table)
        scan["seconds"] = min(scan["seconds"], measured(SCAN, table)["seconds"])
        explain = measured(EXPLAIN)
        csv = str(Path(folder, "table.csv"))
        subprocess.run([sys.executable, "-c", CSV, csv, str(N_CSV_ROWS)], check=True)
        turns = [(measured(READ, csv), measured(UNDERSTAND, csv)) for _ in range(2)]
        read, understand = (min(turn[k]["seconds"] for turn in turns) for k in (0, 1))
        compared = against_before(Path(folder))
    fastest = {
        name: min(run["seconds"] for run in runs) for name, runs in (("re", rewrite), ("score", score))
    }
    size = f"{n_rows:,} × {N_COLUMNS}"
    return show(
        "Tables",
        [
            Bar(
                f"scoring {size}, speed against polars rewriting it",
                fastest["re"] / fastest["score"],
                f"{fastest['score']:.1f} s against {fastest['re']:.1f} s",
                at_least=0.5,
            ),
            Bar(
                "peak memory of scoring it",
                max(run["megabytes"] for run in score),
                "whole process",
                at_most=1000,
                unit=" MB",
            ),
            Bar(
                "dplan fit, 100,000 × 50: preparing against training",
                fit["preparing"] / fit["training"],
                f"{fit['preparing']:.2f} s against {fit['training']:.2f} s",
                at_most=1,
            ),
            Bar(
                f"understanding the columns of a CSV of {N_CSV_ROWS:,} × 50, against polars reading it",
                understand / read,
                f"{understand:.2f} s against {read:.2f} s",
                at_most=1,
            ),
            Bar(
                f"dplan fit, {size}: reading against polars' scan",
                large["reading"] / scan["seconds"],
                f"{large['reading']:.1f} s against {scan['seconds']:.1f} s; whole fit {large['seconds']:.1f} s",
                at_most=2,
            ),
            Bar(
                "peak memory of fitting it",
                large["megabytes"],
                "whole process",
                at_most=1500,
                unit=" MB",
            ),
            Bar("explaining 1,000 × 200", explain["seconds"], "100 background rows", at_most=5, unit=" s"),
            Bar(
                "gap between effects and score difference, × 1e-4",
                explain["gap"] / 1e-4,
                f"{explain['gap']:.1e}",
                at_most=1,
            ),
            *compared,
        ],
    )


def against_before(folder: Path, n_rows: int = 200_000, n_csv_rows: int = N_CSV_ROWS) -> list[Bar]:
    """Compare understanding a table and many levels with an earlier revision, unpacked from the history."""
    source = unpacked(BEFORE, folder / BEFORE)
    if source is None:
        return []
    csv, table, model = (str(folder / name) for name in ("before.csv", "levels.parquet", "levels.dplan"))
    subprocess.run([sys.executable, "-c", CSV, csv, str(n_csv_rows)], check=True)
    subprocess.run([sys.executable, "-c", LEVELS, table, str(n_rows)], check=True)
    bars = []
    for name, most, *run in (
        (f"reading and understanding a CSV of {n_csv_rows:,} × 50", 1.1, READ_TABLE, csv),
        (f"fit and load, {n_rows:,} rows with five columns of 5,000 levels", 1 / 3, FIT_LEVELS, table, model),
    ):
        # By processor time: other load must not count.
        turns = [[measured(*run, source=one)["processor"] for one in (None, source)] for _ in range(2)]
        now, before = (min(turn[k] for turn in turns) for k in (0, 1))
        bars.append(
            Bar(f"{name} / at {BEFORE}", now / before, f"{now:.1f} s and {before:.1f} s", at_most=most)
        )
    return bars


def measured(body: str, *arguments: str, before: str = "", source: str | None = None) -> dict[str, Any]:
    """Run code in a process of its own and return its seconds, processor time, peak memory and what it noted.

    With a source folder, the code runs with that revision.
    """
    code = AROUND.format(before=before, body=body)
    own = environment(**({} if source is None else {"PYTHONPATH": source}))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, env=own
    )
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
