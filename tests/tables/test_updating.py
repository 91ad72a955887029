"""Going on with a model: new anomalies are learned, old ones are not forgotten."""

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from sklearn.base import clone

from dplan import DPLAN, DPLANEnsemble, LogisticBaseline, NoLabelsWarning
from dplan.cli.main import main
from dplan.tables import TableModel, fit_table, from_table, update_model
from tests.tables.payments import QUICK, payments


@pytest.fixture(scope="module")
def june():
    """New payments, in which a new kind of fraud has been found: tiny amounts of many items."""
    table = payments(3000, seed=5)
    theft = pl.int_range(pl.len()) % 25 == 7
    return table.with_columns(
        amount=pl.when(theft).then(0.01).otherwise("amount"),
        items=pl.when(theft).then(25).otherwise("items"),
        kind=pl.when(theft).then(pl.lit("theft")).when(pl.col("country") == "XX").then(pl.lit("fraud")),
        verdict=pl.when(theft & (pl.int_range(pl.len()) % 50 == 7))
        .then(pl.lit("theft"))
        .otherwise("verdict"),
    )


def percentiles(model, rows):
    return float(model.percentile(model.score(rows)).mean())


def state_of(detector):
    """Return what a detector learned, as bytes."""
    trees = getattr(detector, "trees_", ())
    arrays = [value for value in vars(detector).values() if isinstance(value, np.ndarray)]
    return [np.asarray(value).tobytes() for value in (*arrays, *trees, detector.offset_)]


@pytest.mark.parametrize("detector", [DPLAN, DPLANEnsemble])
def test_new_anomalies_rise_and_old_ones_stay(detector, june):
    own = from_table(payments(), label="verdict", anomaly=["fraud"], id="payment")
    old = fit_table(own, detector(random_state=0), estimate=False)
    state, history, score = (
        state_of(old.detector),
        {k: [*v] for k, v in old.detector.history_.items()},
        percentiles(old, june),
    )
    labels = june.select(pl.exclude("kind"))
    new = update_model(old, from_table(labels, label="verdict", anomaly=["theft"]))
    unseen = june.filter(pl.col("verdict") != "theft")
    theft, fraud = (unseen.filter(pl.col("kind") == kind) for kind in ("theft", "fraud"))
    assert percentiles(new, theft) > min(percentiles(old, theft) + 10, 97)
    assert percentiles(new, theft) > 90
    assert percentiles(new, fraud) > 95
    assert percentiles(new, fraud) > percentiles(old, fraud) - 3
    # The old model stays as it was.
    assert state_of(old.detector) == state
    assert old.detector.history_ == history
    assert percentiles(old, june) == score
    assert new.summary.labels == {"unlabelled": 2970 + 2940, "fraud": 30, "theft": 60}
    assert new.summary.rows == 6000
    assert len(new.detector.history_["seconds"]) > len(old.detector.history_["seconds"])
    assert sorted(set(new.known_classes.tolist())) == [1, 2]


@pytest.mark.parametrize("detector", [DPLAN(**QUICK), DPLANEnsemble(**QUICK, n_agents=1)])
def test_the_command_updates_the_file_and_only_if_all_went_well(detector, june, tmp_path):
    path, before = tmp_path / "m.dplan", tmp_path / "before.dplan"
    own = from_table(payments(), label="verdict", anomaly=["fraud"], id="payment")
    fit_table(own, detector, estimate=False).save(before)
    path.write_bytes(before.read_bytes())
    june.select(pl.exclude("kind")).write_csv(tmp_path / "june.csv")

    def run(*more):
        return CliRunner().invoke(main, ["update", str(path), str(tmp_path / "june.csv"), *more])

    assert run("--anomaly", "nothing").exit_code == 1
    assert path.read_bytes() == before.read_bytes()
    done = run("--anomaly", "theft", "-o", str(tmp_path / "new.dplan"))
    assert done.exit_code == 0, done.output
    assert "60 theft" in done.output
    assert path.read_bytes() == before.read_bytes()
    done = run("--anomaly", "theft")
    assert done.exit_code == 0, done.output
    here, there = TableModel.load(path), TableModel.load(tmp_path / "new.dplan")
    assert state_of(here.detector) == state_of(there.detector)
    assert TableModel.load(path).summary.labels["theft"] == 60
    assert run("--anomaly", "theft").exit_code == 0  # and once more


def test_detectors_that_cannot_go_on_say_so(table):
    own = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    model = fit_table(own, LogisticBaseline(random_state=0), estimate=False)
    with pytest.raises(
        TypeError, match=r"LogisticBaseline cannot be updated \(DPLAN and DPLANEnsemble can\)"
    ):
        update_model(model, own)


@pytest.mark.parametrize("detector", [DPLAN(**QUICK), DPLANEnsemble(**QUICK, n_agents=1)])
def test_partial_fit_before_fit_is_fit_and_goes_on_from_there(detector):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), np.arange(300) < 20
    fitted, going_on = clone(detector).fit(X, y), clone(detector).partial_fit(X, y)
    np.testing.assert_array_equal(fitted.weights_, going_on.weights_)
    low = going_on.column_low_.copy()
    going_on.partial_fit(X * 3, y)
    assert not np.array_equal(fitted.weights_, going_on.weights_)
    np.testing.assert_array_equal(low, going_on.column_low_)  # the weights belong to this scale
    seconds = going_on.history_["seconds"]
    assert seconds == sorted(seconds)
    with pytest.raises(ValueError, match="features"):
        going_on.partial_fit(X[:, :2], y)
    with pytest.warns(NoLabelsWarning):
        going_on.partial_fit(X)


def test_rows_called_normal_by_mistake_are_named(tmp_path):
    """An anomaly among 59 like it was called normal, and so were 60 rows that are."""
    rng = np.random.default_rng(1)
    table = pl.DataFrame(rng.normal(size=(2_000, 4)), schema=list("abcd")).with_columns(
        pl.col("a", "b", "c", "d") + pl.when(pl.int_range(pl.len()) < 70).then(6).otherwise(0),
        id=pl.int_range(1_000, 1_000 + pl.len()).cast(pl.String),
        verdict=pl.when(pl.int_range(pl.len()) < 10).then(pl.lit("fraud")),
    )
    judged = table[10:130].with_columns(
        verdict=pl.when((pl.int_range(pl.len()) < 60) & (pl.int_range(pl.len()) != 7))
        .then(pl.lit("fraud"))
        .otherwise(pl.lit("ok"))
    )
    judged.write_csv(tmp_path / "judged.csv")
    own = from_table(table, label="verdict", anomaly=["fraud"], id="id")
    detector = DPLANEnsemble(n_agents=1, n_steps=300, warmup_steps=100, n_rounds=10, random_state=0)
    model = fit_table(own, detector, estimate=False)
    model.save(tmp_path / "m.dplan")
    command = ["update", str(tmp_path / "m.dplan"), str(tmp_path / "judged.csv"), "--normal", "ok"]
    ran = CliRunner().invoke(main, [*command, "--anomaly", "fraud"])
    assert ran.exit_code == 0, ran.output
    assert "1 of the rows called normal. Are these slips? '1017'." in ran.output
    assert TableModel.load(tmp_path / "m.dplan").summary.updates[-1]["slips"] == ["1017"]
