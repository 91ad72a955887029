"""Models for tables: fitting, percentiles, reasons in words, 8 threads."""

import difflib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import dplan
from dplan import DPLAN, IForest, ModelFileError
from dplan.detectors import _saving
from dplan.tables import TableModel, fit_table, from_table
from tests.tables.payments import QUICK, payments


def test_known_and_unlabelled_frauds_rank_on_top(model, table):
    scores = model.score(table)
    fraud = (table["country"] == "XX").to_numpy()
    above = (scores[fraud][:, None] > scores[~fraud]).mean()
    assert above > 0.95


def test_the_summary_says_what_was_done(model):
    summary = model.summary
    assert summary.rows == 3000
    assert summary.labels == {"unlabelled": 2970, "fraud": 30}
    assert summary.columns == {"number": 2, "date": 1, "flag": 1, "text": 1}
    assert summary.ids == ("payment",)
    assert set(summary.seconds) == {"preparing", "estimating", "training"}


def test_a_model_keeps_at_most_2000_rows_of_each_kind():
    n = 2100
    rows = pl.DataFrame(
        {"a": np.arange(3 * n) % 97, "b": np.arange(3 * n) % 89, "y": np.repeat(["", "fraud", "normal"], n)}
    )
    own = from_table(rows, label="y", anomaly=["fraud"], normal=["normal"])
    kept = fit_table(own, IForest(n_estimators=2, random_state=0), estimate=False)
    assert [len(some) for some in (kept.background, kept.known_anomalies, kept.checked_normal)] == [2000] * 3


def test_dropped_columns_are_named_and_not_needed_afterwards(table):
    own = from_table(table.with_columns(note=pl.lit(None, pl.String)), label="verdict", anomaly=["fraud"])
    model = fit_table(own, IForest(n_estimators=5, random_state=0), estimate=False)
    assert set(model.summary.dropped) == {"payment", "note"}
    assert model.score(table.drop("payment")).shape == (3000,)
    with pytest.raises(ValueError, match="no feature columns left"):
        fit_table(
            from_table(table.select("payment", "verdict"), label="verdict", anomaly=["fraud"]), IForest()
        )


def test_percentiles_are_shares_of_unlabelled_training_rows(model, table):
    scores = model.score(table.filter(pl.col("verdict") == ""))
    percentiles = model.percentile(scores)
    exact = 100 * np.searchsorted(np.sort(scores), scores) / len(scores)
    np.testing.assert_allclose(percentiles, exact, atol=0.2)


def test_reasons_name_what_is_unusual(model, table):
    fraud = table.filter(pl.col("country") == "XX", pl.col("amount").is_not_null())[:20]
    said = model.reasons(fraud)
    assert all("`country` = 'XX'; typical" in text or "`amount` = " in text for text in said)
    assert np.mean(["`country` = 'XX'" in text for text in said]) > 0.7
    assert "day" not in " ".join(text.split(" | ")[0] for text in said)
    assert model.reasons(table[:0]) == []
    missing = fraud[:1].with_columns(country=pl.lit(None, pl.String), amount=pl.lit(None, pl.Float64))
    assert len(model.reasons(missing)) == 1


def test_effects_of_a_table_add_up(model, table):
    explanation = model.explain(table[:50])
    assert explanation.effects.shape == (50, 5)
    np.testing.assert_allclose(
        explanation.effects.sum(axis=1) + explanation.baseline, model.score(table[:50]), atol=1e-4
    )


def test_a_saved_model_does_the_same(model, model_path, table):
    again = TableModel.load(model_path)
    np.testing.assert_array_equal(again.score(table), model.score(table))
    assert again.reasons(table[:5]) == model.reasons(table[:5])
    assert again.summary == replace(model.summary, seconds={})  # durations are not part of the file
    from_bytes = TableModel.load(model_path.read_bytes())
    np.testing.assert_array_equal(from_bytes.score(table), model.score(table))


def test_eight_threads_score_one_model_to_the_last_bit(model, table):
    alone = model.score(table)
    with ThreadPoolExecutor(8) as pool:
        for scores in pool.map(lambda _: model.score(table), range(40)):
            np.testing.assert_array_equal(scores, alone)


def test_a_table_that_does_not_fit_is_refused_by_name(model, table):
    with pytest.raises(
        ValueError,
        match=r"missing columns 'amount' \(did you mean 'amounts'\?\), 'items'; unexpected columns 'amounts'",
    ):
        model.score(table.rename({"amount": "amounts"}).drop("items"))
    with pytest.raises(ValueError, match="row 1, column 'amount': 'much' is not a number"):
        model.score(table.with_columns(amount=pl.lit("much")))


def test_a_model_without_a_table_is_refused(model, tmp_path):
    path = tmp_path / "m.dplan"
    model.detector.save(path)
    with pytest.raises(ModelFileError, match="not fitted on a table"):
        TableModel.load(path)
    _saving.save(path, model.detector, preparation=model.preparation.to_state())
    with pytest.raises(ModelFileError, match="rows of the training table are missing"):
        TableModel.load(path)
    arrays = {
        "background": model.background[:, :-1].copy(),
        "known": model.known_anomalies,
        "known_classes": model.known_classes,
    }
    _saving.save(path, model.detector, preparation=model.preparation.to_state(), arrays=arrays)
    with pytest.raises(ModelFileError, match=r"background has the shape \(2000, 10\), expected \(any, 11\)"):
        TableModel.load(path)


def test_load_returns_a_table_model_for_the_file_of_a_table(model, model_path, table, tmp_path):
    loaded = dplan.load(model_path)
    assert isinstance(loaded, TableModel)
    np.testing.assert_array_equal(loaded.score(table), model.score(table))
    model.detector.save(tmp_path / "plain.dplan")
    assert type(dplan.load(tmp_path / "plain.dplan")) is type(model.detector)


def test_the_same_seed_gives_the_same_model(model):
    own = from_table(payments(), label="verdict", anomaly=["fraud"], id="payment")
    again = fit_table(own, DPLAN(**QUICK))
    np.testing.assert_array_equal(again.detector.weights_, model.detector.weights_)
    np.testing.assert_array_equal(again.background, model.background)


def test_few_and_short_names_are_compared_to_find_what_was_meant(model, monkeypatch):
    compared = []
    find = difflib.get_close_matches

    def counted(word, possibilities, n):
        compared.append((word, *possibilities))
        return find(word, possibilities, n)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    with pytest.raises(ValueError, match=r"'amount' \(did you mean 'amont'\?\)"):
        model.check_columns(["amont", *(f"{'x' * 5_000}{i}" for i in range(1_000))])
    with pytest.raises(ValueError, match="unexpected columns"):
        model.check_columns([f"wrong {i}" for i in range(1_000)])
    assert sum(map(len, compared)) <= 10 * 51
    assert max(len(name) for names in compared for name in names) <= 60
