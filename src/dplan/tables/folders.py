"""Scoring a folder of Parquet parts: in parallel on this machine, or on a Dask cluster, to which the model travels.

Whoever scores a part needs nothing but the model's bytes and the part's path; on a cluster, the paths must lead to the
same files on every machine.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path

import polars as pl

from dplan.persistence.atomic import written_whole
from dplan.tables.chunks import chunks
from dplan.tables.model import TableModel
from dplan.tables.scoring import Outcome, Wish, decided, finish, score_chunk, working_folder

__all__ = ["parts_of", "score_parts", "told_apart"]

ScorePart = Callable[[str, str], object]


def parts_of(table: str) -> list[Path] | None:
    """Return the Parquet parts of a folder or glob, or None if the name is one of a single file.

    Examples
    --------
    >>> parts_of("payments.csv") is None
    True
    """
    if Path(table).is_dir():
        found = sorted(Path(table).glob("*.parquet"))
    elif any(sign in table for sign in "*?[") and not Path(table).exists():
        found = sorted(Path(name) for name in glob.glob(table, recursive=True))
    else:
        return None
    if not found:
        raise FileNotFoundError(f"there are no Parquet files in {table}")
    for path in found:
        if path.suffix != ".parquet":
            raise ValueError(f"{path} is no Parquet file; a folder or glob must hold nothing else")
    return found


def told_apart(model: bytes, inputs: list[Path]) -> str:
    """Tell a job from others, by the content of the model and the names, sizes and times of the tables."""
    facts = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in inputs]
    return hashlib.sha256(model).hexdigest() + json.dumps(facts)


def score_parts(
    model: Path,
    inputs: list[Path],
    output: Path,
    wish: Wish,
    *,
    chunk_rows: int,
    n_jobs: int,
    scheduler: str | None = None,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Outcome:
    """Score Parquet parts into one file, or into a folder with one output part per input part.

    Parameters
    ----------
    model : path
        The model file.
    inputs : list of path
        The parts.
    output : path
        A ``.csv``, ``.jsonl`` or ``.parquet`` file; any other name is a folder.
    wish : Wish
        What the output should hold.
    chunk_rows : int
        Rows of a part that are scored at a time.
    n_jobs : int
        Parts that are scored at a time, without a cluster.
    scheduler : str, optional
        Address of a Dask scheduler.
    progress : callable
        Called with the number of parts done and the number of all.
    """
    one_file = output.suffix in (".csv", ".jsonl", ".parquet")
    if not one_file and wish.top:
        raise ValueError("--top gives one short list: name one output file, such as top.csv")
    names = [path.name for path in inputs]
    if not one_file and len(set(names)) < len(names):
        raise ValueError("two parts have the same name: write them into one output file")
    content = model.read_bytes()
    job = f"{told_apart(content, inputs)} {json.dumps(asdict(wish))}"
    with working_folder(output, job) as folder:
        scored = [folder / f"part-{number:06}.parquet" for number in range(len(inputs))]
        missing = [
            (str(path.resolve()), str(part.resolve()))
            for path, part in zip(inputs, scored, strict=True)
            if not part.exists()
        ]
        n_there = len(inputs) - len(missing)
        run = partial(_on_cluster, scheduler) if scheduler else partial(_on_this_machine, n_jobs)
        for done, _ in enumerate(run(content, missing, wish, chunk_rows), start=n_there + 1):
            progress(done, len(inputs))
        loaded = TableModel.load(content)
        if one_file:
            return finish(scored, output, output.suffix[1:], loaded, wish, folder, n_there)
        return _finish_folder(scored, names, output, loaded, wish, folder, n_there)


def score_part(content: bytes, source: str, target: str, wish: Wish, chunk_rows: int) -> None:
    """Score one part; runs on whatever machine the part is scored on."""
    model = _loaded(content)
    done = [score_chunk(model, chunk(), wish) for chunk in chunks(Path(source), "parquet", chunk_rows)]
    with written_whole(target) as temporary:
        pl.concat(done).write_parquet(temporary, compression="lz4")


@lru_cache(maxsize=2)
def _loaded(content: bytes) -> TableModel:
    return TableModel.load(content)


def _on_this_machine(
    n_jobs: int, content: bytes, jobs: list[tuple[str, str]], wish: Wish, chunk_rows: int
) -> Iterator[object]:
    from joblib import Parallel, delayed

    # Reading and scoring release the interpreter lock, so threads do: no second start of Python, one copy of the model.
    run = Parallel(n_jobs=n_jobs, backend="threading", return_as="generator_unordered")
    yield from run(delayed(score_part)(content, *job, wish, chunk_rows) for job in jobs)


def _on_cluster(
    scheduler: str, content: bytes, jobs: list[tuple[str, str]], wish: Wish, chunk_rows: int
) -> Iterator[object]:
    try:
        from distributed import Client, as_completed
    except ModuleNotFoundError as error:
        raise ImportError("--backend dask needs Dask: run  pip install 'dplan-ad[dask]'") from error
    with Client(scheduler, timeout=5) as client:  # type: ignore[no-untyped-call]
        # The model is the result of a task and not scattered: if the workers that hold it die, it is made again.
        model = client.submit(bytes, content, pure=False)
        futures = [client.submit(score_part, model, *job, wish, chunk_rows, pure=False) for job in jobs]
        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            yield future.result()


def _finish_folder(
    scored: list[Path],
    names: list[str],
    output: Path,
    model: TableModel,
    wish: Wish,
    folder: Path,
    resumed: int,
) -> Outcome:
    rows, n_rows, n_alerts, threshold = decided(scored, model, wish)
    output.mkdir(exist_ok=True)
    start = 0
    for name, part in zip(names, scored, strict=True):
        height = pl.scan_parquet(part).select(pl.len()).collect().item()
        whole = folder / f"whole-{name}"
        rows.slice(start, height).collect().write_parquet(whole)
        os.replace(whole, output / name)
        start += height
    return Outcome(n_rows, n_alerts, threshold, resumed)
