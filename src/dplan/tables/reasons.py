"""A reason for the score of a row, as a record: everything that shows one, as text or on a page, formats this."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from dplan.columns.formatting import format_share
from dplan.text import shortened

__all__ = ["MOST_REASONS", "ColumnName", "Like", "Reason", "columns_of_reasons", "joined"]

Why = Literal["missing", "unseen", "unusual", "known", "combination", "like", "common"]

MOST_REASONS = 3  # for a row, unless a caller asks for others

_BETWEEN = " | "
_MAX_NAME = 100  # characters of a column's name
_FEW = 20  # known anomalies, of which a number and not a percentage is given

CLOSE = 0.05  # relative difference of numbers that are called similar


class Like(NamedTuple):
    """A similar known anomaly: its name, and the columns in which its value is the same (True) or close (False)."""

    name: str
    columns: tuple[tuple[str, bool], ...]


class ColumnName(str):
    """A piece of a sentence that is the name of a column."""

    __slots__ = ()


@dataclass(frozen=True)
class Reason:
    """Why the value of one column raises the score of a row.

    Attributes
    ----------
    column : str
        The column.
    value : str
        The value of the row, as text.
    why : str
        The value is "missing", "unseen" in training, "unusual", more common among "known" anomalies or, in
        "combination" with that of another column, more common there or rare; a known anomaly is "like" the row; or
        how "common" it is.
    typical : str
        The typical values of the column.
    condition : str
        What the value meets, such as ``"≥ 80"``; starts with ``"="`` if it is the value itself.
    other, other_condition : str
        The other column of a combination, and what its value meets.
    known : str
        The known anomalies that the row is compared with, such as "known fraud".
    n_known : int
        Their number.
    known_share, rest_share : float
        The fractions of them and of the unlabelled rows that meet the condition, or the combination.
    like : Like, optional
        The similar known anomaly.
    effect : float
        How much the column raises the score.
    share : float
        The part of this effect in all that raise the score.

    Examples
    --------
    >>> reason = Reason("amount", "920", "unusual", "5–94")
    >>> reason.text(), reason.note()
    ('`amount` = 920; typical 5–94', 'typical 5–94')
    >>> shares = {"known": "known fraud", "n_known": 50, "known_share": 1.0, "rest_share": 0.2}
    >>> Reason("a", "80", "known", "0–90", "≥ 80", **shares).text()
    '`a` = 80; ≥ 80: 100 % of known fraud, 20 % of the rest'
    >>> reason.pieces()
    ['amount', ' = 920; ', 'typical 5–94']
    """

    column: str
    value: str
    why: Why
    typical: str
    condition: str = ""
    other: str = ""
    other_condition: str = ""
    known: str = ""
    n_known: int = 0
    known_share: float = 0.0
    rest_share: float = 0.0
    like: Like | None = None
    effect: float = 0.0
    share: float = 0.0

    def text(self) -> str:
        """Return the reason as one line of text."""
        return _as_text(self.pieces())

    def note(self) -> str:
        """Return the text without the name and the value of the column, for where these are shown beside it."""
        return _as_text(self._note())

    def pieces(self) -> list[str]:
        """Return the text in pieces, of which the names of columns are of the type `ColumnName`."""
        name, note = ColumnName(self.column), self._note()
        match self.why:
            case "missing":
                return [name, " ", *note]
            case "unseen":
                return [name, f" = {self.value}, ", *note]
            case "combination":
                return [name, f" = {self.value} " if self._says_value else " ", *note]
            case "known" | "common" if self._says_value:
                return [name, f" = {self.value}: ", *note]
            case _:
                return [name, f" = {self.value}; ", *note]

    def _note(self) -> list[str]:
        match self.why:
            case "missing":
                return [f"is missing; typical {self.typical}"]
            case "unseen":
                return [f"not seen in training; typical {self.typical}"]
            case "unusual":
                return [f"typical {self.typical}"]
            case "combination":
                mine = "" if self._says_value else f"{self.condition} "
                other = ColumnName(self.other)
                return [f"{mine}and ", other, f" {self.other_condition}: {self._shares()}"]
            case "like":
                assert self.like is not None
                pieces = [f"like {self.like.name}: "]
                for column, same in self.like.columns:
                    name = ColumnName(column)
                    pieces += ["same ", name] if same else [name, f" within {format_share(CLOSE)}"]
                    pieces.append(", ")
                return pieces[:-1]
            case _:
                return [self._shares() if self._says_value else f"{self.condition}: {self._shares()}"]

    @property
    def _says_value(self) -> bool:
        return self.condition.startswith("=")

    def _shares(self) -> str:
        """Return how common the condition is."""
        rest = format_share(self.rest_share)
        if not self.known:
            return f"{rest} of unlabelled rows"
        share = f"{format_share(self.known_share)} of"
        if self.n_known < _FEW:
            share = f"{round(self.known_share * self.n_known)} of {self.n_known}"
        return f"{share} {self.known}, {rest} of the rest"


def joined(reasons: Iterable[Reason]) -> str:
    """Return the reasons for one row as one text.

    Examples
    --------
    >>> joined([Reason("a", "9", "unusual", "1–2"), Reason("b", "", "missing", "'x' (90 %)")])
    "`a` = 9; typical 1–2 | `b` is missing; typical 'x' (90 %)"
    """
    return _BETWEEN.join(reason.text() for reason in reasons)


def columns_of_reasons(texts: pl.Expr, *, apart: bool, n: int = MOST_REASONS) -> dict[str, pl.Expr]:
    """Return the columns of an output that show reasons, given a column of lists of texts.

    They are one column with all reasons or, for people who filter and sort, a column for each.

    Examples
    --------
    >>> rows = pl.DataFrame({"texts": [["`a` is missing", "`b` = 9"], None]})
    >>> rows.select(**columns_of_reasons(pl.col("texts"), apart=False)).rows()
    [('`a` is missing | `b` = 9',), ('',)]
    >>> rows.select(**columns_of_reasons(pl.col("texts"), apart=True)).rows()
    [('`a` is missing', '`b` = 9', None), (None, None, None)]
    """
    if not apart:
        return {"reasons": texts.list.join(_BETWEEN).fill_null("")}
    return {f"reason_{i + 1}": texts.list.get(i, null_on_oob=True) for i in range(n)}


def _as_text(pieces: Iterable[str]) -> str:
    return "".join(f"`{short(piece)}`" if isinstance(piece, ColumnName) else piece for piece in pieces)


def short(name: str) -> str:
    """Return the name of a column as a reason shows it."""
    return shortened(name, _MAX_NAME)
