"""Sessions: verdicts survive anything, the detector learns from them, and windows do not overwrite each other."""

import threading
import time

import numpy as np
import polars as pl
import pytest

from dplan.exceptions import VerdictLogError
from dplan.review import engine
from dplan.review import table as table_rows
from dplan.review.engine import POOL
from dplan.review.export import export_labels
from dplan.review.log import Refused, Standing, VerdictLog, read_log
from dplan.review.progress import choose_threshold, threshold_view
from dplan.review.simulation import simulate
from dplan.review.table import TableFile
from dplan.review.view import open_rows, queue_view, state_view
from dplan.tables.input import Input
from dplan.tables.model import TableModel
from tests.tables.payments import payments


def decide(session, n, fraud, **options):
    """Give n true verdicts, from the top of the queue."""
    rows = []
    for _ in range(n):
        row = session.queue()[0]
        session.judge([row], "anomaly" if fraud[row] else "normal", **options)
        rows.append(row)
    return rows


def test_the_queue_begins_with_the_highest_scores(open_session):
    session = open_session()
    current = session.round
    assert current.scores[session.queue()[:10]].min() >= np.sort(current.scores)[-60]
    assert len(current.explored) == 0  # before there are verdicts
    assert len(session.queue()) <= POOL + 100
    assert current.rank(int(current.scores.argmax())) == 1


def test_explorers_have_a_place_while_the_top_of_the_queue_finds_less_than_they_may(open_session):
    session = open_session()
    best = session.round.rows[np.argsort(-session.round.scores[session.round.rows])]
    for row in best[:10].tolist():
        session.judge([row], "anomaly")
    session.refit(wait=True)
    assert len(session.round.explored) == 0
    for row in session.queue()[:12]:
        session.judge([row], "normal")
    session.refit(wait=True)
    current = session.round
    asked = session.queue()[9]  # the last of the batch
    assert asked == current.explored[0]
    novelty = session.maker._explorer.values(current.prepared)
    others = [current.places[row] for row in session.queue()[10:]]
    assert novelty[current.places[asked]] >= novelty[others].max()
    assert queue_view(session)["rows"][9]["explored"] == (current.rank(asked) > 20)


def test_a_verdict_says_what_was_seen(open_session, tmp_path):
    session = open_session()
    row = session.queue()[0]
    session.judge([row], "anomaly", "theft", seconds=3.25, window="w", reasons={row: ["`amount` = 9"]})
    record = read_log(tmp_path / "verdicts.jsonl")[-1]
    assert record["row"] == [f"j{row:05}"]
    assert record["score"] == session.round.scores[row]
    assert record["rank"] == session.round.rank(row)
    assert (record["verdict"], record["class"], record["who"], record["seconds"]) == (
        "anomaly",
        "theft",
        "me",
        3.2,
    )
    assert record["reasons"] == ["`amount` = 9"]
    assert record["model"] == session.round.digest
    assert len(record["digest"]) == 24


def test_reopening_continues_and_replaying_gives_the_same_labels(open_session, fraud, tmp_path):
    session = open_session()
    rows = decide(session, 7, fraud)
    assert session.refit(wait=True)
    rows += decide(session, 5, fraud)
    scores, queue = session.round.scores, session.queue()
    before = {row: record["verdict"] for row, record in session.judged().items()}
    session.log.close()
    again = open_session()
    assert {row: record["verdict"] for row, record in again.judged().items()} == before
    assert list(again.judged()) == rows
    np.testing.assert_array_equal(again.round.scores, scores)
    assert again.queue() == queue
    assert again.since_refit == 5
    replayed = Standing(read_log(tmp_path / "verdicts.jsonl")).current
    assert [record["number"] for record in replayed.values()] == rows


def test_learning_raises_finds_and_lowers_false_alarms(open_session, fraud):
    session = open_session()
    rows = decide(session, 30, fraud)
    before = session.round
    assert session.refit(wait=True)
    after = session.round
    assert after.number == 1
    assert after.digest != before.digest
    assert after.model.summary.labels["fraud"] == before.model.summary.labels["fraud"] + sum(
        fraud[row] for row in rows
    )
    assert not set(rows) & set(session.queue())
    assert session.since_refit == 0


def test_false_alarms_are_learned_without_a_find(open_session, fraud):
    session = open_session()
    rows = session.queue()[:12]
    for row in rows:
        session.judge([row], "normal")
    before = session.round
    assert session.refit(wait=True)
    after = session.round
    assert len(after.model.checked_normal) == after.model.summary.checked_normal == 12
    assert after.model.summary.labels["fraud"] == before.model.summary.labels["fraud"]
    assert after.scores[rows].mean() < before.scores[rows].mean()
    np.testing.assert_array_equal(after.model.background, before.model.background)


def test_a_verdict_replaces_what_the_model_knew(open_session, tmp_path):
    table = payments()  # which the model was fitted on
    table.drop("verdict").write_csv(tmp_path / "may.csv")
    session = open_session(tmp_path / "may.csv")
    known = next(row for row in session.queue() if table["verdict"][row] == "fraud")
    session.judge([known], "normal")
    assert session.refit(wait=True)
    model, before = session.round.model, session.base.model
    assert len(model.known_anomalies) == len(before.known_anomalies) - 1
    assert table["payment"][known] in before.summary.known_names
    assert table["payment"][known] not in model.summary.known_names
    assert len(model.checked_normal) == 1


def test_verdicts_during_a_refit_are_kept_and_count_for_the_next(open_session, fraud, monkeypatch):
    session = open_session(refit_every=5)
    slow, refit = threading.Event(), session.maker.refit

    def waiting(*arguments):
        slow.wait(600)
        return refit(*arguments)

    monkeypatch.setattr(session.maker, "refit", waiting)
    decide(session, 5, fraud)
    assert session.refitting
    during = decide(session, 3, fraud)
    assert not session.refit()
    slow.set()
    while session.refitting:
        time.sleep(0.01)
    assert session.round.number == 1
    assert set(during) <= set(session.judged())
    assert session.since_refit == 3


def test_verdicts_that_came_during_a_refit_cause_the_next_one(open_session, fraud, monkeypatch):
    session = open_session(refit_every=3)
    slow, refit = threading.Event(), session.maker.refit
    monkeypatch.setattr(session.maker, "refit", lambda *job: slow.wait(600) and refit(*job))
    decide(session, 7, fraud)
    slow.set()
    while session.refitting:
        time.sleep(0.01)
    assert session.round.number == 2
    assert session.since_refit == 0


def test_a_late_verdict_about_a_row_of_the_last_round_counts(open_session, fraud, monkeypatch):
    session = open_session()
    decide(session, 12, fraud)
    # The least suspicious of those that may be on a screen; what the explorers find is always there.
    last = [row for row in session.queue() if row not in session.maker._explored][-1]
    monkeypatch.setattr(engine, "POOL", 20)
    session.refit(wait=True)
    assert last not in session.round.places
    session.judge([last], "normal")
    assert session.refit(wait=True)
    assert last in session.judged()
    assert last in session.round.places


def test_undo_withdraws_the_verdict_also_after_a_refit(open_session, fraud):
    session = open_session()
    rows = decide(session, 4, fraud, window="mine")
    session.refit(wait=True)
    assert rows[-1] not in session.queue()
    (undone,) = session.undo("mine")
    assert undone["number"] == rows[-1]
    assert session.queue()[0] == rows[-1]
    assert rows[-1] not in session.judged()
    session.refit(wait=True)
    labels = session.round.model.summary.labels["fraud"] - session.base.model.summary.labels["fraud"]
    assert labels == sum(fraud[row] for row in rows[:-1])


def test_undo_is_for_the_own_window_only(open_session, fraud):
    session = open_session()
    (mine,) = decide(session, 1, fraud, window="mine")
    (theirs,) = decide(session, 1, fraud, window="theirs")
    session.undo("mine")
    assert list(session.judged()) == [theirs]
    with pytest.raises(Refused, match="nothing to undo"):
        session.undo("mine")
    assert mine in session.queue()


def test_a_contradicting_verdict_of_another_window_is_refused_until_it_was_seen(open_session):
    session = open_session()
    row = session.queue()[0]
    (first,) = session.judge([row], "anomaly", window="one")
    with pytest.raises(Refused, match="already has another verdict") as refused:
        session.judge([row], "normal", window="two")
    assert refused.value.current == first
    assert session.judge([row], "anomaly", window="one") == [first]  # the same again changes nothing
    (second,) = session.judge([row], "anomaly", window="two", who="Ben")  # agreement is recorded
    assert (second["n"], second["who"]) == (first["n"] + 1, "Ben")
    session.judge([row], "normal", window="two", replaces=second["n"])
    assert session.judged()[row]["verdict"] == "normal"
    assert len([record for record in session.log.records if record["kind"] == "verdict"]) == 3


def test_a_row_that_is_not_as_it_was_shown_is_refused(open_session):
    session = open_session()
    with pytest.raises(Refused, match="not the one that was shown"):
        session.judge([session.queue()[0]], "normal", digests=["other"])
    with pytest.raises(Refused, match="no such row"):
        session.judge([3000], "normal")


def test_two_people_at_once_lose_nothing(open_session):
    session = open_session()
    rows = session.queue()[:40]

    def person(window, own):
        for row in own:
            session.judge([row], "normal", window=window)

    people = [threading.Thread(target=person, args=(str(i), rows[i::4])) for i in range(4)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert sorted(session.judged()) == sorted(rows)


@pytest.fixture
def repeated(folder, tmp_path):
    """The payments, with one of them ten times: nearly the same, under other ids."""
    table = pl.read_csv(folder / "june.csv", schema_overrides={"payment": pl.String})
    row = table.filter(pl.col("truth") == "fraud").sort("amount", descending=True)[:1]
    copies = pl.concat([row] * 10).with_columns(
        payment=pl.Series([f"copy-{i}" for i in range(10)]), amount=row["amount"][0] + pl.int_range(10) * 0.01
    )
    path = tmp_path / "repeated.csv"
    pl.concat([table, copies]).write_csv(path)
    return path


def test_near_duplicates_are_a_group_that_is_decided_and_withdrawn_together(open_session, repeated):
    session = open_session(repeated)
    copies = range(3000, 3010)
    group = session.round.group(3000)
    assert set(copies) <= set(group)
    batch = session.queue()[:10]
    assert len(set(batch) & set(group)) <= 3
    session.judge([3000], "anomaly", window="w")
    session.judge(group, "anomaly", window="w")
    assert set(group) <= set(session.judged())
    # One of them had the verdict already, so it is not a line of the group; the log can be read again.
    assert {record["together"] for record in read_log(session.log.path)[2:]} == {len(group) - 1}
    assert len(read_log(session.log.path)) == 1 + len(group)
    assert len(session.undo("w")) == len(group) - 1  # as given, so withdrawn: together


def test_all_rows_of_the_table_are_in_the_queue_or_beyond_it(open_session):
    session = open_session()
    session.judge(session.queue()[:3], "normal")
    queue, beyond = session.queue(), session.beyond()
    assert sorted([*session.judged(), *queue, *beyond]) == list(range(3000))
    scores = session.round.scores[beyond]
    assert (scores[:-1] >= scores[1:]).all()


def test_near_duplicates_of_a_find_come_next_unless_their_verdicts_differ(open_session, repeated):
    session = open_session(repeated)
    group = set(session.round.group(3000))
    before = session.queue()
    session.judge([3000], "anomaly")
    left = len(group) - 1
    assert set(session.queue()[:left]) == group - {3000}
    session.judge([3001], "normal")
    assert session.queue() == [row for row in before if row not in (3000, 3001)]


def test_near_duplicates_do_not_make_feedback_find_less_than_no_feedback(open_session, repeated):
    session = open_session(repeated, refit_every=10)
    truth = pl.read_csv(repeated)["truth"].str.replace("normal", "").to_list()
    without = [bool(truth[row]) for row in session.round.rows.tolist()]
    found = [bool(truth[row]) for row in simulate(session, truth.__getitem__, 80)]
    assert all(sum(found[:n]) >= sum(without[:n]) for n in range(10, 81, 10))


def test_rows_that_changed_lose_their_verdict_and_are_counted(open_session, folder, fraud, tmp_path):
    session = open_session()
    rows = decide(session, 3, fraud)
    session.log.close()
    table = pl.read_csv(folder / "june.csv", schema_overrides={"payment": pl.String})
    changed = table.with_columns(
        items=pl.when(pl.col("payment") == f"j{rows[0]:05}").then(99).otherwise(pl.col("items"))
    )
    changed.reverse().write_csv(tmp_path / "changed.csv")  # in another order: rows are found by their id
    again = open_session(tmp_path / "changed.csv")
    assert again.unmatched == 1
    assert {2999 - row for row in again.judged()} == set(rows[1:])
    assert state_view(again)["unmatched"] == 1


def test_a_spreadsheet_that_rewrites_ids_does_not_lose_verdicts(open_session, folder, fraud, tmp_path):
    table = pl.read_csv(folder / "june.csv", infer_schema=False)
    written = table.with_columns(payment=pl.col("payment").str.replace("j", "00"))
    written.write_csv(tmp_path / "before.csv")
    session = open_session(tmp_path / "before.csv")
    rows = decide(session, 5, fraud)
    session.log.close()
    shorter = written.with_columns(payment=pl.col("payment").str.strip_chars_start("0") + ".0")
    shorter.write_csv(tmp_path / "after.csv")
    again = open_session(tmp_path / "after.csv")
    assert again.unmatched == 0
    assert sorted(again._known.numbers.values()) == sorted(rows)
    assert again.log.verdicts.current.keys() == {again.key(row) for row in rows}
    done = export_labels(
        again.log.records, TableFile(Input(tmp_path / "after.csv"), ("payment",)), tmp_path / "labels.csv"
    )
    assert (done.labelled, done.unmatched) == (5, 0)
    changed = shorter.with_columns(amount=pl.lit("1"))
    changed.write_csv(tmp_path / "after.csv")
    again.log.close()
    assert open_session(tmp_path / "after.csv").unmatched == 5


def test_other_ids_than_the_log_has_are_refused(open_session, folder, tmp_path):
    open_session().log.close()
    from dplan.review.engine import Engine
    from dplan.review.session import Session
    from dplan.review.table import TableFile

    with VerdictLog(tmp_path / "verdicts.jsonl") as log:
        engine = Engine(TableFile(Input(folder / "june.csv")), folder / "fraud.dplan")
        with pytest.raises(VerdictLogError, match="identifies rows by --id payment"):
            Session(engine, log).open()


@pytest.mark.parametrize("what", ["changed", "deleted"])
def test_a_table_that_changes_is_noticed_and_verdicts_are_still_saved(open_session, folder, tmp_path, what):
    path = tmp_path / "own.csv"
    path.write_bytes((folder / "june.csv").read_bytes())
    session = open_session(path)
    if what == "changed":
        path.write_text(path.read_text().replace("j00000", "q00000"))
    else:
        path.unlink()
    row = session.queue()[0]
    session.judge([row], "anomaly")
    assert f"own.csv has {'been deleted' if what == 'deleted' else 'changed'}" in state_view(session)["error"]
    with pytest.raises(RuntimeError, match=r"own\.csv has .* Verdicts are still saved"):
        session.refit(wait=True)
    assert not session.refitting
    assert list(session.judged()) == [row]


def test_without_a_model_the_review_begins_with_rare_rows_and_learns_from_the_first_anomaly(
    open_session, fraud
):
    session = open_session(model=None)
    assert not session.refit()
    assert not state_view(session)["can_learn"]
    found = sum(fraud[row] for row in simulate(session, lambda row: "fraud" * fraud[row], 16))
    assert session.round.number == 1
    assert found >= 10  # of 60 in 3,000 rows; chance would find less than one
    assert type(session.round.model.detector).__name__ == "DPLANEnsemble"


def test_the_views_are_small_and_complete(open_session, fraud):
    session = open_session()
    decide(session, 55, fraud)
    state = state_view(session)
    assert state["counts"]["reviewed"] == 55
    assert (
        state["curve"]["found"][-1]
        == state["counts"]["anomaly"]
        == sum(fraud[row] for row in session.judged())
    )
    assert set(state["curve"]) == {"looked_at", "found"}  # what was not looked at is not known
    assert state["next"]["low"] <= state["next"]["expected"] <= state["next"]["high"]
    assert state["classes"] == [{"name": "fraud", "rows": state["counts"]["anomaly"]}]
    queue = queue_view(session)
    assert len(queue["rows"]) == 40
    assert queue["left"] == 3000 - 55
    levels = threshold_view(session)
    volumes = [level["alerts"] for level in levels["volume"]]
    assert volumes == sorted(volumes)
    level = levels["volume"][10]
    assert level["alerts"] == (session.round.scores >= level["score"]).sum()
    last = levels["volume"][-1]
    assert (last["reviewed"], last["found"], last["missed"]) == (55, state["counts"]["anomaly"], 0)


def test_the_precision_of_alerts_is_not_that_of_rows_that_the_detector_has_learned(open_session):
    """Half of the rows shown were anomalies; after learning, those alone are at the top."""
    session = open_session()
    rows = session.queue()[:50]
    for place, row in enumerate(rows):
        session.judge([row], "anomaly" if place % 2 else "normal")
    session.refit(wait=True)
    levels = threshold_view(session)["volume"]
    level = next(level for level in levels if level["alerts"] >= 80)
    others = level["alerts"] - level["reviewed"]
    low, high = level["others"]
    assert others >= 30
    assert low <= others / 2 <= high
    assert high < others


def test_a_threshold_is_written_into_the_model_and_kept(open_session, fraud, tmp_path):
    written = []
    session = open_session(save_model=lambda new, threshold: written.append((new.number, threshold)))
    decide(session, 5, fraud)
    score = float(np.sort(session.round.scores)[-40])
    with pytest.raises(Refused, match="has learned in the meantime"):
        choose_threshold(session, score, 1)
    with pytest.raises(Refused, match="no row reaches"):
        choose_threshold(session, 1e9, 0)
    assert choose_threshold(session, score, 0, who="Anna") == 40
    session.refit(wait=True)
    threshold = session.threshold(session.round)
    assert written == [(0, score), (1, threshold)]
    assert (session.round.scores >= threshold).sum() == 40
    assert threshold_view(session)["threshold"] == threshold
    session.round.write_model(tmp_path / "new.dplan", threshold)
    assert TableModel.load(tmp_path / "new.dplan").threshold == threshold
    session.log.close()
    again = open_session()
    assert again.threshold(again.round) == threshold


def test_moves_since_the_last_round_are_shown(open_session, fraud):
    session = open_session()
    assert {entry["moved"] for entry in queue_view(session)["rows"]} == {0}
    decide(session, 20, fraud)
    before = session.round
    session.refit(wait=True)
    for entry in queue_view(session)["rows"]:
        expected = before.rank(entry["row"]) - entry["rank"]
        assert entry["moved"] == (expected if abs(expected) >= 3 else 0)


def test_the_filter_searches_the_whole_table(open_session, folder, fraud):
    session = open_session()
    table = pl.read_csv(folder / "june.csv")
    decided = decide(session, 3, fraud)
    rows, before, odd = open_rows(session, "country=xx items>2")
    expected = (
        table.with_row_index().filter(pl.col("country") == "XX", pl.col("items") > 2)["index"].to_list()
    )
    assert odd == []
    assert set(rows) == set(expected) - set(decided)
    assert set(before) == set(expected) & set(decided)
    queue = session.queue()
    assert [row for row in rows if row in queue] == [row for row in queue if row in rows]
    last = int(session.round.scores.argmin())
    assert last not in session.round.places
    assert open_rows(session, f"j{last:05}")[0] == [last]
    assert open_rows(session, "no such words")[0] == []
    _, _, (odd,) = open_rows(session, "amout>100")
    assert odd == "there is no column 'amout', so 'amout>100' was searched as text; did you mean 'amount'?"


def test_a_row_outside_of_the_pool_can_be_decided_and_learned(open_session, fraud):
    session = open_session()
    decide(session, 5, fraud)
    last = int(session.round.scores.argmin())
    session.judge([last], "anomaly", "odd one", digests=[session.key(last).digest])
    assert session.refit(wait=True)
    assert last in session.round.places
    assert session.round.model.summary.labels["odd one"] == 1
    session.log.close()
    assert open_session().judged()[last]["class"] == "odd one"


def test_large_tables_are_read_in_chunks_and_only_candidates_are_kept(
    open_session, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(engine, "POOL", 50)
    monkeypatch.setattr(table_rows, "CHUNK_ROWS", 500)
    whole = open_session()
    assert len(whole.round.scores) == 3000
    assert len(whole.round.pool) <= 50 + 50
    best = np.sort(whole.round.scores)[-50:]
    assert set(best) <= set(whole.round.scores[whole.round.rows])
