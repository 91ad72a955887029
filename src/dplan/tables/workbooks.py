"""The rows of a sheet of an Excel workbook, with their numbers in the sheet."""

from __future__ import annotations

import codecs
import difflib
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from dplan.exceptions import needs
from dplan.tables.chunks import Chunk, tidy
from dplan.tables.csv_syntax import check_names
from dplan.tables.footers import FOOTER_ROWS, footer_of
from dplan.tables.layout import SAMPLE_ROWS, Layout, check_rows_to_skip, start_of
from dplan.tables.workbook_limits import check_size
from dplan.text import first_line, shown

__all__ = ["WORKBOOKS", "first_cells", "is_workbook", "sheet_chunks", "sheet_names", "texts_of"]

_SAMPLE_BYTES = 4096
_NEVER_IN_TEXT = {*range(9), *range(14, 32)} - {27}

# What the engine logs about types is not for people, unless they have asked for logs.
logging.getLogger("fastexcel").addHandler(logging.NullHandler())

WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")  # all that the engine reads


def sheet_chunks(
    path: Path,
    sheet: str | None,
    rows: int | None,
    missing: tuple[str, ...],
    layout: Layout,
    *,
    raw: bool,
    note: Callable[[str], object],
) -> Iterator[Chunk]:
    """Yield the chunks of a sheet, by default the first one; what is found out about it is passed to `note`."""
    book = _opened(path)
    chosen = _chosen(path, book, sheet)
    if len(book.sheet_names) > 1:
        others = ", ".join(shown(name) for name in book.sheet_names if name != chosen)
        note(f"the sheet {shown(chosen)} is read; there is also {others} (--sheet)")
    n_sample = SAMPLE_ROWS + (layout.header or 0) + layout.skip + (layout.below or 0)
    sample = _cells(path, book, chosen, n_rows=n_sample)
    if not any(any(row) for row in sample):
        raise ValueError(f"{path.name}: the sheet {shown(chosen)} is empty; choose another one (--sheet)")
    try:
        start = start_of(sample, layout)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    for text in start.notes:
        note(text)
    check_names(path.name, [name for name in start.names if name is not None])
    table, numbers = _read(path, book, chosen, start.names, start.first)
    n_cut = layout.footer
    if n_cut is None:
        last = [[] if row is None else row for row in texts_of(table[-FOOTER_ROWS:])]
        n_cut = footer_of(last, len(start.names)) if table.height else 0
        if n_cut:
            which = f"{n_cut} rows are" if n_cut > 1 else "row is"
            note(f"the last {which} not part of the table and skipped (--footer-rows)")
    try:
        check_rows_to_skip(n_cut, table.height, "at the end", "--footer-rows")
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    if n_cut:  # types are those of the other rows
        n_rows = int(numbers[len(numbers) - n_cut]) - 1 - start.first if n_cut < len(numbers) else 0
        table, numbers = _read(path, book, chosen, start.names, start.first, n_rows)
    if not raw:
        table = table.with_columns(tidy(pl.col(pl.String), missing).name.keep())
    step = rows or max(table.height, 1)
    for begin in range(0, max(table.height, 1), step):
        place = partial(_place, path.name, numbers[begin:])
        yield Chunk(partial(table.slice, begin, step), place, min(1.0, (begin + step) / max(table.height, 1)))


def is_workbook(path: Path) -> bool:
    """Return whether a file is a workbook, by its name."""
    return path.suffix.lower() in WORKBOOKS


def sheet_names(path: Path) -> list[str]:
    """Return the names of the sheets of a workbook."""
    return list(_opened(path).sheet_names)


def first_cells(path: Path, sheet: str | None, n_rows: int | None = 1) -> list[list[str]]:
    """Return the first rows of a sheet, or all, as texts."""
    book = _opened(path)
    return _cells(path, book, _chosen(path, book, sheet), n_rows=n_rows)


def texts_of(table: pl.DataFrame) -> list[list[str]]:
    """Return the cells of a table as texts, empty ones for missing values."""
    return [["" if cell is None else str(cell) for cell in row] for row in table.rows()]


def _place(name: str, numbers: NDArray[np.int64], row: int) -> str:
    return f"{name}, row {numbers[row]}"


def _opened(path: Path) -> Any:
    try:
        import fastexcel
    except ModuleNotFoundError as error:
        raise needs("reading Excel files", "fastexcel") from error
    check_size(path)
    try:
        return fastexcel.read_excel(path)
    except Exception as error:  # fastexcel has its own errors, and goes by the name alone
        content = path.read_bytes()
        with suppress(Exception):
            return fastexcel.read_excel(content)
        raise ValueError(f"{path.name} {_instead(path, content) or _unreadable(error)}") from error


def _unreadable(error: Exception) -> str:
    return f"cannot be read as Excel: {first_line(error)}"


def _instead(path: Path, content: bytes) -> str:
    """Return what a file is that only has the name of a workbook; empty if that is not clear."""
    first = content[:_SAMPLE_BYTES].removeprefix(codecs.BOM_UTF8).lstrip()
    if first.startswith(b"<"):
        return "is an HTML or XML page, not a workbook; open it in a spreadsheet program and save it as .xlsx"
    if "EncryptedPackage".encode("utf-16-le") in content:
        return "is protected by a password; open it in a spreadsheet program and save it without one"
    if first and not set(first) & _NEVER_IN_TEXT:
        return f"is a text file, not a workbook; rename it, as in {path.stem.removesuffix('.csv')}.csv"
    return ""


def _chosen(path: Path, book: Any, sheet: str | None) -> str:
    names: list[str] = book.sheet_names
    if sheet is None:
        return names[0]
    if sheet in names:
        return sheet
    near = difflib.get_close_matches(sheet, names, n=1)
    hint = f"did you mean {shown(near[0])}? Its" if near else "its"
    raise ValueError(
        f"{path.name} has no sheet {shown(sheet)}; {hint} sheets are {', '.join(map(shown, names[:10]))} (--sheet)"
    )


def _cells(path: Path, book: Any, sheet: str, n_rows: int | None) -> list[list[str]]:
    found = _loaded(path, book, sheet, header_row=None, skip_rows=0, n_rows=n_rows, dtypes="string")
    return texts_of(found)


def _loaded(path: Path, book: Any, sheet: str, **options: Any) -> pl.DataFrame:
    try:
        return book.load_sheet(sheet, **options).to_polars()  # type: ignore[no-any-return]
    except Exception as error:
        if "no data" in str(error).lower() or "out of bounds" in str(error).lower():
            return pl.DataFrame()
        raise ValueError(f"{path.name} {_unreadable(error)}") from error


def _read(
    path: Path, book: Any, sheet: str, names: list[str | None], first: int, n_rows: int | None = None
) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """Return the rows that are not empty, and their numbers in the sheet."""
    columns = [f"\1{place}" if name is None else name for place, name in enumerate(names)]
    table = _loaded(
        path, book, sheet,
        header_row=None, column_names=columns, skip_rows=first, n_rows=n_rows, schema_sample_rows=None,
    )  # fmt: skip
    if table.width == 0:
        table = pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    table = table.select(columns)
    texts, others = cs.string().str.strip_chars() != "", (~cs.string()).is_not_null()
    some = table.select(pl.any_horizontal(texts, others).fill_null(value=False)) if table.width else table
    filled = some.to_series() if some.width else pl.Series([])
    numbers = np.flatnonzero(filled.to_numpy()) + first + 1
    table = table.filter(filled)
    for place in [place for place, name in enumerate(names) if name is None]:
        values = table[columns[place]]
        if values.null_count() < len(values):
            row = int(values.is_not_null().arg_max() or 0)
            raise ValueError(
                f"{path.name}, row {numbers[row]}: column {place + 1} has a value here, but no name; add one to the "
                "header"
            )
    return table.select([_whole(table[name]) for name in names if name is not None]), numbers


def _whole(column: pl.Series) -> pl.Series:
    """Return numbers that are all whole as integers, and times that are all midnight as dates: Excel has no others."""
    if column.null_count() == len(column):
        return column
    if column.dtype.is_float():
        exact = column.is_null() | ((column == column.floor()) & (column.abs() < 2**53))
        return column.cast(pl.Int64) if exact.all() else column
    if column.dtype == pl.Datetime and (column.dt.truncate("1d") == column).all():
        return column.cast(pl.Date)
    return column
