"""The syntax of separated values: where rows end, the header, and which line is wrong.

Everything here is vectorised over the bytes and takes linear time for any input.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.text import first_line, shown

__all__ = [
    "cells_of",
    "check_names",
    "decimal_of",
    "line_of_row",
    "parse",
    "row_ends",
    "separator_of",
    "unwrapped",
    "whole_rows",
]

_LONGEST_ROW = 1 << 26  # bytes
_SNIFFED = 1 << 16  # bytes that tell the decimal sign
_LONGEST_NAME = 1_000  # characters
_CHUNK_BYTES = 1 << 26  # a chunk ends when it has so many, even if it has few rows
_QUOTE, _LINE_FEED, _CARRIAGE_RETURN = b'"\n\r'

Positions = NDArray[np.int64]


def row_ends(text: bytes, *, quotes: bool = True) -> Positions:
    r"""Return the end of each row; a line break inside quotes does not end a row.

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


def line_of_row(text: bytes, row: int, separator: str) -> int:
    r"""Return the number of lines before a row; rows without a value do not count.

    Examples
    --------
    >>> line_of_row(b'1,"x\ny"\n\n,\n2,z\n', 1, ",")
    4
    """
    raw = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", dtype=np.uint8)
    ends = row_ends(raw.tobytes())
    filled = np.flatnonzero(~_blank(raw, ends - 1, separator))
    return text.count(b"\n", 0, int(ends[filled[row] - 1])) if filled[row] else 0


def _blank(raw: NDArray[np.uint8], ends: Positions, separator: str) -> NDArray[np.bool_]:
    """Return which rows have nothing but separators; of each row, the position of its line break is given."""
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts - (raw[ends - 1] == _CARRIAGE_RETURN)
    # Seldom, so that only rows that begin with a separator or are empty are looked at.
    blank: NDArray[np.bool_] = lengths <= 0
    for row in np.flatnonzero((raw[starts] == ord(separator)) & ~blank).tolist():
        blank[row] = (raw[starts[row] : starts[row] + lengths[row]] == ord(separator)).all()
    return blank


def unwrapped(name: str, line: int, text: bytes) -> bytes:
    r"""Return lines without the quotes that are around each of them.

    Examples
    --------
    >>> unwrapped("t.csv", 1, b'"1,""x"",3"\n"2,y,4"\n')
    b'1,"x",3\n2,y,4\n'
    """
    lines = text.split(b"\n")
    found = []
    for number, own in enumerate(lines, start=line):
        bare = own.rstrip(b"\r")
        if bare and not (len(bare) > 1 and bare[:1] == bare[-1:] == b'"'):
            raise ValueError(
                f"{name}, line {number}: quotes are expected around this line, as around those before it"
            )
        found.append(bare[1:-1].replace(b'""', b'"'))
    return b"\n".join(found)


def whole_rows(
    blocks: Iterable[bytes], rows: int | None, name: str, *, quotes: bool, line: int = 1
) -> Iterator[tuple[int, bytes]]:
    r"""Split a text into pieces of whole rows, each with the number of its first line.

    Parameters
    ----------
    blocks : iterable of bytes
        The text.
    rows : int or None
        Rows per piece, fewer if rows are very long; None for one piece.
    name : str
        Name of the file, for messages.
    quotes : bool
        Whether the text has quotes, as CSV does.
    line : int, default=1
        The number of the first line.

    Examples
    --------
    >>> list(whole_rows([b'1,"x\n', b'y"\n2,', b'z\n3,'], 2, "t.csv", quotes=True))
    [(1, b'1,"x\ny"\n2,z\n'), (4, b'3,')]
    """
    wanted, largest = (rows, _CHUNK_BYTES) if rows else (sys.maxsize, sys.maxsize)
    pieces: list[bytes] = []
    n_rows, size, rest, unclosed = 0, 0, b"", False
    for block in blocks:
        data, start, done = rest + block, 0, 0
        # While a quote is open and the block has none, no row ends, and nothing needs to be searched again.
        still_open = unclosed and b'"' not in block
        ends = np.empty(0, dtype=np.int64) if still_open else row_ends(data, quotes=quotes)
        while done < len(ends):
            taken = min(wanted - n_rows, len(ends) - done)
            stop = int(ends[done + taken - 1])
            pieces.append(data[start:stop])
            n_rows, size, done, start = n_rows + taken, size + stop - start, done + taken, stop
            if n_rows == wanted or size >= largest:
                text = b"".join(pieces)
                yield line, text
                line += text.count(b"\n")
                pieces, n_rows, size = [], 0, 0
        rest = data[start:]
        unclosed = still_open or (quotes and rest.count(b'"') % 2 == 1)
        if len(rest) > _LONGEST_ROW:
            line += sum(piece.count(b"\n") for piece in pieces)
            if unclosed:
                raise ValueError(_unclosed(name, line + rest.count(b"\n", 0, rest.rindex(b'"'))))
            raise ValueError(
                f"{name}, line {line}: the row that starts here is longer than the limit of {_LONGEST_ROW >> 20} MB; "
                "check that the file is a table"
            )
    if pieces or rest:
        yield line, b"".join([*pieces, rest])


def separator_of(lines: list[str], separators: str) -> str:
    """Return the separator of some lines: that of the first one, if the next ones have as many of it.

    Examples
    --------
    >>> separator_of(["a;b", "1,5;2,5"], ",;"), separator_of(["Report, for you", "a;b", "1;2", "3;4"], ",;")
    (';', ';')
    """
    text = "\n".join(lines)
    whole = (
        text.count('"') % 2 == 0
    )  # then a quoted cell may have line breaks; otherwise a quote is a stray one
    bare = [re.sub('"[^"]*"', "q", part) for part in ([text] if whole else lines)]
    bare = [line for part in bare for line in part.split("\n") if line.strip()]
    usual = max(separators, key=bare[0].count)
    counts = {sign: [line.count(sign) for line in bare] for sign in separators}
    if counts[usual][0] and counts[usual][0] in counts[usual][1:3]:
        return usual

    def alike(sign: str) -> tuple[int, int]:
        """Return how many lines have the same number of a sign, not counting none, and that number."""
        number, n_lines = (
            Counter(n for n in counts[sign] if n).most_common(1)[0] if any(counts[sign]) else (0, 0)
        )
        return n_lines, number

    best = max(separators, key=alike)
    return best if alike(best)[0] > max(2, alike(usual)[0]) else usual


def cells_of(name: str, text: str, separator: str) -> list[list[str]]:
    """Return the cells of the first rows of a file, the first of which may be its header."""
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        rows.extend(reader)
    except csv.Error as error:
        if not rows:
            raise ValueError(
                f"{name}, line 1: the header cannot be read ({error}); check its quotes"
            ) from error
    return rows  # what is wrong further down is found when the rows are read


def decimal_of(text: bytes, separator: str) -> str:
    r"""Return the decimal sign of the numbers in some rows: the one that is more common.

    A sign with three digits after it may separate thousands and does not count.

    Examples
    --------
    >>> decimal_of(b"1.234,5;x\n12,50;14.01.2024\n", ";"), decimal_of(b"1,5\n2.5,7\n", ",")
    (',', '.')
    """
    around = re.escape(separator.encode())
    before = {
        ",": b'"' if separator == "," else b'(?:^|["\n' + around + b"])",
        ".": b'(?:^|["\n' + around + b"])",
    }
    n_found = {}
    for sign, other in ((",", "."), (".", ",")):
        # The number of digits is limited, or a line of numbers without a decimal sign would take quadratic time.
        cell = rb" ?[-+(]?\d[\d%s]{0,40}%s(?:\d{1,2}|\d{4,})(?=[\s)%%\"%s]|$)" % (
            re.escape(other.encode()), re.escape(sign.encode()), around,
        )  # fmt: skip
        n_found[sign] = len(re.findall(before[sign] + cell, text[:_SNIFFED]))
    return "," if n_found[","] > n_found["."] else "."


def check_names(name: str, names: list[str]) -> None:
    """Raise an error if a column has no name, a very long name, or the name of another column."""
    places: dict[str, int] = {}
    for position, column in enumerate(names, start=1):
        if not column.strip():
            raise ValueError(f"{name}: column {position} has no name; add one to the header")
        if len(column) > _LONGEST_NAME:
            raise ValueError(
                f"{name}: the name of column {position} has {len(column):,} characters; "
                f"shorten it to {_LONGEST_NAME:,} or fewer, and check that this is the header"
            )
        if places.setdefault(column, position) != position:
            raise ValueError(
                f"{name}: duplicate column name {shown(column)} (columns {places[column]} and {position}); rename one"
            )


def parse(
    name: str, names: list[str | None], separator: str, line: int, text: bytes, missing: Iterable[str]
) -> pl.DataFrame:
    """Return rows as strings, or raise an error with the line that is wrong; columns without a name are left out."""
    n_rows, filled = _check_rows(name, line, text, separator, len(names))
    # No column has a null character in its name.
    columns = [f"\0{place}" if column is None else column for place, column in enumerate(names)]
    if n_rows == 0:
        return pl.DataFrame(schema=dict.fromkeys(filter(None, names), pl.String))
    try:
        table = pl.read_csv(
            filled,
            has_header=False,
            schema=dict.fromkeys(columns, pl.String),
            separator=separator,
            null_values=list(missing),
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"{name} cannot be read from line {line} on: {first_line(error)}") from error
    if table.height != n_rows:
        raise ValueError(f"{name}: {n_rows:,} rows from line {line} on were read as {table.height:,}")
    for place in [place for place, column in enumerate(names) if column is None]:
        values = table[columns[place]].str.strip_chars().replace("", None)
        if values.null_count() < n_rows:
            row = int(values.is_not_null().arg_max() or 0)
            raise ValueError(
                f"{name}, line {line + line_of_row(text, row, separator)}: column {place + 1} has a value here, but no "
                "name; add one to the header"
            )
    return table.select(filter(None, names))


def _check_rows(name: str, line: int, text: bytes, separator: str, width: int) -> tuple[int, bytes]:
    """Return the number of rows that are not empty, and these rows.

    Raise an error for rows of a wrong length, which polars would pad.
    """
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
                f"{name}, line {line_at(alone[0])}: carriage return without a line feed; save the file with Unix (LF) "
                "or Windows (CR LF) line endings, or put quotes around the value"
            )
    widths = np.diff(np.searchsorted(marks, ends), prepend=0) + 1
    # In a single column, an empty line is a missing value.
    blank = _blank(raw, ends, separator) if width > 1 else np.zeros(len(ends), dtype=np.bool_)
    odd = np.flatnonzero((widths != width) & ~blank)
    if len(odd):
        row, found = int(odd[0]), int(widths[odd[0]])
        raise ValueError(
            f"{name}, line {line_at(int(ends[row - 1]) + 1 if row else 0)} has {found} value{'s' * (found != 1)}, "
            f"expected {width}; add or remove values, and put quotes around values that contain {separator!r}"
        )
    if blank.any():
        text = raw[np.repeat(~blank, np.diff(ends, prepend=-1))].tobytes()
    return len(ends) - int(blank.sum()), text


def _wrong_quote(
    raw: NDArray[np.uint8], quotes: Positions, breaks: Positions, marks: Positions, separator: int
) -> int | None:
    """Return the position of the first opening quote that is not closed correctly.

    Quotes come in pairs: at the start and the end of a value, next to other quotes (doubled), or, as in `5" x 7"`,
    inside an unquoted value.
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
        f"{name}, line {line}: the quote that opens here is not closed; close it or, if it is part of the value, "
        "double it and put quotes around the value"
    )
