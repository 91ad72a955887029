"""Where a table is in its file or sheet: which row is the header, and which rows around it are none of the table.

What is not given is found in the first rows and the last ones, and only where a file could not be read otherwise, so
that no file is read in another way than it says. Whatever is found is said, and an option overrules it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from dplan.text import shown

__all__ = [
    "PLAIN",
    "SAMPLE_ROWS",
    "Layout",
    "Rows",
    "Start",
    "check_rows_to_skip",
    "is_layout",
    "is_value",
    "start_of",
]

SAMPLE_ROWS = 100  # rows that the header is looked for in

_NO_HEADER = (
    "pass --no-header, and the columns are called column_1, column_2, …, or --header-row if these are names"
)
_VALUE = re.compile(  # of a number, date or time, never of a name; "10th" and "2011_" may begin one
    r"\s*[-+(]?\s*[$€£¥]?\s*[.,]?(?!\d+(?:(?:st|nd|rd|th)\b|_[a-z]))\d", re.I
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBERED = re.compile(r"([A-Za-z_. ]*)(\d+)")
_EMPTY = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "?", ".", "-")

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Layout:
    """Where the rows of a table are, as far as that is given; None to find it.

    Attributes
    ----------
    header : int, optional
        Row of the header, counted from 1; 0 without a header.
    skip : int
        Rows to skip at the top.
    below : int, optional
        Rows to skip below the header, such as units.
    footer : int, optional
        Rows to skip at the end, such as totals.
    """

    header: int | None = None
    skip: int = 0
    below: int | None = None
    footer: int | None = None

    def __post_init__(self) -> None:
        if not is_layout(asdict(self)):
            raise ValueError(f"rows of a layout must be whole numbers from 0 on, got {self}")
        if self.header and self.skip:
            raise ValueError("give the row of the header, or the rows to skip before it, but not both")

    def completed(self, trained: Layout) -> Layout:
        """Return the layout with what is not given as in training.

        Examples
        --------
        >>> Layout(footer=2).completed(Layout(header=0, footer=1))
        Layout(header=0, skip=0, below=None, footer=2)
        """
        top = trained if self.header is None and self.skip == 0 else self
        below = trained.below if self.below is None else self.below
        return Layout(top.header, top.skip, below, trained.footer if self.footer is None else self.footer)

    def to_json(self) -> dict[str, int | None]:
        """Return the record as JSON values."""
        return asdict(self)


def is_layout(value: Any) -> bool:
    """Return whether a JSON value is that of a layout."""
    return (
        isinstance(value, Mapping)
        and set(value) == {"header", "skip", "below", "footer"}
        and all((type(n) is int and n >= 0) or (n is None and key != "skip") for key, n in value.items())
    )


PLAIN = Layout(header=1, below=0, footer=0)  # nothing is looked for


class Start(NamedTuple):
    """Where a table begins.

    Attributes
    ----------
    names : list of str or None
        The names of the columns; None for a column without name and values, which is left out.
    first : int
        The first row of data, counted from 0.
    notes : list of str
        What was found, for people.
    """

    names: list[str | None]
    first: int
    notes: list[str]


def start_of(rows: Rows, layout: Layout) -> Start:
    """Find the header in the first rows of a file, as cells.

    Examples
    --------
    >>> rows = [["Report"], [], ["day", "kg", ""], ["", "[kg]", ""], ["Mon", "5", ""], ["Tue", "7", ""]]
    >>> start_of(rows, Layout())
    Start(names=['day', 'kg', None], first=4, notes=['the header is in row 3, and the rows above it are skipped
    (--header-row)', 'column 3 has neither name nor values and is left out', 'row 4 has units and is skipped
    (--skip-after-header)'])
    """
    rows = [[cell.strip() for cell in row] for row in rows]
    filled = [i for i in range(layout.skip, len(rows)) if any(rows[i])]
    if not filled:
        raise ValueError("there is no row to read; check the rows to skip")
    notes: list[str] = []
    if layout.header == 0:
        width = max(len(rows[i]) for i in filled[:1])
        return Start([f"column_{i + 1}" for i in range(width)], layout.skip, notes)
    if layout.header is not None:
        place = layout.header - 1
        if place >= len(rows) or not any(rows[place]):
            raise ValueError(f"row {layout.header} is empty; give the row of the column names (--header-row)")
    else:
        place = _header(rows, filled, layout.skip)
        if place > layout.skip:
            skipped = "row above it is" if place == layout.skip + 1 else "rows above it are"
            notes.append(f"the header is in row {place + 1}, and the {skipped} skipped (--header-row)")
    below = [rows[i] for i in filled if i > place]
    if layout.header is None:
        _check_header(rows[place], below, place)
    names = _names(rows[place], below, notes)
    n_below = layout.below
    if n_below is None:
        n_below = int(_are_units(below[:1], below[1:]))
        if n_below:
            n_below = next(i for i in filled if i > place) - place
            notes.append(f"row {place + n_below + 1} has units and is skipped (--skip-after-header)")
    check_rows_to_skip(n_below, len(rows) - place - 1, "below the header", "--skip-after-header")
    return Start(names, place + 1 + n_below, notes)


def check_rows_to_skip(n: int, n_rows: int, where: str, option: str) -> None:
    """Raise if more rows are to be skipped than there are; no rows at all are those of a day without any.

    Examples
    --------
    >>> check_rows_to_skip(3, 2, "at the end", "--footer-rows")
    Traceback (most recent call last):
    ValueError: 3 rows are to be skipped at the end, but there are only 2; check --footer-rows
    """
    if n > n_rows > 0:
        raise ValueError(
            f"{n:,} rows are to be skipped {where}, but there are only {n_rows:,}; check {option}"
        )


def is_value(cell: str) -> bool:
    """Return whether a cell has a number, date or time, not a name."""
    return bool(_VALUE.match(cell))


def _width(rows: Rows) -> int:
    """Return how many cells most rows have."""
    counts = Counter(len(row) for row in rows)
    return max(counts, key=lambda width: (counts[width], width), default=0)


def _header(rows: Rows, filled: list[int], skip: int) -> int:
    """Return the row of the header: usually the first, unless that cannot be one and a later row can."""
    first = filled[0]
    width = _width([rows[i] for i in filled[len(filled) // 2 :]])
    if width < 2:
        return first
    for n, place in enumerate(filled[:30]):
        row = rows[place]
        n_cells = sum(map(bool, row))
        after = [rows[i] for i in filled[n + 1 :]]
        if n == 0 and n_cells > max(1, width // 2):
            # An index such as 0, 1, 2 or X1, X2, X3 may stand above the header.
            below = after[0] if after else []
            if _counts(row) and _are_names(below, width) and _some_values(after[1:]):
                return filled[1]
            return first
        if n_cells > max(1, width // 2):
            right = _are_names(row, width) and sum(len(one) == width for one in after[:3]) >= min(
                2, len(after)
            )
            return place if right and after else first
    return first


def _are_names(row: Sequence[str], width: int) -> bool:
    """Return whether all cells of a row can be names of columns; the first and the last ones may be empty."""
    names = [cell for cell in row if cell]
    inside = list(row)
    while inside and not inside[-1]:
        inside.pop()
    return (
        len(names) > 0
        and len(names) == len(set(names))
        and width - 1 <= len(row) <= width
        and all(inside[1:])
        and not any(is_value(cell) and not _YEAR.fullmatch(cell) for cell in names)
    )


def _counts(row: Sequence[str]) -> bool:
    """Return whether most cells of a row count: 0, 1, 2, or A, B, C, or X1, X2, X3."""
    cells = [cell for cell in row if cell]
    if len(cells) < 2:
        return False
    if all(len(cell) == 1 and cell.isupper() for cell in cells):
        numbers: list[tuple[str, int]] = [("", ord(cell)) for cell in cells]
    else:
        matches = [_NUMBERED.fullmatch(cell) for cell in cells]
        numbers = [(match[1], int(match[2])) for match in matches if match]
    steps = [b[0] == a[0] and b[1] == a[1] + 1 for a, b in pairwise(numbers)]
    return len(numbers) >= max(2, 0.7 * len(cells)) and all(steps)


def _some_values(rows: Rows) -> bool:
    return bool(_value_columns(rows))


def _value_columns(rows: Rows) -> list[int]:
    """Return the columns with numbers or dates in almost all rows."""
    found = []
    for place in range(_width(rows)):
        cells = [row[place] for row in rows if place < len(row) and row[place] not in _EMPTY]
        if cells and sum(map(is_value, cells)) >= 0.8 * len(cells):
            found.append(place)
    return found


def _are_units(candidates: Rows, rows: Rows) -> bool:
    """Return whether the first row below the header has units: text in every column of numbers."""
    if not candidates or len(rows) < 2:
        return False
    (row,) = candidates
    columns = [place for place in _value_columns(rows) if place < len(row)]
    units = [place for place in columns if row[place] and row[place] not in _EMPTY]
    bracketed = all(row[place][0] in "[(" for place in units)
    return (
        bool(units)
        and (bracketed or (len(units) > 1 and 2 * len(units) >= len(columns)))
        and not any(is_value(row[place]) for place in columns if row[place])
        and not any(one[place] == row[place] for one in rows for place in units if place < len(one))
    )


def _check_header(header: Sequence[str], rows: Rows, place: int) -> None:
    """Raise an error if the header looks like data."""
    cells = [cell for cell in header if cell]
    if all(map(_is_number, cells)):
        first = "the first line" if place == 0 else f"row {place + 1}"
        raise ValueError(
            f"{first} contains only numbers ({', '.join(header[:3])}, …), so it is not a header; "
            f"add a line with column names, or {_NO_HEADER}"
        )
    columns = [i for i in _value_columns(rows) if i < len(header)]
    if not columns or not all(is_value(header[i]) for i in columns) or len(rows) < 2:
        return
    if all(_YEAR.fullmatch(header[i]) for i in columns):
        return
    texts = [i for i in range(len(header)) if i not in columns and header[i]]
    repeated = sum(any(i < len(row) and row[i] == header[i] for row in rows) for i in texts)
    if repeated or len(columns) > 1:
        some = ", ".join(shown(cell) for cell in header[:3])
        raise ValueError(
            f"row {place + 1} looks like data ({some}, …), not like a header; add a line with column names, "
            f"or {_NO_HEADER}"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _names(header: Sequence[str], rows: Rows, notes: list[str]) -> list[str | None]:
    """Return the names of the columns; those without a name are left out if they are empty, and numbered if not."""
    width = _width(rows) or len(header)
    names = list(header)
    while len(names) > width and not names[-1]:
        names.pop()
    if rows and width == len(names) + 1 and all(names) and all(len(row) == width for row in rows):
        if not any(row[-1] for row in rows):
            return [*names, None]  # each row ends with a separator
        first = [row[0] for row in rows if row]
        if len(set(first)) == len(first) > 1:
            notes.append("the first column has no name and is called column_1")
            return ["column_1", *names]
    found: list[str | None] = []
    for place, name in enumerate(names):
        empty = not name and not any(place < len(row) and row[place] for row in rows)
        found.append(name or (None if empty and rows else f"column_{place + 1}"))
    for what, verb, places in (
        ("neither name nor values", "left out", [i + 1 for i, name in enumerate(found) if name is None]),
        ("no name", "called", [i + 1 for i, name in enumerate(found) if name is not None and not names[i]]),
    ):
        if not places:
            continue
        many = len(places) > 1
        listed = ", ".join(map(str, places[:5])) + (", …" if len(places) > 5 else "")
        end = f"called column_{places[0]}" + ", …" * many if verb == "called" else verb
        have, are = ("have", "are") if many else ("has", "is")
        notes.append(f"column{'s' * many} {listed} {have} {what} and {are} {end}")
    return found
