"""Rows with cells that cannot be used: stop, leave the rows out, or treat the cells as missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import CellError
from dplan.persistence.atomic import atomic_write
from dplan.persistence.previous import previous
from dplan.tables.writing import Output, neutralised

__all__ = ["OnError", "Usable", "errors_written", "n_bad_cells", "without_bad_cells"]

OnError = Literal["fail", "skip", "null"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Usable(Generic[Result]):
    """What a step returned, and the rows that it could use.

    Attributes
    ----------
    result : object
        What the step returned.
    rows : polars.DataFrame
        The rows that it was given in the end.
    kept : ndarray of int
        Their positions in the frame, from 0.
    bad : polars.DataFrame
        The rows with cells that could not be used, if there are any, as text, after the columns ``dplan_row_number``
        (from 1), ``dplan_column`` and ``dplan_problem``.
    """

    result: Result
    rows: pl.DataFrame
    kept: NDArray[np.int64]
    bad: pl.DataFrame


def without_bad_cells(
    rows: pl.DataFrame,
    step: Callable[[pl.DataFrame], Result],
    on_error: OnError,
    positions: NDArray[np.int64] | None = None,
) -> Usable[Result]:
    """Call a step with rows; as long as it raises a `CellError`, change the rows and call it again.

    Parameters
    ----------
    rows : polars.DataFrame
        The rows.
    step : callable
        Takes the rows; it may be called several times.
    on_error : {"fail", "skip", "null"}
        Raise the error, leave out the rows, or replace the cells by missing values.
    positions : ndarray of int, optional
        The position of each row in the whole table, by which bad rows are numbered; by default, that in the frame.

    Examples
    --------
    >>> def total(rows):
    ...     bad = rows["a"].cast(pl.Int64, strict=False).is_null() & rows["a"].is_not_null()
    ...     if bad.any():
    ...         raise CellError("a", bad.arg_max(), "not a number", rows=tuple(bad.arg_true()))
    ...     return rows["a"].cast(pl.Int64).sum()
    >>> done = without_bad_cells(pl.DataFrame({"a": ["1", "x", "3"]}), total, "skip")
    >>> done.result, done.kept.tolist(), done.bad.rows()
    (4, [0, 2], [(2, 'a', 'not a number', 'x')])
    """
    kept = np.arange(rows.height)
    positions = kept if positions is None else positions
    bad: list[pl.DataFrame] = []
    while True:
        try:
            result = step(rows)
        except CellError as error:
            if on_error == "fail":
                raise
            marked = np.zeros(rows.height, dtype=np.bool_)
            marked[list(error.rows)] = True
            bad.append(_described(rows.filter(marked), positions[kept[marked]], error.column, error.problem))
            if on_error == "skip":
                rows, kept = rows.filter(~marked), kept[~marked]
            else:
                rows = rows.with_columns(
                    pl.when(~pl.Series(marked)).then(pl.col(error.column)).alias(error.column)
                )
        else:
            found = pl.concat(bad).sort("dplan_row_number", maintain_order=True) if bad else pl.DataFrame()
            return Usable(result, rows, kept, found)


def n_bad_cells(bad: pl.DataFrame | None) -> dict[str, int]:
    """Return how many cells of each column could not be used."""
    if bad is None or not bad.height:
        return {}
    return dict(bad.group_by("dplan_column", maintain_order=True).len().rows())


@contextmanager
def errors_written(bad: pl.DataFrame | None, output: Output, on_error: OnError) -> Iterator[Path | None]:
    """Write the rows that were left out as CSV beside an output, which the block writes; yield the file.

    The file gets its name when the block is done. That of an earlier run is kept as `previous`, even if there is
    nothing to write now, because somebody may have worked on it.
    """
    if output.path is None:
        yield None
        return
    is_needed = on_error == "skip" and bad is not None and bad.height > 0
    with atomic_write(output.errors) if is_needed else nullcontext() as temporary:
        if temporary is not None and bad is not None:
            neutralised(bad.lazy()).collect().write_csv(temporary)
        yield output.errors if is_needed else None
        with suppress(FileNotFoundError):
            os.replace(os.path.realpath(output.errors), previous(output.errors))


def _described(rows: pl.DataFrame, positions: NDArray[np.int64], column: str, problem: str) -> pl.DataFrame:
    texts = [series.cast(pl.String) for series in rows if not series.dtype.is_nested()]
    return pl.DataFrame(
        [
            pl.Series("dplan_row_number", positions + 1),
            pl.Series("dplan_column", [column] * rows.height),
            pl.Series("dplan_problem", [problem] * rows.height),
            *(series for series in texts if not series.name.startswith("dplan_")),
        ]
    )
