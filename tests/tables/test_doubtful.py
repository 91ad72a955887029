"""What training says about a table: columns that add nothing, or know the answer, and times that are too short."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from dplan import IForest, LogisticBaseline, TableDetector
from dplan.cli.main import main
from dplan.tables import fit_table, from_table

N = 1_000
RNG = np.random.default_rng(0)
Y = (np.arange(N) % 40 == 0).astype(np.int64)
VALUE = RNG.normal(size=N) + 1.5 * Y


def fitted(y=Y, **columns):
    table = pl.DataFrame({"value": VALUE, **columns, "y": y})
    return fit_table(from_table(table, "y"), LogisticBaseline(random_state=0), estimate=False)


# Columns that add nothing


def test_constant_and_duplicate_columns_are_left_out_and_named():
    kind = RNG.choice(["a", "b"], N)
    model = fitted(
        version=[7] * N, unit=["kg"] * N, gaps=[1.5, None] * (N // 2), again=VALUE, kind=kind, copy=kind,
        off=[False] * N,
    )  # fmt: skip
    same = "the same value in all rows"
    assert model.summary.dropped == {
        "version": same, "unit": same, "gaps": same, "again": "the same as 'value'", "copy": "the same as 'kind'",
        "off": same,
    }  # fmt: skip
    assert model.columns == ["value", "kind"]
    expected = fitted(kind=kind)
    new = pl.DataFrame({"value": [0.5], "kind": ["a"]})
    np.testing.assert_array_equal(model.score(new), expected.score(new))
    with pytest.raises(ValueError, match="no feature columns left: 'value': the same value in all rows"):
        fit_table(from_table(pl.DataFrame({"value": [1] * N, "y": Y}), "y"), LogisticBaseline())


def test_a_date_that_another_one_needs_is_kept():
    start = [dt.datetime(2024, 1, 1) + dt.timedelta(days=i % 300, minutes=i) for i in range(N)]
    end = [moment + dt.timedelta(days=int(d)) for moment, d in zip(start, RNG.integers(1, 9, N), strict=True)]
    model = fitted(start=start, end=end)
    assert model.columns == ["value", "start", "end"]
    assert "end since start" in model.get_feature_names_out()


# Columns that know the answer


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (np.where(Y, 500.0, 0.0) + RNG.random(N), "marks exactly the labelled rows"),
        (np.where(Y & (np.arange(N) > 0), "closed", "open"), "alone tells 24 of 25 labelled rows"),
        (
            np.where(np.arange(N) == 1, -0.5, np.where(Y, -RNG.random(N) - 0.1, RNG.random(N))),
            "labelled rows from the others, of which 1 are",
        ),
        ([i * 3 % 17 if y else None for i, y in enumerate(Y)], "marks exactly the labelled rows"),
    ],
)
def test_a_column_that_knows_the_answer_is_a_warning(column, words):
    with pytest.warns(UserWarning, match=f"column 'after' .*{words}.*leave it out"):
        model = fitted(after=column)
    assert "after" in model.columns


def test_a_good_column_and_few_labels_are_no_warning():
    fitted(good=RNG.normal(size=N) + 4 * Y)  # some other rows are like them
    few = np.zeros(N, dtype=np.int64)
    few[:4] = 1
    fitted(few, after=few * 5.0 + RNG.random(N))
    names = np.array([f"n{i % 300}" for i in range(N)])
    names[Y > 0] = [f"k{i}" for i in range(int(Y.sum()))]  # each known anomaly has a level of its own
    fitted(name=names)


def test_fit_prints_it(tmp_path):
    pl.DataFrame({"value": VALUE, "after": Y * 2.5, "y": Y}).write_csv(tmp_path / "t.csv")
    options = [
        "--label",
        "y",
        "--detector",
        "LogisticBaseline",
        "--no-estimate",
        "-o",
        str(tmp_path / "m.dplan"),
    ]
    done = CliRunner().invoke(main, ["fit", str(tmp_path / "t.csv"), *options])
    assert done.exit_code == 0
    assert "Warning: column 'after' marks exactly the labelled rows; if it is the label" in done.stderr


# Missing values


def test_means_that_stand_for_missing_values_are_not_typical():
    present = RNG.random(N) < 0.2
    model = fitted(
        amount=[float(x) if p else None for x, p in zip(RNG.integers(100, 900, N), present, strict=True)],
        day=[
            dt.datetime(2024, 1, 1, 9) + dt.timedelta(days=int(d), minutes=int(m)) if p else None
            for d, m, p in zip(RNG.integers(0, 300, N), RNG.integers(0, 60, N), present, strict=True)
        ],
    )
    typical = dict(zip(model.columns, (found.text for found in model.evidence.typical), strict=True))
    low, high = map(float, typical["amount"].split("–"))
    assert low < 160
    assert high > 840
    assert typical["day"].startswith("09:0")
    # Of whole numbers, a mean that is one may be a value.
    model = fitted(grade=[3] * 960 + [1, 5] * 20)
    assert model.evidence.typical[1].text == "3"


# Times


def moments(first, n, minutes):
    return [first + dt.timedelta(minutes=minutes * i) for i in range(n)]


def test_a_cycle_counts_only_if_training_covers_it_several_times():
    morning = dt.datetime(2024, 3, 4, 8)
    assert "when" in fitted(when=moments(morning, N, 0.2)).summary.dropped  # three hours
    assert parts(fitted(when=moments(morning, N, 10))) == ("hour",)  # a week
    assert parts(fitted(when=moments(morning, N, 60))) == ("hour", "weekday")  # six weeks
    assert parts(fitted(when=moments(morning, N, 300))) == ("hour", "weekday", "day")  # seven months
    stray = moments(morning, N - 2, 0.2) + [morning + dt.timedelta(days=d) for d in (9, 40)]
    assert "covers less than three days" in fitted(when=stray).summary.dropped["when"]
    days = [moment.date() for moment in moments(morning, N, 10)]
    assert "covers less than three weeks" in fitted(when=days).summary.dropped["when"]


def test_the_time_since_another_date_needs_no_cycle():
    start = moments(dt.datetime(2024, 3, 4, 8), N, 0.2)
    end = [
        moment + dt.timedelta(seconds=int(s))
        for moment, s in zip(start, RNG.integers(1, 900, N), strict=True)
    ]
    model = fitted(start=start, end=end)
    found = {column.name: column.parts for column in model.preparation.columns_[1:]}
    assert found == {"start": ("weekday",), "end": ("weekday", "since")}
    assert len(np.unique(model.background[:, 1])) == 1  # a constant, which detectors leave out


def parts(model):
    return model.preparation.columns_[1].parts


def test_a_sensor_log_of_one_morning_scores_the_afternoon():
    # Rows in the order of time: a model of the morning must not call the afternoon anomalous.
    rng = np.random.default_rng(1)
    anomaly = rng.random(2_000) < 0.05
    table = pl.DataFrame(
        {
            "when": moments(dt.datetime(2024, 3, 4, 8), 2_000, 0.25),
            "pressure": rng.normal(size=2_000) + 4 * anomaly,
            "flow": rng.normal(size=2_000) - 2 * anomaly,
        }
    )
    detector = TableDetector(IForest(random_state=0, contamination=0.02)).fit(table[:700])
    later = table[1_000:]
    without = TableDetector(IForest(random_state=0, contamination=0.02)).fit(table[:700].drop("when"))
    np.testing.assert_array_equal(detector.anomaly_score(later), without.anomaly_score(later))
    assert (detector.predict(later) == -1).mean() < 0.1


def test_far_more_alerts_than_expected_are_a_warning(tmp_path):
    table = pl.DataFrame({"value": VALUE, "other": RNG.normal(size=N), "y": Y})
    table.write_csv(tmp_path / "train.csv")
    table.with_columns(pl.col("value", "other") + 9).write_csv(tmp_path / "new.csv")
    run = CliRunner().invoke
    model = str(tmp_path / "m.dplan")
    options = ["--label", "y", "--detector", "LogisticBaseline", "--no-estimate", "-o", model]
    assert run(main, ["fit", str(tmp_path / "train.csv"), *options]).exit_code == 0
    score = ["score", str(tmp_path / "new.csv"), "-m", model, "-o", str(tmp_path / "o.csv")]
    words = (
        "of the rows are alerts, 2 % were expected: these rows differ from the unlabelled ones of training"
    )
    assert words in run(main, score).stderr
    assert words not in run(main, [*score, "--budget", "900", "--overwrite"]).stderr
    assert words not in run(main, [*score[:1], str(tmp_path / "train.csv"), *score[2:], "--overwrite"]).stderr
    page = tmp_path / "r.html"
    assert words in run(main, ["report", model, str(tmp_path / "new.csv"), "-o", str(page)]).stderr
    assert words in page.read_text()
