"""The one scorer: what it returns, what it leaves out, and what it does only once."""

import numpy as np
import polars as pl
import pytest

from dplan.arrays import highest_first
from dplan.exceptions import CellError
from dplan.scoring.scorer import AlertPolicy, Batch, Best, Cells, Scorer


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
