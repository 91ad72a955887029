"""Propose what a column means from some of its values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dplan.columns.meaning import Meaning
from dplan.columns.moments import ORDERS, is_compact, is_duration, is_time, orders
from dplan.columns.numbers import ANY_UNIT, Convention, body_of, matching, units
from dplan.columns.texts import PARTS, is_flag, part_of
from dplan.text import shown

__all__ = ["Hints", "propose", "propose_as"]

_DIGITS = re.compile(r"-?\d[\d.,]*")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_OTHER = {".": ",", ",": "."}
_NAMES = {",": "comma", ".": "point", " ": "space", "'": "apostrophe"}


@dataclass(frozen=True)
class Hints:
    """What the other columns of a table say about its conventions, for columns that leave doubt."""

    decimal: str = ""
    order: str = ""

    def matter_for(self, meaning: Meaning) -> bool:
        """Return whether a meaning that was proposed without hints may be another with them."""
        neutral = meaning.kind == "number" and meaning.why.startswith("whole")
        return not meaning.sure or (neutral and self.decimal == ",")

    @classmethod
    def of(cls, meanings: Iterable[Meaning]) -> Hints:
        """Return the conventions that most columns without doubt follow."""
        sure = [meaning for meaning in meanings if meaning.sure]
        decimals = Counter(m.decimal for m in sure if m.kind == "number" and m.why.startswith("decimal"))
        dates = Counter(m.order for m in sure if m.kind == "date" and m.order != "ymd")
        if not decimals and any("." in m.why for m in sure if m.order == "dmy"):
            decimals[","] += 1  # where 31.1. is a date, 1,5 is a number
        decimal, order = (max(found, key=found.__getitem__, default="") for found in (decimals, dates))
        return cls(decimal, order)


def propose(values: Sequence[str], hints: Hints, *, quoted: bool = False) -> Meaning:
    """Return what some distinct values mean.

    Parameters
    ----------
    values : sequence of str
        Distinct values, without missing ones.
    hints : Hints
        The conventions of the other columns.
    quoted : bool, default=False
        Whether numbers would have been stored as numbers, as in JSON and Parquet, so that plain digits are text.

    Examples
    --------
    >>> propose(["12,50 €", "1.200,00 €"], Hints()).described()
    'a number with decimal comma, in €'
    >>> propose(["3.582", "12.100"], Hints(decimal=",")).decimal
    ','
    """
    if all(map(is_flag, values)):
        return Meaning("flag", why=f"{_some(values)} mean yes or no")
    if quoted and all(map(_PLAIN.fullmatch, values)):
        return Meaning("category", why=f"text such as {shown(values[0])}")
    if len(values) >= 20 and all(map(is_compact, values)):
        return Meaning("date", why=f"{_some(values)} are a year, month and day")
    found = _number(values, hints)
    if found is None and (possible := orders(values)):
        found = _date(values, possible, hints)
    if found is not None:
        return found
    if all(map(is_time, values)):
        return Meaning("time", why=f"{_some(values)} are times of day")
    if all(map(is_duration, values)):
        return Meaning("duration", why=f"{_some(values)} are durations, read in seconds")
    if part := part_of(values):
        return Meaning("category", part=part, why=f"{PARTS[part][1]}; only the {part} is used")
    different = [unit for unit in units(values) if unit]
    if len(different) > 1 and all(body_of(value) for value in values):
        return Meaning(
            "category",
            why=f"numbers with different units ({_some(different)}); convert them, or ignore units "
            "(--column NAME=number)",
            sure=False,
        )
    return Meaning("category", why=f"text such as {shown(values[0])}")


def propose_as(given: Mapping[str, Any], values: Sequence[str], hints: Hints) -> Meaning:
    """Return what values mean if some of it is given: at least the kind."""
    kind = given["kind"]
    found = Meaning(kind)
    if kind == "number":
        numbers = [value for value in values if body_of(value) is not None]
        found = _number(numbers, hints, any_unit=True) or Meaning("number", unit=ANY_UNIT)
        decimal = given.get("decimal", _OTHER.get(given.get("thousands", ""), found.decimal))
        thousands = given.get("thousands", _OTHER[decimal] if found.thousands in _OTHER else found.thousands)
        found = replace(found, decimal=decimal, thousands=thousands)
    elif kind == "date":
        dates = [value for value in values if orders([value])]
        found = _date(dates, orders(dates) or list(ORDERS)[1:], hints) if dates else found
    return replace(found, **given, why="as specified", sure=True)


def _number(values: Sequence[str], hints: Hints, *, any_unit: bool = False) -> Meaning | None:
    if all(map(_DIGITS.fullmatch, values)):  # most columns, and quicker
        own, counts = [value.lstrip("-") for value in values], {"": len(values)}
    else:
        own = [body for body in map(body_of, values) if body is not None]
        counts = units(values)
    if not own or len(own) < len(values):
        return None
    bare = counts.pop("", 0)
    if len(counts) > 1 and not any_unit:
        return None
    unit = ANY_UNIT if len(counts) > 1 else next(iter(counts), "")
    if unit.isalpha() and bare > counts[unit]:
        return None  # such as 12 and 12a
    if not unit and all(body.isdigit() for body in own) and any(re.match(r"0\d\d", body) for body in own):
        code = next(body for body in own if body.startswith("0"))
        return Meaning("category", why=f"codes with leading zeros such as {shown(code)}")
    found = _convention(own, hints)
    if found is None:
        return None
    convention, why, sure = found
    if unit not in ("", ANY_UNIT):
        why += f"; in {unit}"
    return Meaning(
        "number", decimal=convention.decimal, thousands=convention.thousands, unit=unit, why=why, sure=sure
    )


def _convention(bodies: list[str], hints: Hints) -> tuple[Convention, str, bool] | None:
    """Return the separators, what decided them, and whether the numbers leave no doubt."""
    fits = matching(bodies)
    if not fits:
        return None
    signs = [sign for sign in ".,' " if any(sign in body for body in bodies)]
    decimals = {fit.decimal for fit in fits}
    grouped = [fit for fit in fits if fit.thousands in signs]
    if len(decimals) == 1:
        (decimal,) = decimals
        found = grouped[0] if grouped else Convention(decimal, _OTHER[decimal])
        example = next((body for body in bodies if decimal in body), bodies[0])
        thousands = f", thousands {_NAMES[found.thousands]}" if grouped else ""
        return found, f"decimal {_NAMES[decimal]}{thousands}, as in {shown(example)}", True
    if not {".", ","} & set(signs):  # whole numbers
        decimal = hints.decimal or "."
        found = Convention(decimal, signs[0] if signs else _OTHER[decimal])
        return found, "whole numbers", True
    (sign,) = {".", ","} & set(signs)
    example = next(body for body in bodies if sign in body)
    plain = [body for body in bodies if sign not in body]
    as_decimal, as_thousands = Convention(sign, _OTHER[sign]), Convention(_OTHER[sign], sign)
    if any(len(body) > 3 for body in plain):
        longer = next(body for body in plain if len(body) > 3)
        return as_decimal, f"decimal {_NAMES[sign]}, because {shown(longer)} has no thousands separator", True
    if plain:
        return (
            as_thousands,
            f"thousands {_NAMES[sign]}, as in {shown(example)}: smaller numbers have none",
            True,
        )
    decimal = hints.decimal or "."
    found = as_decimal if decimal == sign else as_thousands
    value = example.replace(sign, "." if decimal == sign else "")
    because = (
        f"other columns have a decimal {_NAMES[decimal]}" if hints.decimal else "nothing in the table decides"
    )
    return found, f"ambiguous: {shown(example)} is read as {value}, because {because}", False


def _date(values: Sequence[str], possible: list[str], hints: Hints) -> Meaning:
    example = values[0]
    if len(possible) == 1:
        order = possible[0]
        if order != "ymd":
            example = next((v for v in values if orders([v]) == [order]), example)
        return Meaning("date", order=order, why=f"{ORDERS[order].replace('-', ' ')}, as in {shown(example)}")
    if re.match(r"\d{1,2}\.", example):
        return Meaning("date", order="dmy", why=f"day first, as in {shown(example)}: dates with points are")
    order = hints.order or "dmy"
    because = "as in other columns" if hints.order else "because nothing in the table decides"
    why = f"ambiguous: {shown(example)} is read {ORDERS[order].replace('-', ' ')}, {because}"
    return Meaning("date", order=order, why=why, sure=False)


def _some(values: Sequence[str]) -> str:
    return " and ".join(shown(value) for value in values[:2])
