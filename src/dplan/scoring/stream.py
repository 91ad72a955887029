"""Score a stream: each row as soon as it has arrived."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import polars as pl

from dplan.exceptions import CellError
from dplan.scoring.scorer import Batch, Scored, Scorer
from dplan.tables.chunks import Conventions
from dplan.tables.decoding import AUTO
from dplan.tables.input import Input
from dplan.tables.label_columns import columns_of
from dplan.tables.layout import PLAIN, Layout
from dplan.tables.writing import DIGITS, Output, neutralised, output_names
from dplan.text import shown

__all__ = ["Followed", "follow"]

_BLOCK = 1 << 16  # bytes taken at a time, which bounds how long a row waits for the rows before it
_LONGEST_ROW = 1 << 24  # bytes


@dataclass
class Followed:
    r"""Summary of a stream: rows scored, alerts, and rows that could not be read.

    Examples
    --------
    >>> import io
    >>> import polars as pl
    >>> import dplan
    >>> from dplan.tables import Input, fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), dplan.LogisticBaseline())
    >>> scorer, arriving = dplan.scoring.Scorer(model), Input(io.BytesIO(b"amount\n10\n920\n"))
    >>> followed = dplan.scoring.follow(scorer, arriving, io.BytesIO())
    >>> followed.rows, followed.alerts, followed.skipped
    (2, 1, 0)
    """

    rows: int = 0
    alerts: int = 0
    skipped: int = 0


def follow(
    scorer: Scorer,
    stream: Input,
    target: BinaryIO,
    output: Output = Output(None),  # noqa: B008  # immutable
    *,
    explain: bool = False,
    skip: Callable[[str], object] = lambda message: None,
) -> Followed:
    r"""Score rows as they arrive and write each at once.

    Rows that are there together are scored together; nothing waits for rows that are not there yet. A row that cannot
    be read or scored is skipped, and the stream goes on. A line break always ends a row, also inside quotes.

    Parameters
    ----------
    scorer : Scorer
        How rows are scored, which columns are copied, and which rows are alerts: by a threshold alone, because a
        budget or the highest scores are known only at the end.
    stream : Input
        The stream, CSV or JSON lines, and how it is read.
    target : binary file
        Where to write.
    output : Output
        How to write: CSV, TSV or JSON lines. Separator and decimal sign are a comma and a point by default.
    explain : bool
        Write the reasons for each alert.
    skip : callable
        Called with the line and the problem of each row that is skipped.

    Returns
    -------
    Followed
        Summary of the stream.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> scorer = Scorer(fit_table(from_table(table, label="fraud"), LogisticBaseline()))
    >>> out = io.BytesIO()
    >>> follow(scorer, Input(io.BytesIO(b"amount\n10\nten\n920\n")), out, skip=print)
    line 3: column 'amount': 'ten' is not a number, but the column was a number column in training; fix it, or leave it
    empty
    Followed(rows=2, alerts=1, skipped=1)
    >>> [line.split(",")[0] for line in out.getvalue().decode().splitlines()]
    ['row', '1', '3']
    """
    if scorer.alerts.budget or scorer.alerts.top:
        raise ValueError("the highest scores of a stream are known only at its end")
    if stream.encoding == AUTO:  # nothing can be detected before it arrives
        stream = replace(stream, encoding="utf-8")
    if len("\n".encode(stream.encoding)) > 1 and "utf8" not in stream.encoding.lower().replace("-", ""):
        raise ValueError(
            f"a stream cannot be read line by line in {stream.encoding}; convert it to UTF-8, such as with iconv"
        )
    if stream.layout not in (Layout(), replace(PLAIN, below=None, footer=None), PLAIN):
        raise ValueError(
            "a stream has its header in the first line and nothing else around its rows (--header-row 1)"
        )
    conventions = output.conventions()
    found = Followed()
    arrivals = _whole_lines(cast(BinaryIO, stream.source))
    header = b""
    line = 1
    if stream.format == "csv":
        first = next(arrivals, b"")
        header, _, rest = first.partition(b"\n")
        header += b"\n"
        arrivals, line = _after(rest, arrivals), 2
    first_line = line

    def read(text: bytes) -> Batch:
        (chunk,) = replace(stream, source=io.BytesIO(header + text), layout=PLAIN).chunks(None)
        table = chunk()
        if stream.format == "jsonl" and scorer.label:  # a key may be left out
            absent = set(columns_of(scorer.label, table.columns)) - set(table.columns)
            table = table.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
        return Batch(table)

    def take(lines: list[bytes], line: int) -> None:
        try:
            scored = scorer.score(read(b"\n".join(lines))._replace(first=line - first_line))
        except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
            if len(lines) > 1:  # one of them is wrong: the others are scored alone
                for offset, own in enumerate(lines):
                    take([own], line + offset)
                return
            found.skipped += 1
            skip(f"line {line:,}: {_problem(error)}")
            return
        rows = _output(scorer, scored, explain)
        if rows.height:
            content = _written(rows, output.format, conventions, header=found.rows == 0)
            target.write(content)
            target.flush()
        found.rows += len(scored)
        found.alerts += int(
            scorer.is_alert(scored.score, scored.kind).sum()
        )  # by threshold, which needs no other rows

    if header.strip():  # wrong columns are wrong for every row
        scorer.check(read(header).table.columns)  # as a row, which always has the right number of values
    for text in arrivals:
        lines = text.split(b"\n")
        start = 0
        for end, own in enumerate([*lines, b""]):  # empty lines are no rows
            if not own.strip():
                if end > start:
                    take(lines[start:end], line + start)
                start = end + 1
        line += len(lines)
    return found


def _problem(error: Exception) -> str:
    """Return what is wrong with a row, without its place: rows arrive in pieces, which count from one."""
    if isinstance(error, CellError):
        return f"column {shown(error.column)}: {error.problem}"
    return re.sub(r"^(the input, line|row) \d+[,:]? ", "", " ".join(str(error).split()))


def _output(scorer: Scorer, scored: Scored, explain: bool) -> pl.DataFrame:
    assert scored.table is not None
    number = pl.Series("row", scored.rows + 1)
    ours = [number, *scorer.columns(scored, explain=explain)]
    ours[1] = ours[1].round_sig_figs(DIGITS)
    kept = [name for name in scorer.kept if name in scored.table.columns]
    names = output_names(kept, [column.name for column in ours])
    number, *others = (column.rename(names[column.name]) for column in ours)
    return pl.DataFrame([number, *scored.table.select(kept).get_columns(), *others])


def _written(rows: pl.DataFrame, output_format: str, conventions: Conventions, *, header: bool) -> bytes:
    if output_format == "jsonl":
        return rows.write_ndjson().encode()
    safe = neutralised(rows.lazy()).collect()
    comma = conventions.decimal == ","
    return safe.write_csv(
        separator=conventions.separator, decimal_comma=comma, include_header=header
    ).encode()


def _whole_lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield what has arrived, up to its last line break and without it; the end needs none."""
    rest = b""
    while block := source.read1(_BLOCK):  # type: ignore[attr-defined]  # returns what is there
        whole, found, rest = (rest + block).rpartition(b"\n")
        if found:
            yield whole
        if len(rest) > _LONGEST_ROW:
            raise ValueError(f"a row is longer than the limit of {_LONGEST_ROW >> 20} MB; check the input")
    if rest:
        yield rest


def _after(rest: bytes, arrivals: Iterator[bytes]) -> Iterator[bytes]:
    if rest:
        yield rest
    yield from arrivals
