"""Writing scored tables: formats, and cells that a spreadsheet would run."""

from __future__ import annotations

import io
import re
from pathlib import Path

import polars as pl

from dplan.tables.chunks import kind_of_file

__all__ = ["check_types", "format_of_output", "neutralised", "write_rows"]

# Spreadsheets skip white space before a formula, and read the wide signs of East Asian keyboards as the narrow ones.
_FORMULA = r"^(?:[\t\r\n]|\s*[=+\-@＝＋－＠])"
_NEGATIVE_NUMBER = r"^-[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?$"


def format_of_output(path: Path) -> str:
    """Tell the format of an output file by its name.

    Examples
    --------
    >>> format_of_output(Path("a.tsv")), format_of_output(Path("a.parquet"))
    ('tsv', 'parquet')
    """
    if path.suffix.lower() == ".gz":
        raise ValueError(f"{path.name}: compressed text cannot be written; write .parquet, which is small")
    try:
        return "tsv" if path.suffix.lower() == ".tsv" else kind_of_file(path)
    except ValueError:
        raise ValueError(
            f"{path.name}: unsupported file type; name the output .csv, .tsv, .jsonl or .parquet"
        ) from None


def check_types(table: pl.DataFrame, kind: str) -> None:
    """Raise if a column cannot be written in a format."""
    for column in table[:1]:
        try:
            write_rows(column.to_frame().lazy(), io.BytesIO(), kind)
        except pl.exceptions.PolarsError:
            raise ValueError(
                f"column {column.name!r} of type {column.dtype} cannot be written as {kind}; "
                "leave it out or write .parquet"
            ) from None


def write_rows(rows: pl.LazyFrame, target: Path | io.BytesIO, kind: str) -> None:
    """Write rows in one of the formats."""
    if kind == "parquet":
        rows.sink_parquet(target)
    elif kind == "jsonl":
        rows.sink_ndjson(target)
    else:
        neutralised(rows).sink_csv(target, separator="\t" if kind == "tsv" else ",")


def neutralised(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Put an apostrophe before texts that a spreadsheet would run as a formula.

    Examples
    --------
    >>> neutralised(pl.LazyFrame({"a": ["=1+2", " @x", "-5.5", "b"]})).collect()["a"].to_list()
    ["'=1+2", "' @x", '-5.5', 'b']
    """
    schema = rows.collect_schema()
    texts = [name for name, dtype in schema.items() if dtype in (pl.String, pl.Categorical, pl.Enum)]
    cells = pl.col(texts).cast(pl.String)
    risky = cells.str.contains(_FORMULA) & ~cells.str.contains(_NEGATIVE_NUMBER)
    rows = rows.with_columns(pl.when(risky).then("'" + cells).otherwise(cells).name.keep())
    names: dict[str, str] = {}
    for name in schema:
        new = f"'{name}" if re.search(_FORMULA, name) else name
        while new in names.values() or (new != name and new in schema):
            new = f"'{new}"
        names[name] = new
    return rows.rename(names)
