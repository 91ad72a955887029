"""Score a stream: each row as soon as it has arrived."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.tables.chunks import Chunk
from dplan.tables.decoding import AUTO
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from dplan.tables.parts import reasons_for
from dplan.tables.writing import DIGITS, neutralised, output_names

__all__ = ["Followed", "follow"]

_BLOCK = 1 << 16  # bytes taken at a time, which bounds how long a row waits for the rows before it
_LONGEST_ROW = 1 << 24  # bytes


@dataclass
class Followed:
    """Summary of a stream: rows scored, alerts, and rows that could not be read."""

    rows: int = 0
    alerts: int = 0
    skipped: int = 0


def follow(
    model: TableModel,
    stream: Input,
    target: BinaryIO,
    *,
    output_kind: str,
    keep: Sequence[str] = (),
    threshold: float | None = None,
    explain: bool = False,
    skip: Callable[[str], object] = lambda message: None,
) -> Followed:
    r"""Score rows as they arrive and write each at once.

    Rows that are there together are scored together; nothing waits for rows that are not there yet. A row that cannot
    be read or scored is skipped, and the stream goes on. A line break always ends a row, also inside quotes.

    Parameters
    ----------
    model : TableModel
        The model.
    stream : Input
        The stream, CSV or JSON lines, and how it is read.
    target : binary file
        Where to write.
    output_kind : {"csv", "tsv", "jsonl"}
        Format to write.
    keep : sequence of str
        Columns to copy in addition to the ids of the model.
    threshold : float, optional
        Make rows with at least this score alerts; None for the model's threshold.
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
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> out = io.BytesIO()
    >>> arriving = Input(io.BytesIO(b"amount\n10\nten\n920\n"))
    >>> follow(model, arriving, out, output_kind="csv", skip=print)
    line 3: column 'amount': 'ten' is not a number, but the column was a number column in training; fix it, or leave it
    empty
    Followed(rows=2, alerts=1, skipped=1)
    >>> [line.split(",")[0] for line in out.getvalue().decode().splitlines()]
    ['row', '1', '3']
    """
    if stream.encoding == AUTO:  # nothing can be detected before it arrives
        stream = replace(stream, encoding="utf-8")
    if len("\n".encode(stream.encoding)) > 1 and "utf8" not in stream.encoding.lower().replace("-", ""):
        raise ValueError(
            f"a stream cannot be read line by line in {stream.encoding}; convert it to UTF-8, such as with iconv"
        )
    written = _Stream(model, target, output_kind, keep, threshold, explain)
    arrivals = _whole_lines(cast(BinaryIO, stream.source))
    header = b""
    line = 1
    if stream.format == "csv":
        first = next(arrivals, b"")
        header, _, rest = first.partition(b"\n")
        header += b"\n"
        arrivals, line = _after(rest, arrivals), 2

    def read(text: bytes) -> Chunk:
        (chunk,) = replace(stream, source=io.BytesIO(header + text)).chunks(None)
        return chunk

    def take(lines: list[bytes], line: int) -> None:
        try:
            table = read(b"\n".join(lines))()
            scores = model.score(table)
        except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
            if len(lines) > 1:  # one of them is wrong: the others are scored alone
                for offset, own in enumerate(lines):
                    take([own], line + offset)
                return
            written.found.skipped += 1
            problem = re.sub(r"^(the input, line|row) \d+[,:]? ", "", " ".join(str(error).split()))
            skip(f"line {line:,}: {problem}")
        else:
            written.write(table, scores, line)

    written.first_line = line
    if header.strip():  # wrong columns are wrong for every row
        names = _names(header, stream)
        model.check_columns(names)
        for name in keep:
            if name not in names:
                raise ValueError(f"cannot keep column {name!r}: not in the table")
    for text in arrivals:
        lines = text.split(b"\n")
        start = 0
        for end, own in enumerate([*lines, b""]):  # empty lines are no rows
            if not own.strip():
                if end > start:
                    take(lines[start:end], line + start)
                start = end + 1
        line += len(lines)
    return written.found


class _Stream:
    """Writes scored rows at once, and counts them."""

    def __init__(
        self,
        model: TableModel,
        target: BinaryIO,
        output_kind: str,
        keep: Sequence[str],
        threshold: float | None,
        explain: bool,
    ) -> None:
        self.found = Followed()
        self.first_line = 1
        self._model, self._target, self._kind, self._explain = model, target, output_kind, explain
        self._keep = keep
        self._threshold = model.threshold if threshold is None else threshold
        self._begun = False

    def write(self, table: pl.DataFrame, scores: NDArray[np.float64], line: int) -> None:
        model = self._model
        alerts = scores >= self._threshold
        rounded = pl.Series("score", scores).round_sig_figs(DIGITS)
        ours = [rounded, pl.Series("percentile", model.percentile(scores))]
        ours.append(pl.Series("alert", alerts))
        if self._explain:
            ours.append(pl.Series("reasons", reasons_for(model, table, alerts), dtype=pl.String))
        ids = model.summary.get("ids", ())
        kept = [name for name in dict.fromkeys([*ids, *self._keep]) if name in table.columns]
        first = line - self.first_line + 1
        ours.insert(0, pl.Series("row", range(first, first + table.height)))
        names = output_names(kept, [column.name for column in ours])
        number, *others = (column.rename(names[column.name]) for column in ours)
        self._write(pl.DataFrame([number, *table.select(kept).get_columns(), *others]))
        self.found.rows += table.height
        self.found.alerts += int(alerts.sum())

    def _write(self, rows: pl.DataFrame) -> None:
        if self._kind == "jsonl":
            text = rows.write_ndjson()
        else:
            separator = "\t" if self._kind == "tsv" else ","
            safe = neutralised(rows.lazy()).collect()
            text = safe.write_csv(separator=separator, include_header=not self._begun)
        self._begun = True
        self._target.write(text.encode())
        self._target.flush()


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


def _names(header: bytes, stream: Input) -> list[str]:
    """Return the column names of a header."""
    fields = io.BytesIO(header + header)  # as a row, which always has the right number of values
    (chunk,) = replace(stream, source=fields).chunks(None)
    return chunk().columns
