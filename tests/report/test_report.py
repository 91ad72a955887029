"""The report: in a real browser, without errors, requests or markup from the data."""

import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from dplan import DPLAN, DPLANEnsemble, IForest
from dplan.cli.main import main
from dplan.report.data import report_data
from dplan.report.page import page
from dplan.scoring.scorer import AlertPolicy, Scorer
from dplan.tables import fit_table, from_table
from dplan.tables.chunks import Chunk
from tests.browser import needs_browser, probe, visit
from tests.tables.payments import QUICK, payments

ATTACK = "<script>document.title='run';fetch('http://127.0.0.1:9/x')</script>"
SECTIONS = [
    "The most anomalous rows", "Scores", "Typical values and alerts", "Map",
    "Columns and drift since training", "Precision and recall",
]  # fmt: skip


def data_of(model, *tables, keep=(), on_error="fail", budget=None, threshold=None, **options):
    scorer = Scorer(model, keep=keep, on_error=on_error, alerts=AlertPolicy(threshold, budget))
    return report_data(scorer, [Chunk(lambda own=own: own) for own in tables], **options)


def report_of(model, table, **options):
    return page(data_of(model, table, **options), model, model_name="m.dplan", table_name="new.csv")


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
    assert not parsed.tags & {"img", "iframe", "object"}
    assert text.count("<script") == 1  # our own, which the policy names
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
    assert seen.dom.count("<svg") == 2 + 5 + 2  # scores, columns, and one in each of two other sections
    assert seen.dom.count("interactive sortable") == 2  # our own script has run


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
    data = data_of(model, table[:1000], table[1000:], label="country", anomaly=["XX"])
    scores = model.score(table)
    np.testing.assert_array_equal(data.scores, scores)
    assert data.truth.sum() == 60
    order = np.argsort(-scores, kind="stable")[:20]
    assert data.shown.table["payment"].to_list() == table["payment"].gather(order).to_list()
    assert data.reasons == model.why(table[order])
    assert {feature.column.name for feature in data.features} == set(model.columns)
    for feature in data.features:
        for shares in feature.histogram.shares:
            np.testing.assert_allclose(shares.sum(), 1, atol=1e-6)
    text = report_of(model, table, label="country", anomaly=["XX"])
    assert f"<b>{int((scores >= model.threshold).sum()):,}</b>" in text


def test_drift_is_small_for_the_training_table_and_large_for_what_changed(model, table):
    same = {f.column.name: f.drift for f in data_of(model, table).features}
    assert max(same.values()) < 0.05
    assert "drifted strongly" not in report_of(model, table)
    changed = table.with_columns(pl.col("amount") * 5, country=pl.lit("IT"))
    moved = {f.column.name: f.drift for f in data_of(model, changed).features}
    assert moved["amount"] > 0.4
    assert moved["country"] > 0.9
    assert moved["items"] < 0.05
    assert "2 columns have drifted strongly since training: country, amount." in report_of(model, changed)


def test_without_labels_the_page_is_shorter(table):
    model = fit_table(
        from_table(table, label="verdict", anomaly=["fraud"]),
        IForest(n_estimators=10, random_state=0),
        estimate=False,
    )
    text = report_of(model, table.drop("verdict"))
    assert re.findall("<h2.*?>(.*?)</h2>", text) == SECTIONS[:-1]


def test_the_page_of_an_ensemble_tells_what_its_score_is_made_of(table):
    detector = DPLANEnsemble(
        n_agents=2, n_steps=200, warmup_steps=100, n_rounds=5, n_trees=10, random_state=0
    )
    model = fit_table(from_table(table, label="verdict", anomaly=["fraud"]), detector, estimate=False)
    text = report_of(model, table)
    section = text.split(">What the score is made of</h2>")[1].split("<h2")[0]
    told = dict(re.findall(r'<td class="text">([a-z ]+)</td>.*?<td>([\d.]+)</td>', section))
    assert list(told) == ["networks", "boosted trees", "randomised trees", "nearest neighbours"]
    near = float(told["nearest neighbours"])
    assert 0.2 <= near <= 1
    assert sum(map(float, told.values())) == pytest.approx(1 + near, abs=0.02)
    widths = [int(width) for width in re.findall(r"width:(\d+)%", section)]
    assert sum(widths) == pytest.approx(100, abs=3)


def test_one_row_no_rows_and_equal_rows_still_give_a_page(model, table):
    one = report_of(model, table[:1])
    assert "<b>1</b><span>row scored</span>" in one
    assert "The score is" in one
    assert "A map needs at least 30 rows." in one
    assert 'class="threshold"' not in one
    empty = report_of(model, table[:0])
    assert "The table has no rows to score." in empty
    assert "<svg" not in empty
    constant = report_of(model, pl.concat([table[1:2]] * 30), label="verdict")
    assert "<b>30</b><span>rows scored</span>" in constant
    assert "The label column marks no row, or every row, as an anomaly." in constant


def test_without_alerts_nothing_is_drawn_as_an_alert(model, table):
    calm = table.filter(pl.col("country") != "XX").drop("verdict")
    text = report_of(model, calm, threshold=50.0)
    assert "No alerts: no row reaches the threshold of 50." in text
    charts = "".join(re.findall("<svg.*?</svg>", text, re.DOTALL)) + "".join(
        re.findall("<p class=.key.*?</p>", text)
    )
    assert not re.findall(r"(?:area|block|point) (?:alert|m5)", charts)
    assert "alerts" not in re.findall("<p class=.key.>(.*?)</p>", text)[0]
    assert ">Typical values and this table</h2>" in text
    some = report_of(model, table, threshold=0.3)
    assert re.findall(r"(?:area|block|point) (?:alert|m5)", some)


def test_a_colour_of_the_map_means_the_same_percentile_in_every_report(model, table):
    def colours(rows):
        return re.findall(r'class="point (m\d)"', report_of(model, rows, threshold=50.0))

    ordered = table[np.argsort(model.score(table))]
    low, high = colours(ordered[:300]), colours(ordered[-300:])
    assert set(low) == {"m0"}
    assert "m0" not in high
    assert "m4" in high


def test_rows_can_be_found_again_and_labelled_ones_are_marked(model, table):
    data = data_of(model, table[:1000], table[1000:], keep=["amount"])
    assert table["payment"].gather(data.shown.rows).to_list() == data.shown.table["payment"].to_list()
    assert data.labels == data.shown.table["verdict"].to_list()
    text = page(data, model, model_name="m", table_name="t")
    rows = re.findall(r"<tr data-score.*?</tr>", text)
    assert len(rows) == 20
    for i, row in enumerate(rows):
        assert f">{data.shown.rows[i] + 1:,}<" in row
        amount = data.shown.table["amount"][i]
        assert f'data-label="amount">{"missing" if amount is None else f"{amount:.12g}"}<' in row
        assert ('data-labelled="1"' in row) == (data.labels[i] == "fraud")
    assert f"{sum(label == 'fraud' for label in data.labels)} of these 20 rows are known already." in text
    without = data_of(model, table.drop("verdict"))
    assert [bool(known) for known in without.same_as] == [label == "fraud" for label in data.labels]
    assert "same values as p0" in page(without, model, model_name="m", table_name="t")
    with pytest.raises(ValueError, match="cannot keep column 'colour'"):
        data_of(model, table, keep=["colour"])


def test_labelled_rows_can_be_left_out(model, table):
    data = data_of(model, table, skip_labelled=True)
    rest = table.filter(pl.col("verdict") == "")
    np.testing.assert_array_equal(data.scores, model.score(rest))
    assert table["payment"].gather(data.shown.rows).to_list() == data.shown.table["payment"].to_list()
    assert set(data.labels) == {""}
    assert "30 rows that are already labelled were left out." in page(
        data, model, model_name="m", table_name="t"
    )
    with pytest.raises(ValueError, match="no label column"):
        data_of(model, table.drop("verdict"), skip_labelled=True)


def test_the_training_table_is_recognised_and_a_new_one_is_not(model, table):
    told = "of the rows that the model was trained on"
    assert f"contains 100 % {told}" in report_of(model, table)
    assert data_of(model, table[:1500]).training_share == pytest.approx(0.5, abs=0.05)
    new = payments(seed=1)
    assert data_of(model, new).training_share == 0
    assert told not in report_of(model, new)


def slider_of(text):
    """Return the threshold, alerts and known anomalies among them that the slider starts with."""
    steps = json.loads(html.unescape(re.search('data-steps="(.*?)"', text)[1]))
    return steps[int(re.search(r'type="range".*?value="(\d+)"', text)[1])]


def test_of_equal_scores_a_budget_takes_as_many_as_score_does(model, table):
    equal = pl.concat([table[1:2]] * 40)
    data = data_of(model, equal, budget=7, label="country", anomaly=table["country"][1:2].to_list())
    assert (data.n_alerts, data.map.alert.sum(), data.alert[:7].all()) == (7, 7, True)
    text = page(data, model, model_name="m", table_name="t")
    assert slider_of(text) == [data.scores[0], 7, 7]


def test_rows_that_are_left_out_shift_neither_labels_nor_row_numbers(model, table):
    amount = pl.col("amount").cast(pl.String)
    some = table.with_columns(
        amount=pl.when(pl.int_range(pl.len()) % 7 == 3).then(pl.lit("x")).otherwise(amount)
    )
    data = data_of(model, some[:1000], some[1000:], on_error="skip", n_shown=300)
    kept = some.filter(pl.col("amount").ne_missing("x"))
    assert data.truth.tolist() == (kept["verdict"] == "fraud").to_list()
    assert data.marked == (data.shown.table["verdict"] == "fraud").to_list()
    assert some["payment"].gather(data.shown.rows).to_list() == data.shown.table["payment"].to_list()
    assert data.bad["dplan_row_number"].to_list() == list(range(4, 3001, 7))


def test_as_many_rows_as_the_budget_are_shown_and_no_value_is_cut(table):
    long = "a street name that is much longer than forty characters, in a town with a long name, too"
    own = table.with_columns(
        country=pl.when(pl.col("country") == "XX").then(pl.lit(long)).otherwise("country")
    )
    fitted = fit_table(
        from_table(own, label="verdict", anomaly=["fraud"], id="payment"), IForest(random_state=0)
    )
    data = data_of(fitted, own, budget=37)
    assert len(data.shown) == len(data.reasons) == 37
    text = page(data, fitted, model_name="m.dplan", table_name="t.csv")
    assert f"country</code> = &#39;{long}&#39;" in text
    assert len(data_of(fitted, own).shown) == 20


def test_counts_have_separators_and_one_share_has_one_percentage(model, table):
    text = page(data_of(model, table, budget=1_234), model, model_name="m", table_name="t")
    seen = html.unescape(re.sub(r"<(script|style|svg|tbody).*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL))
    assert "3,000 rows scored" in " ".join(seen.split())
    assert re.findall(r"(?<![.\w])\d{4,}(?![\w.])", seen) == []
    assert set(re.findall(r"([\d.]+) % of the rows", seen)) <= {
        "41.1",
        "100",
    }  # alerts, and rows of the training


def test_a_budget_and_a_threshold_decide_on_the_alerts(model, table):
    scores = np.sort(model.score(table))
    data = data_of(model, table, budget=7)
    assert (data.n_alerts, data.threshold) == (7, scores[-7])
    text = page(data, model, model_name="m", table_name="t")
    assert "<b>7</b><span>alerts (0.2 % of the rows); budget 7</span>" in text
    assert text.count('data-label="alert">alert<') == 7
    assert slider_of(text)[:2] == [scores[-7], 7]
    assert data_of(model, table, threshold=float(scores[-9])).n_alerts == 9


def test_labels_are_compared_without_case_and_a_mistyped_one_is_an_error(model, table):
    odd = table.with_columns(pl.col("verdict").replace({"fraud": " Fraud "}))
    assert data_of(model, odd, label="verdict", anomaly=["FRAUD"]).truth.sum() == 30
    assert data_of(model, odd).truth.sum() == 30
    with pytest.raises(ValueError, match="'verdict' has no value 'fruad'; its values are"):
        data_of(model, table, label="verdict", anomaly=["fruad"])
    with pytest.raises(ValueError, match="no column 'colour'"):
        data_of(model, table, label="colour")


def test_the_command_has_the_options(model_path, table, tmp_path):
    table.write_csv(tmp_path / "t.csv")

    def run(*options):
        paths = [str(model_path), str(tmp_path / "t.csv"), "-o", str(tmp_path / "r.html"), "--overwrite"]
        return CliRunner().invoke(main, ["report", *paths, *options])

    done = run("--budget", "5", "--keep", "amount", "--skip-labelled", "--top", "6")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "30 rows that are already labelled were left out." in text
    assert text.count('data-label="alert">alert<') == 5
    assert text.count('data-label="amount"') == 6
    assert run("--budget", "5", "--threshold", "1").exit_code == 2
    assert run("--threshold", "nan").exit_code == 2
    mistyped = run("--label", "verdict", "--anomaly", "fruad")
    assert mistyped.exit_code == 1
    assert "has no value 'fruad'" in mistyped.output


def test_no_two_bars_have_the_same_name(table):
    kinds = np.array(["other", *"abcdefgh", "2 other levels and new ones"])[np.arange(len(table)) % 10]
    own = table.with_columns(country=pl.Series(kinds))
    model = fit_table(
        from_table(own, label="verdict", anomaly=["fraud"]), IForest(random_state=0), estimate=False
    )
    (country,) = [f for f in data_of(model, own).features if f.column.name == "country"]
    assert len(country.histogram.labels) == len(set(country.histogram.labels)) == 8


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Return a report over 300 columns with names of 80 characters."""
    rng = np.random.default_rng(0)
    columns = {
        f"{'a column with a very long name, ' * 3}"[:77] + f"{i:03}": rng.normal(size=400) for i in range(299)
    }
    assert {len(name) for name in columns} == {80}
    kind = rng.choice(["x" * 60, "other", "b"], 400)
    table = pl.DataFrame(
        {"key": [f"c1970-{i}" for i in range(400)], **columns, "kind": kind, "y": [1, 0, 0, 0] * 100}
    )
    table = table.with_columns(pl.col(next(iter(columns))) + 2 * pl.col("y"))
    detector = IForest(n_estimators=10, random_state=0)
    model = fit_table(from_table(table, label="y", id="key"), detector, estimate=False)
    target = tmp_path_factory.mktemp("wide") / "r.html"
    target.write_text(report_of(model, table), encoding="utf-8")
    return target


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_everything_fits_on_the_screen(wide, tmp_path, width, dark):
    found = probe(
        wide,
        tmp_path,
        """
        const table = document.querySelector("table.interactive");
        const cells = Array.from(table.querySelectorAll("tbody tr:first-child td"));
        const range = document.createRange();
        range.selectNodeContents(cells[2]);
        const cut = (text) => {
          const own = text.getBoundingClientRect(), chart = text.ownerSVGElement.getBoundingClientRect();
          return own.left < chart.left - 1 || own.right > chart.right + 1;
        };
        return {
          texts: document.querySelectorAll("svg text").length,
          cut: Array.from(document.querySelectorAll("svg text")).filter(cut).map((text) => text.textContent),
          width: document.documentElement.scrollWidth,
          tops: new Set(cells.map((cell) => cell.getBoundingClientRect().top)).size,
          lines: range.getClientRects().length,
          captions: document.querySelectorAll("table > caption").length / document.querySelectorAll("table").length,
          page: getComputedStyle(document.body).backgroundColor,
        };
        """,
        width=width,
        dark=dark,
    )
    assert found["width"] <= width
    # On a phone, the entries of a row are below each other.
    assert found["tops"] == (1 if width > 1000 else 8)
    assert found["lines"] == 1  # an id is not broken
    assert found["captions"] == 1
    assert found["texts"] > 20
    assert found["cut"] == []  # no label of an axis or a bar
    assert (found["page"] == "rgb(255, 255, 255)") != dark


@needs_browser
def test_tables_can_be_searched_and_sorted_and_a_threshold_tried(attacked, tmp_path):
    found = probe(
        attacked,
        tmp_path,
        """
        const [rows, columns] = document.querySelectorAll("table.interactive");
        const texts = (table, label) => Array.from(table.tBodies[0].rows).filter((row) => !row.hidden)
          .map((row) => row.querySelector(`[data-label="${label}"]`).textContent);
        const set = (input, value) => { input.value = value; input.dispatchEvent(new Event("input")); };
        const press = (table, name) => Array.from(table.querySelectorAll("th button"))
          .find((button) => button.textContent === name).click();
        const result = {};
        press(rows, "row");
        result.ascending = texts(rows, "row").map((text) => Number(text.replace(",", "")));
        press(rows, "row");
        result.descending = texts(rows, "row").map((text) => Number(text.replace(",", "")));
        press(rows, "score");
        result.scores = texts(rows, "score").map(Number);
        const [search, other] = document.querySelectorAll("input[type=search]");
        set(other, "AMOUNT");
        result.columns = texts(columns, "column");
        document.querySelector(".tools input[type=checkbox]").click();
        result.unlabelled = texts(rows, "label");
        const slider = document.querySelector(".threshold input");
        const steps = JSON.parse(document.querySelector(".threshold").dataset.steps);
        set(slider, String(steps.length - 5));
        result.step = steps[steps.length - 5];
        result.output = document.querySelector(".threshold output").textContent;
        result.spoken = slider.getAttribute("aria-valuetext");
        result.alerts = Array.from(rows.tBodies[0].rows).filter((row) => row.querySelector("[data-label=alert]")
          .textContent === "alert").length;
        return result;
        """,
    )
    assert found["ascending"] == sorted(found["ascending"])
    assert found["descending"] == found["ascending"][::-1]
    assert found["scores"] == sorted(found["scores"])
    assert found["columns"] == ["amount"]
    assert set(found["unlabelled"]) == {""}
    threshold, alerts, hits = found["step"]
    assert alerts == 5
    assert found["alerts"] == 5
    assert found["output"] == found["spoken"]
    expected = f"threshold {threshold:.4g}: 5 alerts (0.2 % of the rows); precision {20 * hits} %; recall "
    assert found["output"].startswith(expected)


def test_columns_across_the_whole_range_of_floats_are_drawn(table):
    extreme = table.with_columns(pl.when(pl.col("items") > 2).then(1e308).otherwise(-1e308).alias("amount"))
    own = from_table(extreme, label="verdict", anomaly=["fraud"])
    model = fit_table(own, IForest(random_state=0), estimate=False)
    text = report_of(model, extreme)
    assert ">amount</h3>" in text
    assert not re.search(r"[\d\" ](nan|inf)\b", "".join(re.findall("<svg.*?</svg>", text, re.DOTALL)))


def test_a_level_with_our_separator_or_quotes_stays_one_reason():
    level = "a | `b`"
    table = payments().with_columns(
        pl.when(pl.col("country") == "XX").then(pl.lit(level)).otherwise("country").alias("country")
    )
    model = fit_table(from_table(table, label="verdict", anomaly=["fraud"], id="payment"), DPLAN(**QUICK))
    text = report_of(model, table.filter(pl.col("country") == level)[:5])
    assert "<code>country</code> = &#39;a | `b`&#39;" in text
    assert "<code>b</code>" not in text
