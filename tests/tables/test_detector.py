"""The estimator for frames: scikit-learn's contract, mixed columns, searches, the file that ``dplan fit`` writes."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplan import DPLAN, DPLANEnsemble, IForest, LogisticBaseline, TableDetector
from dplan.tables import TableModel, fit_table, from_table
from tests.detectors.quick import NO_COPIES
from tests.tables.payments import payments

# Columns are found by name, so their order does not matter and further ones are ignored.
BY_NAME = {"check_dataframe_column_names_consistency": "columns may come in another order"}


@pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")
@parametrize_with_checks(
    [TableDetector(LogisticBaseline(random_state=0)), TableDetector(IForest(random_state=0))],
    expected_failed_checks=lambda estimator: {**BY_NAME, **NO_COPIES},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def labelled():
    table = payments()
    y = (table["verdict"] == "fraud").fill_null(value=False).cast(pl.Int64).to_numpy()
    return table.drop("verdict", "payment"), y


@pytest.fixture(scope="module")
def fitted():
    return TableDetector(LogisticBaseline()).fit(*labelled())


def test_every_kind_of_frame_gives_the_same_scores(fitted):
    table, y = labelled()
    expected = fitted.anomaly_score(table)
    pandas = pd.DataFrame({name: table[name].to_list() for name in table.columns})
    for frame in (pandas, table.to_arrow()):
        again = TableDetector(LogisticBaseline()).fit(frame, y)
        np.testing.assert_array_equal(again.anomaly_score(table), expected)
        np.testing.assert_array_equal(fitted.anomaly_score(frame), expected)


def test_all_scores_agree(fitted):
    table, y = labelled()
    score = fitted.anomaly_score(table)
    np.testing.assert_array_equal(fitted.score_samples(table), -score)
    np.testing.assert_array_equal(fitted.decision_function(table), -score - fitted.offset_)
    np.testing.assert_array_equal(fitted.predict(table), np.where(-score < fitted.offset_, -1, 1))
    np.testing.assert_array_equal(fitted.percentile(table), fitted.model_.percentile(score))
    assert fitted.percentile(table)[y == 1].mean() > 90
    found = fitted.explain(table[:5])
    np.testing.assert_allclose(found.baseline + found.effects.sum(axis=1), found.scores, atol=1e-6)
    assert "country=XX" in fitted.get_feature_names_out()
    best = table[int(score.argmax())]
    assert fitted.reasons(best) == fitted.model_.reasons(best)
    assert fitted.reasons(best)[0]


def test_fit_predict_uses_the_labels():
    table, y = labelled()
    with_labels = TableDetector(LogisticBaseline()).fit_predict(table, y)
    np.testing.assert_array_equal(with_labels, TableDetector(LogisticBaseline()).fit(table, y).predict(table))
    assert (with_labels[y == 1] == -1).mean() > 0.8


def test_order_and_further_columns_do_not_matter_and_missing_ones_are_named(fitted):
    table, _ = labelled()
    other = table.select(reversed(table.columns)).with_columns(more=pl.lit([1]))
    np.testing.assert_array_equal(fitted.anomaly_score(other), fitted.anomaly_score(table))
    with pytest.raises(ValueError, match=r"missing columns 'amount' \(did you mean 'amounts'\?\)"):
        fitted.predict(table.rename({"amount": "amounts"}))
    with pytest.raises(ValueError, match="row 1, column 'amount': 'much' is not a number"):
        fitted.predict(table.with_columns(amount=pl.lit("much")))
    with pytest.raises(
        ValueError, match="column 'day' is a number column, but was a date column in training"
    ):
        fitted.predict(table.with_columns(day=pl.lit(7)))


@pytest.mark.parametrize("column", [[0, 1, 0, 1] * 5, [None, "fraud", "ok", "fraud"] * 5, [False, True] * 10])
def test_a_label_left_in_the_table_is_named(column):
    frame = pl.DataFrame({"amount": range(20), "verdict": column})
    with pytest.warns(UserWarning, match="column 'verdict' marks exactly the labelled rows"):
        TableDetector(LogisticBaseline()).fit(frame, [0, 1] * 10)


def test_wrong_arguments_are_named():
    table, y = labelled()
    with pytest.raises(TypeError, match="detector must be a detector of dplan"):
        TableDetector("DPLAN").fit(table, y)
    with pytest.raises(ValueError, match="max_levels must be at least 1"):
        TableDetector(LogisticBaseline(), max_levels=0).fit(table, y)
    with pytest.raises(ValueError, match="y"):
        TableDetector(LogisticBaseline()).fit(table, y[:-1])
    with pytest.raises(ValueError, match="at least two rows and one column"):
        TableDetector(LogisticBaseline()).fit(table[:1], y[:1])
    with pytest.raises(TypeError, match="column 'amount' has the unsupported type List"):
        TableDetector(LogisticBaseline()).fit(table.with_columns(amount=pl.lit([1])), y)
    with pytest.raises(NotFittedError):
        TableDetector().predict(table)
    fitted = TableDetector(LogisticBaseline()).fit(table, y)
    for rows in (table.to_dicts()[0], table.to_dicts()[:2]):
        with pytest.raises(
            TypeError, match=r"rows as dictionaries; make a frame of them: polars\.DataFrame\(rows\)"
        ):
            fitted.predict(rows)


def test_parameters_nest_and_clone():
    detector = TableDetector(LogisticBaseline(contamination=0.1), max_levels=7)
    assert detector.get_params()["detector__contamination"] == 0.1
    copy = clone(detector).set_params(detector__contamination=0.2)
    assert (copy.detector.contamination, detector.detector.contamination) == (0.2, 0.1)
    table, y = labelled()
    detector.fit(table, y)
    assert not hasattr(detector.detector, "offset_")  # the parameter is not changed


def average_precision(estimator, X, y):
    order = np.argsort(estimator.score_samples(X))
    hits = (np.asarray(y)[order] > 0).cumsum()
    return float((hits / np.arange(1, len(order) + 1))[np.asarray(y)[order] > 0].mean())


@pytest.mark.parametrize(
    "convert", [pl.DataFrame, lambda table: table.to_pandas(), lambda table: table.to_arrow()]
)
def test_searches_and_cross_validation(convert):
    table, y = labelled()
    X = convert(table[:1000])
    pipeline = Pipeline([("detect", TableDetector(LogisticBaseline()))])
    found = cross_val_score(pipeline, X, y[:1000], scoring=average_precision, cv=StratifiedKFold(2))
    assert (found > 0.5).all()
    assert isinstance(table.to_arrow(), pa.Table)


def test_a_search_in_two_processes():
    table, y = labelled()
    search = GridSearchCV(
        TableDetector(LogisticBaseline()),
        {"max_levels": [1, 255], "detector__contamination": [0.05]},
        scoring=average_precision, cv=StratifiedKFold(2), n_jobs=2,
    )  # fmt: skip
    search.fit(table.to_pandas(), y)
    assert search.best_score_ > 0.5
    assert search.best_estimator_.predict(table).shape == (3000,)


def test_the_file_is_the_one_that_dplan_fit_writes(tmp_path):
    table = payments().drop("payment")
    quick = {"n_steps": 400, "warmup_steps": 100, "random_state": 3}
    own = from_table(table, label="verdict", anomaly=["fraud"])
    model = fit_table(own, DPLAN(**quick), estimate=False, seed=3)
    detector = TableDetector(DPLAN(**quick)).fit(*labelled())
    detector.save(tmp_path / "m.dplan")
    loaded = TableModel.load(tmp_path / "m.dplan")
    for name in ("background", "known_anomalies", "known_classes"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    np.testing.assert_array_equal(loaded.score(table), model.score(table))
    assert loaded.offset_ == detector.offset_
    assert loaded.threshold == -detector.detector_.offset_


def test_arrays_and_frames_may_be_mixed_with_a_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), np.arange(100) < 10
    by_array = TableDetector(LogisticBaseline()).fit(X, y)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        scores = by_array.anomaly_score(pl.from_numpy(X, schema=["a", "b", "c"]))
    np.testing.assert_array_equal(scores, by_array.anomaly_score(X))
    by_frame = TableDetector(LogisticBaseline()).fit(pl.from_numpy(X, schema=["a", "b", "c"]), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(by_frame.anomaly_score(X), scores)


def test_the_default_is_the_ensemble():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) < 5
    quick = DPLANEnsemble(n_agents=1, n_steps=50, warmup_steps=20, n_trees=3, n_rounds=2, random_state=0)
    assert TableDetector(quick).fit(X, y).predict(X).shape == (60,)
    assert type(TableDetector(None).set_params(detector=quick).fit(X, y).detector_) is DPLANEnsemble


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_the_output_of_transformers_does_not_matter(output):
    X, y = pl.DataFrame({"a": range(60), "b": ["x", "y"] * 30}), [0] * 57 + [1] * 3
    expected = TableDetector(LogisticBaseline()).fit(X, y).anomaly_score(X)
    with config_context(transform_output=output):
        np.testing.assert_array_equal(TableDetector(LogisticBaseline()).fit(X, y).anomaly_score(X), expected)
        own = from_table(X.with_columns(y=pl.Series(y)), "y")
        assert fit_table(own, LogisticBaseline()).score(X).tolist() == expected.tolist()
