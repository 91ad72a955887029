"""The report: in a real browser, without errors, requests or markup from the data."""

import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from dplan import DPLAN, DPLANEnsemble, IForest
from dplan.cli.main import main
from dplan.tables import fit_table, from_table
from dplan.tables.chunks import Chunk
from dplan.tables.report.data import report_data
from dplan.tables.report.page import page
from tests.browser import needs_browser, visit
from tests.tables.payments import QUICK, payments

ATTACK = "<script>document.title='run';fetch('http://127.0.0.1:9/x')</script>"
SECTIONS = [
    "Scores", "The most anomalous rows", "Typical values and alerts", "Map", "Learning curve",
    "Drift since training", "Precision and recall",
]  # fmt: skip


def report_of(model, table, **options):
    return page(
        report_data(model, [Chunk(lambda: table)], **options),
        model,
        model_name="m.dplan",
        table_name="new.csv",
    )


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """Return a report over a table whose names and cells hold markup, written by the command."""
    folder = tmp_path_factory.mktemp("report")
    table = (
        payments()
        .with_columns(
            pl.when(pl.col("country") == "XX").then(pl.lit(ATTACK)).otherwise("country").alias("country"),
            pl.when(pl.col("country") == "XX")
            .then(pl.lit('"><img src=x onerror=1>'))
            .otherwise("payment")
            .alias("payment"),
        )
        .rename({"items": "<b>items</b>"})
    )
    own = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    fit_table(own, DPLAN(**QUICK)).save(folder / "m.dplan")
    table.write_csv(folder / "<i>new.csv")
    done = CliRunner().invoke(
        main, ["report", str(folder / "m.dplan"), str(folder / "<i>new.csv"), "-o", str(folder / "r.html"),
               "--label", "verdict", "--anomaly", "fraud"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder / "r.html"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attributes)


def test_all_sections_are_there_and_nothing_from_the_data_became_markup(attacked):
    text = attacked.read_text(encoding="utf-8")
    assert re.findall("<h2.*?>(.*?)</h2>", text) == SECTIONS
    parsed = Tags(text)
    assert not parsed.tags & {"script", "img", "b script", "iframe", "object"}
    assert not [name for name in parsed.attributes if name.startswith("on")]
    assert "&lt;script&gt;document" in text
    assert not re.findall(r"""(?:src|href)=["'](?!data:,)""", text)
    assert "default-src 'none'" in text


@needs_browser
def test_in_a_browser_there_is_no_error_no_request_and_the_script_is_text(attacked, tmp_path):
    seen = visit(attacked, tmp_path)
    assert seen.console == []
    assert seen.requests == []
    assert "<title>run</title>" not in seen.dom
    assert "&lt;script&gt;document" in seen.dom
    assert seen.dom.count("<svg") == 2 + 5 + 3  # scores, columns, and one in each of three other sections


@needs_browser
def test_the_browser_would_have_noticed(attacked, tmp_path):
    """A page that does run the script is told apart: without this, the test above could not fail."""
    text = attacked.read_text(encoding="utf-8")
    text = re.sub(r"<meta http-equiv=.*?>", "", text).replace(
        "</body>", f"{ATTACK}<script>oops()</script></body>"
    )
    bad = tmp_path / "bad.html"
    bad.write_text(text, encoding="utf-8")
    seen = visit(bad, tmp_path)
    assert "<title>run</title>" in seen.dom
    assert any("oops" in line for line in seen.console)
    assert seen.requests == ["http://127.0.0.1:9/x"]


def test_figures_of_the_page_are_those_of_the_table(model, table):
    data = report_data(
        model, [Chunk(lambda: table[:1000]), Chunk(lambda: table[1000:])], label="country", anomaly=["XX"]
    )
    scores = model.score(table)
    np.testing.assert_array_equal(data.scores, scores)
    assert data.truth.sum() == 60
    order = np.argsort(-scores, kind="stable")[:20]
    assert data.highest["payment"].to_list() == table["payment"].gather(order).to_list()
    assert data.reasons == model.reasons(table[order])
    assert {feature.column.name for feature in data.features} == set(model.columns)
    for feature in data.features:
        for shares in (feature.background, feature.table, feature.highest):
            np.testing.assert_allclose(shares.sum(), 1, atol=1e-6)
    text = report_of(model, table, label="country", anomaly=["XX"])
    assert f"<b>{int((scores >= model.threshold).sum()):,}</b>" in text


def test_drift_is_small_for_the_training_table_and_large_for_what_changed(model, table):
    same = {f.column.name: f.drift for f in report_data(model, [Chunk(lambda: table)]).features}
    assert max(same.values()) < 0.05
    changed = table.with_columns(pl.col("amount") * 5, country=pl.lit("IT"))
    moved = {f.column.name: f.drift for f in report_data(model, [Chunk(lambda: changed)]).features}
    assert moved["amount"] > 0.4
    assert moved["country"] > 0.9
    assert moved["items"] < 0.05


def test_without_labels_and_without_a_network_the_page_is_shorter(table):
    model = fit_table(
        from_table(table, label="verdict", anomaly=["fraud"]),
        IForest(n_estimators=10, random_state=0),
        estimate=False,
    )
    text = report_of(model, table)
    assert re.findall("<h2.*?>(.*?)</h2>", text) == [
        s for s in SECTIONS if s not in ("Learning curve", SECTIONS[-1])
    ]


def test_the_page_of_an_ensemble_tells_what_its_score_is_made_of(table):
    detector = DPLANEnsemble(
        n_agents=2, n_steps=200, warmup_steps=100, n_rounds=5, n_trees=10, random_state=0
    )
    model = fit_table(from_table(table, label="verdict", anomaly=["fraud"]), detector, estimate=False)
    text = report_of(model, table)
    section = text.split(">What the score is made of</h2>")[1].split("<h2")[0]
    told = dict(re.findall(r'<td class="text">([a-z ]+)</td>.*?<td>([\d.]+)</td>', section))
    assert list(told) == [
        "slow agents",
        "fast agents",
        "tree agents",
        "nearest neighbours",
        "isolation forest",
    ]
    assert sum(map(float, told.values())) == pytest.approx(1.6, abs=0.03)
    assert float(told["nearest neighbours"]) == pytest.approx(0.5)
    widths = [int(width) for width in re.findall(r"width:(\d+)%", section)]
    assert sum(widths) == pytest.approx(100, abs=3)
    assert "Learning curve" not in text


def test_small_and_odd_tables_still_give_a_page(model, table):
    assert "<b>1</b><span>rows scored</span>" in report_of(model, table[:1])
    constant = report_of(model, pl.concat([table[:1]] * 30), label="verdict")
    assert "<b>30</b><span>rows scored</span>" in constant
    assert "The label column marks no row, or every row, as an anomaly." in constant
    with pytest.raises(ValueError, match="no rows"):
        report_data(model, [])
    with pytest.raises(ValueError, match="no column 'colour'"):
        report_data(model, [Chunk(lambda: table)], label="colour")


def test_columns_across_the_whole_range_of_floats_are_drawn(table):
    extreme = table.with_columns(pl.when(pl.col("items") > 2).then(1e308).otherwise(-1e308).alias("amount"))
    own = from_table(extreme, label="verdict", anomaly=["fraud"])
    model = fit_table(own, IForest(random_state=0), estimate=False)
    text = report_of(model, extreme)
    assert ">amount</h3>" in text
    assert not re.search(r"[\d\" ](nan|inf)\b", "".join(re.findall("<svg.*?</svg>", text, re.DOTALL)))
