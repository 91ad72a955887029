"""Estimates and the truth: halves of a table, cells of the suite, and what the page says."""

import json

import numpy as np
import polars as pl
import pytest

from experiments.checking import check
from experiments.data.arrays import ArrayTask
from experiments.estimates.coverage import halves, measure
from experiments.estimates.page import intervals
from experiments.journal import read_journal
from experiments.pages import write_report
from experiments.results import Results
from experiments.runner import run
from experiments.suites import Plan


def made_task(n_known=40, gap=4.0, n_rows=1600):
    rng = np.random.default_rng(0)
    truth = (rng.random(n_rows) < 0.1).astype(np.int64)
    X = rng.normal(size=(n_rows, 4)) + gap * truth[:, None]
    y = np.zeros(n_rows, dtype=np.int64)
    y[np.flatnonzero(truth)[:n_known]] = 1
    return ArrayTask(X, y, X, truth, (1,), ("normal", "first"), true_classes=truth)


def test_halves_have_as_many_labels_and_no_row_twice():
    y = made_task().y
    first, second = halves(y, seed=3)
    assert (y[first] > 0).sum() == (y[second] > 0).sum() == 20
    assert sorted([*first, *second]) == list(range(len(y)))
    assert (halves(y, seed=4)[0] != first).any()


def test_right_alerts_are_those_of_rows_that_were_not_fitted():
    found = measure("LogisticBaseline", made_task(), seed=1)
    assert found["estimate"]["known"] == 20
    assert found["estimate"]["budget"] == found["right"] == 16  # a wide gap: every alert is right
    blind = measure("LogisticBaseline", made_task(gap=0.0), seed=1)
    assert blind["right"] < 8


def test_with_few_labels_there_is_no_estimate():
    found = measure("LogisticBaseline", made_task(n_known=18), seed=1)
    assert found["estimate"] is None
    assert found["right"] == 0


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("estimates")
    plan = Plan(
        ("estimates",), methods=("LogisticBaseline",), runs=2, labels=(10, 40), datasets=("covertype-mini",)
    )
    assert run(plan, folder).done == 2 * 2 * 2
    return folder


def test_results_have_no_problem_and_tampered_ones_have(output, tmp_path):
    assert check(output, rerun=1).problems == []
    records = read_journal(output)
    cell = next(record for record in records if record.get("estimate"))
    cell["right"] = 51
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    budget = cell["estimate"]["budget"]
    assert any(f"51 of {budget} alerts are right" in problem for problem in check(tmp_path).problems)


def test_the_page_counts_intervals_that_cover_the_truth(output, tmp_path):
    table = intervals(Results.read(output))
    told = table.filter(pl.col("low").is_not_null())
    assert (table.height, told.height) == (8, 4)
    inside = told.filter(pl.col("right").is_between(pl.col("low"), pl.col("high"))).height
    text = write_report(output, tmp_path)[1].read_text(encoding="utf-8")
    assert f"covers the truth in {25 * inside} % of 4 fits" in text
    assert "In 4 fits there were too few labels to tell" in text
