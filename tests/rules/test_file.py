"""Files of rules: what is valid is evaluated, everything else is refused with one sentence."""

import copy
import json

import polars as pl
import pytest
from click.testing import CliRunner

from dplan.cli.main import main
from dplan.rules.file import RuleFile

VALID = {
    "format": "dplan-rules",
    "version": 1,
    "columns": {"amount": "float", "country": "text", "day": "date", "new": "flag", "items": "integer"},
    "kinds": [
        {"name": "large", "rule": {"all": [{"column": "amount", "at_least": 500}]}, "alerts": 3},
        {"name": "abroad\x1b[2J", "rule": {"all": [
            {"column": "country", "in": ["XX", "YY"]}, {"column": "day", "at_most": "2024-06-30", "or_missing": True},
            {"column": "new", "in": [True]}]}},
        {"name": "odd", "rule": None, "sentence": "no rule with three conditions describes these alerts"},
    ],
}  # fmt: skip
TABLE = """amount;country;day;new;items
1.234,50;DE;31.12.2024;yes;1
20,00;XX;01.02.2024;yes;2
30,00;YY;;yes;3
40,00;XX;01.12.2024;yes;4
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rules.json").write_text(json.dumps(VALID), encoding="utf-8")
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_check_says_what_each_rule_selects_without_a_model(folder):
    told = run("rules", "check", folder / "rules.json", folder / "t.csv").splitlines()
    assert told[0] == "large: `amount` at least 500: 1 of 4 rows (25 %); rows 1"
    assert told[1].startswith(
        r"abroad\x1b[2J: `country` = 'XX' or 'YY' and `day` at most 2024-06-30 or missing and"
    )
    assert told[1].endswith("2 of 4 rows (50 %); rows 2, 3")
    assert told[2] == "Without a rule: odd."


def test_sql_is_printed_with_comments_that_cannot_end(folder):
    changed = copy.deepcopy(VALID)
    changed["kinds"][0]["name"] = "one\n; DROP TABLE payments; --"
    (folder / "rules.json").write_text(json.dumps(changed), encoding="utf-8")
    told = run("rules", "sql", folder / "rules.json", "--dialect", "postgresql", "--table", "payments")
    assert told.startswith(r"-- one\n; DROP TABLE payments; --: `amount` at least 500" + "\n")
    assert 'FROM "payments" AS t\nWHERE t."amount" >= \'500.0\'::float8' in told


def test_a_file_that_is_saved_is_read_again(folder):
    found = RuleFile.load(folder / "rules.json")
    found.save(folder / "again.json")
    assert RuleFile.load(folder / "again.json") == found
    written = json.loads((folder / "again.json").read_text("utf-8"))
    assert [kind.get("id") for kind in written["kinds"]] == [rule.id for _, rule in found.rules] + [None]


def changed(path, value):
    """Return the valid file with another value at a place."""
    found = copy.deepcopy(VALID)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return found


CONDITION = ("kinds", 0, "rule", "all", 0)
BAD = [
    (changed(["version"], 2), "unknown version 2"),
    (changed(["format"], "rules"), 'does not begin with "format"'),
    (changed(["more"], 1), "unknown key 'more'"),
    (changed(["columns", "amount"], "number"), "unknown type 'number'; use integer, float"),
    (changed(["columns"], []), "maps the names of columns"),
    (changed(["kinds"], {}), "is a list"),
    (changed(["kinds", 0], "large"), "kind 1: a kind is an object with a name and a rule"),
    (changed(["kinds", 0, "alerts"], "3"), "kind 1: alerts has the wrong type"),
    (changed(["kinds", 0, "id"], "123"), "the id is not that of the rule"),
    (changed(["kinds", 0, "rule"], []), "kind 1: a rule is"),
    (changed(["kinds", 0, "rule", "all"], []), "1 to 3 conditions"),
    (
        changed(["kinds", 0, "rule", "all"], [VALID["kinds"][0]["rule"]["all"][0]] * 2),
        "each on another column",
    ),
    (changed([*CONDITION, "column"], "colour"), "not among the columns"),
    (changed([*CONDITION, "column"], None), "with the name of a column"),
    (changed([*CONDITION, "at_least"], "500"), "'500' is not a value of type float"),
    (changed([*CONDITION, "at_least"], True), "True is not a value of type float"),
    (changed([*CONDITION, "in"], [1.5]), "only one of these"),
    (changed([*CONDITION], {"column": "amount", "in": [1.5]}), "cannot be used for type float"),
    (changed([*CONDITION], {"column": "country", "at_least": "a"}), "cannot be used for type text"),
    (changed([*CONDITION], {"column": "country", "in": []}), "1 to 20 values, not 0"),
    (changed([*CONDITION], {"column": "country", "in": "XX"}), "`in` is a list"),
    (changed([*CONDITION], {"column": "day", "at_most": "31.12.2024"}), "is not a value of type date"),
    (changed([*CONDITION], {"column": "amount", "at_least": 2, "at_most": 1}), "larger than at_most"),
    (changed([*CONDITION], {"column": "amount", "missing": 1}), "missing is true or false"),
    (
        changed([*CONDITION], {"column": "amount", "missing": True, "or_missing": True}),
        "or_missing goes with",
    ),
    (changed([*CONDITION, "not"], True), "unknown key 'not'"),
    ([1], 'does not begin with "format"'),
]


@pytest.mark.parametrize(("content", "message"), BAD, ids=[message for _, message in BAD])
def test_anything_else_is_refused_with_its_place(folder, content, message):
    (folder / "bad.json").write_text(json.dumps(content), encoding="utf-8")
    told = run("rules", "check", folder / "bad.json", folder / "t.csv", code=1)
    assert told.startswith("Error: bad.json is not a valid file of rules: ")
    assert message in told


@pytest.mark.parametrize("text", ['{"format": 1, "format": 2}', "{", "\xff", "[" * 100_000, '{"a": NaN}'])
def test_what_is_not_json_is_refused(folder, text):
    (folder / "bad.json").write_bytes(text.encode("latin-1"))
    assert "is not a valid file of rules" in run(
        "rules", "check", folder / "bad.json", folder / "t.csv", code=1
    )


def test_infinite_bounds_are_refused(folder):
    (folder / "bad.json").write_text(json.dumps(VALID).replace("500", "1e999"), encoding="utf-8")
    assert "is not a value of type float" in run(
        "rules", "check", folder / "bad.json", folder / "t.csv", code=1
    )


def test_a_table_of_other_columns_or_types_is_refused(folder):
    pl.DataFrame({"amount": ["a"]}).write_parquet(folder / "t.parquet")
    told = run("rules", "check", folder / "rules.json", folder / "t.parquet", code=1)
    assert "column 'amount' is of type String, and the rules use it as float" in told
    pl.DataFrame({"amount": [1.0]}).write_parquet(folder / "t.parquet")
    told = run("rules", "check", folder / "rules.json", folder / "t.parquet", code=1)
    assert "the table has no column 'country', which the rules use" in told
