"""Scores and review queues in Python, for files and frames as people have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dplan.columns.frames import as_frame
from dplan.persistence.claim import claimed
from dplan.scoring.kinds import KindsOfRows
from dplan.scoring.queue import Queue, review_rows, write_queue
from dplan.scoring.scorer import AlertPolicy, Scorer
from dplan.scoring.table import Order, Outcome, score_table
from dplan.tables.bad_cells import OnError
from dplan.tables.chunks import Chunk
from dplan.tables.databases import Database, into_table, is_url
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from dplan.tables.writing import Output, format_of_output

__all__ = ["as_model", "chunks_of", "name_of", "queue_file", "score_file", "target_of"]


def as_model(model: Any) -> TableModel:
    """Return a model of a table, given itself, its file or a fitted `TableDetector`."""
    if isinstance(model, str | Path):
        return TableModel.load(model)
    fitted = model.to_model() if hasattr(model, "to_model") else model
    if not isinstance(fitted, TableModel):
        raise TypeError(
            f"expected a model of a table, its file or a fitted TableDetector, got {type(model).__name__}"
        )
    return fitted


def chunks_of(table: Any, model: TableModel) -> Iterator[Chunk]:
    """Yield the chunks of a file, a folder, an `Input` or a frame, read as the model's training table was."""
    if isinstance(table, Input | str | Path):
        yield from _as_input(table, model).chunks()
    else:
        frame = as_frame(table)
        yield Chunk(lambda: frame)


def name_of(given: Any, otherwise: str) -> str:
    """Return what a page calls a model or a table."""
    if is_url(given):
        return Database(given).name
    if isinstance(given, str | Path):
        return Path(given).name
    return given.name if isinstance(given, Input) else otherwise


def _as_input(table: Input | str | Path, model: TableModel) -> Input:
    if not isinstance(table, Input | str | Path):
        raise TypeError(
            f"table must be a file or a folder, got {type(table).__name__}; frames are scored by "
            "model.score(frame), and model.alerts(frame) gives the alerts with their reasons"
        )
    return table if isinstance(table, Input) else Input(table).like(model)


@contextmanager
def target_of(
    output: str | Path | Database, table: Input, how: Output, on_error: OnError = "fail"
) -> Iterator[Output]:
    """Yield where a table's scores are written: a file, a folder, or a file that goes into a database.

    Examples
    --------
    >>> import io
    >>> with target_of("scored.parquet", Input(io.BytesIO()), Output(None, overwrite=False)) as target:
    ...     target.file.name, target.format, target.overwrite
    ('scored.parquet', 'parquet', False)
    """
    if is_url(output):
        if on_error == "skip":
            raise ValueError(
                "rows that are skipped are written beside the output, and a database has no such place; treat cells "
                "that cannot be used as missing (null), or write a file"
            )
        database = output if isinstance(output, Database) else Database(str(output))
        with into_table(database, overwrite=how.overwrite) as path:
            yield replace(how, path=path, format="parquet")
        return
    path = Path(output)
    is_folder = str(output).endswith("/") or path.is_dir() or (not table.is_single and not path.suffix)
    if is_folder and table.is_single:
        raise ValueError(f"{output} is a folder; name a file to write")
    yield replace(how, path=path, format="folder" if is_folder else format_of_output(path))


def score_file(
    model: Any,
    table: str | Path | Input,
    output: str | Path,
    *,
    budget: int | None = None,
    threshold: float | None = None,
    top: int | None = None,
    explore: int | None = None,
    novelty: bool = False,
    explain: bool = False,
    order: Order | None = None,
    keep: Sequence[str] = (),
    on_error: OnError = "fail",
    skip_labelled: bool = False,
    kinds: str | Path | None = None,
    overwrite: bool = False,
    n_jobs: int = 2,
) -> Outcome:
    """Score a table of any size into a file or folder, as ``dplan score`` does.

    Parameters
    ----------
    model : TableModel, TableDetector or path
        The model.
    table : path or Input
        A file, a folder or a glob pattern.
    output : path
        The file to write, in the format that its name says; a folder for one file per input file; or the table of a
        database, ``postgresql://host/database#table``.
    budget, threshold : int or float, optional
        The number of alerts, or the lowest score of an alert; by default the model's threshold.
    top : int, optional
        Write only so many rows with the highest scores.
    explore : int, optional
        Reserve so many alerts of the budget for the most novel rows that the score would miss.
    novelty : bool, default=False
        Write how unlike the training rows each row is, from 0 to 100, whatever the labels say; always with `explore`.
    explain : bool, default=False
        Write the reasons for each alert or, with `top`, for each row.
    order : {"alerts", "file"}, optional
        Write the alerts first, or all rows as in the table; by default the alerts if there is a budget.
    keep : sequence of str
        Columns to copy, in addition to the ids.
    on_error : {"fail", "skip", "null"}
        What to do about a cell that cannot be used: stop, leave out its row, or treat it as missing.
    skip_labelled : bool, default=False
        Leave out rows that already have a verdict.
    kinds : path, optional
        A file of kinds from `dplan.kinds`: adds the kind of each alert; rows of muted kinds are no alerts.
    overwrite : bool, default=False
        Replace the output if it exists.
    n_jobs : int, default=2
        Chunks scored at the same time.

    Returns
    -------
    Outcome
        The number of rows and alerts, and how the table differs from training.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.write_csv(f"{folder}/new.csv")
    ...     outcome = score_file(model, f"{folder}/new.csv", f"{folder}/scored.csv", budget=2, explain=True)
    ...     pl.read_csv(f"{folder}/scored.csv")["row"].to_list()[:2], outcome.alerts
    ([102, 101], 2)
    """
    loaded = as_model(model)
    found = _as_input(table, loaded)
    scorer = Scorer(
        loaded,
        keep=keep,
        on_error=on_error,
        skip_labelled=skip_labelled,
        alerts=AlertPolicy(threshold, budget, top, explore),
        novelty=novelty,
        kinds=KindsOfRows.load(kinds, loaded),
    )
    inputs = [Path(one) for one in (model, kinds) if isinstance(one, str | Path)]
    with target_of(output, found, Output(None, overwrite=overwrite), on_error) as written:
        return score_table(scorer, found, written, explain=explain, order=order, inputs=inputs, n_jobs=n_jobs)


def queue_file(
    model: Any,
    table: Any,
    output: str | Path | None = None,
    *,
    rows: int = 20,
    on_error: OnError = "fail",
    skip_labelled: bool = False,
    overwrite: bool = False,
) -> Queue:
    """Choose the rows of a table to look at next, and write them for a spreadsheet, as ``dplan score --review`` does.

    Parameters
    ----------
    model : TableModel, TableDetector or path
        The model.
    table : path, Input or frame
        The table.
    output : path, optional
        The file to write: .xlsx, .csv or .tsv.
    rows : int, default=20
        Number of rows.
    on_error, skip_labelled, overwrite
        As in `score_file`.

    Returns
    -------
    Queue
        The rows, which `dplan.tables.read_queue` reads back from the file with their verdicts.

    Examples
    --------
    >>> import polars as pl
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> queue_file(model, pl.DataFrame({"amount": [10, 920, 11]}), rows=1).rows["amount"].to_list()
    [920]
    """
    loaded = as_model(model)
    scorer = Scorer(loaded, on_error=on_error, skip_labelled=skip_labelled)
    if output is None:
        return review_rows(scorer, chunks_of(table, loaded), rows)
    written = Output(Path(output), overwrite=overwrite)
    inputs = [Path(model)] if isinstance(model, str | Path) else []
    if isinstance(table, Input | str | Path):
        claim = written.claimed(_as_input(table, loaded), *inputs)
    else:
        claim = claimed(written.file, inputs, overwrite=overwrite)
    with claim:
        queue = review_rows(scorer, chunks_of(table, loaded), rows)
        write_queue(queue, written)
    return queue
