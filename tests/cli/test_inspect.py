"""``dplan inspect`` of tables, and the options that overrule what it finds."""

import pytest
from click.testing import CliRunner

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
    assert "(--missing)" in done.output
    assert "(--text)" in done.output
    assert "missing=" not in done.output


def test_control_characters_are_not_printed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n\x1b[2Jx,1\ny,2\n")
    assert "\x1b[2J" not in run("inspect", path).output
