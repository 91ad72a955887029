"""A frame is understood as its file is, whichever library made it, and a model takes any table as in its training."""

import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import average_precision_score

import dplan
from dplan import IForest, LogisticBaseline, TableDetector
from dplan.columns.frames import as_frame
from dplan.tables import Input, TableModel, fit_table, from_table, read_table
from tests.datasets.bank import example_tables

OPTIONS = {"label": "Urteil", "anomaly": ["fraud"], "unlabelled": ["ok"], "id": "Nummer"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bank")
    for name, table in example_tables().items():
        table.write_csv(folder / f"{name}.csv", separator=";")
    return folder


@pytest.fixture(scope="module")
def truth():
    return (example_tables()["bank_new"]["Wahrheit"] == "fraud").to_numpy()


@pytest.fixture(scope="module")
def of_file(folder):
    return fitted(folder / "bank_train.csv")


def fitted(table, **options):
    own = from_table(table, **OPTIONS, **options)
    return fit_table(own, LogisticBaseline(random_state=0), estimate=False)


FRAMES = {
    "pandas": lambda path: pd.read_csv(path, sep=";", dtype=str),
    "pandas with strings": lambda path: pd.read_csv(path, sep=";", dtype="string"),
    "pandas with Arrow": lambda path: pd.read_csv(path, sep=";", dtype=pd.ArrowDtype(pa.string())),
    "polars": lambda path: pl.read_csv(path, separator=";", infer_schema=False),
    "Arrow": lambda path: pl.read_csv(path, separator=";", infer_schema=False).to_arrow(),
}


@pytest.mark.parametrize("made_by", FRAMES)
def test_text_in_a_frame_is_understood_as_in_its_file(folder, of_file, made_by):
    frame, new = (FRAMES[made_by](folder / f"{name}.csv") for name in ("bank_train", "bank_new"))
    model = fitted(frame)
    assert model.preparation.to_state() == of_file.preparation.to_state()
    expected = of_file.score(folder / "bank_new.csv")
    np.testing.assert_array_equal(model.score(new), expected)
    np.testing.assert_array_equal(of_file.score(new), expected)
    assert model.reasons(new[:20]) == of_file.reasons(new[:20])


@pytest.mark.parametrize("read", [pd.read_csv, lambda path, sep: pl.read_csv(path, separator=sep)])
def test_a_frame_with_some_types_is_as_good_as_its_file(folder, truth, of_file, read):
    frame, new = (read(folder / f"{name}.csv", sep=";") for name in ("bank_train", "bank_new"))
    y = (pl.Series(frame["Urteil"]) == "fraud").fill_null(value=False).cast(pl.Int64).to_numpy()
    X = frame[[name for name in frame.columns if name not in ("Nummer", "Urteil")]]
    detector = TableDetector(LogisticBaseline(random_state=0)).fit(X, y)
    expected = average_precision_score(truth, of_file.score(folder / "bank_new.csv"))
    for scores in (fitted(frame).score(new), detector.anomaly_score(new)):
        assert average_precision_score(truth, scores) > expected - 0.005
    kinds = {column.name: column.understood() for column in detector.model_.preparation.columns_}
    assert kinds["Betrag"] == "number with decimal comma, in €"
    assert kinds["Gebucht am"] == "date, day first"
    assert kinds["IBAN"] == "country"


def test_columns_and_text_overrule_what_the_text_of_a_frame_suggests():
    frame = pd.DataFrame({"a": ["3.582", "12.100"] * 3, "b": ["1 €", "2 €"] * 3, "y": [0, 1] * 3})
    found = from_table(frame, "y", columns={"a": "number,decimal=comma"}, text=["b"])
    assert found.features.rows()[0] == (3582.0, "1 €")
    detector = TableDetector(
        LogisticBaseline(), columns={"a": {"kind": "number", "decimal": ","}, "b": "text"}
    )
    detector.fit(frame[["a", "b"]], frame["y"])
    assert detector.get_feature_names_out().tolist() == ["a", "b=1 €", "b=2 €"]
    assert detector.read(pd.DataFrame({"a": ["1.234"], "b": ["1 €"]})).row(0) == (1234.0, "1 €")
    with pytest.raises(ValueError, match="no column 'c'"):
        from_table(frame, "y", columns={"c": "number"})
    with pytest.raises(ValueError, match="no column 'c'"):
        TableDetector(LogisticBaseline(), columns={"c": "number"}).fit(frame[["a"]], frame["y"])
    with pytest.raises(ValueError, match="column 'a': unknown kind 'money'"):
        from_table(frame, "y", columns={"a": "money"})


def test_text_that_means_a_missing_value_is_missing_in_columns_that_are_not_text():
    frame = pd.DataFrame({"paid": ["1,50 €", "?", "3 €"] * 9, "code": ["NA", "A", "B"] * 9, "n": range(27)})
    model = fit_table(
        from_table(frame.assign(y=[0, 1, 0, 0, 0, 1, 1, 0, 0] * 3), "y"), LogisticBaseline(), estimate=False
    )
    assert model.columns == ["paid", "code", "n"]
    assert [column.kind for column in model.preparation.columns_] == ["number", "text", "number"]
    assert "code=NA" in model.get_feature_names_out()
    np.testing.assert_array_equal(
        model.prepare(frame.assign(paid="?"))[0], model.prepare(frame.assign(paid=None))[0]
    )
    own = from_table(
        frame.assign(y=[0, 1, 0, 0, 0, 1, 1, 0, 0] * 3, paid=["1,50 €", "soon", "3 €"] * 9),
        "y",
        missing=["soon"],
    )
    model = fit_table(own, LogisticBaseline(), estimate=False)
    model = TableModel.load(model.to_bytes())
    assert np.isfinite(model.score(frame.assign(paid="soon"))).all()
    with pytest.raises(ValueError, match="row 1, column 'paid': 'later' is not a number"):
        model.score(frame.assign(paid="later"))


def test_numbers_between_texts_in_a_pandas_column_are_text():
    # As pandas leaves them when it reads a file in parts.
    frame = pd.DataFrame(
        {"a": ["1,5 €", 3, 4, None, pd.NA] * 5, "b": ["7", 8, 9, 10, 11] * 5, "y": [0, 0, 0, 0, 1] * 5}
    )
    found = from_table(frame, "y").features
    assert found.rows()[:3] == [(1.5, 7.0), (3.0, 8.0), (4.0, 9.0)]
    with pytest.raises(ValueError, match="row 2, column 'a': True has a different type"):
        from_table(frame.assign(a=["x", True, 1, 2, 3] * 5), "y")


def test_numbers_that_pandas_left_as_text_because_of_blanks_are_numbers(tmp_path):
    frame = pd.DataFrame({"paid": ["1.5", " ", "3.25"] * 9, "code": ["7", "8", "9"] * 9, "n": range(27)})
    frame["y"] = ([0] * 8 + [1]) * 3
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = from_table(frame, "y").features
    assert found["paid"].to_list() == from_table(tmp_path / "t.csv", "y").features["paid"].to_list()
    assert found["code"].dtype == pl.String  # somebody wanted text
    model = fit_table(from_table(frame, "y"), LogisticBaseline(), estimate=False)
    np.testing.assert_array_equal(model.score(frame.assign(paid=" ")), model.score(frame.assign(paid=np.nan)))
    leading = frame.assign(paid=["007", "", "008"] * 9)
    assert from_table(leading, "y").features["paid"].dtype == pl.String


def test_text_that_is_mostly_numbers_is_a_warning():
    frame = pd.DataFrame({"a": [f"{i}.5" for i in range(29)] + ["twelve"], "n": range(30), "y": [0, 1] * 15})
    with pytest.warns(UserWarning, match="column 'a': text: 'twelve' is not a number, but most values are"):
        from_table(frame, "y")
    with pytest.raises(
        ValueError, match="row 30, column 'a': 'twelve' is not a number, but 29 of 30 values are"
    ):
        from_table(frame.drop(columns="n"), "y")
    assert from_table(frame, "y", columns={"a": "text"}).features["a"][0] == "0.5"


# Reading as in training


def test_a_model_reads_as_in_training(tmp_path):
    rows = [f"{i % 9 + 1}.{100 + i} €;{i % 50},5;{i % 2}" for i in range(200)]
    (tmp_path / "train.csv").write_text("\n".join(["balance;paid;y", *rows]))
    (tmp_path / "new.csv").write_text("balance;paid;note\n1.234 €;7;8\n")
    model = fit_table(from_table(tmp_path / "train.csv", "y"), LogisticBaseline(), estimate=False)
    # Decided anew, nothing speaks for thousands.
    assert read_table(tmp_path / "new.csv")["balance"].item() == 1.234
    found = read_table(tmp_path / "new.csv", model=model)
    assert found.rows() == [(1234.0, 7.0, 8)]
    assert model.read(str(tmp_path / "new.csv")).equals(found)
    expected = np.concatenate([model.score(chunk()) for chunk in Input(tmp_path / "new.csv").chunks()])
    for table in (found, tmp_path / "new.csv", str(tmp_path / "new.csv"), Input(tmp_path / "new.csv")):
        np.testing.assert_array_equal(model.score(table), expected)
    assert model.reasons(tmp_path / "new.csv") == model.reasons(
        pl.DataFrame({"balance": ["1.234 €"], "paid": ["7"]})
    )
    with pytest.raises(ValueError, match="text and missing are those of the model"):
        read_table(tmp_path / "new.csv", model=model, text=["balance"])
    (tmp_path / "bad.csv").write_text("balance;paid\n1.234 €;1\nmuch;1\n")
    for call in (model.score, model.read, model.reasons, model.explain):
        with pytest.raises(ValueError, match=r"bad\.csv, line 3, column 'balance': 'much' is not a number"):
            call(tmp_path / "bad.csv")
    stream = io.BytesIO((tmp_path / "new.csv").read_bytes())
    np.testing.assert_array_equal(model.score(Input(stream)), expected)


def test_what_has_the_rows_of_a_frame_is_one_and_a_series_is_none():
    duckdb = pytest.importorskip("duckdb")
    table = pl.DataFrame({"a": range(60), "b": ["x", "y"] * 30})
    y = [0] * 57 + [1] * 3
    detector = TableDetector(LogisticBaseline()).fit(table.lazy(), y)
    expected = detector.anomaly_score(table)
    arrow = table.to_arrow()
    for same in (table.lazy(), arrow, arrow.to_reader()):
        np.testing.assert_array_equal(detector.anomaly_score(same), expected)
    np.testing.assert_array_equal(detector.anomaly_score(duckdb.sql("SELECT * FROM arrow")), expected)
    for row in (table["a"], table.to_pandas().iloc[0]):
        with pytest.raises(
            TypeError, match=r"or an Arrow table, got Series; one row .* is frame.iloc\[\[place\]\]"
        ):
            detector.anomaly_score(row)


# One interface


def test_a_saved_detector_is_loaded_with_the_same_interface(tmp_path, folder):
    frame = pd.read_csv(folder / "bank_train.csv", sep=";").drop(columns="Nummer")
    y = (frame.pop("Urteil") == "fraud").to_numpy().astype(int)
    detector = TableDetector(LogisticBaseline(random_state=0)).fit(frame, y)
    detector.save(tmp_path / "m.dplan")
    loaded = dplan.load(tmp_path / "m.dplan")
    some = frame[:300]
    for table in (some, pl.from_pandas(some), pa.Table.from_pandas(some)):
        for call in (
            "anomaly_score",
            "percentile",
            "score_samples",
            "decision_function",
            "predict",
            "reasons",
        ):
            found, expected = (getattr(one, call)(table) for one in (loaded, detector))
            np.testing.assert_array_equal(found, expected, err_msg=call)
        np.testing.assert_array_equal(loaded.explain(table).effects, detector.explain(table).effects)
        assert loaded.read(table).equals(detector.read(table))
    np.testing.assert_array_equal(loaded.score(some), detector.anomaly_score(some))
    assert loaded.offset_ == detector.offset_
    assert loaded.get_feature_names_out().tolist() == detector.get_feature_names_out().tolist()
    missing = {name for name in dir(detector) if not name.startswith("_")} - set(dir(loaded))
    assert missing == {  # of scikit-learn and of training
        "columns", "detector_", "feature_names_in_", "fit", "fit_predict", "get_metadata_routing", "get_params",
        "max_levels", "missing", "model_", "n_features_in_", "set_fit_request", "set_params",
    } - set(dir(loaded))  # fmt: skip


def test_a_detector_of_an_array_is_loaded_and_takes_arrays(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    detector = TableDetector(IForest(random_state=0)).fit(X)
    detector.save(tmp_path / "m.dplan")
    loaded = dplan.load(tmp_path / "m.dplan")
    np.testing.assert_array_equal(loaded.predict(X), detector.predict(X))
    np.testing.assert_array_equal(loaded.score(X.tolist()), detector.anomaly_score(X))
    with pytest.raises(ValueError, match="the table has 2 columns, but the model has 3"):
        loaded.score(X[:, :2])


def test_a_score_at_the_threshold_is_an_alert_for_all():
    X = pl.DataFrame({"a": [0.0] * 90 + [1.0] * 10})
    detector = TableDetector(IForest(random_state=0, contamination=0.3)).fit(X)
    scores = detector.anomaly_score(X)
    threshold = detector.model_.threshold
    assert threshold in scores
    np.testing.assert_array_equal(detector.predict(X) == -1, scores >= threshold)
    np.testing.assert_array_equal(detector.decision_function(X) < 0, scores >= threshold)
    np.testing.assert_array_equal(detector.score_samples(X) < detector.offset_, scores >= threshold)


def test_sparse_columns_of_pandas_are_read_and_what_has_no_type_is_named():
    pandas = pytest.importorskip("pandas")
    dummies = pandas.get_dummies(pandas.Series(["a", "b", "a"]), sparse=True)
    assert as_frame(dummies).to_dict(as_series=False) == {"a": [True, False, True], "b": [False, True, False]}
    for values in ([1j, 2, 3], pandas.interval_range(0, 3)):
        frame = pandas.DataFrame({"x": values, "label": [0, 0, 1]})
        with pytest.raises(
            TypeError, match=r"^column 'x' has the unsupported type .*; drop it or convert it to numb"
        ):
            from_table(frame, label="label")
