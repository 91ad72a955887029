"""A table as an Excel workbook that people work in: a frozen header with filters, readable widths, choices in cells."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dplan.columns import values_of
from dplan.exceptions import needs

if TYPE_CHECKING:
    from dplan.tables.model import TableModel

__all__ = ["as_read", "check_workbooks", "write_workbook"]

_MOST_ROWS, _MOST_COLUMNS = 1_048_575, 16_384  # of a sheet, below the header
_LONGEST = 32_767  # characters of a cell
_EXACT = 10**15  # a spreadsheet keeps fifteen digits of a number
_FIRST_DAY = date(1900, 3, 1)  # before it, spreadsheets count days differently
_LOOKED_AT = 200  # rows that decide how wide a column is
_NARROWEST, _WIDEST, _CHARACTER = 64, 480, 7  # pixels

# Text stays text when somebody edits the cell: no formula, no number, no date.
_AS_TEXT = {"num_format": "@", "quote_prefix": True}


def check_workbooks() -> None:
    """Raise an error if workbooks cannot be written here."""
    try:
        import xlsxwriter  # noqa: F401
    except ImportError as error:
        raise needs("writing Excel files", "xlsxwriter") from error


def as_read(rows: pl.DataFrame, names: Collection[str], model: TableModel) -> pl.DataFrame:
    """Return rows with the text of some columns as the numbers and dates that a model reads there.

    A column with a text that is neither stays text.

    Examples
    --------
    >>> from dplan import IForest
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"paid": ["1.200,50 €", "3.100 €", "2,10 €"] * 40, "fraud": [0, 0, 0, 0, 1, 0] * 20})
    >>> model = fit_table(from_table(table, label="fraud"), IForest(random_state=0), estimate=False)
    >>> as_read(pl.DataFrame({"id": ["007"], "paid": ["1.234,50 €"]}), ["id", "paid"], model).rows()
    [('007', 1234.5)]
    """
    columns = model.preparation.columns_
    shown = {column.name: column for column in columns if column.is_as_shown and column.name in names}
    found = {}
    for name in set(shown) & set(rows.columns):
        if rows[name].dtype == pl.String:
            with suppress(ValueError):
                found[name] = values_of(shown[name], rows[name], model.missing)
    return rows.with_columns(**found)


def write_workbook(
    rows: pl.DataFrame,
    target: Path | io.BytesIO,
    *,
    sheet: str = "Rows",
    choices: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write rows as a workbook of one sheet.

    Numbers and dates stay what they are, as far as a spreadsheet can hold them; what it would change, such as numbers
    of more than fifteen digits, becomes text.

    Parameters
    ----------
    rows : polars.DataFrame
        The rows.
    target : path or buffer
        The file to write.
    sheet : str
        The name of the sheet.
    choices : mapping, optional
        Column → values that its cells offer in a list; other values can be typed.

    Examples
    --------
    >>> buffer = io.BytesIO()
    >>> write_workbook(pl.DataFrame({"verdict": [None], "amount": [12.5]}), buffer, choices={"verdict": ["fraud"]})
    >>> buffer.getvalue()[:2]
    b'PK'
    """
    check_workbooks()
    from xlsxwriter import Workbook

    if rows.height > _MOST_ROWS or rows.width > _MOST_COLUMNS:
        raise ValueError(
            f"{rows.height:,} rows of {rows.width:,} columns do not fit on an Excel sheet ({_MOST_ROWS:,} rows of "
            f"{_MOST_COLUMNS:,} columns); write a .csv or .parquet file, or only the highest scores with --top"
        )
    shown = rows.select(_fitting(column) for column in rows)
    choices = choices or {}
    formats: dict[Any, Any] = {
        column.name: _AS_TEXT for column in shown if column.dtype == pl.String and column.name not in choices
    }
    # A text is never taken for a formula, an address or a number.
    options = {f"strings_to_{kind}": False for kind in ("formulas", "urls", "numbers")} | {
        "nan_inf_to_errors": True
    }
    with Workbook(target, options) as book:
        page = book.add_worksheet(sheet)
        shown.write_excel(
            book,
            page,
            table_style="Table Style Light 1",
            column_formats=formats,
            # Nobody wants 10,023 for customer 10023, or 12.500 for 12.5.
            dtype_formats=dict.fromkeys(_NUMBERS, "General"),
            column_widths={column.name: _width(column) for column in shown},
            freeze_panes=(1, 0),
            autofilter=True,
        )
        for name, values in choices.items():
            place = shown.get_column_index(name)
            offered = {"validate": "list", "source": _source(book, values), "show_error": False}
            page.data_validation(1, place, max(shown.height, 1), place, offered)


_NUMBERS = (
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64,
)  # fmt: skip


def _fitting(column: pl.Series) -> pl.Series:
    """Return a column as a spreadsheet can hold it, as text where it would change values."""
    dtype = column.dtype
    if dtype.is_decimal():
        column, dtype = column.cast(pl.Float64), pl.Float64()
    if dtype.is_integer():
        extremes = [int(value) for value in (column.min(), column.max()) if value is not None]  # type: ignore[arg-type]
        return column.cast(pl.String) if any(abs(value) >= _EXACT for value in extremes) else column
    if dtype in (pl.Date, pl.Datetime):
        earliest = column.cast(pl.Date).min()
        zoned = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
        return column.cast(pl.String) if zoned or (earliest or _FIRST_DAY) < _FIRST_DAY else column  # type: ignore[operator]
    if dtype in (pl.Boolean, pl.Time, pl.Null) or dtype.is_float():
        return column.fill_nan(None) if dtype.is_float() else column
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Duration):
        column = pl.Series(column.name, [None if value is None else str(value) for value in column.to_list()])
    return column.cast(pl.String).str.head(_LONGEST)


def _width(column: pl.Series) -> int:
    """Return the width of a column in pixels, by its name and its first values."""
    texts = column.head(_LOOKED_AT).cast(pl.String).str.len_chars()
    longest = max(len(column.name) + 3, int(texts.max() or 0))  # type: ignore[arg-type]  # 3: the filter's button
    return min(max(_CHARACTER * longest, _NARROWEST), _WIDEST)


def _source(book: Any, values: Sequence[str]) -> list[str] | str:
    """Return what a list of choices is read from: the values or, if they are too long for that, a hidden sheet."""
    if len(",".join(values)) <= 255 and not any("," in value for value in values):
        return list(values)
    page = book.add_worksheet("Choices")
    page.hide()
    page.write_column(0, 0, values)
    return f"=Choices!$A$1:$A${len(values)}"
