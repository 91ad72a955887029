"""How the commands read tables: the same options, files and warnings in all of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from dplan.cli._shared import say

if TYPE_CHECKING:
    from dplan.tables import ReadOptions, TableModel


def options(command: Any) -> Any:
    """Add the options that say how a text file is read; they are the same in every command that reads a table."""
    for option in (
        click.option(
            "--missing",
            multiple=True,
            metavar="TEXT",
            help="Text that stands for a missing value, besides NA, NaN, null, ? and the like; may be repeated.",
        ),
        click.option("--encoding", help="Text encoding of TABLE.  [default: that of dplan fit, or utf-8]"),
    ):
        command = option(command)
    return command


input_format = click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    help="Format of standard input.  [default: csv]",
)


def read_options(
    encoding: str | None, missing: tuple[str, ...], model: TableModel | None = None
) -> ReadOptions:
    """Return how to read a table: as the table of the model was read, and as the command line says."""
    from dplan.tables.chunks import ReadOptions

    trained = ReadOptions() if model is None else model.read_options
    return ReadOptions(encoding or trained.encoding, tuple(dict.fromkeys([*trained.missing, *missing])))


def source(table: str | Path, form: str | None) -> tuple[Path | BinaryIO, str]:
    """Return the table, a file or standard input for ``-``, and its format."""
    from dplan.tables.chunks import kind_of_file

    if str(table) != "-":
        path = Path(table)
        if not path.is_file():
            raise click.UsageError(f"there is no file {table}")
        return path, kind_of_file(path)
    if form == "parquet":
        raise click.UsageError("Parquet cannot be read from standard input")
    return sys.stdin.buffer, "jsonl" if form == "jsonl" else "csv"


def files(*paths: Path) -> list[Path]:
    """Return the paths that are files, and not standard input."""
    return [path for path in paths if str(path) != "-"]


def warn_of_useless(columns: Mapping[str, str]) -> None:
    """Say in one line which columns of a table told the model nothing."""
    if columns:
        listed = [f"{name!r} ({reason})" for name, reason in list(columns.items())[:10]]
        more = f" and {len(columns) - 10:,} more" if len(columns) > 10 else ""
        say(f"Warning: columns without information for the model: {', '.join(listed)}{more}.", to_stderr=True)
