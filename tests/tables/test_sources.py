"""Sources: every format, folder, pattern and query gives the same table, in every encoding."""

import codecs
import gzip
import io
import sqlite3
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.tables import from_table, read_table
from dplan.tables.chunks import Conventions
from dplan.tables.input import Input

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TABLE = pl.DataFrame(
    {
        "payment": [f"p{i}" for i in range(40)],
        "amount": [None if i == 7 else i * 1.25 for i in range(40)],
        "items": [i % 5 for i in range(40)],
        "town": [("Köln", "Paris", None)[i % 3] for i in range(40)],
        "fraud": [int(i == 3) for i in range(40)],
    }
)


def as_csv(table=TABLE, **options):
    return table.write_csv(**options).encode()


def write_sqlite(path, name="payments"):
    with sqlite3.connect(path) as database:
        columns = ", ".join(f'"{column}"' for column in TABLE.columns)
        database.execute(f"CREATE TABLE {name} ({columns})")
        database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?)", TABLE.rows())
    database.close()


def write_duckdb(path):
    duckdb = pytest.importorskip("duckdb")
    TABLE.write_parquet(path.with_suffix(".tmp"))
    with duckdb.connect(str(path)) as database:
        database.execute(f"CREATE TABLE payments AS SELECT * FROM read_parquet('{path.with_suffix('.tmp')}')")


def write_excel(path):
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    TABLE.write_excel(path)


WRITERS = {
    "t.csv.zst": lambda path: path.write_bytes(zstd.compress(as_csv())),
    "T.CSV.GZ": lambda path: path.write_bytes(gzip.compress(as_csv())),
    "t.jsonl.zst": lambda path: path.write_bytes(zstd.compress(TABLE.write_ndjson().encode())),
    "t.arrow": TABLE.write_ipc,
    "t.feather": lambda path: TABLE.write_ipc(path, compression="lz4"),
    "t.xlsx": write_excel,
    "t.sqlite": write_sqlite,
    "t.db": write_sqlite,
    "t.duckdb": write_duckdb,
    "duck.db": write_duckdb,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_table(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path)
    assert_frame_equal(read_table(path), TABLE)
    found = [chunk() for chunk in Input(path).chunks(15)]
    assert [frame.height for frame in found] == [15, 15, 10]
    assert pl.concat(found, how="vertical_relaxed")["payment"].to_list() == TABLE["payment"].to_list()
    assert from_table(path, "fraud", id="payment").counts() == {"unlabelled": 39, "1": 1}


@pytest.mark.parametrize("write", [write_sqlite, write_duckdb])
def test_a_query_is_a_table(write, tmp_path):
    path = tmp_path / "t.db"
    write(path)
    query = "SELECT amount AS a, fraud FROM payments WHERE items < 2 ORDER BY payment;"
    found = read_table(path, query=query)
    expected = TABLE.filter(pl.col("items") < 2).sort("payment").select(pl.col("amount").alias("a"), "fraud")
    assert_frame_equal(found, expected)
    for wrong, message in (
        ("SELECT colour FROM payments", "cannot be queried as .*colour"),
        ("DROP TABLE payments", "cannot be queried as"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(path, query=wrong)
    assert read_table(path).height == 40  # nothing was changed


def test_a_database_of_several_tables_needs_a_query(tmp_path):
    path = tmp_path / "t.sqlite"
    write_sqlite(path)
    write_sqlite(path, "others")
    with pytest.raises(ValueError, match=r"--query 'SELECT …'\). Its tables: 'payments', 'others'"):
        read_table(path)
    path.write_bytes(b"not a database, but long enough to look at its first bytes")
    with pytest.raises(ValueError, match="cannot be queried as SQLite"):
        read_table(path)


def test_sqlite_columns_of_several_types_are_text(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE t (a, b)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), ("two", None), (3.5, "NA")])
    database.close()
    (chunk,) = Input(tmp_path / "t.db").chunks()
    assert chunk().rows() == [("1", "x"), ("two", None), ("3.5", None)]
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("INSERT INTO t VALUES (x'00ff', 'y')")
    database.close()
    with pytest.raises(ValueError, match="column 'a' has binary values"):
        read_table(tmp_path / "t.db")


def test_a_sheet_can_be_chosen(tmp_path):
    pytest.importorskip("fastexcel")
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
        pl.DataFrame({"note": ["see the other sheet"]}).write_excel(book, worksheet="Read me")
        TABLE.write_excel(book, worksheet="Payments")
    assert read_table(tmp_path / "t.xlsx").columns == ["note"]
    assert_frame_equal(read_table(tmp_path / "t.xlsx", sheet="Payments"), TABLE)
    with pytest.raises(ValueError, match=r"has no sheet 'Payment'; did you mean 'Payments'.*'Read me'"):
        read_table(tmp_path / "t.xlsx", sheet="Payment")


ENCODED = {
    "utf-8": as_csv(),
    "utf-8 with a mark": codecs.BOM_UTF8 + as_csv(),
    "utf-16": as_csv().decode().encode("utf-16"),
    "utf-16 without a mark": as_csv().decode().encode("utf-16-le"),
    "utf-16 of the other order": as_csv().decode().encode("utf-16-be"),
    "cp1252": as_csv().decode().encode("cp1252"),
}


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("block", [3, 1 << 24])
def test_encodings_are_detected(name, block, monkeypatch):
    monkeypatch.setattr("dplan.tables.decoding._BLOCK", block if "without" not in name else 1 << 24)
    assert_frame_equal(read_table(io.BytesIO(ENCODED[name]), kind="csv"), TABLE)
    lines = TABLE.write_ndjson()
    if name == "cp1252":
        assert_frame_equal(read_table(io.BytesIO(lines.encode("cp1252")), kind="jsonl"), TABLE)


@pytest.mark.parametrize("block", [12, 1 << 24])
def test_a_file_that_is_cp1252_first_and_utf_8_later_is_noticed(block, monkeypatch):
    monkeypatch.setattr("dplan.tables.decoding._BLOCK", block)
    mixed = b"a,b\n" + "1,Köln\n2,x\n".encode("cp1252") * 5 + "3,Köln\n".encode()
    with pytest.raises(
        ValueError, match=r"line 12 is UTF-8, but other lines are not; save the file in one encoding"
    ):
        read_table(io.BytesIO(mixed))
    assert read_table(io.BytesIO(mixed), encoding="cp1252")["b"].to_list()[-1] == "KÃ¶ln"
    # Lines that are not UTF-8, whatever they contain, are cp1252.
    assert read_table(io.BytesIO("a,b\n1,ß Ã¶\n".encode("cp1252")))["b"].to_list() == ["ß Ã¶"]


def test_one_damaged_byte_does_not_change_the_encoding():
    with pytest.raises(ValueError, match=r"line 4.* is not valid utf-8"):
        read_table(io.BytesIO("a,b\n1,é\n2,x\n".encode() + b"3,\xe9\n"))


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl.gz"])
def test_folders_and_patterns_are_one_table(kind, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, start in enumerate(range(0, 40, 15)):
        part, path = TABLE[start : start + 15], folder / f"{number}.{kind}"
        if kind == "parquet":
            part.write_parquet(path)
        else:
            path.write_bytes(as_csv(part) if kind == "csv" else gzip.compress(part.write_ndjson().encode()))
    for ignored in ("_SUCCESS", ".0.csv.crc", "notes.txt"):
        (folder / ignored).write_text("x")
    assert len(Input(folder).files()) == 3
    for table in (folder, f"{folder}/*.{kind}"):
        assert_frame_equal(read_table(table), TABLE)
        own = from_table(table, "fraud", id="payment")
        assert own.ids["payment"].to_list() == TABLE["payment"].to_list()


def test_files_that_do_not_match_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(ValueError, match="different columns: 'b', 'c'"):
        read_table(tmp_path)
    TABLE.write_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"several formats \(csv, parquet\)"):
        read_table(tmp_path)
    with pytest.raises(FileNotFoundError, match="no tables found in"):
        read_table(f"{tmp_path}/*.tsv")


def test_json_lines_of_other_types_in_later_chunks_are_refused(monkeypatch):
    monkeypatch.setattr("dplan.tables.input.CHUNK_ROWS", 2)
    same = b'{"a":1}\n{"a":2}\n{"a":null}\n{}\n{"a":2.5}\n'
    assert read_table(io.BytesIO(same), kind="jsonl")["a"].to_list() == [1, 2, None, None, 2.5]
    with pytest.raises(ValueError, match="is text in one part of the table"):
        read_table(io.BytesIO(same + b'{"a":1}\n{"a":"x"}\n'), kind="jsonl")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a;b\n1,5;x\n2,25;y\n", Conventions(";", ",")),
        (b"a\tb\n1.5\tx\n", Conventions("\t", ".")),
        (codecs.BOM_UTF8 + b'a,b\n"1.234,5",x\n', Conventions(",", ",", mark=True)),
        ("a|b\n1|é\n".encode("cp1252"), Conventions("|", ".", mark=True)),
        (b"a;b\n14.01.2024;3.582\n", Conventions(";", ".")),
    ],
)
def test_conventions_of_a_file_are_found(text, expected):
    (chunk,) = Input(io.BytesIO(text)).chunks()
    assert chunk.conventions == expected


def test_the_share_of_the_file_grows_to_one(tmp_path, monkeypatch):
    monkeypatch.setattr("dplan.tables.decoding._BLOCK", 100)
    for name in ("t.csv", "t.parquet", "t.csv.gz"):
        path = tmp_path / name
        big = pl.concat([TABLE] * 5)
        if name == "t.parquet":
            big.write_parquet(path)
        else:
            path.write_bytes(as_csv(big) if name == "t.csv" else gzip.compress(as_csv(big)))
        shares = [chunk.share for chunk in Input(path).chunks(20)]
        assert len(shares) == 10
        assert shares == sorted(shares)
        assert shares[-1] == 1
        if name == "t.parquet":  # the beginning of a text file is read at once, to find its header
            assert 0 < shares[0] < 0.3


def test_a_missing_extra_says_what_to_install(tmp_path, monkeypatch):
    write_sqlite(tmp_path / "t.db")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    (tmp_path / "t.duckdb").write_bytes(b"12345678DUCK")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(ImportError, match=r"pip install duckdb"):
        read_table(tmp_path / "t.duckdb")
    with pytest.raises(ImportError, match=r"pip install fastexcel"):
        read_table(tmp_path / "t.xlsx")
