"""The checker of results files, and the suite ``unknown`` that it was made for."""

import json
import re
from itertools import product

import pytest
from click.testing import CliRunner

from experiments.__main__ import main
from experiments.checking import check
from experiments.data import keel
from experiments.journal import read_journal
from experiments.pages import write_report
from experiments.runner import run
from experiments.suites import Plan, cells_of

PLAN = Plan(
    ("unknown",),
    methods=("LogisticBaseline", "IForest"),
    runs=1,
    datasets=("covertype-mini",),
    labels=(5, 30),
)
MISSING = {("unknown", "LogisticBaseline"): 2, ("unknown", "IForest"): 2}  # with 15 labels


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unknown")
    assert run(PLAN, folder).failed == 0
    return folder


def test_the_suite_has_28_tables_and_three_numbers_of_labels():
    cells = cells_of(Plan(("unknown",), methods=("IForest",), runs=1))
    assert len(cells) == 28 * 3
    assert {cell.x for cell in cells} == {cell.labels for cell in cells} == {5, 15, 30}
    assert sum(cell.scenario.startswith("keel/") for cell in cells) == 3 * len(keel.NAMES)
    quick = cells_of(Plan(("unknown",), quick=True, runs=1))
    assert {(cell.dataset, cell.x) for cell in quick} == {("cottonwood (mini)", 5), ("douglas-fir (mini)", 5)}


def test_results_as_they_were_written_have_no_problem(output):
    checked = check(output, rerun=2)
    assert (checked.n_cells, checked.problems, checked.missing) == (8, [], MISSING)
    result = CliRunner().invoke(main, ["check", str(output), "--rerun", "1"])
    assert result.exit_code == 0, result.output
    assert "8 cells checked, 0 problems found" in result.output


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"auc_pr_unknown": 1.2}, "seed 0: auc_pr_unknown is 1.2"),
        ({"scenario": "keel/made-v1", "dataset": "made"}, "is not a cell of the suite"),
        ({"test_rows": 7}, "test_rows is 7, should be 4320"),
        ({"auc_roc": 0.123}, r"auc_roc is 0.123000, 0\.\d+ when run again"),
    ],
)
def test_a_tampered_file_is_noticed(output, tmp_path, changes, problem):
    records = read_journal(output)
    first = next(i for i, record in enumerate(records) if record["kind"] == "cell")
    records[first] |= changes
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    result = CliRunner().invoke(
        main, ["check", str(tmp_path), "--rerun", "8" if "run again" in problem else "0"]
    )
    assert result.exit_code == 1
    assert re.search(problem, result.output)


def test_missing_cells_are_counted_and_no_problem(output, tmp_path):
    lines = (output / "journal.jsonl").read_text().splitlines()
    (tmp_path / "journal.jsonl").write_text("\n".join(lines[:-3]) + "\n")
    checked = check(tmp_path)
    assert checked.problems == []
    assert sum(checked.missing.values()) == sum(MISSING.values()) + 3


def test_the_page_answers_three_questions(output, tmp_path):
    text = write_report(output, tmp_path)[1].read_text(encoding="utf-8")
    assert "5 labels, IForest: AUC-PR, unknown classes 0." in text  # no ensemble: the first is compared
    cells = [record for record in read_journal(output) if record["kind"] == "cell"]
    questions = {"Unknown classes": "_unknown", "Known class": "_known", "All anomalies": ""}
    for x, (title, suffix) in product((5, 30), questions.items()):
        part = text.split(f"#### {title}, {x} labels")[1].split("### ")[0]
        for column, metric in ((2, "auc_pr"), (6, "auc_roc")):
            own = [c[metric + suffix] for c in cells if (c["x"], c["method"]) == (x, "LogisticBaseline")]
            row = next(line for line in part.splitlines() if line.startswith("| LogisticBaseline"))
            assert row.split(" | ")[column - 1].strip("*") == f"{sum(own) / len(own):.3f}"
        assert "covertype-mini (2)" in part
