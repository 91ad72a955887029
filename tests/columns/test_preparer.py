"""The preparing transformer: exact small cases, hostile columns, scikit-learn's contract, saved state."""

import datetime as dt
import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplan.columns import TYPES
from dplan.columns.records import LIMIT
from dplan.tables import TablePreparer


@parametrize_with_checks([TablePreparer()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# Small cases by hand


def test_every_kind_of_column():
    table = pl.DataFrame(
        {
            "amount": [10.0, 20.0, None, 30.0],
            "paid": [True, False, True, None],
            "time": [dt.time(0), dt.time(12), dt.time(6), None],
            "shop": ["b", "a", None, "b"],
            "empty": [None, None, None, None],
        }
    )
    preparer = TablePreparer().fit(table)
    assert [column.kind for column in preparer.columns_] == ["number", "flag", "date", "text", "dropped"]
    assert preparer.get_feature_names_out().tolist() == [
        *("amount", "paid", "time hour sin", "time hour cos", "shop=a", "shop=b")
    ]
    assert preparer.feature_groups().tolist() == [0, 1, 2, 2, 3, 3]
    X, report = preparer.transform_with_report(table)
    third = np.float32(1 / 3)
    expected = [
        [0, 1, 0.5, 1, 0, 1],
        [0.5, 0, 0.5, 0, 1, 0],
        [0.5, 1, 1, 0.5, third, 2 * third],
        [1, 2 * third, 2 * third, 0.5, 0, 1],
    ]
    np.testing.assert_array_equal(X, np.array(expected, dtype=np.float32))
    assert report.missing == {"amount": 1, "paid": 1, "time": 1, "shop": 1}
    assert report.unseen == {}


def test_unseen_levels_and_new_missing_values_are_counted():
    preparer = TablePreparer().fit(pl.DataFrame({"a": [0, 10], "b": ["x", "y"]}))
    new = pl.DataFrame({"a": [None, 20, -10], "b": ["z", None, "w"]})
    X, report = preparer.transform_with_report(new)
    assert X.tolist() == [[0.5, 0, 0], [2, 0.5, 0.5], [-1, 0, 0]]
    assert (report.missing, report.unseen) == ({"a": 1, "b": 1}, {"b": 2})


def test_nan_is_missing_and_infinity_is_an_error():
    table = pl.DataFrame({"a": [1.0, float("nan"), 3.0]})
    assert TablePreparer().fit_transform(table).ravel().tolist() == [0, 0.5, 1]
    bad = pl.DataFrame({"a": [1.0, float("inf")]})
    with pytest.raises(ValueError, match=r"row 2, column 'a': inf is not finite"):
        TablePreparer().fit(bad)
    with pytest.raises(ValueError, match=r"row 2, column 'a': inf is not finite"):
        TablePreparer().fit(table).transform(bad)


def test_the_mean_of_values_whose_sum_is_beyond_every_float():
    table = pl.DataFrame({"a": [1.7e308, 1.7e308, 1.7e308, 0.0, None]})
    assert TablePreparer().fit_transform(table).ravel().tolist() == [1, 1, 1, 0, 0.75]


def test_declared_levels_all_count():
    table = pl.DataFrame({"a": pl.Series(["x", "x"], dtype=pl.Enum(["w", "x"]))})
    assert TablePreparer().fit_transform(table).tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(("n", "width"), [(255, 255), (256, 64)])
def test_up_to_255_levels_have_a_feature_each(n, width):
    towns = pl.DataFrame({"town": [f"t{i:03}" for i in range(n)] * 4})
    assert TablePreparer().fit(towns).columns_[0].width == width


def test_too_many_levels():
    ids = pl.DataFrame({"id": [f"u{i}" for i in range(300)], "n": range(300)})
    preparer = TablePreparer(max_levels=10).fit(ids)
    assert preparer.columns_[0].reason == "300 different values, like an id"
    assert preparer.transform(ids).shape == (300, 1)
    many = pl.DataFrame({"town": [f"t{i % 20:02}" for i in range(300)] + ["t19"] * 5})
    preparer = TablePreparer(max_levels=2).fit(many)
    assert preparer.columns_[0].levels[:3] == (
        "t19",
        "t00",
        "t01",
    )  # the most frequent, the first by name of equals
    X, report = preparer.transform_with_report(many)
    assert preparer.get_feature_names_out().tolist() == ["town", "town=t19", "town=t00"]
    assert X.sum(axis=0)[1:].tolist() == [20, 15]
    assert report.unseen == {}


def test_a_number_that_came_as_text_is_read_or_named():
    preparer = TablePreparer().fit(pl.DataFrame({"a": [0, 4]}))
    assert preparer.transform(pl.DataFrame({"a": ["1", None, "4"]})).ravel().tolist() == [0.25, 0.5, 1]
    with pytest.raises(ValueError, match=r"row 2, column 'a': 'four' is not a number, but the column was"):
        preparer.transform(pl.DataFrame({"a": ["1", "four"]}))


def test_flags_and_dates_that_came_as_text_are_read():
    table = pl.DataFrame({"f": [True, False], "d": [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3)]})
    preparer = TablePreparer().fit(table)
    new = pl.DataFrame({"f": [" True", "0"], "d": ["2024-01-01", "2024-01-03T00:00:00"]})
    np.testing.assert_array_equal(preparer.transform(new), preparer.transform(table))
    gaps = preparer.transform(pl.DataFrame({"f": [0, 1], "d": [None, None]}))
    np.testing.assert_allclose(
        gaps[:, 1:], preparer.transform(table)[:, 1:].mean(axis=0)[None].repeat(2, axis=0)
    )
    with pytest.raises(ValueError, match=r"row 1, column 'd': 'soon' is not a date"):
        preparer.transform(pl.DataFrame({"f": [True], "d": ["soon"]}))
    with pytest.raises(ValueError, match="column 'd' is a number column, but was a date column in training"):
        preparer.transform(pl.DataFrame({"f": [True], "d": [7]}))


def test_lists_are_refused_by_name():
    with pytest.raises(TypeError, match="column 'a' has the unsupported type List"):
        TablePreparer().fit(pl.DataFrame({"a": [[1], [2]]}))


def test_other_columns_are_named():
    preparer = TablePreparer().fit(pl.DataFrame({"a": [1], "b": [2]}))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- c\n.*now missing:\n- b\n"):
        preparer.transform(pl.DataFrame({"a": [1], "c": [2]}))
    with pytest.raises(ValueError, match="same order"):
        preparer.transform(pl.DataFrame({"b": [1], "a": [2]}))


@pytest.mark.parametrize("table", [pl.DataFrame({"a": []}, schema={"a": pl.Int8}), pl.DataFrame()])
def test_an_empty_table_is_refused(table):
    with pytest.raises(ValueError, match="at least one row and one column"):
        TablePreparer().fit(table)


def test_pandas_gives_what_polars_gives():
    table = pl.DataFrame(
        {
            "n": [1.5, None, 3.5],
            "i": [1, 2, 3],
            "b": [True, False, True],
            "s": ["u", None, "v"],
            "d": [dt.datetime(2024, 1, d) for d in (1, 2, 3)],
        }
    )
    frame = pd.DataFrame({name: table[name].to_list() for name in table.columns})
    np.testing.assert_array_equal(TablePreparer().fit_transform(frame), TablePreparer().fit_transform(table))


def test_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(500, 4)) * [1, 1e6, 1e-6, 1]
    texts = rng.choice(["a", "b", "c"], size=500)
    table = pl.from_numpy(numbers, schema=list("wxyz")).with_columns(text=texts)
    expected = np.hstack(
        [
            MinMaxScaler().fit_transform(numbers),
            OneHotEncoder(sparse_output=False).fit_transform(texts[:, None]),
        ]
    )
    np.testing.assert_allclose(TablePreparer().fit_transform(table), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.UInt8, pl.Int32, pl.Int64, pl.Float32, pl.Float64])
def test_the_type_of_a_number_does_not_change_its_scaled_value(dtype):
    values = np.random.default_rng(1).integers(3, 120, size=1000)
    reference = TablePreparer().fit_transform(pl.DataFrame({"a": values}))
    np.testing.assert_array_equal(
        TablePreparer().fit_transform(pl.DataFrame({"a": values}, schema={"a": dtype})), reference
    )


def test_a_large_table_prepared_in_threads_equals_its_parts():
    rng = np.random.default_rng(2)
    table = pl.from_numpy(rng.normal(size=(260_000, 40)).astype(np.float32))  # above the limit for threads
    preparer = TablePreparer().fit(table)
    parts = [preparer.transform(table[start : start + 100_000]) for start in (0, 100_000, 200_000)]
    np.testing.assert_array_equal(preparer.transform(table), np.vstack(parts))


def test_one_preparer_serves_many_threads():
    table = pl.DataFrame({"a": np.arange(5000.0), "s": [f"l{i % 7}" for i in range(5000)]})
    preparer = TablePreparer().fit(table)
    expected = preparer.transform(table)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(preparer.transform, [table] * 16):
            np.testing.assert_array_equal(result, expected)


# Properties


def numbers_with_extremes():
    return st.one_of(
        st.none(), st.floats(allow_infinity=False, allow_nan=True), st.sampled_from([0.0, -0.0, 5e-324])
    )


COLUMNS = {
    pl.Float64: numbers_with_extremes(),
    pl.Float32: st.one_of(st.none(), st.floats(width=32, allow_infinity=False)),
    pl.Int64: st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    pl.Int16: st.integers(-(2**15), 2**15 - 1),
    pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Boolean: st.one_of(st.none(), st.booleans()),
    pl.String: st.one_of(st.none(), st.text(max_size=3), st.sampled_from("abc")),
    pl.Date: st.one_of(st.none(), st.dates()),
    pl.Datetime("us"): st.one_of(st.none(), st.datetimes()),
    pl.Time: st.one_of(st.none(), st.times()),
    pl.Duration("us"): st.one_of(st.none(), st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999))),
    pl.Null: st.none(),
}


@st.composite
def tables(draw, min_rows=1, dtypes=None, rows=None):
    n = rows or draw(st.integers(min_rows, 12))
    dtypes = dtypes or draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    return pl.DataFrame(
        [
            pl.Series(f"c{j}", draw(st.lists(COLUMNS[dtype], min_size=n, max_size=n)), dtype=dtype)
            for j, dtype in enumerate(dtypes)
        ]
    )


@settings(max_examples=300, deadline=None)
@given(tables())
def test_training_rows_land_in_zero_to_one(table):
    X = TablePreparer().fit_transform(table)
    assert np.isfinite(X).all()
    assert ((X >= 0) & (X <= 1)).all()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_new_rows_are_finite(data):
    dtypes = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    preparer = TablePreparer().fit(data.draw(tables(dtypes=dtypes)))
    X = preparer.transform(data.draw(tables(dtypes=dtypes)))
    assert np.isfinite(X).all()
    assert np.abs(X).max(initial=0) <= LIMIT


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_row_order_does_not_matter(data):
    table = data.draw(tables(min_rows=2))
    order = data.draw(st.permutations(range(table.height)))
    preparer = TablePreparer().fit(table)
    X = preparer.transform(table)
    np.testing.assert_array_equal(preparer.transform(table[order]), X[order])
    # A sum of floats may depend on its order in the last bits, so means may.
    refitted = TablePreparer().fit(table[order])
    np.testing.assert_allclose(refitted.transform(table), X, rtol=1e-5, atol=1e-6)
    assert refitted.get_feature_names_out().tolist() == preparer.get_feature_names_out().tolist()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_unseen_levels_become_zeros_and_are_counted(data):
    letters = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=10)
    seen, new = data.draw(letters), data.draw(letters)
    preparer = TablePreparer().fit(pl.DataFrame({"s": seen}))
    X, report = preparer.transform_with_report(pl.DataFrame({"s": new}))
    is_new = np.array([level not in seen for level in new])
    np.testing.assert_array_equal(X.sum(axis=1), np.where(is_new, 0, 1))
    assert report.unseen.get("s", 0) == is_new.sum()


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([5e-324, 1e-300, 1.0, 1e300, 1.7e308]),
    st.lists(st.floats(-1, 1), min_size=2, max_size=20),
    st.floats(allow_infinity=False, allow_nan=False),
)
def test_extreme_magnitudes(magnitude, values, new):
    table = pl.DataFrame({"a": np.array(values) * magnitude})
    preparer = TablePreparer().fit(table)
    X = preparer.transform(table)
    assert ((X >= 0) & (X <= 1)).all()
    assert np.isfinite(preparer.transform(pl.DataFrame({"a": [new, None]}))).all()


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([0, 1, -7, 10**15, 0.1, -1e308, 5e-324]), st.integers(1, 5))
def test_constant_columns_become_zero(value, n):
    table = pl.DataFrame({"a": [value] * n})
    assert (TablePreparer().fit_transform(table) == 0).all()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_state_survives_json_exactly(data):
    dtypes = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    preparer = TablePreparer(max_levels=5).fit(data.draw(tables(dtypes=dtypes)))
    again = TablePreparer.from_state(json.loads(json.dumps(preparer.to_state(), allow_nan=False)))
    assert again.columns_ == preparer.columns_
    new = data.draw(tables(dtypes=dtypes))
    np.testing.assert_array_equal(again.transform(new), preparer.transform(new))
    assert again.get_feature_names_out().tolist() == preparer.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "code"},
        {"kind": "text"},
        {"minimum": 3.0},
        {"maximum": float("inf")},
        {"maximum": "2"},
        {"fill": [0.5, 0.5]},
        {"fill": [2.0]},
        {"fill": None},
        {"levels": ["a", "a"], "fill": [0.5, 0.5], "kind": "text"},
        {"name": 7},
        {"more": 1},
    ],
)
def test_a_state_with_a_bad_column_is_refused(change):
    state = TablePreparer().fit(pl.DataFrame({"a": [1, 2]})).to_state()
    state["columns"][0] |= change
    with pytest.raises(ValueError, match="not a column"):
        TablePreparer.from_state(state)


@pytest.mark.parametrize(
    "change", [{"columns": None}, {"columns": []}, {"max_levels": "many"}, {"named": None}]
)
def test_a_state_that_is_none_is_refused(change):
    state = TablePreparer().fit(pl.DataFrame({"a": [1, 2]})).to_state()
    with pytest.raises(ValueError, match="not a TablePreparer state"):
        TablePreparer.from_state({**state, **change})


def test_levels_beyond_the_limit_are_not_called_new(monkeypatch):
    rng = np.random.default_rng(0)
    levels = np.array([f"customer {i}" for i in range(900)])
    train, later = (pl.DataFrame({"customer": rng.choice(levels, 5_000)}) for _ in range(2))
    preparer = TablePreparer().fit(train)
    report = preparer.transform_with_report(later)[1]
    new = set(later["customer"]) - set(train["customer"])
    assert report.unseen["customer"] == later["customer"].is_in(list(new)).sum()  # exactly
    assert report.differences() == {}
    monkeypatch.setattr("dplan.columns.frequencies._MOST_LEVELS", 255)
    preparer = TablePreparer().fit(train)
    report = preparer.transform_with_report(later)[1]
    assert report.unseen["customer"] > 0.5 * later.height  # only 255 levels are kept
    assert report.differences() == {}
    half = pl.Series("customer", ["new", None] * (later.height // 2))
    found = preparer.transform_with_report(later.select(half.fill_null(later["customer"])))[1].differences()
    assert re.fullmatch(
        "about 2. % of values did not occur in training, beyond its 255 most frequent ones", found["customer"]
    )
    twice = report + report
    assert twice.differences() == {}
    only = later.with_columns(customer=pl.lit("new"))
    words = "no value is among the 255 most frequent ones of training"
    assert preparer.transform_with_report(only)[1].differences() == {"customer": words}


def test_only_levels_have_a_limit():
    table = pl.DataFrame({"amount": [1.0, 2.0], "paid": [True, False], "time": [dt.time(1), dt.time(2)]})
    _, report = TablePreparer().fit(table).transform_with_report(table)
    assert report.limits == {}


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind.is_used], ids=lambda kind: kind.__name__)
def test_a_column_that_has_learned_nothing_cannot_have_been_stored(kind):
    assert not kind(name="a").is_valid()
