"""Write scored tables: formats, folders of Parquet files, and protection against spreadsheet formulas."""

from __future__ import annotations

import glob
import io
import re
import shutil
from collections.abc import Collection, Iterable
from fnmatch import fnmatch
from pathlib import Path

import polars as pl

from dplan._version import __version__
from dplan.persistence.atomic import replace_folder
from dplan.persistence.claim import check_inputs
from dplan.tables.chunks import kind_of_file

__all__ = [
    "check_folder",
    "check_types",
    "format_of_output",
    "neutralised",
    "output_names",
    "parts_of",
    "write_folder",
    "write_rows",
]

_WRITTEN_BY = "dplan score"  # in the metadata of each Parquet file of an output folder, with the version

# Spreadsheets ignore white space before a formula and treat full-width signs like ASCII ones.
_FORMULA = r"^(?:[\t\r\n]|\s*[=+\-@＝＋－＠])"
_NEGATIVE_NUMBER = r"^-[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?$"


def format_of_output(path: Path) -> str:
    """Return the format of an output file, from its name.

    Examples
    --------
    >>> format_of_output(Path("a.tsv")), format_of_output(Path("a.parquet"))
    ('tsv', 'parquet')
    """
    if path.suffix.lower() == ".gz":
        raise ValueError(
            f"{path.name}: compressed text output is not supported; use .parquet, which is compressed"
        )
    try:
        return "tsv" if path.suffix.lower() == ".tsv" else kind_of_file(path)
    except ValueError:
        raise ValueError(
            f"{path.name}: unsupported file type; name the output .csv, .tsv, .jsonl or .parquet"
        ) from None


def check_types(table: pl.DataFrame, kind: str) -> None:
    """Raise an error if a column cannot be written in a format."""
    for column in table[:1]:
        try:
            write_rows(column.to_frame().lazy(), io.BytesIO(), kind)
        except pl.exceptions.PolarsError:
            raise ValueError(
                f"column {column.name!r} of type {column.dtype} cannot be written as {kind}; "
                "leave it out or write a .parquet file"
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
    """Prefix text that a spreadsheet would evaluate as a formula with an apostrophe.

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


def output_names(kept: Collection[str], ours: Iterable[str]) -> dict[str, str]:
    """Return the names of our columns in the output; copied columns keep their names, ours are renamed if necessary.

    Examples
    --------
    >>> output_names(["id", "score"], ["score", "alert"])
    {'score': 'dplan_score', 'alert': 'alert'}
    """
    names = {}
    for name in ours:
        new = name
        while new in kept:
            new = f"dplan_{new}"
        names[name] = new
    return names


def parts_of(table: str, output: Path | None = None) -> list[Path] | None:
    """Return the Parquet files of a folder or glob pattern, or None if `table` names a single file.

    Parameters
    ----------
    table : str
        A file, a folder or a glob pattern.
    output : path, optional
        The output, which must not overlap with the folder or match the pattern, or the next run would read it.

    Examples
    --------
    >>> parts_of("payments.csv") is None
    True
    """
    if Path(table).is_dir():
        found = sorted(Path(table).glob("*.parquet"))
        if output is not None:
            check_inputs(output, [table])
    elif any(sign in table for sign in "*?[") and not Path(table).exists():
        found = sorted(Path(name) for name in glob.glob(table, recursive=True))
        if output is not None and fnmatch(str(output.absolute()), str(Path(table).absolute())):
            raise ValueError(
                f"{output} matches the input pattern {table}, so the next run would read it; choose another output"
            )
    else:
        return None
    if not found:
        raise FileNotFoundError(f"no Parquet files found in {table}")
    for path in found:
        if path.suffix != ".parquet":
            raise ValueError(
                f"{path} is not a Parquet file; a folder or pattern may only contain .parquet files"
            )
    return found


def check_folder(output: Path | None, inputs: list[Path], top: int | None) -> None:
    """Raise an error if an output folder cannot be written without deleting other files."""
    if output is None:
        raise ValueError("a folder cannot be written to standard output")
    if top:
        raise ValueError("--top writes a single list; choose an output file such as top.csv")
    names = [path.name for path in inputs]
    if len(set(names)) < len(names):
        raise ValueError(
            "two input files have the same name; choose a single output file instead of a folder"
        )
    for path in output.iterdir() if output.is_dir() else ():
        if not _is_ours(path):
            raise ValueError(
                f"{output} contains {path.name}, which was not written by dplan score; choose another folder"
            )


def write_folder(frames: list[pl.LazyFrame], names: list[str], output: Path | None, scratch: Path) -> None:
    """Write one Parquet file per part and replace the whole output folder in one step."""
    assert output is not None
    new = scratch / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for name, frame in zip(names, frames, strict=True):
        frame.sink_parquet(new / name, metadata={_WRITTEN_BY: __version__})
    replace_folder(new, output)


def _is_ours(path: Path) -> bool:
    try:
        return _WRITTEN_BY in pl.read_parquet_metadata(path)
    except (OSError, pl.exceptions.PolarsError):
        return False
