"""Scores and review queues as Excel workbooks, the order of alerts, and a folder of CSV files out as it came in."""

import datetime
import re
import zipfile

import polars as pl
import pytest
from click.testing import CliRunner

from dplan import LogisticBaseline
from dplan.cli.main import main
from dplan.tables import TableModel, fit_table, from_table, read_queue
from dplan.tables.workbook import write_workbook
from tests.tables.payments import payments, payments_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a model and a table whose texts are formulas, long or not ASCII."""
    folder = tmp_path_factory.mktemp("workbook")
    payments_model().save(folder / "m.dplan")
    note = pl.concat([pl.Series(["=HYPERLINK(1)", "ü", None]), pl.Series(["+49 30"] * 197)])
    card = 4_000_000_000_000_000_000 + pl.int_range(200)
    payments(200, seed=4).drop("verdict").with_columns(note=note, card=card).write_parquet(
        folder / "t.parquet"
    )
    return folder


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


def score(folder, output, *options, table="t.parquet", code=0):
    return run(
        "score", folder / table, "-m", folder / "m.dplan", "-o", output, "--overwrite", *options, code=code
    )


def sheet_xml(path, name="xl/worksheets/sheet1.xml"):
    with zipfile.ZipFile(path) as book:
        return book.read(name).decode()


def test_alerts_in_a_workbook_have_reasons_in_columns_of_their_own(folder, tmp_path):
    book, parquet = tmp_path / "alerts.xlsx", tmp_path / "alerts.parquet"
    keep = ["--keep", "note", "--keep", "day", "--keep", "card", "--keep", "amount"]
    for path in (book, parquet):
        score(folder, path, "--budget", 5, "--explain", *keep)
    found, exact = pl.read_excel(book), pl.read_parquet(parquet)
    assert found["score"].to_list() == exact["score"].round_sig_figs(6).to_list()
    apart = found.select(pl.concat_str("^reason_.*$", separator=" | ", ignore_nulls=True)).to_series()
    assert apart.to_list() == exact["reasons"].to_list()
    assert found["alert"].to_list() == [True] * 5 + [False] * 195
    assert found["note"].sort().to_list() == exact["note"].sort().to_list()
    assert found["card"].to_list() == exact["card"].cast(pl.String).to_list()  # nineteen digits stay nineteen
    assert found["day"].dtype == pl.Date
    assert found["amount"].to_list() == exact["amount"].to_list()


def test_a_workbook_has_a_frozen_header_and_filters_and_no_formula(folder, tmp_path):
    score(folder, tmp_path / "a.xlsx", "--explain", "--keep", "note")
    xml = sheet_xml(tmp_path / "a.xlsx")
    assert 'state="frozen"' in xml
    assert 'ySplit="1"' in xml
    assert "<autoFilter" in sheet_xml(tmp_path / "a.xlsx", "xl/tables/table1.xml")
    assert "<f>" not in xml
    assert 'quotePrefix="1"' in sheet_xml(tmp_path / "a.xlsx", "xl/styles.xml")
    widths = [float(width) for width in re.findall(r'<col [^>]*width="([0-9.]+)"', xml)]
    assert max(widths) > 2 * min(widths)  # reasons are wider than numbers


def test_a_queue_in_a_workbook_offers_the_verdicts_and_can_be_read_back(folder, tmp_path):
    queue = tmp_path / "queue.xlsx"
    score(folder, tmp_path / "s.csv", "--review", queue, "--review-rows", 6)
    assert '<dataValidation type="list"' in sheet_xml(queue)
    assert '"fraud,normal,unsure"' in sheet_xml(queue).replace("&quot;", '"')
    rows = pl.read_excel(queue, infer_schema_length=0)
    verdicts = ["fraud", "normal", "unsure", "normal", None, "fraud"]
    write_workbook(rows.with_columns(pl.Series("verdict", verdicts)), queue)
    judged = read_queue(TableModel.load(folder / "m.dplan"), queue)
    assert judged.y.tolist() == [1, -1, -1, 1]


def test_numbers_and_dates_of_a_csv_are_such_in_a_workbook(tmp_path):
    lines = [f"00{i};{i % 9 + 1}.{100 + i},50 €;{i % 28 + 1:02}.03.2024;{'ja' if i % 2 else 'nein'};{int(i % 30 == 3)}"
             for i in range(90)]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(["nr;paid;day;new;fault", *lines]))
    own = from_table(tmp_path / "t.csv", "fault", id="nr")
    fit_table(own, LogisticBaseline(), estimate=False).save(tmp_path / "m.dplan")
    lines[0] = lines[0].replace("1.100,50 €", "?")
    (tmp_path / "t.csv").write_text("\n".join(["nr;paid;day;new;fault", *lines]))
    keep = ["--keep", "paid", "--keep", "day", "--keep", "new", "--order", "file"]
    score(tmp_path, tmp_path / "a.xlsx", *keep, table="t.csv")
    run(
        "score",
        tmp_path / "t.csv",
        "-m",
        tmp_path / "m.dplan",
        "--review",
        tmp_path / "q.xlsx",
        "--review-rows",
        9,
    )
    for name in ("a.xlsx", "q.xlsx"):
        found = pl.read_excel(tmp_path / name).sort("nr")
        assert (found["nr"].dtype, found["new"].dtype) == (pl.String, pl.String)
        assert found["day"].dtype == pl.Date
        places = found["nr"].cast(int).to_list()
        assert found["paid"].to_list() == [
            None if i == 0 else (i % 9 + 1) * 1000 + 100 + i + 0.5 for i in places
        ]
    # A queue that has lost its last column is read by its cells.
    scores = TableModel.load(tmp_path / "m.dplan").score(tmp_path / "q.xlsx")
    assert scores.round(4).tolist() == pl.read_excel(tmp_path / "q.xlsx")["score"].to_list()


@pytest.mark.parametrize(
    "options", [("--budget", 7), ("--budget", 7, "--order", "alerts"), ("--order", "alerts")]
)
def test_alerts_come_first_and_the_highest_first(folder, tmp_path, options):
    out = tmp_path / "s.parquet"
    score(folder, out, *options)
    found = pl.read_parquet(out)
    n_alerts = found["alert"].sum()
    alerts, others = found[:n_alerts], found[n_alerts:]
    assert n_alerts
    assert alerts["alert"].all()
    assert alerts["score"].to_list() == sorted(alerts["score"], reverse=True)
    assert others["row"].to_list() == sorted(others["row"])
    assert sorted(found["row"]) == list(range(1, 201))


def test_the_order_of_the_file_on_request(folder, tmp_path):
    score(folder, tmp_path / "s.parquet", "--budget", 7, "--order", "file")
    assert pl.read_parquet(tmp_path / "s.parquet")["row"].to_list() == list(range(1, 201))
    told = score(folder, tmp_path / "s.csv", "--top", 7, "--order", "file", code=2)
    assert "--top writes the highest scores first" in told


def test_a_folder_of_csv_files_becomes_a_folder_of_csv_files(folder, tmp_path):
    (tmp_path / "in").mkdir()
    table = pl.read_parquet(folder / "t.parquet")
    for i in range(2):
        table[100 * i : 100 * i + 100].write_csv(tmp_path / "in" / f"day-{i}.csv", separator=";")
    for _ in range(2):  # the second time, it replaces what it wrote
        run(
            "score",
            tmp_path / "in",
            "-m",
            folder / "m.dplan",
            "-o",
            tmp_path / "out",
            "--explain",
            "--overwrite",
        )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["day-0.csv", "day-1.csv"]
    found = pl.read_csv(tmp_path / "out" / "day-1.csv", separator=";")
    assert found["payment"].to_list() == table["payment"][100:].to_list()
    (tmp_path / "out" / "mine.csv").write_text("row;amount\n1;2\n")
    told = run(
        "score", tmp_path / "in", "-m", folder / "m.dplan", "-o", tmp_path / "out", "--overwrite", code=1
    )
    assert "contains mine.csv, which was not written by dplan score" in told


def test_reasons_in_a_csv_can_be_read_by_excel(folder, tmp_path):
    score(folder, tmp_path / "s.csv", "--explain")
    assert (tmp_path / "s.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    score(folder, tmp_path / "s.csv")
    assert not (tmp_path / "s.csv").read_bytes().startswith(b"\xef\xbb\xbf")


def test_what_a_spreadsheet_cannot_hold_is_text_or_refused(tmp_path):
    table = pl.DataFrame(
        {
            "old": [datetime.date(1850, 1, 1)],
            "zoned": pl.Series([datetime.datetime(2024, 1, 1)]).dt.replace_time_zone("UTC"),
            "list": [[1, 2]],
            "long": ["x" * 40_000],
            "nan": [float("nan")],
            "span": [datetime.timedelta(hours=30)],
        }
    )
    write_workbook(table, tmp_path / "t.xlsx")
    (row,) = pl.read_excel(tmp_path / "t.xlsx").rows()
    assert row[:3] == ("1850-01-01", "2024-01-01 00:00:00.000000+00:00", "[1, 2]")
    assert len(row[3]) == 32_767
    assert row[4] is None
    with pytest.raises(ValueError, match=r"do not fit on an Excel sheet .*--top"):
        write_workbook(pl.DataFrame({"a": pl.int_range(1_048_576, eager=True)}), tmp_path / "t.xlsx")


def test_many_choices_lie_on_a_hidden_sheet(tmp_path):
    names = [f"a class with a long name, number {i}" for i in range(20)]
    write_workbook(pl.DataFrame({"verdict": [None]}), tmp_path / "t.xlsx", choices={"verdict": names})
    assert "Choices!$A$1:$A$20" in sheet_xml(tmp_path / "t.xlsx")
    assert 'state="hidden"' in sheet_xml(tmp_path / "t.xlsx", "xl/workbook.xml")
