"""Our readers and DuckDB's read the same cells from the same file."""

import csv
import datetime as dt

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dplan.tables.input import Input

duckdb = pytest.importorskip("duckdb")

# Letters keep a column text, in which both readers leave every cell as it is.
CELLS = st.text("ab ,;\"\n'é€=-.0", max_size=6).map(lambda text: f"x{text}y")


def ours(path):
    return pl.concat([chunk() for chunk in Input(path).chunks(7)], how="vertical")


def theirs(path, **options):
    return duckdb.read_csv(str(path), header=True, all_varchar=True, **options).pl()


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=3, max_size=30),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    ending=st.sampled_from(["\n", "\r\n"]),
    every=st.booleans(),
)
def test_text_in_any_quotes(rows, separator, ending, every, tmp_path):
    path = tmp_path / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        quoting = csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL
        writer = csv.writer(file, delimiter=separator, lineterminator=ending, quoting=quoting)
        writer.writerows([("one", "two", "three"), *rows])
    found = ours(path)
    assert found.rows() == theirs(path, delimiter=separator, quotechar='"', escapechar='"').rows() == rows


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_numbers_dates_and_flags(suffix, tmp_path):
    table = pl.DataFrame(
        {
            "number": [0.1, -2.5e300, 5e-324, None, 123456789.125, 1 / 3, 2.0**53] * 5,
            "whole": [0, -1, 2**53, None, 7, 10**15, 42] * 5,
            "day": [dt.date(1, 1, 1), dt.date(2024, 2, 29), None, dt.date(9999, 12, 31)] * 8 + [None] * 3,
            "flag": [True, False, None, True, False, True, True] * 5,
            "text": ["a", "é", None, "NULL?", "O'Brien", "0x1f", "x,y"] * 5,
        }
    )
    path = tmp_path / f"t.{suffix}"
    {"parquet": table.write_parquet, "jsonl": table.write_ndjson, "csv": table.write_csv}[suffix](path)
    read = {"parquet": duckdb.read_parquet, "jsonl": duckdb.read_json, "csv": duckdb.read_csv}[suffix]
    expected, found = read(str(path)).pl(), ours(path)
    assert found.columns == expected.columns
    for name in ("number", "whole"):
        numbers = found[name].cast(pl.Float64)
        assert (
            numbers.to_list()
            == expected[name].cast(pl.Float64).to_list()
            == table[name].cast(pl.Float64).to_list()
        )
    for name in ("day", "flag", "text"):
        as_text = [None if cell is None else str(cell).lower() for cell in expected[name].to_list()]
        assert [None if cell is None else str(cell).lower() for cell in found[name].to_list()] == as_text
