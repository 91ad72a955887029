"""Whether a workbook can be read within reasonable memory, decided before it is parsed.

A workbook is a zip archive of XML. A few bytes of it can stand for gigabytes: a cell in the last row and column makes
the reader allocate the whole rectangle before it, and a list of shared texts may be compressed a thousandfold. An
allocation that fails ends the whole process, so such a file is refused first.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_size"]

_PIECE = 1 << 22  # bytes that are looked at together
_OVERLAP = 64  # bytes that a piece repeats of the one before, more than a reference has
_LONGEST_TAG = 1 << 16
_EMPTY_CELLS = 20_000_000  # that a rectangle may have in any case, about 640 MB
_AREA_PER_CELL = 20  # cells of the rectangle for each cell that is really there
_MAX_TEXTS = 10_000_000
_MAX_MEMBER = 4 << 30
_ENDLESS = 1 << 62
_UNPLACED = re.compile(
    rb"<(?:[\w.-]+:)?(?:row|c)(?=[\s/>])(?! r=\"[A-Z]*\d+\")"
)  # what does not begin with its place
_ROW = re.compile(rb"<row r=\"\d+\"")
_EMPTY_CELL = re.compile(rb"<c r=\"[A-Z]+\d+\"(?: s=\"\d+\")?(?:/>|></c>)")  # which the reader passes over


def check_size(path: Path) -> None:
    """Raise an error if a workbook needs far more memory than its content justifies."""
    if not zipfile.is_zipfile(path):
        return  # an old binary workbook, which has few rows and columns, or something that the reader refuses
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                area, n_cells = _measured(path.name, _pieces(archive, member))
                # Rows and cells without values may reach far, if all others say where they are.
                if _is_empty(area, n_cells) and not any(map(_UNPLACED.search, _pieces(archive, member))):
                    area, n_cells = _measured(path.name, map(_filled, _pieces(archive, member)))
                if _is_empty(area, n_cells):
                    raise ValueError(
                        f"{path.name}: a sheet reaches to row {area[0]:,} and column {area[1]:,}, but almost all of "
                        "its cells are empty; delete what is far from the table, or save the table as CSV"
                    )
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path.name} cannot be read as Excel: {error}") from error


def _pieces(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a member in pieces that end with a tag, or overlap."""
    member.file_size = _ENDLESS  # what the archive says need not be true: read to the end
    with archive.open(member) as file:
        before = b""
        while piece := file.read(_PIECE):
            piece = before + piece
            end = piece.rfind(b"<", len(piece) - _LONGEST_TAG if len(piece) > _LONGEST_TAG else 1)
            yield piece[: end if end > 0 else len(piece)]
            before = piece[end:] if end > 0 else piece[-_OVERLAP:]
    yield before


def _measured(name: str, pieces: Iterable[bytes]) -> tuple[NDArray[np.int64], int]:
    """Return the last row and column of a sheet, 1 and 1 for other members, and the number of references to cells."""
    n_bytes = n_cells = n_texts = 0
    is_sheet = False
    last = np.ones(2, dtype=np.int64)
    for piece in pieces:
        n_bytes += len(piece)
        is_sheet = is_sheet or b"sheetData" in piece
        if is_sheet:
            furthest, n_found = _references(piece)
            last, n_cells = np.maximum(last, furthest), n_cells + n_found
        else:
            n_texts += piece.count(b"<si") + piece.count(b":si")
        if n_bytes > _MAX_MEMBER or n_texts > _MAX_TEXTS:
            what = f"more than {_MAX_TEXTS:,} texts" if n_texts > _MAX_TEXTS else "a part of more than 4 GB"
            raise ValueError(
                f"{name} is too large for a workbook: it has {what}; save the table as CSV or Parquet"
            )
    return last, n_cells


def _is_empty(last: NDArray[np.int64], n_cells: int) -> bool:
    return int(last[0]) * int(last[1]) > _EMPTY_CELLS + _AREA_PER_CELL * n_cells


def _filled(piece: bytes) -> bytes:
    """Return a piece without the places of rows and of cells without values."""
    return _ROW.sub(b"", _EMPTY_CELL.sub(b"", piece))


def _references(piece: bytes) -> tuple[NDArray[np.int64], int]:
    """Return the highest row and column of references, and how many are those of cells.

    References look like ``r="AB12"`` for cells and ``r="12"`` for rows.
    """
    signs = np.frombuffer(piece, dtype=np.uint8)
    equals, spaces = signs == ord("="), signs <= ord(" ")
    if np.any(equals[1:] & spaces[:-1]) or np.any(equals[:-1] & spaces[1:]):  # as XML allows
        piece = re.sub(rb"(\sr)\s*=\s*", rb"\1=", piece)
    text = np.frombuffer(b"\0" + piece + b"\0" * 16, dtype=np.uint8)
    quote = (text[3:-14] == ord('"')) | (text[3:-14] == ord("'"))
    found = (text[:-17] <= ord(" ")) & (text[1:-16] == ord("r")) & (text[2:-15] == ord("=")) & quote
    place = np.flatnonzero(found) + 4
    column = np.zeros(len(place), dtype=np.int64)
    for _ in range(3):
        letter = text[place].astype(np.int64) - ord("A")
        is_letter = (letter >= 0) & (letter < 26)
        column = np.where(is_letter, 26 * column + letter + 1, column)
        place = place + is_letter
    row = np.zeros(len(place), dtype=np.int64)
    for _ in range(10):
        digit = text[place].astype(np.int64) - ord("0")
        is_digit = (digit >= 0) & (digit < 10)
        if not is_digit.any():
            break
        row = np.where(is_digit, 10 * row + digit, row)
        place = np.minimum(place + is_digit, len(text) - 1)
    is_cell = (row > 0) & (column > 0)
    return np.array([row.max(initial=1), column[is_cell].max(initial=1)]), int(is_cell.sum())
