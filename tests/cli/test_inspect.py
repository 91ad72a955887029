"""``dplan inspect`` of tables, and the options that overrule what it finds."""

import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.tables import TableModel

LINES = [f"{i % 2};3.{582 + i};0{i % 9}/0{i % 7 + 1}/2024;{i},5 kg;ja" for i in range(1, 9)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("l;amount;day;weight;new\n" + "\n".join(LINES) + "\n", encoding="utf-8")
    return path


def run(*arguments, stdin=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def line_of(done, column):
    assert done.exit_code == 0, done.output
    return next(line for line in done.output.splitlines() if line.startswith(column))


def test_each_column_is_shown_with_what_decided_it(table):
    done = run("inspect", table)
    assert "number with decimal comma, in kg" in line_of(done, "weight")
    assert "decimal comma, as in '1,5'" in line_of(done, "weight")
    assert "ambiguous: '3.583' is read as 3583, because other columns have a decimal comma" in line_of(
        done, "amount"
    )
    assert "yes or no" in line_of(done, "new")
    assert "t.csv: 8 rows, 5 columns." in done.output
    assert "Please check: amount, day." in done.output


def test_options_and_a_file_overrule(table, tmp_path):
    done = run(
        "inspect", table, "--column", "amount=number,decimal=point", "--column", "day=date,month-first"
    )
    assert "3.583 to 3.59" in line_of(done, "amount")
    assert "date, month first" in line_of(done, "day")
    file = tmp_path / "columns.toml"
    file.write_text('[weight]\nkind = "category"\n')
    assert "category" in line_of(run("inspect", table, "--columns", file), "weight")


def test_a_kind_that_no_value_has_is_a_problem_and_not_a_crash(table):
    done = run("inspect", table, "--column", "new=number")
    assert done.exit_code == 1
    assert "line 2, column 'new': 'ja' is not a number, and no other value is" in done.output


def test_texts_that_a_fit_leaves_out_because_they_are_like_ids_are_shown_so(tmp_path):
    tails = [f"N{i}{'AB'[i % 2] * (i % 3)}" for i in range(300)]
    frame = pl.DataFrame({"tail": tails, "seats": [i % 50 for i in range(300)], "y": [0, 0, 1] * 100})
    frame.write_csv(tmp_path / "t.csv")
    for made in (tmp_path / "t.csv", frame):
        row = dplan.inspect(made, label="y").columns.row(0, named=True)
        assert (row["understood as"], row["why"]) == ("id, not used", "300 different values, like an id")
        model = dplan.tables.fit_table(
            dplan.tables.from_table(made, "y"), dplan.LogisticBaseline(), estimate=False
        )
        assert model.summary.dropped["tail"] == row["why"]


def test_numbers_that_are_0_and_1_alone_are_shown_as_no_and_yes(tmp_path):
    rows = [(i, int(i % 4 == 0), i % 3) for i in range(40)]
    frame = pl.DataFrame(rows, ["n", "new", "rating"], orient="row")
    frame.write_csv(tmp_path / "t.csv")
    for made in (tmp_path / "t.csv", frame, frame.to_pandas().astype("float64")):
        values = dict(dplan.inspect(made).columns.select("column", "values").rows())
        assert values["new"] == "0 or 1, as no and yes; 25 % yes"
        assert values["rating"] == "0 to 2"
    # They are the features of a flag as they are, and a count that is 2 tomorrow can be scored.
    number, flag = (
        dplan.tables.TablePreparer().fit(one)
        for one in (frame, frame.with_columns(pl.col("new").cast(pl.Boolean)))
    )
    assert (number.transform(frame) == flag.transform(frame)).all()
    assert number.transform(frame.with_columns(new=2))[0, 1] == 2


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("amount", "expected NAME=kind"),
        ("amount=money", "unknown kind 'money'"),
        ("price=number", "no such column"),
    ],
)
def test_a_wrong_option_is_a_usage_error(table, option, message):
    done = run("inspect", table, "--column", option)
    assert done.exit_code == 2
    assert message in done.output


def test_fit_takes_the_same_options_and_names_doubt(table, tmp_path):
    command = [
        "fit",
        table,
        "--label",
        "l",
        "-o",
        tmp_path / "m.dplan",
        "--detector",
        "LogisticBaseline",
        "--no-estimate",
    ]
    done = run(*command, "--column", "amount=number,decimal=point")
    assert done.exit_code == 0, done.output
    assert "Check day: ambiguous" in done.output
    assert "Check amount" not in done.output
    columns = {column.name: column for column in TableModel.load(tmp_path / "m.dplan").preparation.columns_}
    assert columns["amount"].maximum == 3.59
    described = run("inspect", tmp_path / "m.dplan").output
    assert "ambiguous: '01/02/2024' is read day first" in described


def test_errors_speak_of_options(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("l,a\n0,1\n1,2\n0,x\n")
    done = run("inspect", path)
    assert done.exit_code == 1
    assert "t.csv, line 4, column 'a': 'x' is not a number" in done.output
    assert "treat it as missing (--missing" in done.output
    assert "read the column as text (--text" in done.output


def test_control_characters_are_not_printed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n\x1b[2Jx,1\ny,2\n")
    assert "\x1b[2J" not in run("inspect", path).output


BAD = "id,kg,day,town,fault\n" + "".join(
    f"{i},{i}.5,2024-01-{i + 1:02},Ulm,{int(i == 3)}\n" for i in range(20)
)


def bad_table(tmp_path):
    path = tmp_path / "t.csv"
    lines = BAD.replace("\n4,4.5,", "\n4,four,").replace("\n6,6.5,", "\n6,six,").replace("2024-01-10", "soon")
    path.write_text("Production of January\n\n" + lines)
    return path


def test_all_problems_are_listed_at_once_with_what_solves_them(tmp_path):
    path = bad_table(tmp_path)
    done = run("inspect", path, "--label", "faulty", "--id", "nr")
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "the header is in row 3" in said
    assert "t.csv: 20 rows, 5 columns." in said  # it read on
    assert "t.csv, line 8, column 'kg': 'four' is not a number, but 18 of 20 values are;" in said
    assert "the same goes for 1 other cell of the column" in said
    assert "t.csv, line 13, column 'day': 'soon' is not a date" in said
    assert said.count("(--missing") == 2
    assert "t.csv has no column 'nr'; its columns are 'id', 'kg'" in said
    assert "t.csv has no column 'faulty'" in said
    solved = ["--missing", "four", "--missing", "six", "--text", "day", "--label", "fault", "--id", "id"]
    done = run("inspect", path, *solved)
    assert done.exit_code == 0
    assert "Labels: 1 anomaly, 19 unlabelled." in done.output
    fitted = run("fit", path, *solved, "-o", tmp_path / "m.dplan", "--no-estimate", "--detector", "IForest")
    assert fitted.exit_code == 0, fitted.output


def test_inspect_takes_every_option_of_fit_about_the_table():
    def flags(name):
        return {flag for parameter in main.commands[name].params for flag in parameter.opts}

    of_training = {
        "-o",
        "--output",
        "--overwrite",
        "--detector",
        "--set",
        "--seed",
        "--no-estimate",
        "--budget",
    }
    missing = flags("fit") - flags("inspect") - of_training
    assert missing <= {"table", "--sample", "--on-error", "--quiet", "--verbose"}


@pytest.mark.parametrize("source", ["path", "text", "polars", "pandas"])
def test_python_has_it_too(tmp_path, source):
    path = bad_table(tmp_path)
    if source in ("path", "text"):
        found = dplan.inspect(path if source == "path" else str(path), label="fault", id="id")
        assert found.notes == (
            "t.csv: the header is in row 3, and the rows above it are skipped (--header-row)",
        )
        assert found.problems[0].startswith("t.csv, line 8, column 'kg': 'four' is not a number")
    else:
        frame = pl.read_csv(path, skip_rows=2, infer_schema_length=0)
        found = dplan.inspect(frame.to_pandas() if source == "pandas" else frame, label="fault", id="id")
        assert found.problems[0].startswith("row 5, column 'kg': 'four' is not a number")
    assert len(found.problems) == 2
    assert found.columns["column"].to_list() == ["kg", "day", "town"]
    assert found.columns["understood as"].to_list() == ["number", "date, year first", "category"]
    assert found.labels == "1 anomaly, 19 unlabelled"
    assert "These would stop a fit:" in str(found) == repr(found)
    shown = found._repr_html_()
    assert all(
        text in shown
        for text in ("decimal point, as in &#x27;0.5&#x27;", "<div>These would stop a fit:", "<table")
    )
    assert found.table["kg"].null_count() == 2


def test_a_number_that_is_not_finite_and_a_type_that_cannot_be_used_are_problems():
    frame = pl.DataFrame({"a": [1.0, float("inf")], "b": [[1], [2]], "c": [1, 2]})
    found = dplan.inspect(frame)
    assert len(found.problems) == 2
    assert "column 'b' has the unsupported type" in found.problems[0]
    assert "row 2, column 'a': inf is not finite" in found.problems[1]


REMARKS = {
    "sentinel": ([-200] * 5 + list(range(1, 60)), "-200 occurs 5 times, and every other value is at least 1"),
    "float": ([-9.0] * 5 + [0.5, 1.5] * 20, "pass it with --missing, as it is written"),
    "nines": ([9999] * 5 + list(range(60)), "9999 occurs 5 times, and every other value is at most 59"),
    "zip": (list(range(10115, 10415, 5)), "the name says that these are codes; if so, pass --text zip"),
    "place": (["48.1, 11.5", "48.2, 11.6"] * 9, "two numbers in one cell, such as '48.1, 11.5'"),
    "places": (
        [f"{48 + i / 997:.4f}, {11 + i / 999:.4f}" for i in range(300)],
        "two numbers in one cell, such as",
    ),
    "moments": (
        [
            ("2024-{1:02}-{2:02}", "{2}/{1}/2024")[i % 2].format(0, i % 12 + 1, 13 + i // 24)
            for i in range(300)
        ],
        "dates in several formats, such as '2024-01-13' and '13/2/2024'",
    ),
    "files": ([f"IMG_{i:04}.jpg" for i in range(300)], ""),
    "colour": (["Red", "blue", "red"] * 9, "'Red' and 'red' differ in upper and lower case alone"),
    "day": (["2024-01-31", "31/01/2024"] * 9, "dates in several formats"),
    "date": (["2024-01-31", "1/6/2024", "8-Jan-2024", "20240112"] * 9, "such as '2024-01-31' and '1/6/2024'"),
    "size": (["6-25", "7-12", "25-Jun"] * 9, "'25-Jun' may have been a text such as '6-25'"),
    "street": (
        ["1 Main Street", "2 Main Street", "7 Main Street"] * 9,
        "if they are addresses, pass --text street",
    ),
    "profit": ([-3, -2, -1, 5] * 9, ""),
    "town": (["Ulm", "Bonn"] * 9, ""),
}


@pytest.mark.parametrize("name", REMARKS)
def test_what_to_look_at_is_named(name):
    values, words = REMARKS[name]
    found = dplan.inspect(pl.DataFrame({name: values}))
    assert found.doubtful == ([name] if words else [])
    assert words in found.columns["why"].item()
