"""Alerts and models as a notebook shows them."""

import html
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.tables import fit_table, from_table
from tests.tables.payments import payments

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e`"
# What JupyterLab leaves of a notebook that it does not trust, of what is used here.
ALLOWED = {"div", "table", "tbody", "tr", "td", "b", "span", "br", "details", "summary"}


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open = set(), set(), []
        self.feed(text)
        assert not self.open, "not closed"

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(text, largest):
    found = Tags(text)
    assert found.tags <= ALLOWED
    assert found.attributes <= {"style"}
    assert "color:" not in text.replace("background-color:", ""), "text has the colour of the page around it"
    assert len(text.encode()) <= largest


@pytest.fixture(scope="module")
def new():
    return payments(300, seed=4)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--budget", 9], {"budget": 9}),
        (["--top", 7], {"top": 7}),
        (["--threshold", 0.1], {"threshold": 0.1}),
        ([], {}),
    ],
)
def test_the_frame_is_what_score_writes(model, model_path, new, tmp_path, options, asked):
    new.write_parquet(tmp_path / "t.parquet")
    arguments = ["score", tmp_path / "t.parquet", "-m", model_path, "-o", tmp_path / "s.parquet"]
    done = CliRunner().invoke(main, [str(a) for a in [*arguments, "--explain", "--keep", "day", *options]])
    assert done.exit_code == 0, done.output
    written = pl.read_parquet(tmp_path / "s.parquet")
    if "top" not in asked:
        written = written.filter("alert").sort("score", descending=True, maintain_order=True)
    alerts = model.alerts(new, keep=["day"], **asked)
    assert alerts.frame.equals(written)
    assert len(alerts) == written.height > 0
    assert [card.row for card in alerts] == written["row"].to_list()


def test_the_frame_is_one_of_the_callers_library(model, new):
    pandas = new.to_pandas().set_index(np.arange(1000, 1300))
    own = model.alerts(pandas, budget=5)
    assert isinstance(own.frame, pd.DataFrame)
    assert (pandas.loc[own.frame.index, "payment"] == own.frame["payment"]).all()
    assert model.alerts(new.to_arrow(), budget=5).frame.num_rows == 5
    explained = model.explain(pandas.head(2)).frame()
    assert list(explained) == ["row", "column", "value", "effect", "typical"]
    sums = explained.groupby("row")["effect"].sum().to_numpy()
    baseline = model.explain(new.head(2)).baseline
    assert np.allclose(baseline + sums, model.score(new.head(2)))


def test_a_detector_has_the_same_alerts_as_its_model(new):
    X = new.drop("verdict", "payment", "country").to_pandas()
    y = (np.arange(300) % 50 == 0).astype(int)
    detector = dplan.TableDetector(dplan.LogisticBaseline()).fit(X, y)
    assert detector.alerts(X, budget=4).frame.equals(detector.model_.alerts(X, budget=4).frame)
    assert detector.explain(X.head(2)).frame().equals(detector.model_.explain(X.head(2)).frame())
    assert detector.explain(X.head(2)).top(1)[0, 0] in X.columns


def test_cards_survive_a_notebook_that_is_not_trusted(model, new):
    alerts = model.alerts(new, top=30)
    check(alerts._repr_html_(), 40_000)
    check(alerts[0]._repr_html_(), 6_000)
    check(model._repr_html_(), 10_000)
    card = alerts[0]
    assert card.ids["payment"] in card._repr_html_()
    assert card.nearest
    assert "20 more rows are in .frame" in alerts._repr_html_()
    assert repr(alerts).startswith(alerts._heading())
    assert f"row {card.row}" in card.text


def test_text_from_data_is_escaped_and_bounded():
    n = 80
    columns = {f"{HOSTILE}{i}" * 20: [f"{HOSTILE * 30}{j % 3}" for j in range(n)] for i in range(60)}
    amount = np.r_[np.arange(n - 2), 9e5, 8e5]
    ids = [f"{HOSTILE * 9}{j}" for j in range(n)]
    verdict = [""] * (n - 3) + [HOSTILE] * 3
    table = pl.DataFrame({**columns, HOSTILE: amount, "id": ids, "verdict": verdict})
    labelled = from_table(table, label="verdict", anomaly=[HOSTILE], id="id")
    model = fit_table(labelled, dplan.LogisticBaseline(), estimate=False)
    alerts = model.alerts(table, top=12)
    for shown, largest in ((alerts, 40_000), (alerts[0], 6_000), (model, 10_000)):
        text = shown._repr_html_()
        check(text, largest)
        assert "<img" not in text
        assert "\u202e" not in text
        assert "<img" in html.unescape(text)
    assert "\u202e" not in alerts[0].text + repr(alerts)


def test_wrong_wishes_are_refused(model, new):
    with pytest.raises(ValueError, match="cannot be combined"):
        model.alerts(new, budget=3, threshold=1.0)
    with pytest.raises(ValueError, match="top must be at least 1"):
        model.alerts(new, top=0)
    with pytest.raises(ValueError, match="cannot keep column 'nothing'"):
        model.alerts(new, keep=["nothing"])
    empty = model.alerts(new, threshold=1e9)
    assert len(empty) == 0
    assert empty.frame.height == 0
    assert empty._repr_html_().count("<td") == 0


def test_without_reasons_nothing_is_explained(model, new, monkeypatch):
    monkeypatch.setattr(type(model), "why", None)
    alerts = model.alerts(new, budget=3, explain=False)
    assert "reasons" not in alerts.frame.columns
    check(alerts._repr_html_(), 40_000)


def test_only_what_is_shown_is_explained(model, new):
    alerts = model.alerts(new, top=200)
    alerts._repr_html_()
    assert len(alerts._found) == 10


def test_tables_that_are_none_are_named(model, new):
    with pytest.raises(
        TypeError, match="expected a polars or pandas frame, an Arrow table, a path or an array"
    ):
        model.score({"amount": [1]})
    with pytest.raises(
        ValueError, match=r"expected rows with the columns amount, items, day, ….*pass \[row\]"
    ):
        model.score(np.zeros(3))
    scores = model.score(new)
    assert model.percentile(new).tolist() == model.percentile(scores).tolist()
    assert model.percentile(scores.tolist()).tolist() == model.percentile(pd.Series(scores)).tolist()


def test_missing_values_name_the_detector_that_takes_them():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.arange(60) < 4
    detector = dplan.LogisticBaseline().fit(X, y)
    X[3, 1] = np.nan
    for call in (lambda: dplan.LogisticBaseline().fit(X, y), lambda: detector.anomaly_score(X)):
        with pytest.raises(ValueError, match=r"contains NaN.*dplan\.TableDetector"):
            call()
