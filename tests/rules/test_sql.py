"""A rule selects the same rows in polars, SQLite, DuckDB and PostgreSQL, whatever names and values are in the table."""

import datetime
import math
import sqlite3

import duckdb
import numpy as np
import polars as pl
import pytest

from dplan.rules.rule import TYPES, Condition, Rule
from dplan.rules.sql import script, select, where
from tests.postgres import needs_postgres, postgres

NAMES = {
    'a"; DROP TABLE x; --': "integer",
    "it's": "float",
    "narrow 😀": "float32",
    "Größe\n-- DROP": "text",
    "select": "flag",
    "day": "date",
    "%s {} $1 \\": "timestamp",
}
TEXTS = ["a", "A", "b'c", 'd"e', "😀", "ß", "", " a", "a ", "\\'; DROP TABLE t; --", "%", "_", "z" * 50, "\n"]
FLOATS = [0.1, 0.5, -0.0, 1e300, -1e300, 5e-324, 1 / 3, 2.5, math.inf, -math.inf, 1e-5]
INTEGERS = [0, 1, -1, 7, 2**53, 2**53 + 1, -(2**62), 100]
DAYS = [datetime.date(*day) for day in ((1, 1, 1), (1969, 12, 31), (2024, 2, 29), (9999, 12, 31))]
MOMENTS = [
    datetime.datetime.combine(day, datetime.time(*time)) for day in DAYS for time in ((), (12, 30, 0, 5))
]
POOLS = {
    "integer": INTEGERS, "float": FLOATS, "float32": [float(np.float32(x)) for x in (0.1, 0.5, 7.25, -3.3)] + [0.1],
    "text": TEXTS, "flag": [True, False], "date": DAYS, "timestamp": MOMENTS,
}  # fmt: skip
N_ROWS, N_RULES = 300, 500


def drawn(rng, kind):
    return POOLS[kind][rng.integers(len(POOLS[kind]))]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = []
    for name, kind in NAMES.items():
        values = [None if rng.random() < 0.2 else drawn(rng, kind) for _ in range(N_ROWS)]
        if kind in ("float", "float32"):
            values = [math.nan if value is None and rng.random() < 0.5 else value for value in values]
        columns.append(pl.Series(name, values, dtype=TYPES[kind]))
    return pl.DataFrame([pl.Series("id", range(N_ROWS)), *columns])


def rules():
    rng = np.random.default_rng(1)
    for _ in range(N_RULES):
        names = rng.choice(list(NAMES), size=rng.integers(1, 4), replace=False)
        yield Rule(tuple(condition(rng, str(name)) for name in names))


def condition(rng, name):
    kind = NAMES[name]
    if rng.random() < 0.15:
        return Condition(name, kind, missing=bool(rng.random() < 0.5))
    or_missing = bool(rng.random() < 0.3)
    listed = kind in ("text", "flag") or (kind in ("integer", "date") and rng.random() < 0.5)
    if listed:
        values = tuple(dict.fromkeys(drawn(rng, kind) for _ in range(rng.integers(1, 4))))
        return Condition(name, kind, values=values, or_missing=or_missing)
    low, high = sorted(value for value in (drawn(rng, kind), drawn(rng, kind)) if value == value)
    if kind in ("float", "float32"):
        low, high = (max(-1.7e308, min(1.7e308, value)) for value in (low, high))
    if kind == "integer" and rng.random() < 0.3:
        low, high = low - 0.5, high + 0.5
    which = rng.integers(3)
    bounds = (
        {"at_least": low}
        if which == 0
        else {"at_most": high}
        if which == 1
        else {"at_least": low, "at_most": high}
    )
    return Condition(name, kind, **bounds, or_missing=or_missing)


def expected(table):
    return [table.filter(rule.expression())["id"].to_list() for rule in rules()]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def test_the_polars_expression_means_what_the_words_say(table):
    """Compare with plain Python, row by row."""

    def met(condition, value):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return condition.missing is True or condition.or_missing
        if condition.missing is not None:
            return not condition.missing
        if condition.values is not None:
            return value in condition.values
        low, high = condition.at_least, condition.at_most
        return (low is None or value >= low) and (high is None or value <= high)

    rows = table.to_dicts()
    for rule, found in zip(rules(), expected(table), strict=True):
        assert found == [row["id"] for row in rows if all(met(c, row[c.column]) for c in rule.conditions)], (
            str(rule)
        )
    assert 0 < sum(map(len, expected(table))) < N_RULES * N_ROWS


def test_sqlite(table):
    base = sqlite3.connect(":memory:")
    types = {"integer": "INTEGER", "float": "REAL", "float32": "REAL", "flag": "INTEGER"}
    own = ", ".join(
        f"{quoted(name)} {types.get(kind, 'TEXT')} COLLATE NOCASE" for name, kind in NAMES.items()
    )
    base.execute(f"CREATE TABLE your_table (id INTEGER, {own})")

    def stored(value):
        if isinstance(value, datetime.datetime):
            return value.isoformat(" ", "microseconds")
        return value.isoformat() if isinstance(value, datetime.date) else value

    marks = ", ".join("?" * table.width)
    base.executemany(
        f"INSERT INTO your_table VALUES ({marks})", [[*map(stored, row)] for row in table.rows()]
    )
    for rule, found in zip(rules(), expected(table), strict=True):
        assert [row[0] for row in base.execute(select(rule, "sqlite") + " ORDER BY t.id")] == found, str(rule)
    with pytest.raises(sqlite3.OperationalError, match="no such column"):  # and not every row
        base.execute(select(Rule((Condition("Elevatoin", "text", values=("Elevatoin",)),)), "sqlite"))


def test_duckdb(table):
    base = duckdb.connect()
    base.register("given", table.to_arrow())
    base.execute("CREATE TABLE your_table AS SELECT * FROM given")
    for rule, found in zip(rules(), expected(table), strict=True):
        query = f"SELECT t.id FROM your_table AS t WHERE {where(rule, 'duckdb')} ORDER BY t.id"
        assert [row[0] for row in base.execute(query).fetchall()] == found, str(rule)


@needs_postgres
def test_postgresql(table):
    types = {"integer": "bigint", "float": "float8", "float32": "real", "flag": "boolean", "text": "text"}
    own = ", ".join(f"{quoted(name)} {types.get(kind, kind)}" for name, kind in NAMES.items())

    def literal(value):
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, float):
            return f"'{value}'::float8"
        return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

    rows = ",\n".join(f"({', '.join(map(literal, row))})" for row in table.rows())
    script = [f"CREATE TABLE your_table (id int, {own});", f"INSERT INTO your_table VALUES {rows};"]
    for rule in rules():
        chosen = f"SELECT t.id FROM your_table AS t WHERE {where(rule, 'postgresql')} ORDER BY t.id"
        script.append(f"SELECT 'rows ' || COALESCE(string_agg(id::text, ' '), '') FROM ({chosen}) AS found;")
    with postgres() as (run, _):
        lines = [line for line in run("\n".join(script)).splitlines() if line.startswith("rows")]
    assert [[int(number) for number in line.split()[1:]] for line in lines] == expected(table)


def test_names_that_a_database_would_misread_are_refused():
    with pytest.raises(ValueError, match="cannot be a name in a database"):
        where(Rule((Condition("a\0b", "integer", at_least=1),)), "duckdb")
    with pytest.raises(ValueError, match="cuts names after 63 bytes"):
        where(Rule((Condition("ü" * 32, "integer", at_least=1),)), "postgresql")
    both = Rule((Condition("x", "integer", at_least=1), Condition("X", "integer", at_least=1)))
    with pytest.raises(ValueError, match="differ in upper and lower case alone"):
        where(both, "sqlite")
    with pytest.raises(ValueError, match="unknown dialect 'oracle'; choose from postgresql, sqlite, duckdb"):
        where(both, "oracle")


def test_the_form_of_dates_is_said_where_they_are_texts():
    moment = Condition("at", "timestamp", at_least=MOMENTS[0])
    for rule, form in (
        (Rule((Condition("day", "date", at_least=DAYS[2]),)), "dates as 2024-01-31"),
        (
            Rule((Condition("day", "date", missing=True), moment)),
            "dates as 2024-01-31 and moments as 2024-01-31 12:00:00.000000",
        ),
    ):
        assert f"\n-- SQLite compares texts: store {form}.\nSELECT" in script([("late", rule)], "sqlite")
        assert "store" not in script([("late", rule)], "duckdb")
    assert "store" not in script([("cheap", Rule((Condition("price", "integer", at_most=9),)))], "sqlite")


def test_a_rule_without_a_query_does_not_keep_the_others_from_theirs():
    long = Rule((Condition("ü" * 32, "integer", at_least=1),))
    rules = [("long", long), ("cheap", Rule((Condition("price", "integer", at_most=9),)))]
    found = script(rules, "postgresql")
    assert "-- No query: PostgreSQL cuts names after 63 bytes" in found
    assert found.count("SELECT") == 1
    assert script(rules, "duckdb").count("SELECT") == 2
    with pytest.raises(ValueError, match="cannot be a name"):
        script(rules, "duckdb", "")
    with pytest.raises(ValueError, match="unknown dialect"):
        script(rules, "oracle")
