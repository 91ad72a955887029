"""One's own table: which rows are known anomalies, which columns are features, which only identify."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dplan.tables import TablePreparer, from_table
from tests.tables.test_reading import FORMS, TABLE


def test_from_a_file(tmp_path):
    (tmp_path / "t.csv").write_bytes(FORMS["t.csv"])
    own = from_table(
        tmp_path / "t.csv", label="checked", anomaly=["fraud", "chargeback"], id="payment", drop=["items"]
    )
    assert own.features.columns == ["amount", "new_customer", "day", "country"]
    assert own.y.tolist() == [0, 1, 0, 2]
    assert own.classes == ("unlabelled", "fraud", "chargeback")
    assert own.ids.to_dict(as_series=False) == {"payment": ["p1", "p2", "p3", "p4"]}
    assert own.counts() == {"unlabelled": 2, "fraud": 1, "chargeback": 1}
    assert own.kinds() == {
        "number": ["amount"],
        "flag": ["new_customer"],
        "date": ["day"],
        "text": ["country"],
    }
    assert np.isfinite(TablePreparer().fit_transform(own.features)).all()


def labels(values, **options):
    own = from_table(pl.DataFrame({"x": range(len(values)), "l": values}, strict=False), "l", **options)
    return own.y.tolist(), own.classes[1:]


@pytest.mark.parametrize(
    ("values", "options", "y", "classes"),
    [
        ([0, 1, 2, None], {}, [0, 1, 2, 0], ("1", "2")),
        ([0, 5, 2, 5], {}, [0, 2, 1, 2], ("2", "5")),
        ([0.0, 1.0, None], {}, [0, 1, 0], ("1",)),
        ([False, True, None], {}, [0, 1, 0], ("1",)),
        (["0", "1", " 1 "], {}, [0, 1, 1], ("1",)),
        (["True", "False"], {}, [1, 0], ("1",)),
        (["a", "b", "c"], {"anomaly": ["c", "a"]}, [2, 0, 1], ("c", "a")),
        (["a", "b", "c"], {"anomaly": ["a", "a"]}, [1, 0, 0], ("a",)),
        (["a", "b", None, "c"], {"unlabelled": ["b"]}, [1, 0, 0, 2], ("a", "c")),
        (["a", "b", None], {"anomaly": ["a"], "unlabelled": ["b"]}, [1, 0, 0], ("a",)),
        ([7, 8, None], {"anomaly": ["7"]}, [1, 0, 0], ("7",)),
        ([7.0, 8.0, None], {"anomaly": [7]}, [1, 0, 0], ("7",)),
        ([True, False], {"anomaly": [True]}, [1, 0], ("true",)),
        (["1", "2"], {"anomaly": [1.0]}, [1, 0], ("1",)),
        ([0, 1, -1, None], {}, [0, 1, -1, 0], ("1",)),
        (["0", "1", "-1"], {}, [0, 1, -1], ("1",)),
        (["fraud", "ok", None, ""], {"anomaly": ["fraud"], "normal": ["ok"]}, [1, -1, 0, 0], ("fraud",)),
        (["fraud", "Fraud ", "FRAUD", "OK"], {"anomaly": ["fraud"]}, [1, 1, 1, 0], ("fraud",)),
        (["ok", "fraud"], {"anomaly": ["Fraud"]}, [0, 1], ("Fraud",)),
        (["a", "A", "b"], {"anomaly": ["a"], "normal": ["A"]}, [1, -1, 0], ("a",)),  # case matters here
        (["a", "A", "a ", "b"], {"anomaly": ["a", "A"]}, [1, 2, 1, 0], ("a", "A")),
        (["a", "b", "B", None], {"normal": ["B"]}, [1, -1, -1, 0], ("a",)),
        (
            ["a", "A", "a", "b"],
            {"unlabelled": ["B"]},
            [1, 1, 1, 0],
            ("a",),
        ),  # one class, by its usual spelling
    ],
)
def test_labels(values, options, y, classes):
    assert labels(values, **options) == (y, classes)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0, 0, None], {}, "label column 'l' contains no known anomalies"),
        ([None, None], {}, "label column 'l' contains no known anomalies"),
        ([1, 2], {}, "label column 'l' marks every row as an anomaly; unlabelled rows are required"),
        ([0, -2], {}, "row 2, column 'l': the label -2 is neither 0"),
        ([0, -1], {}, "label column 'l' contains no known anomalies"),
        ([0, 0.5], {}, "row 2, column 'l': the label 0.5 is neither 0"),
        (
            ["ok", "fraud", "ok"],
            {},
            r"contains 'ok' \(2 rows\), 'fraud' \(1 row\); specify which values mark",
        ),
        (["ok", "fraud"], {"anomaly": ["Frau"]}, "no anomaly value 'Frau'; did you mean 'fraud'?"),
        (
            ["ok", "fraud"],
            {"anomaly": ["fraud"], "normal": ["fine"]},
            r"no normal value 'fine'; its values are 'ok' \(1 row\), 'fraud' \(1 row\)",
        ),
        (["ok", "fraud"], {"anomaly": ["fraud"], "unlabelled": ["OK", "?"]}, r"no unlabelled value '\?'"),
        (
            ["ok", "fraud"],
            {"anomaly": ["ok"], "normal": ["Ok"]},
            "no normal value 'Ok'; did you mean 'ok'",
        ),
        (
            ["ok", "fraud"],
            {"anomaly": ["theft"]},
            r"no anomaly value 'theft'; its values are 'ok' \(1 row\)",
        ),
        (
            ["ok", "fraud", "?"],
            {"anomaly": ["fraud"], "unlabelled": ["ok"]},
            r"also contains '\?'; add each of them",
        ),
        (
            ["ok", "fraud"],
            {"anomaly": ["ok"], "unlabelled": ["ok"]},
            "'ok' cannot be both among the anomaly and the unlabelled values",
        ),
        (["ok", "ok"], {"unlabelled": ["ok"]}, "contains no known anomalies"),
        ([str(i) + "x" for i in range(30)], {}, "and 20 more"),
    ],
)
def test_bad_labels(values, options, message):
    with pytest.raises(ValueError, match=message):
        labels(values, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "check"}, "the table has no column 'check'; did you mean 'checked'?"),
        ({"label": "zzz"}, "has no column 'zzz'; available columns: 'payment', 'amount'"),
        ({"id": "paymnt"}, "has no column 'paymnt'; did you mean 'payment'?"),
        ({"drop": ["nothing"]}, "has no column 'nothing'"),
        ({"text": ["nothing"]}, "has no column 'nothing'"),
        ({"id": ["checked"]}, "column 'checked' cannot be the label and an id"),
        ({"id": [c for c in TABLE.columns if c != "checked"]}, "no feature columns left"),
    ],
)
def test_bad_columns(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_table(TABLE, **{"label": "checked", "anomaly": ["fraud"], **arguments})


def test_a_label_column_may_mix_numbers_and_texts(tmp_path):
    (tmp_path / "t.csv").write_text("id,x,l\n007,1,0\n008,2,0\n009,3,0\n010,4,bad\n")
    own = from_table(tmp_path / "t.csv", "l", anomaly=["bad"], id="id")
    assert own.y.tolist() == [0, 0, 0, 1]
    assert own.ids["id"].to_list() == ["007", "008", "009", "010"]


def test_pandas():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "s": ["a", None, "b"], "l": [0, 1, 0]})
    own = from_table(frame, "l")
    assert_frame_equal(own.features, pl.DataFrame({"x": [1.0, None, 3.0], "s": ["a", None, "b"]}))
    mixed = pd.DataFrame({"x": pd.Series([1, None, "a"], dtype=object), "l": [0, 1, 0]})
    with pytest.raises(ValueError, match=r"row 3, column 'x': 'a' has a different type from 1 in row 1"):
        from_table(mixed, "l")
    twice = pd.DataFrame([[1, 2, 0]], columns=["x", "x", "l"])
    with pytest.raises(ValueError, match="duplicate column 'x'"):
        from_table(twice, "l")


def test_what_is_no_table():
    with pytest.raises(TypeError, match="expected a polars or pandas frame or an Arrow table, got int"):
        from_table(7, "l")
    with pytest.raises(ValueError, match="the table has no rows"):
        from_table(TABLE.clear(), "checked")
    with pytest.raises(TypeError, match="column 'x' has the unsupported type List"):
        from_table(pl.DataFrame({"x": [[1], [2]], "l": [0, 1]}), "l")


def test_how_many_rows_each_value_matched():
    column = ["fraud"] * 3 + ["Fraud"] + ["ok"] * 2 + [None]
    table = pl.DataFrame({"x": range(7), "l": column})
    own = from_table(table, "l", anomaly=["fraud"], normal=["ok"])
    assert own.labels.matches() == "'fraud' matched 4 rows ('fraud' 3, 'Fraud' 1); 'ok' matched 2 rows"
    assert own.counts() == {"unlabelled": 1, "fraud": 4}
    assert own.n_checked == 2


def test_rows_that_add_to_a_model_need_only_a_verdict():
    table = pl.DataFrame({"x": range(3), "l": ["ok", None, None]})
    own = from_table(table, "l", anomaly=["fraud"], normal=["ok"], partial=True, id="payment")
    assert own.y.tolist() == [-1, 0, 0]
    assert own.ids.width == 0
    assert own.labels.spellings["fraud"] == {}
    with pytest.raises(ValueError, match="contains no verdict"):
        from_table(table, "l", anomaly=["fraud"], partial=True)
