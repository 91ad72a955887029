"""Load crafted model files and score with them, under limits of time and memory that the system enforces.

``python -m tests.persistence.crafted_trials FOLDER FIRST LAST`` tries the files of some seeds and prints a line of JSON
before and after each. FOLDER holds what `tests.persistence.crafting.write_originals` writes. A file that takes more
than two seconds of processor time ends the process, wherever it is; one that takes more than 1 GB gets a MemoryError.
"""

import datetime
import json
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dplan
from dplan.exceptions import ModelFileError, NonFiniteScoreError
from dplan.tables import TableModel
from tests.conftest import PROJECT
from tests.persistence.crafting import crafted, read_originals

SECONDS, MEMORY = 2.0, 2**30
_STANDSTILL = 120  # seconds without a sign, not even of work: a deadlock
_ROWS = 40


def outcome(content: bytes) -> str:
    """Return "scored", "refused: why" or "not finite"; whatever else happens is an error."""
    try:
        _use(dplan.load(content))
    except NonFiniteScoreError:
        return "not finite"
    except ModelFileError as error:
        message = str(error)
        # A cause of another kind is an accident, and its message names no part of the file.
        meant = isinstance(error.__cause__, ValueError | KeyError | RecursionError | None)
        if not meant or not message.isprintable() or len(message) > 500:
            raise
        return "refused: " + message
    except ValueError as error:
        if not str(error).startswith("the table does not match the model: "):
            raise
        return f"refused: {error}"  # a column without a name is no column of a frame
    return "scored"


def _use(model: Any) -> None:
    detector = model.detector if isinstance(model, TableModel) else model
    if isinstance(model, TableModel):
        table = rows_for(model)
        scores = model.score(table)
        reasons = model.reasons(table[:3])
        assert all(isinstance(reason, str) for reason in reasons), reasons
        assert np.isfinite(model.threshold)
    else:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(_ROWS, model.n_features_in_)) * 10.0 ** rng.integers(-3, 4, size=(_ROWS, 1))
        X = X if not hasattr(model, "feature_names_in_") else _named(X, model.feature_names_in_)
        scores = model.anomaly_score(X)
        assert np.isin(model.predict(X), [-1, 1]).all()
    assert scores.shape == (_ROWS,)
    assert np.isfinite(scores).all()
    if hasattr(detector, "score_quantiles_"):
        percentiles = detector._percentile_of(scores)
        assert ((percentiles >= 0) & (percentiles <= 100)).all(), percentiles


def _named(X: np.ndarray, names: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def rows_for(model: TableModel) -> pl.DataFrame:
    """Return rows of the kinds that a model asks for: usual ones, missing ones, unseen ones, extreme ones."""
    rng, columns = np.random.default_rng(0), {}
    for column in model.preparation.columns_:
        if column.kind == "text":
            values: Any = [*column.levels[:3], "unseen", None]
            series = pl.Series(column.name, values, dtype=pl.String)
        elif column.kind == "flag":
            series = pl.Series(column.name, [True, False, None])
        elif column.kind == "date":
            series = pl.Series(
                column.name, [datetime.datetime(2024, 1, 31), datetime.datetime(1, 1, 1), None]
            )
        else:
            series = pl.Series(column.name, [0.0, 1.0, -1e308, 1e308, column.minimum, column.maximum, None])
        columns[column.name] = series.gather(rng.integers(len(series), size=_ROWS))
    return pl.DataFrame(columns)


def main(folder: str, first: str, last: str) -> None:
    """Try the files of some seeds; see the module."""
    originals = read_originals(Path(folder))
    warnings.simplefilter("error")
    for original in originals:  # now everything is loaded that good files need
        assert outcome(original.signed()) == "scored"
    no_limit = resource.RLIM_INFINITY
    for seed in range(int(first), int(last)):
        content = crafted(originals, seed)
        _say({"trying": seed})
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (_bytes("VmSize") + MEMORY, no_limit))
        found = measured(content)
        resource.setrlimit(resource.RLIMIT_AS, (no_limit, no_limit))
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say({"seed": seed, **found})


def measured(content: bytes) -> dict[str, Any]:
    """Return what happens with a file, the seconds of processor time and the bytes that it takes at most."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, started = _bytes("VmRSS"), time.process_time()
    try:
        found = outcome(content)
    except Exception as error:
        found = f"error: {type(error).__name__}: {error}"
    return {"found": found, "seconds": time.process_time() - started, "memory": _bytes("VmHWM") - before}


def _say(what: Mapping[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201


def _bytes(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith(name + ":")).split()[1])


def trials(folder: Path, first: int, last: int, environment: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield what happened with the file of each seed, in other processes: one that dies is followed by another."""
    while first < last:
        command = [
            sys.executable,
            "-m",
            "tests.persistence.crafted_trials",
            str(folder),
            str(first),
            str(last),
        ]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            env=dict(environment),
        ) as worker:
            trying = None
            for line in _lines(worker):
                said = json.loads(line)
                if "trying" in said:
                    trying = said["trying"]
                else:
                    first, trying = said["seed"] + 1, None
                    yield said
            worker.wait()
            complaint = worker.stderr.read() if worker.stderr else ""
        if worker.returncode and trying is None:
            raise RuntimeError(f"no file was tried: {complaint[-2_000:]}")
        if trying is not None:
            first = trying + 1
            died = "over the limit of time" if worker.returncode == -signal.SIGPROF else complaint[-500:]
            yield {
                "seed": trying,
                "found": f"died ({worker.returncode}): {died}",
                "seconds": SECONDS,
                "memory": 0,
            }


def _lines(worker: "subprocess.Popen[str]") -> Iterator[str]:
    """Yield a worker's lines; kill it if it stands still."""
    while True:
        watch = threading.Timer(_STANDSTILL, worker.kill)
        watch.start()
        try:
            line = worker.stdout.readline() if worker.stdout else ""
        finally:
            watch.cancel()
        if not line:
            return
        yield line


if __name__ == "__main__":
    main(*sys.argv[1:])
