"""The chunks of a CSV file: where its table begins and ends, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl

from dplan.tables.chunks import Chunk, Conventions, tidy
from dplan.tables.csv_syntax import (
    Positions,
    cells_of,
    check_names,
    decimal_of,
    line_of_row,
    parse,
    row_ends,
    separator_of,
    unwrapped,
    whole_rows,
)
from dplan.tables.decoding import TextFile
from dplan.tables.footers import FOOTER_ROWS, footer_of
from dplan.tables.layout import SAMPLE_ROWS, Layout, check_rows_to_skip, start_of

__all__ = ["csv_chunks"]

_SNIFFED = 1 << 16  # bytes at the beginning and at the end that are looked at
_LONGEST_START = 1 << 26
_ENDS = "carriage return without a line feed; save the file with Unix (LF) or Windows (CR LF) line endings"


@dataclass(frozen=True)
class _Table:
    """A table in a CSV file: the names of its columns, its separator, and whether quotes are around each line."""

    name: str
    names: list[str | None]
    separator: str
    is_wrapped: bool
    missing: tuple[str, ...]

    def chunk(self, line: int, text: bytes, *, raw: bool) -> Chunk:
        """Return some rows, which begin in a line."""
        rows = unwrapped(self.name, line, text) if self.is_wrapped else text

        def read() -> pl.DataFrame:
            table = parse(self.name, self.names, self.separator, line, rows, self.missing)
            return table if raw else table.select(tidy(pl.all(), self.missing))

        def place(row: int) -> str:
            return f"{self.name}, line {line + line_of_row(rows, row, self.separator)}"

        return Chunk(read, place)


def csv_chunks(
    file: TextFile,
    rows: int | None,
    separators: str,
    missing: tuple[str, ...],
    layout: Layout,
    *,
    raw: bool,
    note: Callable[[str], object],
) -> Iterator[Chunk]:
    """Yield the chunks of a CSV file, whose separator is one of those given.

    What is found out about the layout is passed to `note`.
    """
    blocks = file.blocks()
    start, ends, blocks = _beginning(file.name, blocks, layout)
    table, offset, notes = _started(file.name, start, ends, separators, missing, layout)
    for found in notes:
        note(found)
    line = start.count(b"\n", 0, offset) + 1
    if layout.footer != 0:
        blocks = _without_footer(blocks, table, layout.footer, start.count(b"\n", 0, offset), note)
    skipped = _without_start(blocks, offset)
    pieces = whole_rows(skipped, rows, file.name, quotes=True, line=line)
    marked = file.has_mark or file.encoding != "utf-8"
    # From the beginning of the file, so that it does not depend on where chunks end.
    conventions = Conventions(table.separator, decimal_of(start[offset:], table.separator), marked)
    for place, text in chain(
        [next(pieces, (line, b""))], pieces
    ):  # a header without rows is a table without rows
        yield replace(table.chunk(place, text, raw=raw), share=file.share(), conventions=conventions)


def _beginning(
    name: str, blocks: Iterator[bytes], layout: Layout
) -> tuple[bytes, Positions, Iterator[bytes]]:
    """Return the first rows, the ends of those that are whole, and all blocks again."""
    n_given = (layout.header or 1) + layout.skip + (layout.below or 0)
    start, ends = next(blocks, b""), np.empty(0, dtype=np.int64)
    while len(start) < _SNIFFED or len(ends := row_ends(start)) < n_given:
        block = next(blocks, b"")
        if not block:
            return start, row_ends(start), iter([start])
        if len(start) > _LONGEST_START:
            for _ in whole_rows(chain([start, block], blocks), 1, name, quotes=True):
                break  # or an error about the row that does not end
            break
        start += block
    return start, ends, chain([start], blocks)


def _sample(start: bytes, ends: Positions, layout: Layout) -> bytes:
    """Return the first rows that the layout is found in."""
    n_given = (layout.header or 1) + layout.skip + (layout.below or 0)
    n_near = int(np.searchsorted(ends, _SNIFFED, side="right"))
    n_rows = max(min(n_near, SAMPLE_ROWS), n_given)
    if n_rows < len(ends) or (len(start) > _SNIFFED and len(ends)):
        return start[: ends[min(n_rows, len(ends)) - 1]]
    return start  # the last line of a file may have no end


def _started(
    name: str, start: bytes, ends: Positions, separators: str, missing: tuple[str, ...], layout: Layout
) -> tuple[_Table, int, list[str]]:
    """Return the table, the position of its first row, and what was found out."""
    sample = _sample(start, ends, layout)
    text = sample.decode(errors="ignore")
    hint = ""
    if text[:4].lower() == "sep=" and text[4:5]:
        hint, layout = text[4], replace(layout, skip=max(1, layout.skip)) if not layout.header else layout
    lines = text.split("\n")
    is_wrapped = _is_wrapped(lines, separators)
    if is_wrapped:
        text = unwrapped(name, 1, sample).decode(errors="ignore")
        lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if "\r" in first.rstrip("\r") and '"' not in first:
        raise ValueError(f"{name}, line 1: {_ENDS}")
    separator = hint or separator_of(lines[layout.skip :] if any(lines[layout.skip :]) else lines, separators)
    try:
        found = start_of(cells_of(name, text.replace("\r\n", "\n"), separator), layout)
    except ValueError as error:
        raise error if str(error).startswith(name) else ValueError(f"{name}: {error}") from None
    check_names(name, [column for column in found.names if column is not None])
    every = row_ends(start)
    offset = (
        0 if found.first == 0 else int(every[found.first - 1]) if found.first <= len(every) else len(start)
    )
    notes = [*found.notes, *(["quotes around each line are removed"] if is_wrapped else [])]
    return _Table(name, found.names, separator, is_wrapped, missing), offset, notes


def _is_wrapped(lines: list[str], separators: str) -> bool:
    """Return whether quotes are around each line, with the separators inside."""
    full = [line.rstrip("\r") for line in lines if line.strip()]
    if len(full) < 2 or not all(len(line) > 2 and line[0] == line[-1] == '"' for line in full):
        return False
    inside = [line[1:-1] for line in full]
    if any('"' in line.replace('""', "") for line in inside):
        return False
    return any(
        inside[0].count(sign) > 0 and inside[1].count(sign) >= inside[0].count(sign) for sign in separators
    )


def _without_start(blocks: Iterator[bytes], n_bytes: int) -> Iterator[bytes]:
    for block in blocks:
        if n_bytes < len(block):
            yield block[n_bytes:] if n_bytes else block
        n_bytes = max(0, n_bytes - len(block))


def _without_footer(
    blocks: Iterator[bytes], table: _Table, n_rows: int | None, first: int, note: Callable[[str], object]
) -> Iterator[bytes]:
    """Yield blocks without the last rows: so many or, if that is not given, those that are found to be none.

    `first` is the line of the first row, counted from 0.
    """
    tail = b""
    for block in blocks:
        if len(block) >= _SNIFFED and tail:
            yield tail
            tail, first = b"", 0
        tail += block
        if len(block) < _SNIFFED < len(tail) - _SNIFFED:
            yield tail[:-_SNIFFED]
            tail, first = tail[-_SNIFFED:], 0
    lines = tail.split(b"\n")
    own = lines[-max(FOOTER_ROWS, (n_rows or 0) + 1) :]
    if any(line.count(b'"') % 2 for line in own):  # a quoted line break: nothing can be told from a few lines
        own = []
    if n_rows is None:
        text = b"\n".join(own)
        text = unwrapped(table.name, 1, text) if table.is_wrapped and own else text
        cells = cells_of(table.name, text.decode(errors="ignore").replace("\r\n", "\n"), table.separator)
        n_cut = footer_of(cells, len(table.names)) if len(cells) == len(own) else 0
        if n_cut:
            which = f"{n_cut} rows are" if n_cut > 1 else "row is"
            note(f"the last {which} not part of the table and skipped (--footer-rows)")
    else:
        n_cut = n_rows
        n_own = len(lines) - first - (not lines[-1])
        try:
            check_rows_to_skip(n_cut, n_own, "at the end", "--footer-rows")
        except ValueError as error:
            raise ValueError(f"{table.name}: {error}") from None
    yield b"\n".join(lines[: len(lines) - n_cut]) if n_cut else tail
