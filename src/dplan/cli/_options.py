"""The options that commands share: each group of them becomes one record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from dplan.tables import Input, TableModel
    from dplan.tables.layout import Layout
    from dplan.tables.words import Words
    from dplan.tables.writing import Output


class _File(click.Path):
    """A file. What looks like the address of a database is refused, without showing it: it may contain a password."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            self.fail("expected a file, not an address", param, ctx)
        return super().convert(value, param, ctx)


class Table(click.Path):
    """A file, a folder, a pattern, - for standard input, or the address of a database."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            from dplan.tables.databases import Database

            try:
                return Database(value)  # which is shown without credentials
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(exists=True, dir_okay=False, path_type=Path)
TABLE = Table(path_type=Path)
OUTPUT = _File(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)

Decorator = Callable[[Any], Any]


def grouped(name: str, record: Callable[..., Any], *options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, which gets their values as one record."""

    def add(command: Any) -> Any:
        before = len(getattr(command, "__click_params__", ()))

        @wraps(command)
        def run(**values: Any) -> Any:
            own = {key: values.pop(key) for key in keys}
            return command(**values, **{name: record(**own)})

        for option in reversed(options):
            option(run)
        keys = [parameter.name for parameter in cast(Any, run).__click_params__[before:]]
        return run

    return add


def given(*names: str) -> str:
    """Return which of these parameters were given on the command line, for a message; "" for none of them."""
    context = click.get_current_context()
    flags = {parameter.name: max(parameter.opts, key=len) for parameter in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return ", ".join(flags[name] for name in names if sources[name] is ParameterSource.COMMANDLINE)


def given_besides(*names: str) -> str:
    """Return which other parameters were given on the command line; those that every command has do not count."""
    found = click.get_current_context().command.params
    return given(*(str(p.name) for p in found if p.expose_value and p.name not in names))


def files_read() -> list[Path]:
    """Return the files that the command was given to read, but for its table; no output may replace one of them."""
    context = click.get_current_context()
    found = [context.params[str(p.name)] for p in context.command.params if p.type is FILE]
    return [path for value in found if value for path in (value if isinstance(value, tuple) else (value,))]


def repeated(flag: str, metavar: str, help: str, name: str | None = None) -> Decorator:
    """Return an option that may be repeated."""
    names = [flag] if name is None else [flag, name]
    return click.option(*names, multiple=True, metavar=metavar, help=f"{help}; may be repeated.")


def count(flag: str, default: int, help: str, *, lowest: int = 1, highest: int | None = None) -> Decorator:
    """Return an option for a whole number that has a default."""
    number = click.IntRange(lowest, highest)
    return click.option(flag, default=default, show_default=True, type=number, help=help)


seed = click.option(
    "--seed", default=0, show_default=True, help="Random seed; the same seed gives the same model."
)
ids = repeated("--id", "COLUMN", "Column that identifies rows", "ids")
overwrite = click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
on_error = click.option(
    "--on-error",
    type=click.Choice(["fail", "skip", "null"]),
    default="fail",
    show_default=True,
    help="At a cell that cannot be used: stop; skip the row and write it to a file beside the output; or treat the "
    "cell as missing.",
)


# How a table is read.


@dataclass(frozen=True)
class Reading:
    """How the options of a command say that its table is read."""

    sheet: str | None
    query: str | None
    missing: tuple[str, ...]
    encoding: str | None
    header_row: int | None = None
    no_header: bool = False
    skip_rows: int | None = None
    skip_after_header: int | None = None
    footer_rows: int | None = None
    form: str | None = None

    def table(self, source: str | Path, model: TableModel | None = None, *, printed: bool = False) -> Input:
        """Return a table: a file, a folder, a pattern or - for standard input; read like that of a model.

        The format may be that of standard output, if the command prints.
        """
        from dplan.tables.input import Input

        settings = {"encoding": self.encoding or "auto", "sheet": self.sheet, "sql": self.query}
        settings |= {"layout": self.layout(), "note": _said_once()}  # type: ignore[dict-item]
        if str(source) == "-":
            if self.form not in (None, "csv", "tsv", "jsonl"):
                raise click.UsageError(f"{self.form} cannot be read from standard input")
            form = "jsonl" if self.form == "jsonl" else "csv"
            found = Input(sys.stdin.buffer, form, **settings)  # type: ignore[arg-type]
        else:
            try:
                found = Input(source, **settings)  # type: ignore[arg-type]
            except FileNotFoundError as error:
                raise click.UsageError(str(error)) from error
            if self.form not in (None, found.format) and not printed:
                raise click.UsageError(
                    f"--format {self.form} is for standard input; the format of a file follows from its name"
                )
        if self.sheet is not None and found.format != "excel":
            raise click.UsageError(f"--sheet is for Excel files, and {name_of(source)} is not one")
        if self.query is not None and found.format not in ("sqlite", "duckdb") and not hasattr(source, "url"):
            raise click.UsageError(f"--query is for databases, and {name_of(source)} is not one")
        if found.format not in ("csv", "excel") and (options := given(*_LAYOUT)):
            raise click.UsageError(
                f"{options}: only for CSV and Excel files, and {name_of(source)} is not one"
            )
        found = found.like(model)
        return replace(found, missing=tuple(dict.fromkeys([*found.missing, *self.missing])))

    def layout(self) -> Layout:
        """Return where the table is in its file."""
        from dplan.tables.layout import Layout

        if self.no_header and self.header_row is not None:
            raise click.UsageError("--header-row and --no-header cannot be combined")
        if self.header_row is not None and self.skip_rows is not None:
            raise click.UsageError("--header-row and --skip-rows cannot be combined")
        header = 0 if self.no_header else self.header_row
        return Layout(header, self.skip_rows or 0, self.skip_after_header, self.footer_rows)


def _said_once() -> Callable[[str], None]:
    """Return a function that prints a line about a table, once, even if the table is read several times."""
    from dplan.cli._terminal import say

    said = set[str]()

    def note(text: str) -> None:
        if text not in said:
            said.add(text)
            say(f"{text}.", err=True)

    return note


def name_of(table: str | Path) -> str:
    """Return what messages call a table."""
    return "standard input" if str(table) == "-" else Path(table).name


_LAYOUT = ("header_row", "no_header", "skip_rows", "skip_after_header", "footer_rows")


def _row(flag: str, help: str, lowest: int = 0) -> Decorator:
    return click.option(flag, type=click.IntRange(lowest), metavar="N", help=help)


def _reading(of: str = "", formats: Sequence[str] = ()) -> Decorator:
    options = [
        click.option("--encoding", help="Text encoding of TABLE.  [default: as in dplan fit, or detected]"),
        repeated(
            "--missing",
            "TEXT",
            "Text that means a missing value, in addition to NA, NaN, null, ? and similar",
        ),
        click.option(
            "--query",
            metavar="SQL",
            help="Query whose result is the table, if TABLE is a database: a SQLite or DuckDB file, or a PostgreSQL "
            "address such as postgresql://host/database.",
        ),
        click.option("--sheet", metavar="NAME", help="Sheet of an Excel file.  [default: the first one]"),
        _row("--header-row", "Row of a CSV file or sheet that has the column names.  [default: found]", 1),
        click.option(
            "--no-header", is_flag=True, help="There is no header: columns are column_1, column_2, …"
        ),
        _row("--skip-rows", "Rows to skip at the top, before the header."),
        _row("--skip-after-header", "Rows to skip below the header, such as units.  [default: found]"),
        _row("--footer-rows", "Rows to skip at the end, such as totals.  [default: found]"),
    ]
    if formats:
        text = f"Format of {of}.  [default: csv]"
        options.append(click.option("--format", "form", type=click.Choice(formats), help=text))
    return grouped("reading", Reading, *options)


# The same in every command that reads a table. Some also read standard input, or write to standard output.
reading = _reading()
reading_or_stream = _reading("standard input", ["csv", "jsonl"])
reading_or_streams = _reading("standard input and output", ["csv", "tsv", "jsonl", "parquet", "arrow"])


# What columns and labels mean.


def _columns(
    columns: tuple[str, ...], columns_file: Path | None, text: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    if not (columns or columns_file or text):
        return {}  # without importing anything, because a model file is inspected at once
    from dplan.columns.given import as_given, parse_column, read_columns

    found = {} if columns_file is None else read_columns(columns_file)
    try:
        found |= dict(map(parse_column, columns))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return {**{name: dict(said) for name, said in as_given(dict.fromkeys(text, "text")).items()}, **found}


_COLUMNS = (
    repeated(
        "--column",
        "NAME=KIND[,OPTION]",
        "How to understand a column: number (decimal=comma|point, thousands=comma|point|space|apostrophe, unit=TEXT), "
        "date (day-first, month-first, year-first, calendar, since=COLUMN), time, duration, flag, category, frequency, "
        "country, domain, host, filled, id or drop",
        "columns",
    ),
    click.option(
        "--columns",
        "columns_file",
        type=FILE,
        metavar="FILE",
        help="TOML file with one table per column, as --column.",
    ),
)
columns = grouped("columns", _columns, *_COLUMNS)
columns_and_text = grouped(
    "columns", _columns, repeated("--text", "COLUMN", "Column to read as text, such as codes"), *_COLUMNS
)


def _words(anomaly: tuple[str, ...], normal: tuple[str, ...], unlabelled: tuple[str, ...]) -> Words | None:
    from dplan.tables.words import Words

    return Words.of(anomaly or None, normal or None, unlabelled or None)


words = grouped(
    "words",
    _words,
    repeated("--anomaly", "VALUE", "Label of known anomalies"),
    repeated("--normal", "VALUE", "Label of rows that were checked and are normal"),
    repeated("--unlabelled", "VALUE", "Label of unlabelled rows"),
)


# What is written.


def _output(
    overwrite: bool, output: Path | None = None, separator: str | None = None, decimal: str | None = None
) -> Output:
    from dplan.tables.writing import Output

    if separator is not None and separator != "tab" and (len(separator) != 1 or not separator.isascii()):
        raise click.UsageError("--separator must be one character such as ; or the word tab")
    sign = "\t" if separator == "tab" else separator
    return Output(output, separator=sign, decimal=decimal, overwrite=overwrite)


def output(help: str, *flags: str, required: bool = True) -> Decorator:
    """Return the options of a command that writes one file."""
    named = [*(flags or ("-o", "--output")), "output"]
    return grouped(
        "output", _output, click.option(*named, required=required, type=OUTPUT, help=help), overwrite
    )


writing = grouped(
    "writing",
    _output,
    click.option(
        "--separator", metavar="SIGN", help="Separator of a CSV output, or tab.  [default: as in TABLE]"
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Decimal sign of a CSV output.  [default: as in TABLE]",
    ),
    overwrite,
)
