"""Files as people have them: each is read right, or refused with one sentence that says what to do."""

import dataclasses
import datetime as dt
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplan import LogisticBaseline
from dplan.tables import fit_table, from_table, read_table
from dplan.tables.input import Input
from dplan.tables.layout import Layout
from dplan.tables.model import TableModel
from dplan.tables.writing import format_of_output

DAYS = [dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(12)]
TABLE = [["day", "town", "kg", "faulty"]]
TABLE += [[str(day), ("Ulm", "Köln")[i % 2], f"{i * 1.5}", str(int(i == 3))] for i, day in enumerate(DAYS)]
RIGHT = pl.DataFrame(
    {
        "day": DAYS,
        "town": ["Ulm", "Köln"] * 6,
        "kg": [i * 1.5 for i in range(12)],
        "faulty": [int(i == 3) for i in range(12)],
    }
)


def joined(rows, separator=",", end="\n"):
    return "".join(separator.join(row) + end for row in rows)


PLAIN, ROWS = joined(TABLE), TABLE[1:]
HEADER = joined(TABLE[:1])
WRAPPED = "".join(f'"{line}"\n' for line in PLAIN.splitlines())
QUOTED = "".join(
    '"' + ",".join(f'""{cell}""' for cell in row) + '"\n' for row in TABLE
)  # each line quoted twice

# Name: the text of the file, and what is said about it.
READ = {
    "plain": (PLAIN, ""),
    "a title": ("Production 2024\n" + PLAIN, "the header is in row 2"),
    "a title and an empty line": ("Production 2024\n\n" + PLAIN, "the header is in row 3"),
    "titles with values": ("Report,all plants\nDate,2024-02-01\n\n" + PLAIN, "the header is in row 4"),
    "a title padded by Excel": ("Production,,,\n,,,\n" + PLAIN, "the header is in row 3"),
    "empty lines first": ("\n\n" + PLAIN, "the header is in row 3"),
    "a title of another separator": (
        "Plants; all, of, them\n" + joined(TABLE, ";"),
        "the header is in row 2",
    ),
    "an index above": ("0,1,2,3\n" + PLAIN, "the header is in row 2"),
    "an index of letters": ("A,B,C,D\n" + PLAIN, "the header is in row 2"),
    "an index of names": ("X1,X2,X3,X4\n" + PLAIN, "the header is in row 2"),
    "units": (HEADER + ",,[kg],\n" + joined(ROWS), "row 2 has units"),
    "units of several columns": (HEADER + "date,,kg,yes/no\n" + joined(ROWS), "row 2 has units"),
    "a title and units": ("Scales\n" + HEADER + "(date),,(kg),\n" + joined(ROWS), "row 3 has units"),
    "empty lines inside": (HEADER + "\n".join(joined(ROWS).splitlines(keepends=True)), ""),
    "rows of separators": (HEADER + joined(ROWS[:5]) + ",,,\n,,,\n" + joined(ROWS[5:]), ""),
    "empty rows at the end": (PLAIN + ",,,\n,,,\n\n", ""),
    "a total": (PLAIN + "Total,,99,1\n", "the last row is not part"),
    "a German total after a line": (PLAIN + "\nSumme,,99,1\n", "the last row is not part"),
    "a total and a source": (PLAIN + "Grand total,,99,1\nSource: scales\n", "the last 2 rows are not part"),
    "a note at the end": (PLAIN + "\n* as of today\n", "the last row is not part"),
    "notes as Excel writes them": (
        PLAIN + "Source: scales,,,\n1 Weighed on the old scales,,,\n",
        "the last 2 rows are not part",
    ),
    "columns without name and values": (
        "".join(f"{line},,\n" for line in PLAIN.splitlines()),
        "columns 5, 6 have neither name nor values",
    ),
    "a separator after each row": (HEADER + "".join(f"{line},\n" for line in joined(ROWS).splitlines()), ""),
    "a separator after the header": (HEADER.strip() + ",\n" + joined(ROWS), ""),
    "quotes around each line": (WRAPPED, "quotes around each line are removed"),
    "each line quoted twice": (QUOTED, "quotes around each line are removed"),
    "Excel's hint": ("sep=;\n" + joined(TABLE, ";"), ""),
    "semicolons": (joined(TABLE, ";"), ""),
    "tabs": (joined(TABLE, "\t"), ""),
    "pipes": (joined(TABLE, "|"), ""),
    "Windows": (joined(TABLE, end="\r\n"), ""),
    "Windows with a title and a total": (
        "Title\r\n\r\n" + joined(TABLE, end="\r\n") + "Total,,99,1\r\n",
        "the header is in row 3",
    ),
    "spaces": (joined([[f" {cell} " for cell in row] for row in TABLE]), ""),
    "no end": (PLAIN.rstrip("\n"), ""),
    "SAS's missing values": (PLAIN + "2024-01-13,.,.,.\n", ""),
}


def said_about(path, **options):
    said = []
    frame = Input(path, note=said.append, **options).read()[0]
    return frame, " | ".join(said)


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read_right_and_fit_and_score_agree(name, tmp_path):
    text, expected = READ[name]
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    found, said = said_about(path)
    assert found.head(12).rows() == RIGHT.rows()
    assert found.columns == RIGHT.columns
    assert found.height == (13 if "SAS" in name else 12)
    assert expected in said
    assert bool(expected) or "header" not in said
    agreed(path, tmp_path)


def agreed(path, folder, **options):
    own = from_table(Input(path, **options), "faulty")
    fit_table(own, LogisticBaseline(random_state=0), estimate=False).save(folder / "m.dplan")
    model = TableModel.load(folder / "m.dplan")
    expected = model.prepare(own.features)
    for rows in (1, 5, 100):
        chunks = [chunk() for chunk in Input(path).like(model).chunks(rows)]
        found = [model.prepare(chunk) for chunk in chunks if chunk.height]
        np.testing.assert_array_equal(np.concatenate(found), expected)


@pytest.mark.parametrize("library", ["polars", "pandas"])
@pytest.mark.parametrize("name", READ)
def test_frames_of_the_same_file_are_understood_alike(name, library, tmp_path):
    """The frame has the text of the file, as ``read_csv`` without types returns it."""
    path = tmp_path / "t.csv"
    path.write_bytes(READ[name][0].encode())
    texts = pl.concat([chunk() for chunk in Input(path).chunks(raw=True)])
    frame = texts if library == "polars" else texts.to_pandas()
    of_file, of_frame = from_table(path, "faulty"), from_table(frame, "faulty")
    assert of_frame.features.equals(of_file.features)
    assert of_frame.y.tolist() == of_file.y.tolist()
    one, other = (
        fit_table(own, LogisticBaseline(random_state=0), estimate=False) for own in (of_file, of_frame)
    )
    expected = one.score(path)
    for model in (one, other):
        np.testing.assert_array_equal(model.score(frame), expected)
        np.testing.assert_array_equal(model.score(path), expected)


@pytest.mark.parametrize("name", ["plain", "semicolons", "tabs", "pipes", "Windows", "SAS's missing values"])
def test_frames_as_pandas_reads_them(name, tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "t.csv"
    path.write_bytes(READ[name][0].encode())
    frame = pandas.read_csv(path, sep={"semicolons": ";", "tabs": "\t", "pipes": "|"}.get(name, ","))
    model = fit_table(from_table(path, "faulty"), LogisticBaseline(random_state=0), estimate=False)
    np.testing.assert_array_equal(model.score(frame), model.score(path))
    own = from_table(frame, "faulty")
    other = fit_table(own, LogisticBaseline(random_state=0), estimate=False)
    np.testing.assert_array_equal(other.score(frame), model.score(path))
    np.testing.assert_array_equal(other.score(path), model.score(path))


REFUSED = {
    "numbers alone": ("1.5,2,3\n4,5,6\n7,8,9\n", "contains only numbers .* pass --no-header"),
    "data first": (joined(ROWS), "row 1 looks like data .* pass --no-header"),
    "a short row": (PLAIN + "2024-01-13,Ulm,7\n2024-01-14,Ulm,7,0\n", "line 14 has 3 values, expected 4"),
    "a value without a name": (
        HEADER.strip()
        + ",\n"
        + "".join(f"{line},\n" for line in joined(ROWS * 20).splitlines())
        + "1,2,3,4,x\n",
        "line 242: column 5 has a value here, but no name; add one to the header",
    ),
    "a name twice": ("a,b,a\n1,2,3\n", "duplicate column name 'a'"),
    "an unclosed quote": (
        PLAIN + '2024-01-13,"Ulm,7,0\n',
        "line 14: the quote that opens here is not closed",
    ),
    "a letter for a digit": (
        "amount,b\n" + "".join(f"{7 * i % 1000 + 13},x\n" for i in range(100)) + "15O,x\n",
        "line 102, column 'amount': '15O' is not a number, but 100 of 101 values are; fix it",
    ),
    "a pointer": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "is a Git LFS pointer, not the data; run  git lfs pull",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused_with_what_to_do(name, tmp_path):
    text, message = REFUSED[name]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv")


GIVEN = {
    "no header": (joined(ROWS), Layout(header=0)),
    "no header below a title": ("Title\n\n" + joined(ROWS), Layout(header=0, skip=2)),
    "a header row": ("a,b,c,d\n" + PLAIN, Layout(header=2)),
    "rows to skip": ("a,b,c,d\n" + PLAIN, Layout(skip=1)),
    "units that look like data": (HEADER + "2023-01-01,Ulm,5,0\n" + joined(ROWS), Layout(below=1)),
    "a footer that looks like data": (PLAIN + "2023-01-01,Ulm,5,0\n" * 2, Layout(footer=2)),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_layout_can_be_given_and_is_stored_in_the_model(name, tmp_path):
    text, layout = GIVEN[name]
    (tmp_path / "t.csv").write_text(text)
    found, _ = said_about(tmp_path / "t.csv", layout=layout)
    assert found.rows() == RIGHT.rows()
    own = from_table(Input(tmp_path / "t.csv", layout=layout), "column_4" if layout.header == 0 else "faulty")
    model = fit_table(own, LogisticBaseline(random_state=0), estimate=False)
    assert model.summary.reading["layout"] == layout.to_json()
    assert Input(tmp_path / "t.csv").like(model).layout == layout
    # What is given counts, and what is not is as in training.
    given = Input(tmp_path / "t.csv", layout=Layout(header=1)).like(model).layout
    assert given == Layout(header=1, below=layout.below, footer=layout.footer)
    given = Input(tmp_path / "t.csv", layout=Layout(footer=3)).like(model).layout
    assert given == dataclasses.replace(layout, footer=3)


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_more_rows_than_there_are_cannot_be_skipped(name, tmp_path):
    table = pl.DataFrame({"amount": range(1, 6), "weight": range(11, 16)})
    (table.write_csv if name == "t.csv" else table.write_excel)(tmp_path / name)
    for layout, n in (
        (Layout(below=2), 3),
        (Layout(footer=2), 3),
        (Layout(below=5), 0),
        (Layout(footer=5), 0),
    ):
        assert sum(chunk().height for chunk in Input(tmp_path / name, layout=layout).chunks()) == n
    for n in (6, 7, 2**63):
        with pytest.raises(ValueError, match=rf"^{name}: {n:,} rows .* below the header, but .* only 5"):
            list(Input(tmp_path / name, layout=Layout(below=n)).chunks())
        with pytest.raises(ValueError, match=rf"^{name}: {n:,} rows .* at the end, but .* only 5"):
            list(Input(tmp_path / name, layout=Layout(footer=n)).chunks())


def test_a_day_without_rows_has_no_rows_to_skip(tmp_path):
    (tmp_path / "t.csv").write_text("amount,weight\n")
    for layout in (Layout(below=1), Layout(footer=1)):
        assert sum(chunk().height for chunk in Input(tmp_path / "t.csv", layout=layout).chunks()) == 0


def test_lines_in_messages_are_those_of_the_file(tmp_path):
    text = (
        "Title\n\n"
        + HEADER
        + ",,[kg],\n"
        + joined(ROWS[:3])
        + "\n,,,\n"
        + "2024-01-04,Ulm,five,0\n"
        + joined(ROWS[3:])
    )
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=r"t\.csv, line 10, column 'kg': 'five' is not a number"):
        read_table(tmp_path / "t.csv")


ACCIDENTS = {
    "units": lambda text: text.replace("faulty\n", "faulty\n,,[kg],\n"),
    "title": lambda text: "Production, all plants\n\n" + text,
    "blank": lambda text: text.replace("\n2024-01-05", "\n\n2024-01-05"),
    "total": lambda text: text + "Total,,99,1\n",
    "notes": lambda text: text + "Source: scales,,,\n",
    "columns": lambda text: "".join(
        f"{line}," + "\n" if line.count(",") == 3 else line + "\n" for line in text.splitlines()
    ),
    "semicolons": lambda text: text.replace(",", ";"),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "mark": lambda text: "\ufeff" + text,
}


@pytest.fixture(scope="module")
def of_plain():
    own = from_table(io.BytesIO(PLAIN.encode()), "faulty")
    return own, fit_table(own, LogisticBaseline(random_state=0), estimate=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(list(ACCIDENTS)), unique=True), st.integers(1, 20))
def test_accidents_may_come_together(of_plain, accidents, rows):
    text = PLAIN
    for name in sorted(accidents, key=list(ACCIDENTS).index):
        text = ACCIDENTS[name](text)
    table = Input(io.BytesIO(text.encode()))
    own, model = of_plain
    expected = model.score(Input(io.BytesIO(PLAIN.encode())))
    frame = pl.concat([chunk() for chunk in table.chunks(raw=True)])
    assert frame.rows() == [tuple(row) for row in ROWS]
    for same in (Input(io.BytesIO(text.encode())), frame):
        found = from_table(same, "faulty")
        assert found.features.equals(own.features)
        assert (found.y.tolist(), found.meanings) == (own.y.tolist(), own.meanings)
    chunks = [chunk() for chunk in Input(io.BytesIO(text.encode())).like(model).chunks(rows)]
    np.testing.assert_array_equal(
        np.concatenate([model.score(one) for one in chunks if one.height]), expected
    )
    np.testing.assert_array_equal(model.score(frame), expected)


def workbook(path, rows, sheets=("Data",), first=0):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    pytest.importorskip("fastexcel")
    with xlsxwriter.Workbook(path, {"default_date_format": "yyyy-mm-dd"}) as book:
        for name in sheets:
            sheet = book.add_worksheet(name)
            for i, row in enumerate(rows if name == sheets[0] else [["see the first sheet"]]):
                for j, cell in enumerate(row):
                    sheet.write(first + i, j, cell)


TYPED = [TABLE[0], *RIGHT.rows()]
SHEETS = {
    "plain": (TYPED, ""),
    "a title": ([["Production"], [], *TYPED], "the header is in row 3"),
    "units": ([TYPED[0], ["", "", "[kg]", ""], *TYPED[1:]], "row 2 has units"),
    "a total": ([*TYPED, ["Total", None, 99.0, 1]], "the last row is not part"),
    "notes": (
        [*TYPED, [], ["Note: weighed on the new scales"], ["See the sheet of the scales"]],
        "the last 2 rows are not part",
    ),
    "empty rows": ([*TYPED[:4], [], *TYPED[4:]], ""),
    "a title and a total": ([["Production"], *TYPED, [], ["Total", None, 99.0, 1]], "the header is in row 2"),
}


@pytest.mark.parametrize("name", SHEETS)
def test_a_sheet_is_read_right(name, tmp_path):
    rows, expected = SHEETS[name]
    workbook(tmp_path / "t.xlsx", rows)
    found, said = said_about(tmp_path / "t.xlsx")
    assert found.rows() == RIGHT.rows()
    assert expected in said
    agreed(tmp_path / "t.xlsx", tmp_path)


def test_sheets_are_named(tmp_path):
    workbook(tmp_path / "t.xlsx", TYPED, ("Data", "Notes"))
    assert "the sheet 'Data' is read; there is also 'Notes' (--sheet)" in said_about(tmp_path / "t.xlsx")[1]
    with pytest.raises(
        ValueError, match=r"no sheet 'Note'; did you mean 'Notes'\? Its sheets are 'Data', 'Notes'"
    ):
        read_table(tmp_path / "t.xlsx", sheet="Note")
    with pytest.raises(
        ValueError, match=r"has no sheet 'Tabelle1'; its sheets are 'Data', 'Notes' \(--sheet\)"
    ):
        read_table(tmp_path / "t.xlsx", sheet="Tabelle1")


@pytest.mark.parametrize("kind", ["xls", "ods"])
def test_workbooks_of_older_and_other_programs(kind, tmp_path):
    path = tmp_path / f"production.{kind}"
    path.write_bytes((Path(__file__).parent / "workbooks" / path.name).read_bytes())
    found, said = said_about(path, sheet="Production")
    assert found.rows() == RIGHT.rows()
    assert "the sheet 'Production' is read; there is also 'Notes' (--sheet)" in said
    agreed(path, tmp_path, sheet="Production")
    with pytest.raises(ValueError, match=r"unsupported file type; name the output .csv, .tsv, .xlsx"):
        format_of_output(path)


def test_a_name_may_begin_with_an_ordinal(tmp_path):
    text = "Income,,\nyear,10th percentile,90th percentile\n" + "".join(
        f"{y},1,2\n" for y in range(2000, 2009)
    )
    (tmp_path / "t.csv").write_text(text)
    assert read_table(tmp_path / "t.csv").columns == ["year", "10th percentile", "90th percentile"]


def test_rows_in_messages_are_those_of_the_sheet(tmp_path):
    workbook(
        tmp_path / "t.xlsx", [["Title"], [], *TYPED[:4], [], ["2024-01-05", "Ulm", "five", 0], *TYPED[4:]]
    )
    with pytest.raises(ValueError, match=r"t\.xlsx, row 8, column"):
        read_table(tmp_path / "t.xlsx")


def test_names_may_begin_with_a_year_below_a_row_of_groups(tmp_path):
    text = "2011-2021,Males,,\nAge,2011_M_Pop,2011_M_Deaths,2012_M_Pop\n" + "".join(
        f"{age},{700 + age},{age % 5},{710 + age}\n" for age in range(20)
    )
    (tmp_path / "t.csv").write_text(text)
    found, said = said_about(tmp_path / "t.csv")
    assert found.columns == ["Age", "2011_M_Pop", "2011_M_Deaths", "2012_M_Pop"]
    assert "the header is in row 2, and the row above it is skipped" in said


def test_rows_of_blanks_in_a_sheet_are_empty(tmp_path):
    workbook(tmp_path / "t.xlsx", [*TYPED, ["", " ", "", "  "], [" ", "", "", ""]])
    found, _ = said_about(tmp_path / "t.xlsx")
    assert found.rows() == RIGHT.rows()


@pytest.mark.parametrize("name", ["t.xls", "t.ods", "t.xlsm"])
def test_a_workbook_may_have_the_name_of_another_kind(name, tmp_path):
    workbook(tmp_path / "t.xlsx", TYPED)
    (tmp_path / "t.xlsx").rename(tmp_path / name)
    assert said_about(tmp_path / name)[0].rows() == RIGHT.rows()
    agreed(tmp_path / name, tmp_path)


OTHER = {
    "t.csv.xls": (PLAIN.encode("cp1252"), "is a text file, not a workbook; rename it, as in t.csv"),
    "t.xlsx": (b"\xef\xbb\xbf" + PLAIN.encode(), "is a text file, not a workbook; rename it, as in t.csv"),
    "page.xls": (b"\r\n<html><table><tr><td>day", "is an HTML or XML page, not a workbook; open it in a"),
    "secret.xlsx": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le"),
        "is protected by a password; open it in a spreadsheet program and save it without one",
    ),
    "broken.xlsx": (b"PK\x03\x04" + bytes(50), "cannot be read as Excel: "),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_has_only_the_name_of_a_workbook_is_called_what_it_is(name, tmp_path):
    pytest.importorskip("fastexcel")
    content, message = OTHER[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^{name} {message}"):
        read_table(tmp_path / name)


def test_the_engine_of_workbooks_prints_nothing(tmp_path):
    workbook(tmp_path / "t.xlsx", [["note", *TYPED[0]], *([None, *row] for row in TYPED[1:])])
    code = "import sys, dplan; print(dplan.inspect(sys.argv[1]).table.height)"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "t.xlsx"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("12\n", "")
