"""The review page: opening a table against scoring it, and a verdict against a bare line that is synced to disk.

Clients alternate between verdicts and bare lines in the same folder while the detector keeps learning, so that other
load hits both alike.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.bars import Bar, interleaved, show
from benchmarks.startup import BEFORE, environment, python, unpacked

ROWS, COLUMNS = 100_000, 50
LONG, NUMBERS = 200_000, 24  # of a CSV file, which also has texts and a date
CLIENTS, VERDICTS = 2, 400

FIT = """
import sys
import polars as pl
from dplan import DPLANEnsemble
from dplan.tables import fit_table, from_table
table = pl.read_parquet(sys.argv[1], n_rows=20_000).with_columns(label=(pl.int_range(20_000) % 500 == 0).cast(pl.Int64))
detector = DPLANEnsemble(n_jobs=-1, random_state=0, n_steps=4000, warmup_steps=2000)
fit_table(from_table(table, label="label"), detector, estimate=False).save(sys.argv[2])
"""


FIT_CSV = """
import sys
from dplan import DPLANEnsemble
from dplan.tables import fit_table, from_table, read_table
detector = DPLANEnsemble(n_jobs=-1, random_state=0, n_steps=4000, warmup_steps=2000)
labelled = from_table(read_table(sys.argv[1]), label="label", id="id")
fit_table(labelled, detector, estimate=False).save(sys.argv[2])
"""


def _opened(model: Path, table: Path, folder: Path, source: str | None = None) -> None:
    """Start the command, and stop it when the table is open; ``source`` is the package of an earlier revision."""
    command = [sys.executable, "-m", "dplan", "review", str(model), str(table), "--no-browser"]
    options = ["--log", str(folder / "opening.jsonl"), "--model-out", str(folder / "opening.dplan")]
    own = environment(PYTHONUNBUFFERED="1", **({"PYTHONPATH": source} if source else {}))
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=own) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Opened"):
                break
        else:
            raise RuntimeError("the table was not opened")
        process.kill()


def _scored(model: Path, table: Path, folder: Path) -> None:
    options = ["-m", str(model), "-o", str(folder / "scored.parquet"), "--overwrite"]
    command = [sys.executable, "-m", "dplan", "score", str(table), *options]
    subprocess.run(command, check=True, capture_output=True)


def against_before() -> list[Bar]:
    """Compare opening a long CSV file with an earlier revision, which is left out if the history does not have it.

    Both include starting the command; each revision opens the table with a model that it has fitted.
    """
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name).resolve()
        before = unpacked(BEFORE, folder / BEFORE)
        if before is None:
            return []
        table, train = folder / "long.csv", folder / "train.csv"
        rows = _long_table()
        rows.write_csv(table)
        rows[:20_000].with_columns(label=(pl.int_range(20_000) % 500 == 0).cast(pl.Int64)).write_csv(train)
        jobs = []
        for revision, source in (("now", None), (BEFORE, before)):
            model, own = folder / f"{revision}.dplan", folder / f"opened {revision}"
            own.mkdir()
            python("-c", FIT_CSV, str(train), str(model), source=source)
            jobs.append(lambda m=model, o=own, s=source: _opened(m, table, o, s))
        now, then = interleaved(jobs, rounds=4)
    detail = f"{now:.1f} s against {then:.1f} s, CSV with {LONG:,} × {len(rows.columns)}; aim: a third"
    return [Bar(f"opening a table, against {BEFORE}", now / then, detail)]


def _long_table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    X = rng.normal(100, 20, (NUMBERS, LONG)).round(2)
    X[:, ::500] += 90
    return pl.DataFrame(
        {
            "id": [f"r{i:06}" for i in range(LONG)],
            **{f"c{j}": X[j] for j in range(NUMBERS)},
            "country": rng.choice(["DE", "FR", "IT", "PL", "ES"], LONG),
            "shop": rng.choice([f"s{i}" for i in range(300)], LONG),
            "day": np.datetime64("2020-01-01") + rng.integers(0, 1400, LONG),
        }
    )


@dataclass
class Latencies:
    """Seconds of verdicts over HTTP, of those while the detector learned, of bare lines, and of refits."""

    verdicts: list[float] = field(default_factory=list)
    meanwhile: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    refits: list[float] = field(default_factory=list)


def _latencies(model: Path, table: Path, folder: Path) -> Latencies:
    import http.client

    from dplan.review.server import Review
    from dplan.review.table import as_file

    found = Latencies()
    with Review(
        as_file(table, None, None, folder), model, log=folder / "v.jsonl", model_out=folder / "m.dplan"
    ) as page:
        page.start()
        page.wait_until_opened()
        port, token = page.url.split(":")[2].split("/?token=")
        rows = page.session.queue()
        digests = [
            page.session.key(row).digest for row in rows
        ]  # from now on, their verdicts count in any round

        def client(number: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", int(port))
            headers = {"Cookie": f"dplan-review-{port}={token}", "Content-Type": "application/json"}
            for path in ("/api/state", "/api/queue"):  # as a page does when it is opened
                connection.request("GET", path, headers=headers)
                connection.getresponse().read()
            file = os.open(folder / f"bare-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for place in range(number, CLIENTS * VERDICTS, CLIENTS):
                verdict = "anomaly" if place % 3 == 0 else "normal"
                body = {
                    "row": rows[place],
                    "digest": digests[place],
                    "verdict": verdict,
                    "window": str(number),
                }
                learning = page.session.refitting
                started = time.perf_counter()
                connection.request("POST", "/api/verdict", json.dumps(body), headers)
                answer = connection.getresponse()
                answer.read()
                found.verdicts.append(time.perf_counter() - started)
                if learning:
                    found.meanwhile.append(found.verdicts[-1])
                assert answer.status == 200, answer.status
                started = time.perf_counter()
                os.write(file, b"x" * 700 + b"\n")
                os.fsync(file)
                found.bare.append(time.perf_counter() - started)
            os.close(file)
            connection.close()

        threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        while page.session.refitting:
            time.sleep(0.1)
        found.refits = [line["seconds"] for line in page.session.log.records if line["kind"] == "refit"]
    return found


def run() -> bool:
    """Print the figures and return whether the bars hold."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        table, model = folder / "table.parquet", folder / "model.dplan"
        X = np.random.default_rng(0).normal(100, 20, (COLUMNS, ROWS)).round(2)
        X[:, ::500] += 90
        pl.DataFrame({f"c{j}": X[j] for j in range(COLUMNS)}).write_parquet(table)
        subprocess.run([sys.executable, "-c", FIT, str(table), str(model)], check=True)
        scoring, opening = interleaved(
            [lambda: _scored(model, table, folder), lambda: _opened(model, table, folder)], rounds=3
        )
        found = _latencies(model, table, folder)
    p99, bare_p99 = np.quantile(found.verdicts, 0.99), np.quantile(found.bare, 0.99)
    longest, refit = max(found.meanwhile), min(found.refits)
    size = f"{ROWS:,} × {COLUMNS}"
    return show(
        "Review page",
        [
            *against_before(),
            Bar(
                "opening a table, against dplan score",
                opening / scoring,
                f"{opening:.1f} s against {scoring:.1f} s, {size}",
                at_most=1.5,
            ),
            Bar(
                "a verdict, against a bare synced line (99th percentiles)",
                p99 / bare_p99,
                f"{1000 * p99:.1f} ms against {1000 * bare_p99:.1f} ms; {len(found.verdicts)} verdicts, "
                f"{CLIENTS} clients",
                at_most=5,
            ),
            Bar(
                "the longest verdict during a refit, against a refit",
                longest / refit,
                f"{1000 * longest:.1f} ms against {refit:.1f} s; {len(found.meanwhile)} verdicts during "
                f"{len(found.refits)} refits",
                at_most=0.1,
            ),
            Bar("a verdict, 99th percentile", 1000 * p99, "aim: 50 ms", unit=" ms"),
        ],
    )
