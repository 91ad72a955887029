"""A table on its way out: where and how it is written, as one record, with protection against spreadsheet formulas."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dplan._version import __version__
from dplan.persistence.atomic import replace_folder
from dplan.persistence.claim import check_files, check_new, claimed
from dplan.persistence.previous import previous
from dplan.tables.chunks import Conventions
from dplan.tables.decoding import uncompressed_name
from dplan.tables.input import Input
from dplan.tables.workbook import check_workbooks, write_workbook

__all__ = [
    "DIGITS",
    "Output",
    "check_folder",
    "check_types",
    "format_of_output",
    "neutralised",
    "output_names",
    "part_name",
    "write_folder",
    "write_rows",
]

DIGITS = 6  # of scores in text; binary formats have all of them

_OUTPUTS = {
    **dict.fromkeys((".csv", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather"), "arrow"),
    ".tsv": "tsv",
    ".xlsx": "excel",
}

_WRITTEN_BY = "dplan score"  # in the metadata of each Parquet file of an output folder, with the version
_OURS = {"row", "score", "percentile", "alert"}  # columns of every other file

# Spreadsheets ignore white space before a formula and treat full-width signs like ASCII ones.
_FORMULA = r"^(?:[\t\r\n]|\s*[=+\-@＝＋－＠])"
_NEGATIVE_NUMBER = r"^-[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?$"


@dataclass(frozen=True)
class Output:
    """What a command writes, and how; the pair of `Input`.

    Attributes
    ----------
    path : pathlib.Path or None
        The file or folder; None for standard output.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow", "excel", "folder"}
        Format of a table; "folder" for one file per input file: CSV if all of these are text, otherwise Parquet.
    separator, decimal : str, optional
        Separator and decimal sign of a CSV; by default those of the input.
    overwrite : bool
        Replace what exists; otherwise, that is an error.

    Examples
    --------
    >>> output = Output(Path("scored.csv"), decimal=".")
    >>> output.errors.name
    'scored.errors.csv'
    >>> output.conventions(Conventions(";", ",", mark=True))
    Conventions(separator=';', decimal='.', mark=True)
    """

    path: Path | None
    format: str = "csv"
    separator: str | None = None
    decimal: str | None = None
    overwrite: bool = True

    @property
    def file(self) -> Path:
        """The file or folder, where standard output cannot be written to."""
        if self.path is None:
            raise ValueError("this cannot be written to standard output; name a file")
        return self.path

    @property
    def errors(self) -> Path:
        """The file for the rows that were left out, beside the output."""
        return self.file.with_name(f"{self.file.stem or self.file.name}.errors.csv")

    @property
    def beside(self) -> list[Path]:
        """What may be written beside the output: the errors file, and that of the run before."""
        return [self.errors, previous(self.errors)]

    @property
    def parts(self) -> Path:
        """The folder for what an interrupted run has scored, beside the output."""
        target = Path(os.path.realpath(self.file))
        return target.with_name(f".{target.name}.parts")

    def conventions(self, found: Conventions | None = None) -> Conventions:
        """Return how a text output is written: like the input, unless a separator or decimal sign is given."""
        like = found or Conventions()
        usual = "\t" if self.format == "tsv" else "," if like.separator == "\t" else like.separator
        return Conventions(self.separator or usual, self.decimal or like.decimal, like.mark)

    @contextmanager
    def claimed(self, table: Input, *inputs: Path, others: Iterable[Path] = ()) -> Iterator[Path]:
        """Claim the output of a table and its errors file, before any work is done; yield it with links followed.

        Neither the table nor the other inputs may be overwritten, and without `overwrite` nothing may be; a file that
        has the name of the errors file but is not one is never overwritten. `others` has what else the run writes,
        which must be other files.
        """
        for output in (self.file, self.errors):
            table.check_output(output)
        read = [*inputs, *table.files()]
        check_files(read, [self.file, *self.beside, *others])
        with claimed(self.file, beside=[self.errors], folder=self.format == "folder") as target:
            self.check_new()
            yield target

    def check_new(self) -> None:
        """Raise an error if the output or its errors file exists and must not be replaced."""
        for path in (self.file, self.errors):
            check_new(path, self.overwrite)
        if self.errors.exists() and not _is_errors_file(self.errors):
            raise ValueError(
                f"{self.errors} was not written by dplan, and this run may need the name for rows that it leaves out; "
                "move the file, or choose another output"
            )


def format_of_output(path: Path) -> str:
    """Return the format of an output file, from its name.

    Examples
    --------
    >>> format_of_output(Path("a.tsv")), format_of_output(Path("a.parquet"))
    ('tsv', 'parquet')
    """
    if uncompressed_name(path.name) != path.name.lower():
        raise ValueError(
            f"{path.name}: compressed text output is not supported; use .parquet, which is compressed"
        )
    kind = _OUTPUTS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"{path.name}: unsupported file type; name the output .csv, .tsv, .xlsx, .jsonl, .parquet or .arrow"
        )
    if kind == "excel":
        check_workbooks()
    return kind


def check_types(table: pl.DataFrame, kind: str) -> None:
    """Raise an error if a column cannot be written in a format."""
    if kind == "excel":  # what a spreadsheet cannot hold is written as text
        return
    for column in table[:1]:
        try:
            write_rows(column.to_frame().lazy(), io.BytesIO(), kind)
        except pl.exceptions.PolarsError:
            raise ValueError(
                f"column {column.name!r} of type {column.dtype} cannot be written as {kind}; "
                "leave it out or write a .parquet file"
            ) from None


def write_rows(
    rows: pl.LazyFrame,
    target: Path | io.BytesIO,
    kind: str,
    conventions: Conventions = Conventions(),  # noqa: B008  # immutable
) -> None:
    """Write rows in one of the formats."""
    if kind == "parquet":
        rows.sink_parquet(target)
    elif kind == "arrow":
        rows.sink_ipc(target)
    elif kind == "jsonl":
        rows.sink_ndjson(target)
    elif kind == "excel":
        write_workbook(rows.collect(), target)
    else:
        neutralised(rows).sink_csv(
            target,
            separator=conventions.separator,
            decimal_comma=conventions.decimal == ",",
            include_bom=conventions.mark,
        )


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


def check_folder(output: Path | None, inputs: list[Path], top: int | None) -> None:
    """Raise an error if an output folder cannot be written without deleting other files."""
    if output is None:
        raise ValueError("a folder cannot be written to standard output")
    if top:
        raise ValueError("--top writes a single list; choose an output file such as top.csv")
    names = [part_name(path) for path in inputs]
    if len(set(names)) < len(names):
        raise ValueError(
            "two input files have the same name; choose a single output file instead of a folder"
        )
    for path in output.iterdir() if output.is_dir() else ():
        if not _is_ours(path):
            raise ValueError(
                f"{output} contains {path.name}, which was not written by dplan score; choose another folder"
            )


def part_name(path: Path) -> str:
    """Return the name of the output for one file of a folder, without its suffix.

    Examples
    --------
    >>> part_name(Path("parts/day-1.csv.gz"))
    'day-1'
    """
    return path.name[: len(Path(uncompressed_name(path.name)).stem)]


def write_folder(
    frames: Mapping[str, pl.LazyFrame], output: Path, scratch: Path, conventions: Conventions
) -> None:
    """Write files, given by name, and replace the whole output folder in one step."""
    new = scratch / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for name, frame in frames.items():
        if name.endswith(".parquet"):
            frame.sink_parquet(new / name, metadata={_WRITTEN_BY: __version__})
        else:
            write_rows(frame, new / name, format_of_output(Path(name)), conventions)
    replace_folder(new, output)


def _is_errors_file(path: Path) -> bool:
    """Return whether `dplan.tables.bad_cells.errors_written` has written a file."""
    with path.open("rb") as file:
        return file.readline(200).startswith((b"dplan_row_number,", b"dplan_file,dplan_row_number,"))


def _is_ours(path: Path) -> bool:
    """Return whether `write_folder` has written a file."""
    try:
        if path.suffix != ".csv":
            return _WRITTEN_BY in pl.read_parquet_metadata(path)
        with path.open(encoding="utf-8-sig") as file:
            return set(re.findall(r"(?:\b|_)([a-z]+)\b", file.readline())) >= _OURS
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError):
        return False
