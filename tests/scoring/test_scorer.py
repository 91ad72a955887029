"""The one scorer: what it returns, what it leaves out, and what it does only once."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.arrays import highest_first
from dplan.exceptions import CellError, NonFiniteScoreError
from dplan.rules.file import RuleFile
from dplan.rules.muting import muted
from dplan.scoring.kinds import KindsOfRows
from dplan.scoring.scorer import AlertPolicy, Batch, Best, Cells, Scorer, loaded, together
from dplan.tables import fit_table, from_table


def with_mistakes(table):
    """Return the table as text; every tenth amount is no number."""
    bad = pl.int_range(pl.len()) % 10 == 3
    return table.with_columns(
        pl.when(bad).then(pl.lit("oops")).otherwise(pl.col("amount").cast(pl.String)).alias("amount")
    )


def test_scores_percentiles_and_reasons_are_those_of_the_model(model, table):
    scorer = Scorer(model)
    scored = scorer.score(Batch(table))
    np.testing.assert_array_equal(scored.score, model.score(table))
    np.testing.assert_array_equal(scored.percentile, model.percentile(scored.score))
    top = highest_first(scored.score)[:20]
    assert scorer.explain(scored, top) == model.why(table[top])
    assert [len(own) for own in scorer.explain(scored, top, k=1)] == [1] * 20
    assert scorer.explain(scored, []) == []


def test_an_explained_row_is_neither_prepared_nor_scored_again(model, table, monkeypatch):
    scorer = Scorer(model)
    scored = scorer.score(Batch(table[:50]))
    expected = scorer.explain(scored)  # the background is scored once per model
    calls = []
    for place, name in ((type(model), "prepare_with_report"), (type(model.detector), "anomaly_score")):
        own = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *given, own=own: calls.append(own) or own(*given))
    assert scorer.explain(scored) == expected
    assert not calls
    scorer.score(Batch(table[:50]))
    assert len(calls) == 2  # or the test could not fail


def test_rows_that_are_left_out_are_gone_from_all_fields_alike(model, table):
    mixed = with_mistakes(table)
    scorer = Scorer(model, on_error="skip", skip_labelled=True)
    scored = scorer.score(Batch(mixed, first=1000))
    labelled = (table["verdict"] == "fraud").to_numpy()
    bad = np.arange(table.height) % 10 == 3
    left = np.flatnonzero(~labelled & ~bad)
    assert scored.rows.tolist() == (left + 1000).tolist()
    np.testing.assert_array_equal(scored.score, model.score(table)[left])
    assert scored.table["payment"].to_list() == table["payment"].gather(left).to_list()
    assert len(scored.prepared) == len(scored.percentile) == len(left)
    assert scored.bad["dplan_row_number"].to_list() == (np.flatnonzero(bad & ~labelled) + 1001).tolist()
    own = np.zeros(table.height, dtype=bool)
    own[left[:10]] = True
    assert scorer.score(Batch(mixed, first=1000), own).rows.tolist() == (left[10:] + 1000).tolist()


def test_an_error_names_the_place_of_the_row_even_if_others_were_left_out(model, table):
    mixed = with_mistakes(table)
    with pytest.raises(CellError, match="line 5, column 'amount'"):
        Scorer(model, skip_labelled=True).score(Batch(mixed, lambda row: f"line {row + 2}"))


def test_columns_that_are_missing_are_named(model, table):
    with pytest.raises(ValueError, match="missing columns 'amount'"):
        Scorer(model).score(Batch(table.drop("amount")))
    with pytest.raises(
        ValueError, match="cannot keep column 'branch': not in the table; available columns: pay"
    ):
        Scorer(model, keep=["branch"]).check(table.columns)
    with pytest.raises(ValueError, match="cannot look for labels in column 'verdict'"):
        Scorer(model, skip_labelled=True).check(table.drop("verdict").columns)


def test_a_threshold_is_reached_by_equal_scores_and_a_budget_takes_ties_in_row_order(model):
    scores = np.array([0.5, 2.0, 1.0, 1.0, 1.0])
    assert Scorer(model, alerts=AlertPolicy(threshold=1.0)).is_alert(scores).tolist() == [
        False,
        True,
        True,
        True,
        True,
    ]
    assert Scorer(model, alerts=AlertPolicy(budget=2)).is_alert(scores).tolist() == [
        False,
        True,
        True,
        False,
        False,
    ]
    default = Scorer(model)
    assert default.is_alert(np.array([model.threshold])).tolist() == [True]
    assert default.is_alert(np.nextafter([model.threshold], -np.inf)).tolist() == [False]


def test_cells_are_scored_like_a_table(model, table):
    some = table[:100]
    scorer = Scorer(model)
    numbers = some.select(model.preparation.number_columns).cast(pl.Float64).fill_null(np.nan).to_numpy()
    texts = [some[name].cast(pl.String).to_list() for name in model.preparation.text_columns]
    scored = scorer.score(Cells(numbers, texts))
    np.testing.assert_array_equal(scored.score, model.score(some))
    with pytest.raises(ValueError, match="without a table"):
        scorer.explain(scored)


@pytest.mark.parametrize("n", [1, 7, 40, 5000])
def test_the_best_rows_of_many_batches_are_those_of_the_whole_table(model, table, n):
    rows = table[:300]
    scored = Scorer(model).score(Batch(rows))
    keys = np.random.default_rng(0).integers(0, 20, rows.height).astype(float)  # with many ties
    best = Best(n)
    for start in range(0, rows.height, 43):
        own = slice(start, start + 43)
        best.add(scored[own], keys[own])
    expected = highest_first(keys)[:n]
    assert best.scored.rows.tolist() == expected.tolist()
    assert best.scored.table.equals(rows[expected])
    np.testing.assert_array_equal(best.scored.prepared, scored.prepared[expected])
    np.testing.assert_array_equal(best.scored.score, scored.score[expected])


def test_the_best_rows_of_batches_whose_columns_differ(model, table):
    best, scorer = Best(10), Scorer(model)
    for first, own in ((0, table[:50]), (50, table[50:100].with_columns(extra=pl.lit("x")))):
        scored = scorer.score(Batch(own, first=first))
        best.add(scored, scored.score)
    assert best.scored.rows.tolist() == highest_first(model.score(table[:100]))[:10].tolist()
    assert best.scored.table["extra"].to_list() == [None if row < 50 else "x" for row in best.scored.rows]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (AlertPolicy(threshold=0.0, budget=5), "budget and threshold cannot be combined"),
        (
            AlertPolicy(budget=9, explore=10),
            "explore reserves 10 alerts of the budget; set a budget of at least",
        ),
        (AlertPolicy(explore=1000), "explore reserves 1,000 alerts"),
        (AlertPolicy(explore=1), "explore reserves 1 alerts of the budget"),
        (AlertPolicy(budget=9, explore=1, top=1), "explore and top cannot be combined"),
    ],
)
def test_alerts_that_contradict_each_other_are_refused(policy, message, model):
    with pytest.raises(ValueError, match=message):
        Scorer(model, alerts=policy)


@pytest.mark.parametrize(
    "policy",
    [AlertPolicy(budget=10, explore=10), AlertPolicy(budget=1, top=5), AlertPolicy(threshold=0.0, top=5),
     AlertPolicy(budget=5, explore=0, top=3)],
)  # fmt: skip
def test_alerts_that_do_not_are_taken(policy):
    policy.check()


def test_ids_are_copied_before_what_is_kept(model):
    assert Scorer(model, keep=("country", "payment", "country")).kept == ("payment", "country")
    assert (Scorer(model).threshold, Scorer(model, alerts=AlertPolicy(threshold=0.0)).threshold) == (
        model.threshold,
        0,
    )
    unlabelled = replace(model, summary=replace(model.summary, label=""))
    with pytest.raises(ValueError, match="no label column, so labelled rows cannot be skipped"):
        Scorer(unlabelled, skip_labelled=True)
    assert Scorer(unlabelled).label is Scorer(model).label is None


def test_the_first_twenty_columns_of_a_table_are_named(model, table):
    columns = [*table.columns, *(f"x{i}" for i in range(30))]
    with pytest.raises(ValueError, match=rf"available columns: payment, .*, x{20 - table.width - 1}$"):
        Scorer(model, keep=["no"]).check(columns)


def test_every_row_that_cannot_be_used_is_in_the_error(model, table):
    mixed = with_mistakes(table)[:100]
    with pytest.raises(CellError) as caught:
        Scorer(model).score(Batch(mixed, first=500), np.arange(100) < 10)
    assert str(caught.value).startswith("row 14, column 'amount'")
    assert (caught.value.row, caught.value.rows) == (13, tuple(range(13, 100, 10)))


def test_a_score_that_is_not_finite_has_the_row_of_the_whole_table(model, table, monkeypatch):
    def broken(self, prepared, suspicion):
        raise NonFiniteScoreError(2, float("inf"))

    monkeypatch.setattr(type(model), "_scores_and_suspicion_of", broken)
    with pytest.raises(NonFiniteScoreError) as caught:
        Scorer(model).score(Batch(table[:10], first=500), np.arange(10) % 2 == 0)
    assert caught.value.row == 505


def test_columns_of_the_output(model, table):
    scorer = Scorer(model, alerts=AlertPolicy(budget=3))
    scored = scorer.score(Batch(table))
    assert scorer.columns(scored).columns == ["score", "percentile", "alert"]
    found = scorer.columns(scored, explain=True)
    assert found.columns == ["score", "percentile", "alert", "reasons"]
    best = highest_first(scored.score)[:3]
    assert found["alert"].arg_true().to_list() == sorted(best.tolist())
    assert (found["reasons"] != "").equals(found["alert"], check_names=False)
    why = scorer.explain(scored, found["alert"].to_numpy())
    expected = [" | ".join(reason.text() for reason in own) for own in why]
    assert found["reasons"].filter(found["alert"]).to_list() == expected
    assert not scorer.is_explored(found["alert"].to_numpy(), None).any()


def test_a_surprise_is_said_unless_the_alerts_were_asked_for(model):
    assert "% of the rows are alerts" in Scorer(model).surprise(900, 1000)
    assert Scorer(model).surprise(0, 1000) == ""
    for policy in (AlertPolicy(budget=900), AlertPolicy(threshold=0.0)):
        assert Scorer(model, alerts=policy).surprise(900, 1000) == ""


def test_a_process_keeps_two_models():
    table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    tables = [table.with_columns(amount=pl.col("amount") * k) for k in (1, 2, 3)]
    made = [fit_table(from_table(own, label="fraud"), LogisticBaseline(), estimate=False) for own in tables]
    files = [model.to_bytes() for model in made]
    first = loaded(files[0])
    loaded(files[1])
    assert loaded(files[0]) is first
    loaded(files[1])
    loaded(files[2])
    assert loaded(files[0]) is not first


def test_batches_together_have_every_field_of_their_rows(model, table):
    scorer = Scorer(model, suspicion=True)
    parts = [scorer.score(Batch(table[start : start + 20], first=start)) for start in (0, 20)]
    whole = scorer.score(Batch(table[:40]))
    found = together(parts)
    for name, values in whole._arrays().items():
        np.testing.assert_array_equal(getattr(found, name), values)
    assert {"rows", "prepared", "score", "percentile", "suspicion"} == set(whole._arrays())
    assert found.table.equals(whole.table)
    assert len(found[3:5]) == 2
    assert found[[7]].table.equals(table[7:8])
    assert found.highest(3).rows.tolist() == highest_first(whole.score)[:3].tolist()
    assert together([replace(part, table=None) for part in parts]).table is None
    assert together(parts[1:]).rows.tolist() == list(range(20, 40))
    assert found.differences is parts[0].differences
    assert found.bad is parts[0].bad


def test_a_batch_calls_its_rows_by_their_numbers_unless_it_knows_better(table):
    assert Batch(table).place(0) == "row 1"
    assert Batch(table, lambda row: f"line {row + 2}").place(0) == "line 2"
    assert Batch(table).first == 0


def test_rows_of_a_muted_kind_are_no_alerts(model, table, tmp_path):
    rule = {"all": [{"column": "country", "in": ["XX"]}]}
    kinds = [{"name": "abroad", "rule": rule}]
    content = {"format": "dplan-rules", "version": 1, "columns": {"country": "text"}, "kinds": kinds}
    (tmp_path / "rules.json").write_text(json.dumps(content))
    rules = RuleFile.load(tmp_path / "rules.json")
    quiet = muted(rules, rules.named("abroad"), owner="ann", reason="known")
    abroad, budget = (table["country"] == "XX").to_numpy(), AlertPolicy(budget=40)
    scores = model.score(table)
    best = np.isin(np.arange(len(scores)), highest_first(scores)[:40])
    assert (best & abroad).sum() > 10
    loud = Scorer(model, kinds=KindsOfRows(rules, model), alerts=budget)
    scored = loud.score(Batch(table))
    assert scored.kind.tolist() == np.where(abroad, 0, -1).tolist()
    found = loud.columns(scored)
    assert found.columns == ["score", "percentile", "alert", "kind"]
    assert found["alert"].to_list() == best.tolist()
    assert found["kind"].to_list() == np.where(best & abroad, "abroad", "").tolist()
    silent = Scorer(model, kinds=KindsOfRows(quiet, model), alerts=budget)
    found = silent.columns(silent.score(Batch(table)))
    others = highest_first(np.where(abroad, -np.inf, scores))[:40]
    assert found["alert"].arg_true().to_list() == sorted(others.tolist())
    assert found["muted"].to_list() == (best & abroad).tolist()
    assert found["kind"].to_list() == np.where(best & abroad, "abroad", "").tolist()
    assert silent.is_alert(scores).tolist() == best.tolist()
    assert Scorer(model, alerts=budget).is_alert(scores, scored.kind).tolist() == best.tolist()
    numbers = table.select(model.preparation.number_columns).cast(pl.Float64).fill_null(np.nan).to_numpy()
    texts = [table[name].cast(pl.String).to_list() for name in model.preparation.text_columns]
    assert silent.score(Cells(numbers, texts)).kind.tolist() == scored.kind.tolist()
