"""Kinds in the report and on their own page, in a real browser."""

import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.rules.file import RuleFile
from dplan.rules.muting import muted
from tests.browser import chromium, needs_browser
from tests.kinds.alarms import alarms, alarms_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    alarms_model().save(folder / "m.dplan")
    alarms(seed=2).drop("verdict").write_csv(folder / "new.csv")
    dplan.kinds(alarms_model(), alarms(), folder / "kinds.json", budget=90, n_kinds=3)
    return folder


@needs_browser
def test_one_click_filters_the_alerts_by_kind(folder, tmp_path):
    line = [
        "report",
        folder / "m.dplan",
        folder / "new.csv",
        "--budget",
        90,
        "--kinds",
        folder / "kinds.json",
    ]
    done = CliRunner().invoke(main, [*map(str, line), "-o", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.output
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"file://{tmp_path}/r.html")
        headings = page.locator("h2").all_inner_texts()
        assert headings.index("Kinds of alerts") < headings.index("The most anomalous rows")
        rows = page.locator("table.interactive").first.locator("tbody tr:visible")
        assert rows.count() == 90
        page.get_by_role("button", name="like night").click()
        assert 25 <= rows.count() <= 35
        assert {row.get_attribute("data-kind") for row in rows.all()} == {"like night"}
        page.get_by_role("button", name="all kinds").click()
        assert rows.count() == 90


def test_muted_rows_are_counted_and_not_shown(folder, tmp_path):
    rules = RuleFile.load(folder / "kinds.json")
    muted(rules, rules.named("like night"), owner="ann", reason="night shift").save(tmp_path / "k.json")
    text = dplan.report(folder / "m.dplan", folder / "new.csv", budget=60, kinds=tmp_path / "k.json")
    assert "rows would be alerts, but their kinds are muted." in text
    assert 'data-kind="like night"' not in text
    assert 'class="threshold"' not in text


@needs_browser
def test_the_page_of_kinds_escapes_what_it_shows(tmp_path):
    table = alarms().rename({"country": "<script>alert(1)</script>"})
    table = table.with_columns(table["truth"].replace("abroad", "<b>bold</b>").alias("verdict"))
    rows = table.drop("truth", "payment")
    own = dplan.tables.from_table(rows, label="verdict", anomaly=["<b>bold</b>", "night", "many"])
    model = dplan.tables.fit_table(own, dplan.LogisticBaseline(), estimate=False)
    dplan.kinds(model, rows, tmp_path / "k.html", budget=90, n_kinds=3)
    text = (tmp_path / "k.html").read_text("utf-8")
    assert "like &lt;b&gt;bold&lt;/b&gt;" in text
    assert "<b>bold" not in text
    assert "<script>alert" not in text
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        page.goto(f"file://{tmp_path}/k.html")
        page.get_by_text("SQL for DuckDB").first.click()
        assert page.locator("details[open] pre").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not errors
