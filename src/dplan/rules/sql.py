"""Rules as SQL for PostgreSQL, SQLite and DuckDB, to be pasted: values and names are quoted, never interpreted."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from dplan.rules.rule import Condition, Rule, Value
from dplan.text import printable, shown

__all__ = ["DIALECTS", "script", "select", "where"]

DIALECTS = ("postgresql", "sqlite", "duckdb")

_SQLITE_FORMS = {"date": ("dates", "2024-01-31"), "timestamp": ("moments", "2024-01-31 12:00:00.000000")}
_LONGEST_NAME = 63  # bytes: PostgreSQL cuts longer names without an error


def select(rule: Rule, dialect: str, table: str = "your_table") -> str:
    """Return a query for the rows that meet a rule.

    Parameters
    ----------
    rule : Rule
        The rule.
    dialect : {"postgresql", "sqlite", "duckdb"}
        The database. In SQLite, dates are texts such as ``2024-01-31``, and moments ``2024-01-31 12:00:00.000000``.
    table : str
        The name of the table.

    Examples
    --------
    >>> print(select(Rule((Condition('a"b', "float", at_least=0.5),)), "postgresql"))
    SELECT t.* FROM "your_table" AS t
    WHERE t."a""b" >= '0.5'::float8 AND t."a""b" <> 'NaN'::float8
    """
    return f"SELECT t.* FROM {_quoted(table, dialect)} AS t\nWHERE {where(rule, dialect)}"


def where(rule: Rule, dialect: str) -> str:
    """Return the condition of a query for a table with the alias ``t``."""
    _check_dialect(dialect)
    names = [condition.column.casefold() for condition in rule.conditions]
    if len(set(names)) < len(names):
        raise ValueError(
            "two columns of the rule differ in upper and lower case alone, which databases confuse"
        )
    return "\n  AND ".join(_condition(condition, dialect) for condition in rule.conditions)


def _check_dialect(dialect: str) -> None:
    if dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {shown(dialect)}; choose from {', '.join(DIALECTS)}")


def _condition(condition: Condition, dialect: str) -> str:
    # With the alias, SQLite refuses a name that it does not know instead of taking it for a text.
    column = f"t.{_quoted(condition.column, dialect)}"
    missing = _missing(condition, column, dialect)
    if condition.missing is not None:
        return missing if condition.missing else f"NOT {missing}"
    found = _comparison(condition, column, dialect)
    return f"({found} OR {missing})" if condition.or_missing else found


def _missing(condition: Condition, column: str, dialect: str) -> str:
    """Return the condition that a value is NULL or NaN; SQLite stores NaN as NULL."""
    if condition.type not in ("float", "float32") or dialect == "sqlite":
        return f"({column} IS NULL)"
    nan = f"{column} = 'NaN'::float8" if dialect == "postgresql" else f"isnan({column})"
    return f"({column} IS NULL OR {nan})"


def _comparison(condition: Condition, column: str, dialect: str) -> str:
    kind, low, high = condition.type, condition.at_least, condition.at_most
    if condition.values is not None:
        values = [_literal(value, kind, dialect) for value in condition.values]
        if kind == "text":
            column += {"postgresql": ' COLLATE "C"', "sqlite": " COLLATE BINARY", "duckdb": ""}[dialect]
        return f"{column} = {values[0]}" if len(values) == 1 else f"{column} IN ({', '.join(values)})"
    parts = []
    if low is not None:
        parts.append(f"{column} >= {_literal(low, kind, dialect)}")
    if high is not None:
        parts.append(f"{column} <= {_literal(high, kind, dialect)}")
    elif kind in ("float", "float32") and dialect != "sqlite":  # where NaN is larger than every number
        parts.append(f"{column} <> 'NaN'::float8" if dialect == "postgresql" else f"NOT isnan({column})")
    if kind in ("integer", "float", "float32") and dialect == "sqlite":  # where texts are larger than numbers
        parts.append(f"typeof({column}) IN ('integer', 'real')")
    return " AND ".join(parts)


def _literal(value: Value, kind: str, dialect: str) -> str:
    if kind == "integer":
        return str(int(value))  # type: ignore[arg-type]
    if kind in ("float", "float32"):
        # As a text that is converted, because a plain number is a decimal or is narrowed to the column's type.
        number = repr(float(value))  # type: ignore[arg-type]
        casts = {"postgresql": f"'{number}'::float8", "sqlite": f"CAST('{number}' AS REAL)"}
        return casts.get(dialect, f"CAST('{number}' AS DOUBLE)")
    if kind == "flag":
        return str(int(bool(value))) if dialect == "sqlite" else str(bool(value)).upper()
    if isinstance(value, datetime.datetime):
        text = f"'{value.isoformat(' ', 'microseconds')}'"
        return text if dialect == "sqlite" else f"TIMESTAMP {text}"
    if isinstance(value, datetime.date):
        return f"'{value.isoformat()}'" if dialect == "sqlite" else f"DATE '{value.isoformat()}'"
    return _text(str(value))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str, dialect: str) -> str:
    if not name or "\0" in name:
        raise ValueError(f"{shown(name)} cannot be a name in a database")
    if dialect == "postgresql" and len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAME:
        raise ValueError(f"PostgreSQL cuts names after {_LONGEST_NAME} bytes, and {shown(name)} is longer")
    return '"' + name.replace('"', '""') + '"'


def script(
    rules: Sequence[tuple[str, Rule]],
    dialect: str,
    table: str = "your_table",
    meanings: Mapping[str, str] | None = None,
) -> str:
    """Return the queries of several rules, each under a comment with its name.

    Rules about columns that only dplan can read, which `meanings` has with what they are, or whose names the database
    would misread, get a comment instead. SQLite has no dates, so a comment says in which form they must be stored.

    Examples
    --------
    >>> print(script([("cheap", Rule((Condition("price", "integer", at_most=9),)))], "duckdb"))
    -- cheap: `price` at most 9
    SELECT t.* FROM "your_table" AS t
    WHERE t."price" <= 9;
    <BLANKLINE>
    """
    _check_dialect(dialect)
    _quoted(table, dialect)
    found = [
        f"-- {printable(f'{name}: {rule}')}\n{_query(rule, dialect, table, meanings or {})}\n"
        for name, rule in rules
    ]
    return "\n".join(found)


def _query(rule: Rule, dialect: str, table: str, meanings: Mapping[str, str]) -> str:
    unread = [condition.column for condition in rule.conditions if condition.column in meanings]
    if unread:
        what = f"`{unread[0]}` is read as {meanings[unread[0]]}, which a database cannot"
        return f"-- No query: {printable(what)}; use dplan rules check."
    try:
        query = f"{select(rule, dialect, table)};"
    except ValueError as error:
        return f"-- No query: {printable(str(error))}; use dplan rules check."
    types = {condition.type for condition in rule.conditions} if dialect == "sqlite" else set()
    forms = [f"{words} as {form}" for kind, (words, form) in _SQLITE_FORMS.items() if kind in types]
    return f"-- SQLite compares texts: store {' and '.join(forms)}.\n{query}" if forms else query
