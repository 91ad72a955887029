"""Reading: every kind of file gives the same table, and every mistake a clear error."""

import datetime as dt
import gzip
import io

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from dplan.tables import read_table

TABLE = pl.DataFrame(
    {
        "payment": ["p1", "p2", "p3", "p4"],
        "amount": [12.5, 900.0, None, 7.25],
        "items": [1, 2, 3, 4],
        "new_customer": [True, False, True, None],
        "day": [dt.date(2024, 5, d) for d in (1, 2, 3, 4)],
        "country": ["DE", "FR, north", None, 'Åland "x"'],
        "checked": ["ok", "fraud", None, "chargeback"],
    }
)


def csv_bytes(table: pl.DataFrame, **options) -> bytes:
    buffer = io.BytesIO()
    table.write_csv(buffer, **options)
    return buffer.getvalue()


def json_bytes(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_ndjson(buffer)
    return buffer.getvalue()


def parquet_bytes(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


FORMS = {
    "t.csv": csv_bytes(TABLE),
    "bom-and-crlf.csv": b"\xef\xbb\xbf" + csv_bytes(TABLE, line_terminator="\r\n"),
    "semicolons.csv": csv_bytes(TABLE, separator=";"),
    "T.TSV": csv_bytes(TABLE, separator="\t"),
    "t.csv.gz": gzip.compress(csv_bytes(TABLE)),
    "t.tsv.gz": gzip.compress(csv_bytes(TABLE, separator="\t")),
    "trailing.csv": csv_bytes(TABLE) + b"\n\r\n",
    "na.csv": csv_bytes(TABLE, null_value="NA"),
    "t.jsonl": json_bytes(TABLE),
    "t.ndjson.gz": gzip.compress(json_bytes(TABLE)),
    "t.parquet": parquet_bytes(TABLE),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_table(name, tmp_path):
    (tmp_path / name).write_bytes(FORMS[name])
    table = read_table(tmp_path / name)
    assert_frame_equal(table, TABLE)


def test_another_encoding(tmp_path):
    (tmp_path / "t.csv").write_bytes(csv_bytes(TABLE).decode().encode("cp1252"))
    assert_frame_equal(read_table(tmp_path / "t.csv", encoding="cp1252"), TABLE)


def test_numbers_with_blanks_around_them_are_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n 1, x\n2 ,y \n ,\n")
    assert_frame_equal(
        read_table(tmp_path / "t.csv"), pl.DataFrame({"a": [1, 2, None], "b": ["x", "y", None]})
    )


def test_codes_can_be_kept_as_text(tmp_path):
    (tmp_path / "t.csv").write_text("code,x\n007,1\n42,2\n")
    assert read_table(tmp_path / "t.csv", text=["code"])["code"].to_list() == ["007", "42"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", r"a\.csv is empty"),
        ("a.csv", b" \n\n", r"a\.csv is empty"),
        ("a.csv", b"a,b\n", r"a\.csv has no rows"),
        ("a.csv", b"a,b\n1,2\n3\n4,5\n", r"a\.csv, line 3 has 1 value, expected 2"),
        ("a.csv", b"a,b\n1,2\n3,4,5\n", r"a\.csv, line 3 has 3 values, expected 2"),
        ("a.csv", b'a,b\n"x\ny",2\n3\n', r"a\.csv, line 4 has 1 value, expected 2"),
        ("a.csv", b'a,b\n1,"x\n2,y\n', r"a\.csv, line 2: the quote that opens here is not closed"),
        ("a.csv", b"a,b,a\n1,2,3\n", r"a\.csv: duplicate column name 'a' \(columns 1 and 3\); rename one"),
        (
            "a.csv",
            b"1.5,2,3\n4,5,6\n",
            r"the first line contains only numbers \(1\.5, 2, 3, …\), so it is not a header",
        ),
        (
            "a.csv",
            "a,é\n".encode() + b"1,M\xfcller\n",
            r"a\.csv, line 2, byte 9 of the file: 0xfc is not valid utf-8; .*cp1252",
        ),
        ("a.csv", b"PK\0\0\0\0", r"a\.csv, line 1: null byte, so this is not a text file"),
        ("a.csv.gz", b"\x1f\x8b\x08 cut", r"a\.csv\.gz is a damaged gzip file"),
        ("a.csv.gz", b"a,b\n", r"a\.csv\.gz is a damaged gzip file"),
        (
            "a.csv",
            b"amount,b\n10,x\n20,y\nabc,z\n30,z\n",
            r"^a\.csv, line 4, column 'amount': 'abc' is not a number, but 3 of 4 values are; fix it, "
            r"treat it as missing \(--missing, in Python missing=…\), or read the column as text \(--text, in Python "
            r"columns=\{'amount': 'text'\}\)$",
        ),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', r"a\.jsonl, line 2: not valid JSON"),
        (
            "a.jsonl",
            b'{"a": 1}\n[1, 2]\n',
            r"a\.jsonl, line 2: expected a JSON object, got '\[1, 2\]'",
        ),
        (
            "a.jsonl",
            b'{"a": 1}\n{"a": true}\n',
            r"a\.jsonl, line 2: column 'a' is True here but has a different type",
        ),
        (
            "a.jsonl",
            b'{"a": 1}\n{"a": 2}\n{"a": "x"}\n',
            r"^a\.jsonl, line 3, column 'a': 'x' is not a number, but 2 of 3",
        ),
        ("a.parquet", b"PAR1 not really", r"a\.parquet cannot be read as Parquet"),
        ("a.sav", b"PK", r"a\.sav: unsupported file type; use \.csv"),
        ("a", b"a,b\n1,2\n", r"a: unsupported file type"),
    ],
)
def test_what_cannot_be_read_is_named(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"file not found: .*nothing\.csv"):
        read_table(tmp_path / "nothing.csv")


def test_an_unknown_encoding_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="unknown encoding 'utf-9'"):
        read_table(tmp_path / "a.csv", encoding="utf-9")


CELLS = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=5)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(CELLS, st.integers(-(2**53), 2**53)), min_size=1, max_size=8))
def test_what_polars_writes_is_read_back(tmp_path_factory, rows):
    # Blanks around a text and the marks of missing values do not survive, on purpose.
    table = pl.DataFrame(rows, schema={"text": pl.String, "number": pl.Int64}, orient="row").with_columns(
        pl.concat_str(pl.lit("t"), pl.col("text"), pl.lit("t")).alias("text")
    )
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    table.write_csv(path, quote_style="non_numeric")
    assert_frame_equal(read_table(path, text=["text"]), table)
