"""How many alerts will be right: what the labels tell, what they do not, and what is printed."""

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from dplan import DPLAN, LogisticBaseline
from dplan.cli.main import main
from dplan.tables import TableModel, estimate, fit_table, from_table
from dplan.tables.estimating import right_alerts
from dplan.tables.summary import Summary
from tests.tables.payments import QUICK, payments


def points(n_known, n_hidden=40, n_normal=2_000, distance=5.0, seed=0):
    """Points of which some are known to be far away, and others are."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_known + n_hidden + n_normal, 3))
    X[: n_known + n_hidden, 0] += distance
    return pl.DataFrame(X, schema=list("abc")).with_columns(far=pl.int_range(pl.len()) < n_known)


def estimated(table, **settings):
    return estimate(from_table(table, label="far"), LogisticBaseline(random_state=0), **settings)


def test_it_covers_the_truth_and_knows_when_nothing_can_be_told():
    clear = estimated(points(30), budget=20)
    assert clear.low >= 12
    assert clear.high == 20
    assert clear.perfect == 20
    assert clear.median_percentile > 95
    assert (clear.known, clear.unlabelled, clear.rows) == (30, 2040, 2070)
    nothing = estimated(points(30, n_hidden=0, distance=0.0), budget=20)
    assert nothing.low <= 2
    assert nothing.expected < 10
    assert 20 < nothing.median_percentile < 80


def test_a_perfect_detector_finds_no_more_than_there_is():
    found = estimated(points(20, n_hidden=0, distance=8.0), budget=200)
    assert 20 <= found.perfect < 60
    assert found.expected <= found.perfect
    assert found.low <= 20 <= found.high


def test_few_labels_tell_nothing(tmp_path):
    assert estimated(points(9)) is None
    points(9).write_csv(tmp_path / "t.csv")
    command = ["fit", str(tmp_path / "t.csv"), "--label", "far", "--detector", "LogisticBaseline"]
    done = CliRunner().invoke(main, [*command, "-o", str(tmp_path / "m.dplan")])
    assert done.exit_code == 0, done.output
    assert "9 known anomalies are too few to tell how many alerts will be right." in done.output
    assert TableModel.load(tmp_path / "m.dplan").summary.estimate is None


def test_more_labels_make_the_interval_narrower_and_more_alerts_are_not_more_precise():
    rng = np.random.default_rng(1)
    few, many = (right_alerts(rng.beta(0.5, 4, size=n), 5_000, 100) for n in (12, 300))
    assert many.high - many.low <= few.high - few.low
    shares = [right_alerts(np.linspace(0.001, 0.3, 40), 5_000, n).expected / n for n in (50, 2_000)]
    assert shares[0] > shares[-1]


def test_hidden_anomalies_are_not_more_than_fifty_for_each_known_one():
    """Twenty known anomalies among the upper tenth of a million rows do not make 100,000 anomalies."""
    found = right_alerts(np.linspace(0.001, 0.2, 20), 1_000_000, 100_000)
    assert found.perfect <= 51 * 20
    assert found.high <= 2_000


def test_rows_of_one_customer_are_held_out_together():
    """Each fraud is like the other frauds of its customer alone, so seeing these would be cheating."""
    rng = np.random.default_rng(0)
    n, n_customers, n_rows = 6, 10, 1_500
    customer = np.concatenate([np.repeat(np.arange(n_customers), n), 100 + np.arange(n_rows)])
    X = rng.normal(size=(len(customer), n_customers))
    X[np.arange(n * n_customers), customer[: n * n_customers]] += 6
    table = pl.DataFrame(X, schema=[f"x{k}" for k in range(n_customers)]).with_columns(
        customer=pl.Series(customer), fraud=pl.int_range(pl.len()) < n * n_customers
    )
    detector = LogisticBaseline(random_state=0)
    together = estimate(from_table(table, label="fraud", id="customer"), detector)
    apart = estimate(from_table(table, label="fraud", drop="customer"), detector)
    assert apart.median_percentile > 95
    assert together.median_percentile < 80


def test_rows_without_a_customer_stand_alone():
    table = points(30).with_columns(
        customer=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.int_range(pl.len()))
    )
    ours = estimate(
        from_table(table, label="far", id="customer"), LogisticBaseline(random_state=0), budget=20
    )
    assert ours.low >= 12


def test_checked_rows_count_as_rows_and_give_a_precision():
    table = points(30).with_columns(far=pl.col("far").cast(pl.Int64))
    table = table.with_columns(far=pl.when(pl.int_range(pl.len()) >= 1_900).then(-1).otherwise("far"))
    found = estimated(table, budget=20)
    assert found.checked == 170
    assert found.alerts_found >= 25
    assert found.false_alarms <= 10
    assert (
        "Precision on held-out rows with a verdict:" in Summary(estimate=found.to_json()).expectations()[-1]
    )


def test_scores_at_the_threshold_are_alerts_as_in_score():
    table = pl.DataFrame({"a": [1] * 130 + [0] * 1_800, "far": [1] * 30 + [0] * 1_900})
    own = from_table(table, label="far")
    found = estimate(own, LogisticBaseline(random_state=0), budget=20)
    model = fit_table(own, LogisticBaseline(random_state=0), estimate=False)
    assert model.is_alert(model.score(table)).sum() == 130  # of two scores, the higher one is the threshold
    assert found.alerts_found == 30


def test_the_estimate_does_not_change_the_model():
    own = from_table(payments(), label="verdict", anomaly=["fraud"], id="payment")
    one, other = (fit_table(own, DPLAN(**QUICK), estimate=chosen) for chosen in (True, False))
    assert one.summary.estimate["known"] == 30
    assert one.summary.estimate["median_percentile"] > 95
    np.testing.assert_array_equal(one.background, other.background)
    np.testing.assert_array_equal(one.score(payments()), other.score(payments()))


def test_fit_and_inspect_say_how_many_alerts_will_be_right(tmp_path):
    points(40).write_csv(tmp_path / "t.csv")
    model = str(tmp_path / "m.dplan")
    command = [
        "fit",
        str(tmp_path / "t.csv"),
        "--label",
        "far",
        "--detector",
        "LogisticBaseline",
        "-o",
        model,
    ]
    done = CliRunner().invoke(main, [*command, "--budget", "20"])
    assert done.exit_code == 0, done.output
    assert (
        "of the 20 highest scores of 2,080 new rows like these to be anomalies (90 % interval" in done.output
    )
    assert "a perfect detector would find 20" in done.output
    described = CliRunner().invoke(main, ["inspect", model]).output
    assert "of the 20 highest scores of 2,080 new rows" in described
    refused = CliRunner().invoke(main, [*command, "--overwrite", "--budget", "20", "--no-estimate"])
    assert refused.exit_code == 2
    assert "--budget is for the estimate" in refused.output


@pytest.mark.parametrize(
    ("low", "high", "text"), [(3, 46, "tell too little: 3 to 46"), (20, 33, "expect 20 to 33")]
)
def test_an_interval_that_says_nothing_is_called_that(low, high, text):
    found = {
        "budget": 50,
        "rows": 900,
        "low": low,
        "high": high,
        "perfect": 40.2,
        "known": 12,
        "median_percentile": 9,
    }
    assert text in Summary(estimate=found).expectations()[0]


def test_the_estimate_of_an_older_file_is_still_described():
    found = {"known": 18, "unlabelled": 3265, "median_percentile": 99.5, "budget": 66, "known_in_budget": 18}
    assert Summary(estimate=found).expectations() == [
        "Known anomalies that were held out: 18; half of them rank above 99.5 % of the unlabelled rows."
    ]
