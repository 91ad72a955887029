"""Going on with a model: new anomalies are learned, old ones are not forgotten."""

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from sklearn.base import clone

from dplan import DPLAN, DPLANEnsemble, LogisticBaseline, NoLabelsWarning
from dplan.cli.main import main
from dplan.persistence.previous import previous
from dplan.tables import (
    TableModel,
    fit_table,
    from_table,
    read_queue,
    undo_update,
    update_if_better,
    update_model,
)
from dplan.tables.comparing import Verdicts, compare
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


SMALL = {"n_agents": 1, "n_steps": 300, "warmup_steps": 100, "n_rounds": 10, "random_state": 0}


def far_rows(n_far=40, n_rows=1_200):
    """Rows of which some are far away; a third of these are known."""
    rng = np.random.default_rng(3)
    return pl.DataFrame(rng.normal(size=(n_rows, 4)), schema=list("abcd")).with_columns(
        pl.col("a", "b") + pl.when(pl.int_range(pl.len()) < n_far).then(6).otherwise(0),
        id=pl.int_range(pl.len()).cast(pl.String),
        verdict=pl.when(pl.int_range(pl.len()) < n_far // 3).then(pl.lit("fraud")).otherwise(pl.lit("")),
    )


@pytest.fixture(scope="module")
def far_model():
    own = from_table(far_rows(), label="verdict", anomaly=["fraud"], id="id")
    return fit_table(own, DPLANEnsemble(**SMALL))


@pytest.fixture
def fooled():
    """Return verdicts that no ranking can follow: hundreds of rows like any other are called fraud."""
    return far_rows()[600:1_000].with_columns(verdict=pl.lit("fraud"))


def run(*command):
    return CliRunner().invoke(main, [*map(str, command)])


def test_a_worse_ranking_is_not_taken_and_its_verdicts_are_not_lost(far_model, fooled):
    update = update_if_better(
        far_model, from_table(fooled, label="verdict", anomaly=["fraud"], id="id", partial=True)
    )
    assert not update.is_new
    assert update.comparison.is_worse
    kept, rows = update.model, far_rows()
    np.testing.assert_array_equal(kept.score(rows), far_model.score(rows))
    assert kept.threshold == far_model.threshold
    assert kept.summary.estimate == far_model.summary.estimate
    assert len(kept.known_anomalies) == 13 + 400
    assert kept.summary.labels["fraud"] == 413
    assert kept.summary.updates[-1]["ranking"] == "old"
    assert TableModel.load(kept.to_bytes()).summary.updates == kept.summary.updates
    # The next update learns from them.
    three = rows[20:23].with_columns(verdict=pl.lit("fraud"))
    more = from_table(three, label="verdict", anomaly=["fraud"], id="id", partial=True)
    assert len(update_model(kept, more).known_anomalies) == 416


def test_a_better_ranking_is_taken(far_model):
    rows = far_rows()[13:60].with_columns(
        verdict=pl.when(pl.int_range(13, 60) < 40).then(pl.lit("fraud")).otherwise(pl.lit("ok"))
    )
    new = from_table(rows, label="verdict", anomaly=["fraud"], normal=["ok"], id="id", partial=True)
    update = update_if_better(far_model, new)
    assert update.is_new
    found = update.comparison
    assert (found.anomalies, found.false_alarms, found.unlabelled) == (13, 20, len(far_model.background))
    assert found.found_after <= found.anomalies


def test_force_takes_a_worse_ranking(far_model, fooled):
    new = from_table(fooled, label="verdict", anomaly=["fraud"], id="id", partial=True)
    update = update_if_better(far_model, new, force=True)
    assert update.is_new
    assert update.comparison.is_worse
    np.testing.assert_array_equal(update.model.score(fooled), update_model(far_model, new).score(fooled))


def test_neither_ranking_learns_from_the_verdicts_that_it_is_compared_on():
    """With labels that mean nothing, both rank them at random, whatever they learn."""
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(500, 4)).astype(np.float32), np.zeros(500, dtype=np.int64)
    y[:40] = 1
    keys = [f"k{i // 2}" if i < 40 else "" for i in range(500)]  # each row twice
    rows[1:40:2] = rows[0:40:2]
    old = Verdicts(rows[20:], y[20:], keys[20:])
    found = compare(old, Verdicts(rows, y, keys), DPLANEnsemble(**SMALL))
    assert found.anomalies == 20  # those that were known before
    assert found.before < 0.3
    assert found.after < 0.3


def test_too_few_anomalies_cannot_be_compared(far_model):
    three = Verdicts(np.zeros((9, 2), np.float32), np.array([1, 1, 1, 0, 0, 0, 0, 0, 0]), [*"abc", *[""] * 6])
    assert compare(three, three, DPLANEnsemble(**SMALL)) is None


def test_the_command_keeps_the_old_ranking_and_says_so(far_model, fooled, tmp_path):
    model, rows = tmp_path / "m.dplan", far_rows()
    far_model.save(model)
    before = model.read_bytes()
    fooled.write_csv(tmp_path / "new.csv")
    command = ["update", model, tmp_path / "new.csv", "--anomaly", "fraud"]
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert "Warning: the new ranking is worse, so the model keeps the old one." in done.stderr
    assert "highest rows" in done.stdout
    np.testing.assert_array_equal(TableModel.load(model).score(rows), far_model.score(rows))
    assert TableModel.load(model).summary.labels["fraud"] == 413
    assert "the old ranking, because the new one was worse" in run("inspect", model).output
    model.write_bytes(before)
    forced = run(*command, "--force")
    assert "the model uses it because of --force" in forced.stderr
    assert (TableModel.load(model).score(rows) != far_model.score(rows)).any()
    assert run(*command, "--force", "--no-estimate").exit_code == 2


def test_an_update_can_be_undone_and_redone(far_model, tmp_path):
    model, table = tmp_path / "m.dplan", tmp_path / "new.csv"
    far_model.save(model)
    model.chmod(0o600)
    link = tmp_path / "link.dplan"
    link.symlink_to(model)
    far_rows()[20:25].with_columns(verdict=pl.lit("fraud")).write_csv(table)
    before = model.read_bytes()
    nothing = run("update", "--undo", model)
    assert nothing.exit_code == 1
    assert "there is no update to undo" in nothing.output
    done = run("update", link, table, "--anomaly", "fraud", "--no-estimate")
    assert done.exit_code == 0, done.output
    assert f"dplan update --undo {link}" in done.output
    after = model.read_bytes()
    assert after != before
    assert previous(model).read_bytes() == before
    for found in (before, after, before):
        done = run("update", "--undo", link)
        assert done.exit_code == 0, done.output
        assert model.read_bytes() == found
        assert model.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "link.dplan", "m.dplan", "m.dplan.previous", "new.csv"
    ]  # fmt: skip
    assert run("update", "--undo", model, table).exit_code == 2
    for option in (["--force"], ["--header-row", "2"], ["--footer-rows", "1"]):
        assert f"cannot be combined with {option[0]}" in run("update", "--undo", model, *option).output


def test_only_the_last_update_of_the_same_file_is_undone(far_model, tmp_path):
    """A model that was fitted again has nothing to undo, even if an older file lies beside it."""
    model, table = tmp_path / "m.dplan", tmp_path / "new.csv"
    far_model.save(model)
    far_rows()[20:25].with_columns(verdict=pl.lit("fraud")).write_csv(table)
    for _ in range(2):
        assert run("update", model, table, "--anomaly", "fraud", "--no-estimate").exit_code == 0
    assert len(undo_update(model).summary.updates) == 1
    far_model.save(model)
    with pytest.raises(ValueError, match="not what the last update replaced"):
        undo_update(model)


def test_a_damaged_row_of_a_queue_is_refused_or_skipped(far_model, tmp_path):
    model, queue = tmp_path / "m.dplan", tmp_path / "queue.csv"
    far_model.save(model)
    far_rows().drop("verdict").write_csv(tmp_path / "t.csv")
    assert run("score", tmp_path / "t.csv", "-m", model, "--review", queue, "--review-rows", 6).exit_code == 0
    table = pl.read_csv(queue, infer_schema=False)
    codes = table["dplan_row"].to_list()
    damaged = table.with_columns(
        verdict=pl.Series(["fraud", "ok", "frod", "ok", "", "fraud"]),
        dplan_row=pl.Series([*codes[:3], "row1-x", *codes[4:]]),
    )
    damaged.write_csv(queue)
    command = ["update", model, queue, "-o", tmp_path / "new.dplan", "--no-estimate"]
    assert "unknown label 'frod'" in run(*command).output
    assert "not for a review queue" in run(*command, "--on-error", "null").output
    for option in (["--encoding", "utf-8"], ["--header-row", "2"], ["--no-header"]):
        assert "not for a review queue" in run(*command, *option).output
    done = run(*command, "--on-error", "skip")
    assert done.exit_code == 0, done.output
    assert "skipped with their rows" in done.stderr
    assert "queue.csv: 3 rows" in done.stdout
    left_out = pl.read_csv(tmp_path / "new.errors.csv")
    assert left_out["dplan_row_number"].to_list() == [3, 4]
    assert left_out["dplan_column"].to_list() == ["verdict", "dplan_row"]
    assert read_queue(far_model, queue, on_error="skip").y.tolist() == [1, -1, 1]
