"""Small pictures of the distribution of a column."""

import datetime

import numpy as np
import polars as pl
import pytest

from dplan.columns.preparer import TablePreparer


@pytest.fixture(scope="module")
def parts():
    """Return a column's description, its features of all rows, and those of a row."""
    morning = datetime.datetime(2024, 1, 1, 9)
    moments = [morning + datetime.timedelta(days=i, minutes=i % 50) for i in range(199)]
    table = pl.DataFrame(
        {
            "paid": [*moments, datetime.datetime(2024, 3, 3, 3, 10)],
            "amount": [*range(100, 299), 5000],
            "card": ["a"] * 150 + ["b"] * 50,
            "new": [False] * 199 + [None],
        }
    )
    preparer = TablePreparer().fit(table)
    features, groups = preparer.transform(table), preparer.feature_groups()

    def found(name, row):
        j = table.columns.index(name)
        return preparer.columns_[j], features[:199, groups == j], features[row, groups == j]

    return found


def pictured(parts, name, row, *, missing):
    column, background, own = parts(name, row)
    return column.picture(background, own, missing=missing)


def test_a_date_shows_the_cycle_in_which_it_is_most_unusual(parts):
    column, background, own = parts("paid", 199)
    found = column.picture(background, own, missing=False)
    assert found["ends"] == ["00:00", "23:59"]
    assert int(found["at"] * 24) == 3
    assert int(np.argmax(found["bins"])) == 9
    assert column.restored(own) == "03:10, Sun, day 3"


def test_a_number_lies_where_its_value_is(parts):
    column, background, own = parts("amount", 199)
    found = column.picture(background, own, missing=False)
    assert found["at"] == 1
    assert found["ends"][1] == column.restored(own) == "5000"
    assert found["typical"][1] < 0.05


@pytest.mark.parametrize(("low", "high"), [(-2, 15), (-425_000, 3_995_000)])
def test_zero_between_other_numbers_is_zero(low, high):
    table = pl.DataFrame({"floor": [low, high, *[0] * 50]})
    preparer = TablePreparer().fit(table)
    features = preparer.transform(table)
    (column,) = preparer.columns_
    assert column.restored(features[2]) == column.typical(features).text == "0"


def test_text_and_flags_mark_their_own_level(parts):
    assert [bar[0] for bar in pictured(parts, "card", 199, missing=False)["bars"] if bar[2]] == ["b"]
    assert [bar[2] for bar in pictured(parts, "new", 0, missing=False)["bars"]] == [True, False]


def test_a_missing_value_has_no_place(parts):
    assert pictured(parts, "paid", 5, missing=True)["at"] is None
    assert not any(bar[2] for bar in pictured(parts, "new", 199, missing=True)["bars"])
