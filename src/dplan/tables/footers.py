"""The last rows of a file or sheet that are no rows of its table: totals and notes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dplan.tables.layout import Rows, is_value

__all__ = ["FOOTER_ROWS", "footer_of"]

FOOTER_ROWS = 10  # rows that a footer is looked for in

_TOTAL = re.compile(
    r"(?:grand|sub)?[ -]?(?:totals?|totale?s?|totaux|sums?|summe|gesamt|insgesamt|suma|somme)\b", re.I
)
_NOTE = re.compile(
    r"\W*(?:(?:foot)?notes?|sources?|remarks?|quellen?|anmerkung(?:en)?|hinweise?|fuentes?|notas?)\b|[*†‡]",
    re.I,
)


def footer_of(rows: Rows, width: int) -> int:
    """Return how many of the last rows are no rows of the table: notes and totals.

    Examples
    --------
    >>> footer_of([["Mon", "5", "x"], ["Tue", "7", "y"], [""], ["Total", "12", ""], ["Source: us"]], width=3)
    2
    """
    n_cut = 0
    for n, row in enumerate(reversed(rows), start=1):
        cells = [cell.strip() for cell in row]
        filled = [i for i, cell in enumerate(cells) if cell]
        above = next((row for row in reversed(rows[: len(rows) - n]) if any(row)), None)
        if above is None:
            break
        short = len(row) < width
        note = width > 2 and filled == [0] and (short or _is_note(cells[0], rows[: len(rows) - n]))
        if note or _is_total(cells, filled, above):
            n_cut = n
        elif filled:
            break
    return n_cut


def _is_note(cell: str, above: Rows) -> bool:
    """Return whether the only cell of a row begins as notes do, or is a sentence where other rows have values."""
    values = [is_value(row[0]) for row in above if row and row[0].strip()]
    return bool(_NOTE.match(cell)) or (len(cell.split()) > 3 and 2 * sum(values) > len(values))


def _is_total(cells: list[str], filled: list[int], above: Sequence[str]) -> bool:
    """Return whether a row has a word for a total where others have a value, or less than the row above it."""
    if len(filled) < 2 or not _TOTAL.match(cells[filled[0]]) or len(cells[filled[0]]) > 30:
        return False
    before = [cell.strip() for cell in above]
    others = [i for i in filled[1:] if is_value(cells[i])]
    gaps = [i for i, cell in enumerate(before) if cell and (i >= len(cells) or not cells[i])]
    return bool(others) and (bool(gaps) or is_value(before[filled[0]] if len(before) > filled[0] else ""))
