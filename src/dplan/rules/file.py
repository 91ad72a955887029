"""Files of rules: JSON that people and programs write, checked when it is read."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.persistence.atomic import store
from dplan.rules.rule import TYPES, Rule
from dplan.text import shown

__all__ = ["Kind", "RuleFile", "with_types"]

_FORMAT, _VERSION = "dplan-rules", 1
_MOST_BYTES = 10_000_000
# What a kind may say besides its rule, by the type of the value; None is allowed for all of them.
_ABOUT: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "class": str,
    "alerts": int,
    "columns": list,
    "sentence": str,
    "measured": dict,
    "typical_rows": list,
    "muted": dict,
}


@dataclass(frozen=True)
class Kind:
    """A named rule, or a name without one; `about` has what else is known of it.

    Examples
    --------
    >>> from dplan.rules.rule import Condition, Rule
    >>> until = {"owner": "ann", "reason": "our own shop", "until": "2024-03-31"}
    >>> kind = Kind("cheap", Rule((Condition("price", "integer", at_most=9),)), {"muted": until})
    >>> kind.is_muted(datetime.date(2024, 3, 31)), kind.is_muted(datetime.date(2024, 4, 1)), kind.precision
    (True, False, 0.0)
    >>> kind.to_json()["rule"]
    {'all': [{'column': 'price', 'at_most': 9}]}
    """

    name: str
    rule: Rule | None
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def precision(self) -> float:
        """The lower bound of the rule's precision; 0 if it was not measured."""
        return float((self.about.get("measured") or {}).get("precision_at_least") or 0.0)

    def is_muted(self, day: datetime.date) -> bool:
        """Return whether rows that meet the rule are no alerts on a day: it is muted, and that has not expired."""
        muted = self.about.get("muted")
        return (
            muted is not None and self.rule is not None and day <= datetime.date.fromisoformat(muted["until"])
        )

    def to_json(self) -> dict[str, Any]:
        """Return the kind as JSON values."""
        rule = self.rule
        own = {} if rule is None else {"id": rule.id}
        return {"name": self.name, **own, **self.about, "rule": None if rule is None else rule.to_json()}


@dataclass(frozen=True)
class RuleFile:
    """Rules about the rows of a table.

    Attributes
    ----------
    columns : mapping
        The type of each column that a rule uses: integer, float, float32, text, flag, date or timestamp.
    kinds : tuple of Kind
        The rules.
    meanings : mapping
        Columns whose values are read from text in a way that a database does not know, such as numbers with units, and
        in words how; SQL cannot compare them.

    Examples
    --------
    >>> text = '''{"format": "dplan-rules", "version": 1, "columns": {"price": "float"},
    ...           "kinds": [{"name": "cheap", "rule": {"all": [{"column": "price", "at_most": 9.5}]}}]}'''
    >>> found = RuleFile.from_json(json.loads(text))
    >>> print(found.kinds[0].rule)
    `price` at most 9.5
    >>> RuleFile.from_json(found.to_json()).named("cheap") == found.kinds[0]
    True

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     found.save(f"{folder}/rules.json")
    ...     RuleFile.load(f"{folder}/rules.json").to_text() == found.to_text()
    True
    """

    columns: Mapping[str, str]
    kinds: tuple[Kind, ...]
    meanings: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Kind:
        """Return the kind with a name or the id of its rule; raise ValueError if nothing has it."""
        for kind in self.kinds:
            if name == kind.name or (kind.rule is not None and name == kind.rule.id):
                return kind
        listed = ", ".join(shown(kind.name) for kind in self.kinds)
        raise ValueError(f"there is no kind {shown(name)}; the file has {listed or 'none'}")

    @property
    def rules(self) -> list[tuple[str, Rule]]:
        """The kinds that have a rule, by name."""
        return [(kind.name, kind.rule) for kind in self.kinds if kind.rule is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the file as JSON values."""
        kinds = [kind.to_json() for kind in self.kinds]
        meanings = {"meanings": dict(self.meanings)} if self.meanings else {}
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "columns": dict(self.columns),
            **meanings,
            "kinds": kinds,
        }

    def first_match(self, values: pl.DataFrame, before: Collection[int] = ()) -> NDArray[np.int64]:
        """Return, for each row, the number of the kind whose rule it meets, or -1: the most precise of several.

        Kinds that are `before` the others come first, whatever their precision.

        Examples
        --------
        >>> from dplan.rules.rule import Condition
        >>> rules = [Rule((Condition("a", "integer", at_least=bound),)) for bound in (3, 5)]
        >>> kinds = tuple(Kind(f"{bound}", rule) for bound, rule in zip((3, 5), rules))
        >>> RuleFile({"a": "integer"}, kinds).first_match(pl.DataFrame({"a": [9, 2]})).tolist()
        [0, -1]
        """
        found = np.full(values.height, -1, dtype=np.int64)
        order = sorted((i in before, kind.precision, -i) for i, kind in enumerate(self.kinds))
        for _, _, number in order:  # the last one stays
            rule = self.kinds[-number].rule
            if rule is not None:
                found[values.select(rule.expression()).to_series().to_numpy()] = -number
        return found

    def save(self, path: str | Path) -> None:
        """Write the file."""
        store(path, self.to_text())

    def to_text(self) -> str:
        """Return the contents of the file."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> RuleFile:
        """Read a file; raise ValueError with the place of what is wrong."""
        path = Path(path)
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError("the file is too large")
            return cls.from_json(json.loads(path.read_bytes(), object_pairs_hook=_unique))
        except (ValueError, RecursionError) as error:  # invalid JSON and Unicode are ValueErrors too
            raise ValueError(f"{path.name} is not a valid file of rules: {error}") from None

    @classmethod
    def from_json(cls, found: Any) -> RuleFile:
        """Return the rules of JSON values; raise ValueError if they are anything else."""
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise ValueError(f'it does not begin with "format": "{_FORMAT}"')
        if found.get("version") != _VERSION:
            raise ValueError(
                f"unknown version {shown(found.get('version'))}; this version of dplan reads {_VERSION}"
            )
        if unknown := sorted(set(found) - {"format", "version", "columns", "kinds", "meanings"}):
            raise ValueError(f"unknown key {shown(unknown[0])}")
        columns, kinds = found.get("columns"), found.get("kinds")
        if not isinstance(columns, dict) or not all(isinstance(kind, str) for kind in columns.values()):
            raise ValueError('"columns" maps the names of columns to their types')
        for name, kind in columns.items():
            if kind not in TYPES:
                raise ValueError(f"column {shown(name)}: unknown type {shown(kind)}; use {', '.join(TYPES)}")
        if not isinstance(kinds, list):
            raise ValueError('"kinds" is a list')
        meanings = found.get("meanings", {})
        if not isinstance(meanings, dict) or not all(isinstance(words, str) for words in meanings.values()):
            raise ValueError('"meanings" maps the names of columns to texts')
        every = tuple(_kind(one, number, columns) for number, one in enumerate(kinds, start=1))
        return cls(columns, every, meanings)


def _kind(found: Any, number: int, types: Mapping[str, str]) -> Kind:
    try:
        if not isinstance(found, dict) or not isinstance(found.get("name"), str) or "rule" not in found:
            raise ValueError("a kind is an object with a name and a rule")
        about = {name: value for name, value in found.items() if name not in ("name", "rule")}
        for name, value in about.items():
            if name not in _ABOUT:
                raise ValueError(f"unknown key {shown(name)}")
            if value is not None and (not isinstance(value, _ABOUT[name]) or isinstance(value, bool)):
                raise ValueError(f"{name} has the wrong type")
        if not all(isinstance(name, str) for name in about.get("columns") or ()):
            raise ValueError("columns is a list of texts")
        for name, value in (about.get("measured") or {}).items():
            if type(value) not in (int, float):
                raise ValueError(f"measured: {shown(name)} is not a number")
        _check_muted(about.get("muted"))
        rule = None if found["rule"] is None else Rule.from_json(found["rule"], types)
        if about.pop("id", None) not in (None, None if rule is None else rule.id):
            raise ValueError("the id is not that of the rule; leave it out if you change a rule by hand")
    except ValueError as error:
        raise ValueError(f"kind {number}: {error}") from None
    return Kind(found["name"], rule, about)


def _check_muted(muted: Any) -> None:
    if muted is None:
        return
    if set(muted) != {"owner", "reason", "until"} or not all(
        isinstance(text, str) for text in muted.values()
    ):
        raise ValueError("muted has an owner, a reason and until, the last day, as texts")
    try:
        datetime.date.fromisoformat(muted["until"])
    except ValueError:
        raise ValueError(f"muted: {shown(muted['until'])} is not a date such as 2024-01-31") from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def with_types(table: pl.DataFrame, types: Mapping[str, str]) -> pl.DataFrame:
    """Return the columns that rules use, with the types that they say; raise ValueError if a table has others.

    Examples
    --------
    >>> with_types(pl.DataFrame({"a": [1, 0], "b": ["x", None]}), {"a": "flag"}).rows()
    [(True,), (False,)]
    """
    found = []
    for name, kind in types.items():
        if name not in table.columns:
            raise ValueError(f"the table has no column {shown(name)}, which the rules use")
        column = table[name]
        dtype = TYPES[kind]
        if kind == "flag" and column.dtype.is_integer() and not column.drop_nulls().is_in([0, 1]).all():
            raise ValueError(
                f"column {shown(name)} has other values than 0 and 1, and the rules use it as a flag"
            )
        comparable = column.dtype == dtype or (
            column.dtype.is_integer()
            if kind in ("integer", "flag")
            else column.dtype.is_numeric()
            if kind in ("float", "float32")
            else column.dtype == pl.Datetime
            if kind == "timestamp"
            else kind == "text" and column.dtype in (pl.Categorical, pl.Enum)
        )
        if not comparable:
            raise ValueError(
                f"column {shown(name)} is of type {column.dtype}, and the rules use it as {kind}"
            )
        # A float32 keeps its value as a float64, so either will do; unsigned integers are compared as they are.
        keep = column.dtype.is_float() or (kind == "integer" and column.dtype == pl.UInt64)
        found.append(column if keep else column.cast(dtype))
    return pl.DataFrame(found)
