"""The grammar of separated values: where rows end, what the header says, and which line is wrong.

Everything here looks at all bytes at once and at each of them a bounded number of times, whatever the file holds.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import shown

__all__ = ["check_names", "header_of", "line_of_row", "parse", "row_ends", "whole_rows"]

_LONGEST_ROW = 1 << 26  # bytes
_LONGEST_NAME = 1_000  # characters
_CHUNK_BYTES = 1 << 26  # a chunk ends when it holds that many, however few rows they are
_QUOTE, _LINE_FEED, _CARRIAGE_RETURN = b'"\n\r'

Positions = NDArray[np.int64]


def row_ends(text: bytes, *, quotes: bool = True) -> Positions:
    r"""Return where the next row begins, for each row; a line break inside quotes does not end a row.

    Examples
    --------
    >>> row_ends(b'1,"x\ny"\n2,z\n').tolist()
    [8, 12]
    """
    raw = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(raw == _LINE_FEED) + 1
    if quotes and b'"' in text:
        ends = ends[np.searchsorted(np.flatnonzero(raw == _QUOTE), ends) % 2 == 0]
    return ends


def line_of_row(text: bytes, row: int, *, quotes: bool = True) -> int:
    """Return how many lines come before a row."""
    return text.count(b"\n", 0, int(row_ends(text, quotes=quotes)[row - 1])) if row else 0


def whole_rows(
    blocks: Iterable[bytes], rows: int | None, name: str, *, header: bool
) -> Iterator[tuple[int, bytes]]:
    r"""Cut a text into pieces of whole rows, each with the number of its first line.

    Parameters
    ----------
    blocks : iterable of bytes
        The text.
    rows : int or None
        Rows of a piece; pieces are shorter where rows are very long. None for all of them.
    name : str
        Of the file, for messages.
    header : bool
        Whether the text is separated values: the first piece is its first row alone, and quotes count.

    Examples
    --------
    >>> list(whole_rows([b'a,b\n1,"x\n', b'y"\n2,', b'z'], 2, "t.csv", header=True))
    [(1, b'a,b\n'), (2, b'1,"x\ny"\n2,z')]
    """
    most, largest = (rows, _CHUNK_BYTES) if rows else (sys.maxsize, sys.maxsize)
    sizes = chain([1], repeat(most)) if header else repeat(most)
    wanted = next(sizes)
    pieces: list[bytes] = []
    n_rows, size, line, rest, unclosed = 0, 0, 1, b"", False
    for block in blocks:
        data, start, done = rest + block, 0, 0
        # Where a quote is open and none comes, no row ends; what was looked through is not looked through again.
        still_open = unclosed and b'"' not in block
        ends = np.empty(0, dtype=np.int64) if still_open else row_ends(data, quotes=header)
        while done < len(ends):
            taken = min(wanted - n_rows, len(ends) - done)
            stop = int(ends[done + taken - 1])
            pieces.append(data[start:stop])
            n_rows, size, done, start = n_rows + taken, size + stop - start, done + taken, stop
            if n_rows == wanted or size >= largest:
                text = b"".join(pieces)
                yield line, text
                line += text.count(b"\n")
                wanted, pieces, n_rows, size = next(sizes), [], 0, 0
        rest = data[start:]
        unclosed = still_open or (header and rest.count(b'"') % 2 == 1)
        if len(rest) > _LONGEST_ROW:
            line += sum(piece.count(b"\n") for piece in pieces)
            if unclosed:
                raise ValueError(_unclosed(name, line + rest.count(b"\n", 0, rest.rindex(b'"'))))
            raise ValueError(
                f"{name}, line {line}: the row that begins here is longer than {_LONGEST_ROW >> 20} MB, "
                "the limit; check that the file is a table"
            )
    if pieces or rest:
        yield line, b"".join([*pieces, rest])


def header_of(name: str, text: bytes, separators: str) -> tuple[list[str], str]:
    """Return the columns' names and the separator."""
    first = text.decode().rstrip("\r\n")
    if not first.strip():
        raise ValueError(f"{name}, line 1 is empty: a header line and rows are needed")
    if "\r" in re.sub('"[^"]*"', "", first):
        raise ValueError(
            f"{name}, line 1: a carriage return without a line feed; save the file with the line ends "
            "of Unix (LF) or Windows (CR LF)"
        )
    separator = max(separators, key=re.sub('"[^"]*"', "", first).count)
    try:
        names = next(csv.reader(io.StringIO(first, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise ValueError(f"{name}, line 1: the header cannot be read ({error}); check its quotes") from error
    check_names(name, names)
    if all(map(_is_number, names)):
        raise ValueError(
            f"{name}: the first line holds only numbers ({', '.join(names[:3])}, …), so it is not a header; "
            "put a line with the columns' names before it"
        )
    return names, separator


def check_names(name: str, names: list[str]) -> None:
    """Raise if a column has no name, a very long one, or that of another column."""
    places: dict[str, int] = {}
    for position, column in enumerate(names, start=1):
        if not column.strip():
            raise ValueError(f"{name}: column {position} has no name; give it one")
        if len(column) > _LONGEST_NAME:
            raise ValueError(
                f"{name}: the name of column {position} has {len(column):,} characters; "
                f"shorten it to {_LONGEST_NAME:,} or fewer, and check that this is the header"
            )
        if places.setdefault(column, position) != position:
            raise ValueError(
                f"{name}: {shown(column)} names two columns ({places[column]} and {position}); rename one"
            )


def parse(
    name: str, names: list[str], separator: str, line: int, text: bytes, missing: Iterable[str]
) -> pl.DataFrame:
    """Return rows as texts, or raise with the line that is wrong."""
    n_rows = _check_rows(name, line, text, separator, len(names))
    try:
        table = pl.read_csv(
            text,
            has_header=False,
            schema=dict.fromkeys(names, pl.String),
            separator=separator,
            null_values=list(missing),
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"{name} cannot be read from line {line} on: {_first_line(error)}") from error
    if table.height != n_rows:
        raise ValueError(f"{name}: {n_rows:,} rows from line {line} on were read as {table.height:,}")
    return table


def _check_rows(name: str, line: int, text: bytes, separator: str, width: int) -> int:
    """Return the number of rows, or raise: polars would fill up rows that are too short."""
    raw = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", dtype=np.uint8)
    breaks, marks = np.flatnonzero(raw == _LINE_FEED), np.flatnonzero(raw == ord(separator))
    ends = breaks

    def line_at(position: int) -> int:
        return line + int(np.searchsorted(breaks, position))

    if b'"' in text:
        quotes = np.flatnonzero(raw == _QUOTE)
        wrong = _wrong_quote(raw, quotes, breaks, marks, ord(separator))
        if wrong is not None:
            raise ValueError(_unclosed(name, line_at(wrong)))
        ends, marks = (found[np.searchsorted(quotes, found) % 2 == 0] for found in (ends, marks))
    if b"\r" in text:
        returns = np.flatnonzero(raw == _CARRIAGE_RETURN)
        alone = returns[raw[returns + 1] != _LINE_FEED]
        if b'"' in text:
            alone = alone[np.searchsorted(quotes, alone) % 2 == 0]
        if len(alone):
            raise ValueError(
                f"{name}, line {line_at(alone[0])}: a carriage return without a line feed; save the file with "
                "the line ends of Unix (LF) or Windows (CR LF), or put quotes around the value"
            )
    widths = np.diff(np.searchsorted(marks, ends), prepend=0) + 1
    lengths = np.diff(ends, prepend=-1) - 1
    widths[(lengths == 0) | ((lengths == 1) & (raw[ends - 1] == _CARRIAGE_RETURN))] = 1 if width == 1 else 0
    odd = np.flatnonzero(widths != width)
    if len(odd):
        row, found = int(odd[0]), int(widths[odd[0]])
        what = f"has {found} value{'s' * (found != 1)}" if found else "is empty"
        raise ValueError(
            f"{name}, line {line_at(int(ends[row - 1]) + 1 if row else 0)} {what}, the header has {width}: "
            f"add or remove values; a {separator!r} inside a value needs quotes around the value"
        )
    return len(ends)


def _wrong_quote(
    raw: NDArray[np.uint8], quotes: Positions, breaks: Positions, marks: Positions, separator: int
) -> int | None:
    """Return the first quote that opens and is not closed as it should be.

    Quotes are taken in pairs. A pair stands at the beginning and the end of a value or beside other quotes that it
    doubles; or, as in `5" x 7"`, inside a value without quotes around it.
    """
    opening, closing = quotes[::2], quotes[1::2]
    unclosed = opening[len(closing) :]
    opening = opening[: len(closing)]
    before = np.where(opening > 0, raw[opening - 1], _LINE_FEED)
    after = raw[closing + 1]
    begins = (before == separator) | (before == _LINE_FEED) | (before == _QUOTE)
    ends = (after == separator) | (after == _LINE_FEED) | (after == _QUOTE) | (after == _CARRIAGE_RETURN)
    odd = np.flatnonzero(~(begins & ends))
    first, last = opening[odd], closing[odd]
    inside = ~begins[odd]
    for found in (breaks, marks):
        inside &= np.searchsorted(found, first) == np.searchsorted(found, last)
    wrong = first[~inside]
    return int(wrong[0]) if len(wrong) else int(unclosed[0]) if len(unclosed) else None


def _unclosed(name: str, line: int) -> str:
    return (
        f"{name}, line {line}: the quote that opens here is not closed; close it, or, if it belongs to the value, "
        "double it and put quotes around the value"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first_line(error: Any) -> str:
    return str(error).splitlines()[0]
