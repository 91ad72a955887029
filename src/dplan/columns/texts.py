"""Text: one feature per level; of e-mail addresses, web addresses and IBANs, a part that many rows share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.columns.column import Column
from dplan.columns.formatting import format_share, format_value
from dplan.columns.frequencies import Frequency
from dplan.columns.levels import Levels, read_part
from dplan.columns.numerals import code_with_leading_zero, units
from dplan.columns.records import MANY, MOSTLY, Features, Hints, Training, Typical
from dplan.columns.unused import MIN_ROWS, Unused
from dplan.text import shown, visible

__all__ = ["PARTS", "Category", "Part", "looks_free", "looks_like_ids"]

_FREQUENT = 4  # levels in a small picture

# Structured text and the part of it that many rows share: what it looks like, and how the part is found.
PARTS = {
    "country": (re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}"), "IBANs"),
    "domain": (re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "e-mail addresses"),
    "host": (re.compile(r"https?://[^\s/]+(?:/\S*)?", re.IGNORECASE), "web addresses"),
}
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)  # as in "1st class"
_ID_SHAPES = (
    re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),  # UUID
    re.compile(r"(?=.*\d)[0-9a-fA-F]{16,}"),  # digest
    re.compile(r"[A-Za-z]{0,6}[-_/#:. ]?\d{3,}(?:[-_/]\d+)*"),  # TX-000123
    re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_-]{10,}"),  # a key
)


@dataclass(frozen=True, kw_only=True)
class Category(Levels):
    """Text with levels, one feature each.

    Attributes
    ----------
    levels : tuple of str
        The levels; `fill` has the share of each in the training rows.
    """

    kind = "text"
    words: ClassVar[tuple[str, ...]] = ("category", "text")
    is_plain_text = True

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        if not hints.quoted and (code := code_with_leading_zero(values)):
            return cls(why=f"codes with leading zeros such as {shown(code)}")
        counts = units(values)
        if sum(counts.values()) < len(values):
            return cls(why=f"text such as {shown(values[0])}")
        different = [unit for unit in counts if unit and not _ORDINAL.match(unit)]
        if len(values) >= MANY and MOSTLY * len(values) <= counts.get("", 0) < len(values):
            odd = next(value for value in values if "" not in units([value]))
            why = f"text: {shown(odd)} is not a plain number, but most values are"
            return cls(why=why, sure=False)
        if len(different) > 1:
            listed = " and ".join(map(shown, different[:2]))
            advice = "convert them, or ignore units (--column NAME=number)"
            return cls(why=f"numbers with different units ({listed}); {advice}", sure=False)
        return cls(why=f"text such as {shown(values[0])}")

    def settled(
        self, values: pl.Series, sample: Sequence[str], *, distinct: bool
    ) -> tuple[Column, pl.Series]:
        if not distinct:
            return self, values
        n_distinct, n_values = values.drop_nulls().n_unique(), len(values) - values.null_count()
        if n_distinct > n_values / 2 and looks_like_ids(sample):
            why = f"{n_distinct:,} different values of one form, such as {shown(sample[0])}"
            return Unused(what="id", why=why), values
        if n_distinct > max(MIN_ROWS, n_values / 5) and looks_free(sample):
            return Unused(what="free text", why=f"{n_distinct:,} different texts of several words"), values
        return self, values

    def limit(self) -> tuple[int, float]:
        return len(self.levels), max(0.0, 1.0 - sum(self.fill))

    def learn(self, series: pl.Series, training: Training) -> Column:
        """Learn the levels and their shares; of very many levels, how frequent they are.

        Examples
        --------
        >>> colour = pl.Series("colour", ["red", "blue", "red", None])
        >>> Category().learn(colour, Training(colour.to_frame(), [], 255)).fill
        (0.3333333333333333, 0.6666666666666666)
        """
        texts = series.drop_nulls()
        if texts.is_empty():
            return Unused.without_values(series.name)
        if isinstance(series.dtype, pl.Enum):  # all declared levels count, even if no row has them
            levels = series.dtype.categories.to_list()
            counts = np.bincount(texts.to_physical().to_numpy(), minlength=len(levels))
        else:
            most = training.max_levels
            found = pl.DataFrame({"level": texts.cast(pl.String)}).group_by("level").len()
            if found.height > most and found.height > len(texts) / 2:
                why = f"{found.height:,} different values, like an id"
                return Unused(name=series.name, what="id", why=why, decided=False)
            if found.height > most:
                return Frequency.like(self).learn(series, training)
            found = found.sort("level")
            levels, counts = found["level"].to_list(), found["len"].to_numpy()
        shares: NDArray[np.float64] = counts / len(texts)
        return replace(self, name=series.name, fill=tuple(shares.tolist()), levels=tuple(levels))

    def output_names(self) -> list[str]:
        """Return the names of the features.

        Examples
        --------
        >>> Category(name="state", fill=(0.5, 0.5), levels=("CON", "FIN")).output_names()
        ['state=CON', 'state=FIN']
        """
        return [f"{self.name}={level}" for level in self.levels]

    def restored(self, own: Features) -> str:
        return visible(self.levels[int(own.argmax())], 80) if own.max() == 1 else "missing or rare"

    def typical(self, background: Features) -> Typical:
        """Return the most frequent levels.

        Examples
        --------
        >>> column = Category(name="state", fill=(0.7, 0.2, 0.1), levels=("CON", "FIN", "INT"))
        >>> column.typical(np.empty((0, 3))).text
        "'CON' (70 %), 'FIN' (20 %)"
        """
        listed: list[str] = []
        covered = least = 0.0
        for share, level in sorted(zip(self.fill, self.levels, strict=True), reverse=True)[:3]:
            if covered < 0.85:
                listed.append(f"{format_value(level)} ({format_share(share)})")
                covered, least = covered + share, share
        # A level that is half as frequent as one of those is typical too.
        levels = frozenset(np.flatnonzero(np.array(self.fill) >= least / 2).tolist())
        return Typical(", ".join(listed), levels=levels)

    def is_new(self, own: Features) -> bool:
        return bool(own.max() < 1)

    def picture(self, background: Features, own: Features, *, missing: bool) -> dict[str, Any]:
        mine = int(own.argmax()) if own.max() == 1 else None
        order = highest_first(np.asarray(self.fill))[:_FREQUENT].tolist()
        if mine is not None and mine not in order:
            order.append(mine)
        return {"bars": [[visible(self.levels[k], 40), round(self.fill[k], 4), k == mine] for k in order]}

    def summary(self) -> str:
        return f"{self.width} levels: {', '.join(self.levels[:8])}" + (", …" if self.width > 8 else "")

    @classmethod
    def stores(cls, meaning: Mapping[str, Any] | None) -> bool:
        return super().stores(meaning) and (meaning is None or not meaning["part"])

    def is_valid(self) -> bool:
        return super().is_valid() and self.width == len(self.levels) == len(set(self.levels))


@dataclass(frozen=True, kw_only=True)
class Part(Category):
    """Structured text of which a part is used.

    Attributes
    ----------
    part : str
        The part, such as ``"domain"``.
    """

    words = tuple(PARTS)
    is_decided_only = True
    is_as_stored = False
    is_plain_text = False

    part: str = ""

    @classmethod
    def propose(cls, values: Sequence[str], hints: Hints) -> Column | None:
        """Return the part to use of structured text.

        Examples
        --------
        >>> Part.propose(["DE89 3704 0044 0532 0130 00"], Hints()).part, Part.propose(["Berlin"], Hints())
        ('country', None)
        """
        part = next((part for part, (form, _) in PARTS.items() if all(map(form.fullmatch, values))), "")
        return cls(part=part, why=f"{PARTS[part][1]}; only the {part} is used") if part else None

    @classmethod
    def holds(cls, dtype: pl.DataType) -> bool:
        return False

    @classmethod
    def settings(cls, word: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().settings(word, options), "kind": word}

    @classmethod
    def as_given(cls, given: Mapping[str, Any], values: Sequence[str], hints: Hints) -> Column:
        return cls(part=given["kind"]).with_settings(given)

    @classmethod
    def stores(cls, meaning: Mapping[str, Any] | None) -> bool:
        return meaning is not None and bool(meaning["part"])

    def takes(self, dtype: pl.DataType) -> bool:
        return False

    @property
    def type(self) -> str:
        return Category.words[0]

    def described(self) -> str:
        return self.part

    def understood(self) -> str:
        return self.part

    def settled(
        self, values: pl.Series, sample: Sequence[str], *, distinct: bool
    ) -> tuple[Column, pl.Series]:
        return self, values

    def parse(self, texts: pl.Series) -> pl.Series:
        return read_part(texts, self.part)

    def is_valid(self) -> bool:
        return super().is_valid() and self.part in PARTS


def looks_like_ids(texts: Sequence[str]) -> bool:
    """Return whether distinct texts have the form of ids: one shape, with digits, without words.

    Examples
    --------
    >>> looks_like_ids(["TX-0001", "TX-0002"]), looks_like_ids(["invoice of May", "rent"])
    (True, False)
    """
    return any(all(map(shape.fullmatch, texts)) for shape in _ID_SHAPES)


def looks_free(texts: Sequence[str]) -> bool:
    """Return whether texts are written by people in words: several words on average, of different number."""
    words = [len(text.split()) for text in texts]
    return sum(words) >= 2 * len(words) and len(set(words)) > 1
