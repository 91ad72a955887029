"""One's own table: every kind of file gives the same table, and every mistake a clear error."""

import datetime as dt
import gzip
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from dplan.tables import TablePreparer, from_table, read_table

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
        read_table(tmp_path / "t.csv"), pl.DataFrame({"a": [1.0, 2.0, None], "b": ["x", "y", None]})
    )


def test_codes_can_be_kept_as_text(tmp_path):
    (tmp_path / "t.csv").write_text("code,x\n007,1\n42,2\n")
    assert read_table(tmp_path / "t.csv", text=["code"])["code"].to_list() == ["007", "42"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", r"a\.csv is empty"),
        ("a.csv", b" \n\n", r"a\.csv is empty"),
        ("a.csv", b"a,b\n", r"a\.csv has a header but no rows"),
        ("a.csv", b"a,b\n1,2\n3\n4,5\n", r"a\.csv, line 3 has 1 values, the header has 2"),
        ("a.csv", b"a,b\n1,2\n3,4,5\n", r"a\.csv, line 3 has 3 values, the header has 2"),
        ("a.csv", b'a,b\n"x\ny",2\n3\n', r"a\.csv, line 4 has 1 values, the header has 2"),
        ("a.csv", b"a,b\n1,2\n\n3,4\n", r"a\.csv, line 3 is empty"),
        ("a.csv", b"a,b\r\n1,2\r\n\r\n3,4\r\n", r"a\.csv, line 3 is empty"),
        ("a.csv", b'a,b\n1,"x\n2,y\n', r"a\.csv, line 2: unexpected end of data; close every quote"),
        ("a.csv", b"a,b,a\n1,2,3\n", r"the header names 'a' twice \(columns 1 and 3\); rename"),
        ("a.csv", b"a,,c\n1,2,3\n", r"column 2 has no name in the header"),
        (
            "a.csv",
            b"1.5,2,3\n4,5,6\n",
            r"the first line holds only numbers \(1\.5, 2, 3, …\), so it is no header",
        ),
        ("a.csv", b"a,n\n1,M\xfcller\n", r"a\.csv, line 2, byte 4: 0xfc is not utf-8; .*encoding='cp1252'"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), r"written in UTF-16, not UTF-8: pass encoding='utf-16'"),
        ("a.csv", b"PK\0\0\0\0", r"holds zero bytes, so it is no text"),
        ("a.csv.gz", b"\x1f\x8b\x08 cut", r"a\.csv\.gz is a damaged gzip file"),
        ("a.csv.gz", b"a,b\n", r"a\.csv\.gz is a damaged gzip file"),
        (
            "a.csv",
            b"amount,b\n10,x\n20,y\nabc,z\n30,z\n",
            r"column 'amount', row 3 \(the header not counted\): 'abc' is no number, while 3 of 4 values "
            r"are; correct it, name it as missing \(missing=\), or keep .* \(text=\['amount'\]\)",
        ),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', r"a\.jsonl, line 2: no JSON"),
        (
            "a.jsonl",
            b'{"a": 1}\n[1, 2]\n',
            r"a\.jsonl, line 2: a JSON object in braces is needed, found '\[1, 2\]'",
        ),
        (
            "a.jsonl",
            b'{"a": 1}\n{"a": true}\n',
            r"a\.jsonl, line 2: column 'a' holds True here and another type before",
        ),
        (
            "a.jsonl",
            b'{"a": 1}\n{"a": 2}\n{"a": "x"}\n',
            r"column 'a', row 3 .*: 'x' is no number, while 2 of 3",
        ),
        ("a.parquet", b"PAR1 not really", r"a\.parquet cannot be read as Parquet"),
        ("a.xlsx", b"PK", r"a\.xlsx is of no kind that can be read: name it \.csv"),
        ("a", b"a,b\n1,2\n", r"a is of no kind that can be read"),
    ],
)
def test_what_cannot_be_read_is_named(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.csv"):
        read_table(tmp_path / "nothing.csv")


def test_an_unknown_encoding_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="no encoding is called 'utf-9'"):
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


# Labels


def test_from_a_file(tmp_path):
    (tmp_path / "t.csv").write_bytes(FORMS["t.csv"])
    own = from_table(
        tmp_path / "t.csv", label="checked", anomaly=["fraud", "chargeback"], id="payment", drop=["items"]
    )
    assert own.features.columns == ["amount", "new_customer", "day", "country"]
    assert own.y.tolist() == [0, 1, 0, 2]
    assert own.classes == ("unlabelled", "fraud", "chargeback")
    assert own.ids.to_dict(as_series=False) == {"payment": ["p1", "p2", "p3", "p4"]}
    assert own.counts() == {"unlabelled": 2, "fraud": 1, "chargeback": 1}
    assert own.kinds() == {
        "number": ["amount"],
        "flag": ["new_customer"],
        "date": ["day"],
        "text": ["country"],
    }
    assert np.isfinite(TablePreparer().fit_transform(own.features)).all()


def labels(values, **options):
    own = from_table(pl.DataFrame({"x": range(len(values)), "l": values}, strict=False), "l", **options)
    return own.y.tolist(), own.classes[1:]


@pytest.mark.parametrize(
    ("values", "options", "y", "classes"),
    [
        ([0, 1, 2, None], {}, [0, 1, 2, 0], ("1", "2")),
        ([0, 5, 2, 5], {}, [0, 2, 1, 2], ("2", "5")),
        ([0.0, 1.0, None], {}, [0, 1, 0], ("1",)),
        ([False, True, None], {}, [0, 1, 0], ("1",)),
        (["0", "1", " 1 "], {}, [0, 1, 1], ("1",)),
        (["True", "False"], {}, [1, 0], ("1",)),
        (["a", "b", "c"], {"anomaly": ["c", "a"]}, [2, 0, 1], ("c", "a")),
        (["a", "b", "c"], {"anomaly": ["a", "a"]}, [1, 0, 0], ("a",)),
        (["a", "b", None, "c"], {"unlabelled": ["b"]}, [1, 0, 0, 2], ("a", "c")),
        (["a", "b", None], {"anomaly": ["a"], "unlabelled": ["b"]}, [1, 0, 0], ("a",)),
        ([7, 8, None], {"anomaly": ["7"]}, [1, 0, 0], ("7",)),
        ([7.0, 8.0, None], {"anomaly": [7]}, [1, 0, 0], ("7",)),
        ([True, False], {"anomaly": [True]}, [1, 0], ("true",)),
        (["1", "2"], {"anomaly": [1.0]}, [1, 0], ("1",)),
    ],
)
def test_labels(values, options, y, classes):
    assert labels(values, **options) == (y, classes)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0, 0, None], {}, "label column 'l' marks no known anomaly"),
        ([None, None], {}, "label column 'l' marks no known anomaly"),
        ([1, 2], {}, "label column 'l' marks every row; unlabelled rows are needed"),
        ([0, -1], {}, r"label column 'l', row 1 \(counted from 0\): -1 is neither 0"),
        ([0, 0.5], {}, "row 1 .*: 0.5 is neither 0"),
        (
            ["ok", "fraud", "ok"],
            {},
            r"holds 'ok' \(2 rows\), 'fraud' \(1 rows\): say which of these values mark",
        ),
        (["ok", "fraud"], {"anomaly": ["Fraud"]}, "no anomaly value 'Fraud'; did you mean 'fraud'?"),
        (["ok", "fraud"], {"anomaly": ["theft"]}, r"no anomaly value 'theft'; it holds 'ok' \(1 rows\)"),
        (
            ["ok", "fraud", "?"],
            {"anomaly": ["fraud"], "unlabelled": ["ok"]},
            r"also holds '\?': say which of them",
        ),
        (
            ["ok", "fraud"],
            {"anomaly": ["ok"], "unlabelled": ["ok"]},
            "'ok' cannot stand for an anomaly and for unlabelled",
        ),
        (["ok", "ok"], {"unlabelled": ["ok"]}, "marks no known anomaly"),
        ([str(i) + "x" for i in range(30)], {}, "and 20 more"),
    ],
)
def test_bad_labels(values, options, message):
    with pytest.raises(ValueError, match=message):
        labels(values, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "check"}, "the table has no column 'check'; did you mean 'checked'?"),
        ({"label": "zzz"}, "has no column 'zzz'; there are 'payment', 'amount'"),
        ({"id": "paymnt"}, "has no column 'paymnt'; did you mean 'payment'?"),
        ({"drop": ["nothing"]}, "has no column 'nothing'"),
        ({"text": ["nothing"]}, "has no column 'nothing'"),
        ({"id": ["checked"]}, "column 'checked' cannot be the label and an id"),
        ({"id": [c for c in TABLE.columns if c != "checked"]}, "no column left to learn from"),
    ],
)
def test_bad_columns(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_table(TABLE, **{"label": "checked", "anomaly": ["fraud"], **arguments})


def test_a_label_column_may_mix_numbers_and_texts(tmp_path):
    (tmp_path / "t.csv").write_text("id,x,l\n007,1,0\n008,2,0\n009,3,0\n010,4,bad\n")
    own = from_table(tmp_path / "t.csv", "l", anomaly=["bad"], id="id")
    assert own.y.tolist() == [0, 0, 0, 1]
    assert own.ids["id"].to_list() == ["007", "008", "009", "010"]


def test_pandas():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "s": ["a", None, "b"], "l": [0, 1, 0]})
    own = from_table(frame, "l")
    assert_frame_equal(own.features, pl.DataFrame({"x": [1.0, None, 3.0], "s": ["a", None, "b"]}))
    mixed = pd.DataFrame({"x": pd.Series([1, None, "a"], dtype=object), "l": [0, 1, 0]})
    with pytest.raises(
        ValueError, match=r"column 'x', row 2 \(counted from 0\): 'a' is of another type than 1 in row 0"
    ):
        from_table(mixed, "l")
    twice = pd.DataFrame([[1, 2, 0]], columns=["x", "x", "l"])
    with pytest.raises(ValueError, match="names column 'x' twice"):
        from_table(twice, "l")


def test_what_is_no_table():
    with pytest.raises(TypeError, match="a path or a polars or pandas frame is needed, not int"):
        from_table(7, "l")
    with pytest.raises(ValueError, match="the table has no rows"):
        from_table(TABLE.clear(), "checked")
    with pytest.raises(TypeError, match="column 'x' holds List"):
        from_table(pl.DataFrame({"x": [[1], [2]], "l": [0, 1]}), "l")
