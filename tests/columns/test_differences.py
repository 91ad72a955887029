"""How rows differ from those of training: counts that add up, sentences about columns, and drift."""

import numpy as np
import polars as pl

from dplan.columns.differences import Drift, Reference, TransformReport
from dplan.columns.preparer import TablePreparer


def test_reports_of_several_chunks_add_up():
    one = TransformReport(3, {"a": 1, "b": 2}, {"c": 1}, {"d": "number"}, {"e": 2}, {"c": (9, 0.5)})
    two = TransformReport(2, {"b": 1}, {"c": 2, "f": 1}, {}, {"e": 1, "g": 1}, {"f": (8, 0.1)})
    both = one + two
    assert (both.rows, both.missing, both.unseen) == (5, {"a": 1, "b": 3}, {"c": 3, "f": 1})
    assert (both.retyped, both.outside) == ({"d": "number"}, {"e": 3, "g": 1})
    assert both.limits == {"c": (9, 0.5), "f": (8, 0.1)}


def test_columns_without_information_are_named():
    report = TransformReport(
        4,
        {"a": 4, "b": 3, "c": 1, "f": 1},
        {"b": 1, "c": 2, "d": 4, "f": 3},
        {"e": "number"},
        limits={"f": (5000, 0.2)},
    )
    expected = {
        "a": "all values are missing",
        "b": "no value occurred in training",
        "d": "no value occurred in training",
        "e": "was text in training, is a number column now",
        "f": "no value is among the 5,000 most frequent ones of training",
    }
    assert report.useless() == expected
    assert report.differences() == {**expected, "c": "50 % of values did not occur in training"}


def test_only_clear_differences_are_named():
    unseen = {"a": 1, "b": 2, "c": 65, "d": 80}
    report = TransformReport(
        200, {}, unseen, outside={"e": 1, "f": 2}, limits={"c": (900, 0.25), "d": (1000, 0.25)}
    )
    assert report.differences() == {
        "b": "1 % of values did not occur in training",
        "d": "about 15 % of values did not occur in training, beyond its 1,000 most frequent ones",
        "f": "1 % of values far outside the training range",
    }


def table(n, shift=0):
    amount = [float((7 * i) % 100 + shift) for i in range(n)]
    return pl.DataFrame(
        {"amount": amount, "card": [*"aab"] * (n // 3), "new": [True, False, False] * (n // 3)}
    )


def test_drift_of_chunks_is_that_of_all_rows():
    preparer = TablePreparer().fit(table(300))
    reference = Reference(preparer.columns_, preparer.transform(table(300)))
    later = table(300, shift=40).with_columns(card=pl.lit("b"), new=pl.lit(False))
    rows = preparer.transform(later)
    whole = reference.drift_of(rows)
    parts = reference.drift_of(rows[:100]) + reference.drift_of(rows[100:])
    assert (parts.rows, parts.counts) == (300, whole.counts)
    assert Drift() + whole == whole == whole + Drift()
    found = reference.distances(whole)
    assert {name: round(by, 2) for name, by in found.items()} == {"amount": 0.4, "card": 0.67, "new": 0.33}
    assert reference.strong(whole) == {"amount": 0.4, "card": 0.67}
    assert reference.distances(reference.drift_of(preparer.transform(table(300)))) == dict.fromkeys(found, 0)
    assert reference.strong(reference.drift_of(rows[:49])) == {}
    assert set(reference.strong(reference.drift_of(rows[:50]))) == {"card"}
    assert reference.drift_of(np.concatenate([rows] * 14)).rows == 2100


def test_values_far_outside_the_training_range_are_counted():
    preparer = TablePreparer().fit(table(300))
    later = pl.DataFrame({"amount": [50.0, 198.0, 199.0, -98.0, -100.0, None], "card": "a", "new": True})
    _, report = preparer.transform_with_report(later)
    assert (report.outside, report.missing, report.unseen) == ({"amount": 2}, {"amount": 1}, {})
