"""Dates become cycles and the time since another date; the calendar itself does not count unless asked for."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplan import BoostedBaseline
from dplan.columns.column import Column
from dplan.columns.cycles import CYCLES
from dplan.columns.dates import Date
from dplan.columns.records import Training
from dplan.tables import TablePreparer, fit_table, from_table


def bookings(n=1500, years=0):
    """Bookings by day; every thirtieth is at night, long after its order, and half of these are known frauds."""
    rng = np.random.default_rng(0)
    fraud = np.arange(n) % 30 == 0
    hour = np.where(fraud, 3, rng.integers(8, 20, n))
    first = dt.datetime(2024 + years, 1, 1) if years else dt.datetime(2024, 1, 1)
    ordered = [first + dt.timedelta(days=int(d)) for d in rng.integers(0, 300, n)]
    booked = [
        day + dt.timedelta(days=int(late), hours=int(h), minutes=int(m))
        for day, late, h, m in zip(
            ordered, np.where(fraud, 40, rng.integers(0, 9, n)), hour, rng.integers(0, 60, n), strict=True
        )
    ]
    verdict = np.where(fraud & (np.arange(n) % 60 == 0), "fraud", "")
    return pl.DataFrame(
        {"ordered": [day.date() for day in ordered], "booked": booked, "verdict": verdict, "fraud": fraud}
    )


def test_the_features_of_a_date():
    preparer = TablePreparer().fit(bookings().select("ordered", "booked"))
    assert preparer.get_feature_names_out().tolist() == [
        *(f"ordered {cycle} {part}" for cycle in ("weekday", "day") for part in ("sin", "cos")),
        *(f"booked {cycle} {part}" for cycle in ("hour", "weekday", "day") for part in ("sin", "cos")),
        "booked since ordered",
    ]
    X = preparer.transform(bookings().select("ordered", "booked"))
    assert X.min() >= 0
    assert X.max() <= 1
    night, midnight = dt.datetime(2024, 5, 6, 23, 59), dt.datetime(2024, 5, 6, 0, 0)
    rows = pl.DataFrame({"ordered": [dt.date(2024, 5, 6)] * 2, "booked": [night, midnight]})
    hour = preparer.transform(rows)[:, 4:6]
    assert np.abs(hour[0] - hour[1]).max() < 0.01  # one minute apart, on a circle


@pytest.mark.parametrize("name", ["ordered", "booked"])
def test_midnight_is_shown_only_if_times_were_in_training(name):
    table = bookings().with_columns(pl.col("ordered").cast(pl.Datetime))  # as pandas has dates
    column = Date().learn(table[name], Training(table, [], 255))
    assert column.format(dt.datetime(2024, 5, 6)) == "2024-05-06" + " 00:00:00" * (name == "booked")
    assert column.format(dt.datetime(2024, 5, 6, 7, 30)) == "2024-05-06 07:30:00"


def test_a_table_of_three_years_later_does_not_become_alerts():
    old, new = bookings(), bookings(years=3)
    own = from_table(old.drop("fraud"), label="verdict", anomaly=["fraud"])
    model = fit_table(own, BoostedBaseline(random_state=0, contamination=0.05), estimate=False)
    alerts = model.score(new.drop("verdict", "fraud")) >= model.threshold
    assert alerts.mean() < 0.1
    assert alerts[new["fraud"].to_numpy()].mean() > 0.9


def test_the_calendar_counts_if_it_is_asked_for():
    table = bookings().select("booked")
    preparer = TablePreparer(meanings={"booked": Date(calendar=True)}).fit(table)
    assert preparer.get_feature_names_out().tolist()[-1] == "booked"
    last = preparer.transform(table)[:, -1]
    assert (last.min(), last.max()) == (0, 1)
    assert preparer.transform(table.with_columns(pl.col("booked").dt.offset_by("3y")))[:, -1].min() > 2


def test_the_time_since_a_chosen_column():
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=d) for d in (0, 10, 40)]
    table = pl.DataFrame({"a": days, "b": [days[0]] * 3, "c": days[::-1]})
    preparer = TablePreparer(meanings={"a": Date(asked="c")}).fit(table)
    assert [column.since for column in preparer.columns_] == ["c", "a", "b"]
    np.testing.assert_allclose(
        preparer.transform(table)[:, preparer.get_feature_names_out().tolist().index("a since c")],
        [0, 0.5, 1],
    )
    with pytest.raises(ValueError, match="column 'a': 'x' is not a date column"):
        TablePreparer(meanings={"a": Date(asked="x")}).fit(table)


def test_missing_dates_become_means_and_are_counted():
    table = bookings(60).select("ordered", "booked")
    preparer = TablePreparer().fit(table)
    gap = table.with_columns(ordered=pl.when(pl.int_range(pl.len()) > 0).then("ordered"))
    X, report = preparer.transform_with_report(gap)
    assert report.missing == {"ordered": 1}
    expected = preparer.transform(table)
    since = preparer.get_feature_names_out().tolist().index("booked since ordered")
    np.testing.assert_allclose(X[0, [0, since]], expected.mean(axis=0)[[0, since]], atol=1e-6)
    np.testing.assert_array_equal(X[0, 4:since], expected[0, 4:since])


@pytest.mark.parametrize(
    "change",
    [
        {"parts": ["hour"]},
        {"parts": ["year"]},
        {"since": "x"},
        {"since_range": [1.0, 0.0]},
        {"kind": "number"},
    ],
)
def test_damaged_dates_are_rejected(change):
    state = TablePreparer().fit(bookings(60).select("booked")).to_state()
    state["columns"][0] |= change
    with pytest.raises(ValueError, match="not a column"):
        TablePreparer.from_state(state)


@settings(max_examples=100, deadline=None)
@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)))
def test_positions_are_those_of_the_calendar(moment):
    microseconds = np.array(
        [(moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)], dtype=np.float64
    )
    found = [cycle.positions(microseconds).item() for cycle in CYCLES.values()]
    minute = 60 * moment.hour + moment.minute
    assert found[0] in (minute, (minute + 1) % 1440)  # a float has not all digits of a far microsecond
    if minute < 1439:
        assert found[1:] == [moment.weekday(), moment.day - 1]
    preparer = TablePreparer().fit(pl.DataFrame({"m": [moment]}))
    assert np.isfinite(preparer.transform(pl.DataFrame({"m": [moment]}))).all()


def test_features_lead_back_to_positions_and_typical_times():
    table = bookings().filter(~pl.col("fraud")).select("ordered", "booked")
    preparer = TablePreparer().fit(table)
    X = preparer.transform(table)
    np.testing.assert_array_equal(
        CYCLES["weekday"].places(X[:, :2]), table["ordered"].dt.weekday().to_numpy() - 1
    )
    minutes = table["booked"].dt.hour().cast(pl.Int64) * 60 + table["booked"].dt.minute()
    np.testing.assert_array_equal(CYCLES["hour"].places(X[:, 4:6]), minutes.to_numpy())
    text = preparer.columns_[1].typical(X[:, 4:]).text
    assert text.startswith("08:")
    assert "–19:" in text
    assert text.endswith("days since ordered")
    assert isinstance(preparer.columns_[1], Column)


def test_a_date_is_outside_when_it_is_farther_away_than_the_training_rows_are_apart():
    days = pl.Series("day", [dt.date(2024, 1, 1) + dt.timedelta(days=k) for k in range(11)])
    column = Date(calendar=True).learn(days, Training(days.to_frame(), [], 255))
    new = pl.Series(
        "day", [dt.date(2024, 1, 21), dt.date(2024, 1, 22), dt.date(2023, 12, 22), dt.date(2023, 12, 21)]
    )
    out = np.empty((4, column.width), dtype=np.float32)
    assert column.write({"day": column.values(new)}, out).outside == 2
    assert out[:, -1].tolist() == pytest.approx([2.0, 2.1, -1.0, -1.1])


def test_the_calendar_and_the_time_since_another_date_are_two_features():
    table = bookings().select("ordered", "booked")
    column = Date(calendar=True).learn(
        table["booked"],
        Training(table, [(Date().learn(table["ordered"], Training(table, [], 255)), table["ordered"])], 255),
    )
    assert column.output_names()[-2:] == ["booked", "booked since ordered"]
    values = {name: column.values(table[name]) for name in table.columns}
    out = np.full((table.height, column.width), np.nan, dtype=np.float32)
    column.write(values, out)
    times = values["booked"] - values["ordered"]
    for own, found in ((-2, values["booked"]), (-1, times)):
        expected = (found - found.min()) / (found.max() - found.min())
        np.testing.assert_allclose(out[:, own], expected, atol=1e-6)


def test_the_same_moment_in_all_rows_has_one_cycle():
    moments = pl.Series("paid", [dt.datetime(2024, 1, 31, 9)] * 3)
    column = Date().learn(moments, Training(moments.to_frame(), [], 255))
    assert column.output_names() == ["paid day sin", "paid day cos"]


def test_dates_of_one_week_are_not_used():
    days = pl.Series("day", [dt.date(2024, 1, 1) + dt.timedelta(days=i % 7) for i in range(300)])
    column = Date().learn(days, Training(days.to_frame(), [], 255))
    assert not column.is_used
    assert column.why.startswith("covers less than three weeks")
    assert column.to_json()["meaning"] is None  # nobody asked for it
