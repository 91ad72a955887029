"""Columns of very many levels are encoded by frequency: bounded, without labels, and the same on every path."""

import json

import numpy as np
import polars as pl
import pytest

from dplan import LogisticBaseline
from dplan.columns import from_json
from dplan.columns.frequencies import Frequency
from dplan.columns.preparer import Cells, TablePreparer
from dplan.tables import TableModel, fit_table, from_table
from dplan.tables.onnx import export_onnx

N = 3_000


def shops(seed=0):
    """Return rows at 600 shops, some of which are visited often; every known anomaly is at a rare one."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 601)
    names = [f"shop {k}" for k in rng.choice(600, N, p=weights / weights.sum())]
    names[:40] = [f"shop {k}" for k in range(560, 600)]
    verdict = ["fraud"] * 40 + [""] * (N - 40)
    return pl.DataFrame({"shop": names, "amount": rng.normal(size=N).round(3), "verdict": verdict})


@pytest.fixture(scope="module")
def model():
    own = from_table(shops(), "verdict", anomaly=["fraud"])
    return fit_table(own, LogisticBaseline(random_state=0), estimate=False)


def test_the_number_of_features_is_bounded(model):
    (shop,) = (column for column in model.preparation.columns_ if column.name == "shop")
    assert isinstance(shop, Frequency)
    assert len(shop.levels) > 400
    assert model.detector.n_features_in_ == 63 + 1 + 1
    assert model.summary.columns == {"number": 1, "text by frequency": 1}
    assert "levels by frequency, 63 of them with a feature of their own: 'shop 0', " in shop.summary()


def test_rare_levels_are_recognised_though_they_have_no_feature(model):
    later = shops(1)
    score = np.asarray(model.score(later.drop("verdict")))
    assert score[:40].min() > np.median(score[40:])
    (text,) = model.reasons(later.drop("verdict")[:1])
    assert "`shop` = 'shop 560'; a value of at most 0.033 % of rows: " in text


def test_one_row_at_a_time_is_the_same_and_missing_and_new_levels_are_what_they_are(model):
    frame = pl.DataFrame({"shop": ["shop 0", "shop 599", "elsewhere", None, " shop 3 "], "amount": [1.0] * 5})
    X, report = model.preparation.transform_with_report(frame)
    assert report.unseen == {"shop": 1}
    assert report.missing == {"shop": 1}
    assert X[0, :2].tolist() == [1, 1]
    assert X[1, 1:-1].sum() == 0 < X[1, 0] < X[4, 0] < 1
    assert not X[2, :-1].any()
    for row in range(5):
        cells = Cells(np.ones((1, 1)), [[frame["shop"][row]]])
        np.testing.assert_array_equal(model.preparation.transform_cells(cells)[0], X[row])


def test_files_and_graphs_have_it_all(model, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    model.save(tmp_path / "m.dplan")
    again, later = TableModel.load(tmp_path / "m.dplan"), shops(2).drop("verdict")
    assert again.preparation.columns_ == model.preparation.columns_
    np.testing.assert_array_equal(again.prepare(later), model.prepare(later))
    export_onnx(model, tmp_path / "m.onnx")
    session = ort.InferenceSession(tmp_path / "m.onnx")
    fed = {}
    for one in session.get_inputs():
        values = later["shop"].to_list() if "string" in one.type else later["amount"].to_list()
        fed[one.name] = np.array(values, dtype=object if "string" in one.type else np.float64)[:, None]
    found = session.run(None, fed)[0].ravel()
    np.testing.assert_allclose(found, model.score(later), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"shares": None},
        {"shares": [0.5]},
        {"shares": ["a"] * 3},
        {"shares": [0.1, 0.2, 0.7]},
        {"shares": [0.5, 0.5, 0.0]},
        {"fill": [0.5]},
        {"levels": ["a", "a", "b"]},
    ],
)
def test_stored_columns_that_do_not_fit_together_are_refused(change):
    texts = pl.Series("shop", ["a"] * 5 + ["b"] * 3 + ["c"] * 2)
    column = TablePreparer(max_levels=2).fit(texts.to_frame()).columns_[0]
    stored = json.loads(json.dumps(column.to_json()))
    assert from_json(stored) == column
    with pytest.raises(ValueError, match="not a column"):
        from_json(stored | change)


def test_domains_of_which_there_are_many():
    names = [f"ann@site{k % 300}.example" for k in range(900)]
    table = from_table(
        pl.DataFrame({"mail": names, "x": np.arange(900) * 0.5, "y": [1] * 9 + [0] * 891}), "y"
    )
    preparer = TablePreparer(meanings=table.meanings).fit(table.features)
    assert preparer.columns_[0].part == "domain"
    new = pl.DataFrame({"mail": ["bob@SITE7.example", "site7.example"], "x": [0.0, 0.0]})
    X, report = preparer.transform_with_report(new)
    assert report.unseen == {}
    assert (X[0] == X[1]).all()


def test_people_can_ask_for_it():
    frame = pl.DataFrame({"shop": ["a", "b", "a"] * 50, "x": range(150), "y": ([1] * 5 + [0] * 145)})
    own = from_table(frame, "y", columns={"shop": "frequency"})
    assert own.meanings["shop"].type == "frequency"
