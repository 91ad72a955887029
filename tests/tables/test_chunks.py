"""Chunks: hostile files give one clear line, in time and memory that their size bounds."""

import datetime as dt
import gzip
import io
import os
import subprocess
import sys
from itertools import combinations

import numpy as np
import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.columns.frames import check_values
from dplan.tables import TableModel, csv_syntax, decoding, fit_table, from_table, read_table
from dplan.tables.csv_syntax import check_names
from dplan.tables.input import Input
from tests.scoring.files import Options, score_table


def frames(text, rows=100, kind="csv", **options):
    return [chunk() for chunk in Input(io.BytesIO(text), kind, **options).chunks(rows)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'a,b\n1,x\n2,"oops\n3,y\n4,"q"\n', "line 3: the quote that opens here is not closed"),
        (b'a,b\n1,x\n2,"oops\n3,y\n', "line 3: the quote that opens here is not closed"),
        (b'a,b\n1,5" pipe\n2,x\n', "line 2: the quote that opens here is not closed"),
        (b'a,b\n"1\n2",x\n3,"y" z\n', "line 4: the quote that opens here is not closed"),
        (b'a,"b\n1,2\n', "line 1: the header cannot be read"),
        (b"a,b\n1,x\ry\n", "line 2: carriage return without a line feed"),
        (b"a,b\r1,2\r", "line 1: carriage return without a line feed"),
        (b"a,b\n1,2\n3,\0\n", "line 3: null byte"),
        (b"a,\xc3\xa9\n1,2\n3,\xff\n", "line 3, byte 12 of the file: 0xff is not valid utf-8"),
        (b"a,\xc3\xa9\n1,2\n\xe2\x82", "line 3, byte 10 of the file: 0xe2 is not valid utf-8"),
        (b"a,b\n1,2\n3,\x81\n", "line 3, byte 11 of the file: 0x81 is not valid utf-8"),
        (b"a," + b"x" * 100_000 + b"\n1,2\n", "the name of column 2 has 100,000 characters"),
        (b"a,a\n1,2\n", r"duplicate column name 'a' \(columns 1 and 2\)"),
        (b"\xef\xbb\xbf\n", "is empty"),
    ],
)
def test_a_hostile_csv_is_refused_with_the_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        frames(text, rows=2)
    assert len(str(caught.value)) < 300
    with pytest.raises(ValueError, match=message):
        read_table(io.BytesIO(text))


def test_unusual_files_are_read():
    assert frames(b'a,b\n1,5" x 7"\n2,y\r\n3,z')[0].rows() == [("1", '5" x 7"'), ("2", "y"), ("3", "z")]
    assert frames(b'"a\nb",c\n1,2\n')[0].columns == ["a\nb", "c"]
    assert frames(b'"a;b",c\n1,2\n')[0].columns == ["a;b", "c"]  # separators inside quotes do not count
    assert frames(b"a\n1\n\n2\n\n\n", rows=1) and len(frames(b"a\n1\n\n2\n\n\n", rows=1)) == 3  # noqa: PT018
    assert frames(b"a,b\n-,2\n", missing=("-",))[0].rows() == [(None, "2")]
    assert frames("a,b\n1,é\n".encode("utf-16"), encoding="utf-16")[0].rows() == [("1", "é")]


def test_chunks_do_not_depend_on_the_blocks_of_the_file(monkeypatch):
    text = ("a,b\n" + "".join(f'{i},"x\n""{"é" * (i % 7)}"\n' for i in range(50))).encode()
    whole = frames(text)[0]
    for block in (1, 2, 3, 7, 64):
        monkeypatch.setattr("dplan.tables.decoding._BLOCK", block)
        found = frames(text, rows=7)
        assert [frame.height for frame in found] == [7] * 7 + [1]
        assert pl.concat(found).equals(whole)


def test_literal_names(tmp_path):
    for name in ("a[1].parquet", "a1.parquet", "*.parquet", "a?.parquet"):
        pl.DataFrame({"name": [name], "l": [0]}).write_parquet(tmp_path / name)
    for path in tmp_path.iterdir():
        assert read_table(path)["name"].to_list() == [path.name]
        assert [chunk()["name"].to_list() for chunk in Input(path).chunks()] == [[path.name]]


def test_a_bomb_needs_no_more_memory_than_a_chunk(tmp_path):
    """600 MB of one line, of many long lines and of line breaks, in a few hundred kB."""
    path = tmp_path / "t.csv.gz"
    block = {"line": b"x" * 2**20, "rows": b"y" * (2**20 - 1) + b"\n", "breaks": b"\n" * 2**20}
    code = (
        "import sys; from pathlib import Path; from dplan.tables.input import Input\n"
        "def peak(): return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) // 1024\n"
        "before = peak()\n"
        "try:\n"
        "    for chunk in Input(Path(sys.argv[1])).chunks(): pass\n"
        "except ValueError as error: print(error)\n"
        "print(peak() - before)\n"
    )
    said = {
        "line": "line 2: the row that starts here is longer than the limit of 64 MB",
        "breaks": "64 MB of empty lines",
    }
    for what, text in block.items():
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b"a\n")
            for _ in range(600):
                file.write(text)
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
        *error, megabytes = done.stdout.splitlines()
        assert said.get(what, "") in "".join(error)
        assert bool(error) == (what in said)
        assert int(megabytes) < 450, what


def stray(n):
    """Return a table whose first quote is never closed."""
    return b'a,b\n1,"oops\n' + b"2,x\n" * n


def refused(text):
    with pytest.raises(ValueError, match="line 2: the quote that opens here is not closed"):
        frames(text, rows=1000)


def test_a_stray_quote_costs_linear_time(monkeypatch):
    searched, ends = [], csv_syntax.row_ends

    def counting(text, **options):
        searched.append(len(text))
        return ends(text, **options)

    monkeypatch.setattr(csv_syntax, "row_ends", counting)
    monkeypatch.setattr(decoding, "_BLOCK", 1 << 16)
    text = stray(1_000_000)
    refused(text)
    # Every byte once, and some again; a quadratic search takes thirty times as many.
    assert sum(searched) < 3 * len(text)


def test_checking_names_costs_linear_time():
    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return super().__eq__(other)

    names = [Name(f"c{j}") for j in range(20_000)]
    check_names("t", names)
    assert Name.compared < 5 * len(names)  # all pairs are two hundred million


def test_rows_that_the_parser_lost_are_noticed(monkeypatch):
    read = pl.read_csv
    monkeypatch.setattr(pl, "read_csv", lambda *arguments, **options: read(*arguments, **options)[1:])
    with pytest.raises(ValueError, match=r"3 rows from line 2 on were read as 2"):
        frames(b"a,b\n1,2\n3,4\n5,6\n", rows=1000)


@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime("ms")])
def test_the_years_0_and_10000_are_refused(dtype):
    first, last = (day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max))
    per_day = 1 if dtype == pl.Date else 86_400_000

    def days(*numbers):
        physical = pl.Series("d", [number * per_day for number in numbers], dtype=pl.Int64)
        return physical.cast(pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)

    check_values(days(first, last))
    for outside in (first - 1, last + 1):
        with pytest.raises(ValueError, match="date outside the years 1 to 9999"):
            check_values(days(0, outside))


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_the_last_second_of_the_year_9999_is_a_date(unit):
    last = pl.Series("d", [dt.datetime(9999, 12, 31, 23, 59, 59)], dtype=pl.Datetime(unit))
    check_values(last)
    with pytest.raises(ValueError, match="date outside the years 1 to 9999"):
        check_values(last.dt.offset_by("1s"))


def test_many_columns_fit_and_score(tmp_path):
    n = 5_000
    path = tmp_path / "wide.csv"
    rows = np.random.default_rng(0).integers(0, 9, (6, n)).astype(str).tolist()
    path.write_text(
        "l," + ",".join(f"c{j}" for j in range(n)) + "\n"
        + "".join(f"{int(i == 0)}," + ",".join(row) + "\n" for i, row in enumerate(rows))
    )  # fmt: skip
    own = from_table(path, "l")
    model = fit_table(own, LogisticBaseline(random_state=0), estimate=False)
    (chunk,) = Input(path).chunks()
    assert len(model.score(chunk())) == 6
    with pytest.raises(ValueError, match=r"missing columns 'c0'.* and 4,990 more"):
        model.score(pl.DataFrame({f"d{j}": [1] for j in range(n)}))


FORKED = """
import os, sys
import polars as pl
from dplan.tables import TableModel
model = TableModel.load(sys.argv[1])
table = pl.read_csv(sys.argv[2])
print(len(model.score(table)), flush=True)
pid = os.fork()
if pid == 0:
    try:
        model.score(table)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_is_told_instead_of_hanging(model, table, tmp_path):
    model.save(tmp_path / "m.dplan")
    table[:50].write_csv(tmp_path / "t.csv")
    done = subprocess.run(
        [sys.executable, "-c", FORKED, tmp_path / "m.dplan", tmp_path / "t.csv"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith("50\n"), done.stderr
    assert "was forked from" in done.stdout
    assert "'spawn'" in done.stdout


def test_errors_name_the_line_in_every_step(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("l,a,b\n" + "".join(f'0,{i},"x\ny"\n' for i in range(20)) + "1,inf,z\n")
    own = from_table(path, "l")
    with pytest.raises(ValueError, match=r"^t\.csv, line 42, column 'a': inf is not finite"):
        fit_table(own, LogisticBaseline(), estimate=False)
    path.write_text("l,a\n0,1\n-2,2\n")
    with pytest.raises(ValueError, match=r"^t\.csv, line 3, column 'l': the label -2.0 is neither 0"):
        from_table(path, "l")
    pl.DataFrame({"l": [0, -2], "a": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"^t\.parquet, row 2, column 'l': the label -2 is neither 0"):
        from_table(tmp_path / "t.parquet", "l")
    path.write_text("l,a\n0,1\n1,2\n0,3\n")
    model = fit_table(from_table(path, "l"), LogisticBaseline(), estimate=False)
    path.write_text("a\n" + "1\n" * 30 + "many\n")
    _, chunk = Input(path).chunks(20)
    message = r"^t\.csv, line 32, column 'a': 'many' is not a number"
    with pytest.raises(ValueError, match=message), chunk.located():
        model.score(chunk())


def test_of_several_bad_cells_the_first_line_is_named(tmp_path):
    path, model = tmp_path / "t.csv", tmp_path / "m.dplan"
    rows = [f"{int(i == 9)},{i}.5,{i}.25,{1 + i}.05.2024,{1 + i}.06.2024" for i in range(12)]

    def written(*changed):
        own = list(rows)
        for line, old, new in changed:
            assert old in own[line - 2]
            own[line - 2] = own[line - 2].replace(old, new)
        path.write_text("l,a,b,d,e\n" + "\n".join(own) + "\n")
        return path

    def scored(*changed, on_error="fail"):
        options = Options(on_error=on_error)
        return score_table(model, Input(written(*changed)), tmp_path / "s.csv", options, output_format="csv")

    fit_table(from_table(written(), "l"), LogisticBaseline(), estimate=False).save(model)
    mistakes = {"a": (9, "7.5", "x"), "b": (7, "5.25", "y"), "d": (8, "7.05", "z"), "e": (11, "10.06", "w")}
    for columns in (*combinations("abde", 2), *combinations("deba", 3), tuple("abde")):
        first = min(columns, key=lambda name: mistakes[name][0])
        message = rf"^t\.csv, line {mistakes[first][0]}, column '{first}'"
        with pytest.raises(ValueError, match=message):
            scored(*(mistakes[name] for name in columns))
        with pytest.raises(ValueError, match=message):
            from_table(written(*(mistakes[name] for name in columns)), "l")
    outcome = scored(*mistakes.values(), on_error="skip")
    assert (outcome.rows, outcome.bad_cells) == (8, {"a": 1, "b": 1, "d": 1, "e": 1})
    infinite = written((8, "6.5", "inf"), (5, "3.25", "-inf"))
    with pytest.raises(ValueError, match=r"^t\.csv, line 5, column 'b'"):
        fit_table(from_table(infinite, "l"), LogisticBaseline(), estimate=False)


def test_dates_out_of_range_are_refused():
    for dtype in (pl.Datetime("ms"), pl.Datetime("us"), pl.Duration("ms")):
        table = pl.DataFrame({"d": pl.Series([0, 2**62]).cast(dtype), "l": [0, 1]})
        with pytest.raises(ValueError, match="row 2, column 'd': date outside the years 1 to 9999"):
            fit_table(from_table(table, "l"), LogisticBaseline(), estimate=False)
    table = pl.DataFrame({"d": pl.Series([0, 2**31 - 1], dtype=pl.Int32).cast(pl.Date), "l": [0, 1]})
    with pytest.raises(ValueError, match="row 2, column 'd': date outside"):
        fit_table(from_table(table, "l"), LogisticBaseline(), estimate=False)
    fine = pl.DataFrame({"d": pl.Series([0, 1], dtype=pl.Int32).cast(pl.Date), "l": [0, 1]})
    model = fit_table(from_table(fine, "l"), LogisticBaseline(), estimate=False)
    with pytest.raises(ValueError, match="row 2, column 'd': date outside"):
        model.score(table)


def test_useless_columns_are_named():
    table = pl.DataFrame({"a": [1.0, 2, 3], "s": ["x", "y", "x"], "t": ["1", "b", "b"], "l": [0, 0, 1]})
    model: TableModel = fit_table(from_table(table, "l"), LogisticBaseline(), estimate=False)
    new = pl.DataFrame({"a": [None, None], "s": ["p", None], "t": [1, 2]}, schema_overrides={"a": pl.Float64})
    _, report = model.prepare_with_report(new)
    assert report.useless() == {
        "a": "all values are missing",
        "s": "no value occurred in training",
        "t": "was text in training, is a number column now",
    }
    assert model.prepare_with_report(table)[1].useless() == {}
    both = report + model.prepare_with_report(table)[1]
    assert list(both.useless()) == ["t"]


def test_a_column_from_the_lowest_to_the_highest_float(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("l,a\n0,-1.7e308\n0,1.7e308\n1,0\n")
    own = from_table(path, "l")
    model = fit_table(own, LogisticBaseline(), estimate=False)
    assert model.prepare(own.features).ravel().tolist() == [0, 1, 0.5]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_file_is_read_in_turn_in_one_pass(tmp_path, kind, monkeypatch):
    table = pl.DataFrame({f"c{j}": np.random.default_rng(j).random(10_000) for j in range(5)})
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        table.write_parquet(path, row_group_size=table.height)
    else:
        table.write_ipc(path, compression="zstd", record_batch_size=table.height)

    collect, collected = pl.LazyFrame.collect, []
    monkeypatch.setattr(
        pl.LazyFrame, "collect", lambda *args, **options: collected.append(1) or collect(*args, **options)
    )

    def n_passes(in_turn):
        collected.clear()
        found = list(Input(path).chunks(1_000, in_turn=in_turn))
        frames = [chunk() for chunk in found]
        passes = len(collected)
        assert pl.concat(frames).equals(table)
        assert max(frame.height for frame in frames) == 1_000
        assert found[-1].place(999).endswith("row 10000")
        return passes

    assert n_passes(True) < 3
    assert n_passes(False) >= 10


def test_an_empty_file_read_in_turn_is_one_empty_chunk(tmp_path):
    pl.DataFrame(schema={"a": pl.Float64}).write_parquet(tmp_path / "t.parquet")
    (chunk,) = Input(tmp_path / "t.parquet").chunks(in_turn=True)
    assert chunk().schema == {"a": pl.Float64}
    assert chunk().height == 0
