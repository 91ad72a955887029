"""A rule: one to three conditions on different columns, all of which a row has to meet."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import polars as pl

from dplan.columns.formatting import format_number
from dplan.persistence.schema import is_number
from dplan.text import shortened, shown

__all__ = ["TYPES", "Condition", "Rule"]

Value = int | float | str | bool | datetime.date | datetime.datetime

MOST_CONDITIONS, MOST_VALUES = 3, 20
_LARGEST = 2**53  # larger integers are texts in JSON, because many programs read its numbers as floats
_KEYS = {"column", "at_least", "at_most", "in", "missing", "or_missing"}

TYPES: dict[str, pl.DataType] = {
    "integer": pl.Int64(),
    "float": pl.Float64(),
    "float32": pl.Float32(),
    "text": pl.String(),
    "flag": pl.Boolean(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us"),
}
_NUMBERS = ("integer", "float", "float32")
_ORDERED = (*_NUMBERS, "date", "timestamp")
# No two computers agree on which fractions are equal, so floats and moments have bounds alone.
_LISTED = ("integer", "text", "flag", "date")


@dataclass(frozen=True)
class Condition:
    """A condition on one column.

    Attributes
    ----------
    column, type : str
        The column, and the type of its values: a key of `TYPES`.
    at_least, at_most : value, optional
        The bounds of the value, inclusive.
    values : tuple, optional
        The values that it may have.
    missing : bool, optional
        Whether there is no value, or any value. NULL and NaN are both missing.
    or_missing : bool
        Whether a missing value meets the condition, too.

    Examples
    --------
    >>> condition = Condition("elevation", "integer", at_most=2400)
    >>> pl.DataFrame({"elevation": [2100, 2500, None]}).filter(condition.expression()).rows()
    [(2100,)]
    >>> print(condition)
    `elevation` at most 2,400
    >>> condition.to_json()
    {'column': 'elevation', 'at_most': 2400}
    >>> Condition.from_json({"column": "elevation", "at_most": 2400}, {"elevation": "integer"}) == condition
    True
    """

    column: str
    type: str
    at_least: Value | None = None
    at_most: Value | None = None
    values: tuple[Value, ...] | None = None
    missing: bool | None = None
    or_missing: bool = False

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(
                f"column {shown(self.column)}: unknown type {shown(self.type)}; use {', '.join(TYPES)}"
            )
        bounds = self.at_least is not None or self.at_most is not None
        if bounds + (self.values is not None) + (self.missing is not None) != 1:
            raise ValueError(
                f"column {shown(self.column)}: a condition has bounds (at_least, at_most), values (in) or missing, "
                "and only one of these"
            )
        if (bounds and self.type not in _ORDERED) or (self.values is not None and self.type not in _LISTED):
            what = "bounds" if bounds else "a list of values"
            raise ValueError(f"column {shown(self.column)}: {what} cannot be used for type {self.type}")
        if self.values is not None and not 1 <= len(self.values) <= MOST_VALUES:
            raise ValueError(
                f"column {shown(self.column)}: 1 to {MOST_VALUES} values, not {len(self.values)}"
            )
        if self.or_missing and self.missing is not None:
            raise ValueError(f"column {shown(self.column)}: or_missing goes with bounds or values")
        if self.type == "integer":  # the next integer means the same, and is compared exactly
            for name, rounded in (("at_least", math.ceil), ("at_most", math.floor)):
                if isinstance(bound := getattr(self, name), float):
                    object.__setattr__(self, name, rounded(bound))
        if None not in (self.at_least, self.at_most) and self.at_least > self.at_most:  # type: ignore[operator]
            raise ValueError(f"column {shown(self.column)}: at_least is larger than at_most")

    def expression(self) -> pl.Expr:
        """Return the condition for polars: true or false for each row, never null."""
        column = pl.col(self.column)
        if self.type in ("float", "float32"):
            column = column.cast(pl.Float64).fill_nan(None)
        if self.missing is not None:
            return column.is_null() if self.missing else column.is_not_null()
        kind = pl.Float64() if self.type == "float32" else TYPES[self.type]
        if self.values is not None:
            found = column.is_in(pl.Series(self.values, dtype=kind).implode())
        else:
            # A bound may be larger than any integer of the column.
            own = None if self.type == "integer" else kind
            low = pl.lit(True) if self.at_least is None else column >= pl.lit(self.at_least, dtype=own)
            found = low if self.at_most is None else low & (column <= pl.lit(self.at_most, dtype=own))
        return (found.fill_null(False) & column.is_not_null()) | (
            column.is_null() if self.or_missing else pl.lit(False)
        )

    def __str__(self) -> str:
        return f"`{shortened(self.column, 100)}` {self.words}"

    @property
    def words(self) -> str:
        """What is said of the column."""
        if self.missing is not None:
            words = "is missing" if self.missing else "is not missing"
        elif self.values is not None:
            listed = [_in_words(value) for value in self.values]
            last = f"{', '.join(listed[:-1])} or {listed[-1]}" if len(listed) > 1 else listed[0]
            words = f"= {last}"
        elif self.at_least is None:
            words = f"at most {_in_words(self.at_most)}"
        elif self.at_most is None:
            words = f"at least {_in_words(self.at_least)}"
        elif self.at_least == self.at_most:
            words = f"= {_in_words(self.at_least)}"
        else:
            words = f"between {_in_words(self.at_least)} and {_in_words(self.at_most)}"
        return f"{words}{' or missing' * self.or_missing}"

    def to_json(self) -> dict[str, Any]:
        """Return the condition as JSON values."""
        found: dict[str, Any] = {"column": self.column}
        for name in ("at_least", "at_most"):
            if (bound := getattr(self, name)) is not None:
                found[name] = _to_json(bound)
        if self.values is not None:
            found["in"] = [_to_json(value) for value in self.values]
        if self.missing is not None:
            found["missing"] = self.missing
        return {**found, "or_missing": True} if self.or_missing else found

    @classmethod
    def from_json(cls, found: Any, types: Mapping[str, str]) -> Condition:
        """Return a condition from JSON values, given the types of the columns."""
        if not isinstance(found, dict) or not isinstance(found.get("column"), str):
            raise ValueError(f"a condition is an object with the name of a column, not {shown(found)}")
        column = found["column"]
        if unknown := sorted(set(found) - _KEYS):
            raise ValueError(f"column {shown(column)}: unknown key {shown(unknown[0])}")
        if column not in types:
            raise ValueError(f"column {shown(column)} is not among the columns of the file")
        for name in ("missing", "or_missing"):
            if not isinstance(found.get(name, False), bool):
                raise ValueError(f"column {shown(column)}: {name} is true or false")
        listed = found.get("in")
        if listed is not None and not isinstance(listed, list):
            raise ValueError(f"column {shown(column)}: `in` is a list of values")
        kind = types[column]

        def value(given: Any) -> Value | None:
            return None if given is None else _from_json(given, kind, column)

        return cls(
            column,
            kind,
            value(found.get("at_least")),
            value(found.get("at_most")),
            None if listed is None else tuple(_from_json(one, kind, column) for one in listed),
            found.get("missing"),
            found.get("or_missing", False),
        )


@dataclass(frozen=True)
class Rule:
    """One to three conditions on different columns, all of which a row has to meet.

    Examples
    --------
    >>> rule = Rule((Condition("area", "text", values=("C", "D")), Condition("elevation", "integer", at_most=2400)))
    >>> print(rule)
    `area` = 'C' or 'D' and `elevation` at most 2,400
    >>> pl.DataFrame({"area": ["C", "A"], "elevation": [2000, 2000]}).filter(rule.expression()).height
    1
    >>> Rule.from_json(rule.to_json(), {"area": "text", "elevation": "integer"}) == rule
    True
    """

    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        names = [condition.column for condition in self.conditions]
        if not 1 <= len(names) <= MOST_CONDITIONS or len(set(names)) < len(names):
            raise ValueError(f"a rule has 1 to {MOST_CONDITIONS} conditions, each on another column")

    @property
    def id(self) -> str:
        """A digest of the rule, which is the same whenever the same rule is found."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def expression(self) -> pl.Expr:
        """Return the rule for polars: true or false for each row."""
        return pl.all_horizontal([condition.expression() for condition in self.conditions])

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))

    def to_json(self) -> dict[str, Any]:
        """Return the rule as JSON values."""
        return {"all": [condition.to_json() for condition in self.conditions]}

    @classmethod
    def from_json(cls, found: Any, types: Mapping[str, str]) -> Rule:
        """Return a rule from JSON values, given the types of the columns."""
        if not isinstance(found, dict) or set(found) != {"all"} or not isinstance(found["all"], Sequence):
            raise ValueError(f'a rule is {{"all": [condition, …]}}, not {shown(found)}')
        return cls(tuple(Condition.from_json(one, types) for one in found["all"]))


def _in_words(value: Value | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return format_number(value) if float(f"{value:.4g}") == value else f"{value:,}"
    return repr(shortened(value, 40)) if isinstance(value, str) else str(value)


def _to_json(value: Value) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST:
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds")
    return value.isoformat() if isinstance(value, datetime.date) else value


def _from_json(found: Any, kind: str, column: str) -> Value:
    """Return a value of a type; raise an error if it is of another one, or not finite."""
    try:
        if kind in _NUMBERS and is_number(found):
            return cast(float, found)
        match kind:
            case "integer" if isinstance(found, str):
                return int(found)
            case "text" if isinstance(found, str) and "\0" not in found:
                found.encode("utf-8")
                return found
            case "flag" if isinstance(found, bool):
                return found
            case "date" if isinstance(found, str):
                return datetime.date.fromisoformat(found)
            case "timestamp" if isinstance(found, str):
                moment = datetime.datetime.fromisoformat(found)
                if moment.tzinfo is None:
                    return moment
    except ValueError:
        pass
    raise ValueError(f"column {shown(column)}: {shown(found)} is not a value of type {kind}")
