"""Small things that annoyed somebody, one test each."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import polars as pl
import pytest

from dplan.review.engine import Engine
from dplan.review.table import as_file
from dplan.review.view import open_rows, state_view
from tests.browser import needs_browser
from tests.review.browsing import DESKTOP, LAPTOP, PHONE, press, ready, shown
from tests.review.serving import Client, served
from tests.serving.process import until


@pytest.mark.parametrize("host", ["[::1", "[", "::1]", "a:b:c", "[::1]:x", ""])
def test_a_host_header_that_is_none_is_refused_without_an_error(folder, tmp_path, host):
    with served(folder, tmp_path) as page:
        client = Client(page)
        assert client.request("GET", "/api/state", headers={"Host": host})[0] in (400, 421)
        client.close()


def test_a_proxy_may_serve_the_page_under_its_name(folder, tmp_path):
    with served(folder, tmp_path, names=["review.example.org"]) as page:
        client = Client(page)
        origin = {"Host": "review.example.org", "Origin": "https://review.example.org"}
        port = f"dplan-review-80={client.token}"  # as the browser sees it
        assert client.request("GET", "/api/state", headers={**origin, "Cookie": port})[0] == 200
        assert client.request("GET", "/api/state", headers={"Host": "other.example.org"})[0] == 421
        client.close()


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_after_kill_9_no_rows_are_left_in_the_temporary_folder(folder, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [
        sys.executable, "-m", "dplan", "review", str(folder / "fraud.dplan"), str(folder / "june.csv"), "--no-browser",
        "--log", str(tmp_path / "v.jsonl"), "--model-out", str(tmp_path / "m.dplan"),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(scratch)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    client = Client(SimpleNamespace(url=process.stdout.readline().split()[-1]))
    while not client.get("/api/state")["opened"]:
        time.sleep(0.1)
    client.close()
    assert list(scratch.rglob("pool.parquet"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    # os.walk does not mind a folder that is removed while it looks.
    until(lambda: not any(name.endswith(".parquet") for *_, names in os.walk(scratch) for name in names))
    assert tempfile.gettempdir() != str(scratch)


def test_a_row_that_is_there_twice_with_its_id_is_decided_once(open_session, folder, tmp_path):
    table = pl.read_csv(folder / "june.csv", schema_overrides={"payment": pl.String})
    row = table.filter(pl.col("truth") == "fraud").sort("amount", descending=True)[:1]
    pl.concat([table, row, row]).write_csv(tmp_path / "twice.csv")
    session = open_session(tmp_path / "twice.csv")
    same = [one for one in session.queue() if session.key(one).ids == (row["payment"][0],)]
    assert len(same) == 3
    session.judge([same[0]], "anomaly", digests=[session.key(same[0]).digest])
    assert not set(same) & set(session.queue())
    assert state_view(session)["counts"]["reviewed"] == 1
    session.log.close()
    assert not set(same) & set(open_session(tmp_path / "twice.csv").queue())
    other = open_session(tmp_path / "twice.csv", log="other.jsonl")
    other.judge([same[1]], "anomaly", window="w")
    other.undo("w")
    assert set(same) <= set(other.queue())


@pytest.mark.parametrize("name", ["june.csv", "june.parquet", "june.jsonl"])
def test_opening_has_a_total(folder, tmp_path, name):
    table = pl.read_csv(folder / "june.csv")
    table = pl.concat([table] * 40, how="vertical")
    write = {"csv": table.write_csv, "parquet": table.write_parquet, "jsonl": table.write_ndjson}[
        name.split(".")[1]
    ]
    write(tmp_path / name)
    said = []
    engine = Engine(as_file(tmp_path / name, ("payment",), None, tmp_path), folder / "fraud.dplan")
    engine.open(progress=lambda *stage: said.append(stage))
    scoring = [(done, total) for stage, done, total in said if stage == "Scoring rows" and done]
    assert scoring[-1] == (120_000, 120_000)
    assert scoring[0][0] < 120_000
    assert {total for _, total in scoring} == {120_000}


@needs_browser
def test_a_filter_ends_with_escape_and_does_not_stick(open_page, review):
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("payment:copy-")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 6")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 40")
    page.fill("#filter", "payment:copy-")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 6")
    page.reload()
    ready(page)
    assert page.input_value("#filter") == ""
    assert page.locator("#queue .entry").count() == 40


@needs_browser
def test_all_columns_of_similar_rows_can_be_seen(open_page):
    page = open_page(viewport={"width": 1280, "height": 720})
    for key in "aaannn":
        press(page, key)
    assert shown(page)
    box, table = (
        page.locator("div.scroll:has(.similar)").bounding_box(),
        page.locator(".similar").bounding_box(),
    )
    assert page.locator(".similar thead tr:nth-child(2) th").count() == 6
    assert table["width"] <= box["width"] + 1


@needs_browser
def test_the_filter_is_in_sight_beside_the_first_row(open_page):
    page = open_page(viewport={"width": 1280, "height": 720})
    for key in "j" * 15 + "k" * 15:
        press(page, key)
    queue, found = page.locator("aside.queue").bounding_box(), page.locator("#filter").bounding_box()
    assert page.locator("#queue li:first-child [aria-current=true]").count() == 1
    assert found["y"] >= queue["y"]


@needs_browser
def test_the_page_says_when_it_will_learn_and_then_it_does(open_page, review):
    review.session.refit_every = 3
    page = open_page()
    for said in ("Learns in 2 verdicts", "Learns in 1 verdict", "Learned once"):
        press(page, "a")
        page.wait_for_function("said => document.getElementById('activity').innerText === said", arg=said)
    assert review.session.round.number == 1


@needs_browser
@pytest.mark.parametrize("viewport", [DESKTOP, LAPTOP])
def test_buttons_of_verdicts_stay_where_they_are(open_page, review, viewport):
    """What one click has decided, the next one decides, too: nobody looks at the button again."""
    held = []
    page = open_page(viewport=viewport, routes={"**/api/verdict": lambda route: held.append(route)})
    button = page.locator("#verdicts [data-verdict=anomaly]")
    places = [button.bounding_box()]
    assert not page.is_visible("#group")
    page.fill("#filter", "payment:copy-")
    page.keyboard.press("Enter")
    page.wait_for_selector("#group:visible")
    ready(page)
    places.append(button.bounding_box())
    page.keyboard.press("n")
    page.wait_for_selector("#doing:visible")
    places.append(button.bounding_box())
    assert places[0] == places[1] == places[2]
    held[0].continue_()


def test_rows_without_an_id_are_called_by_their_number(folder, tmp_path):
    table = pl.read_csv(folder / "june.csv").with_columns(payment=pl.lit(None, pl.String))
    table.write_csv(tmp_path / "june.csv")
    with served(folder, tmp_path, table=tmp_path / "june.csv", refit_every=0) as page:
        client = Client(page)
        first, second = client.get("/api/queue")["rows"][:2]
        assert first["id"] == f"row {first['row'] + 1:,}"
        client.judge(first, "anomaly")
        assert client.get("/api/history")["rows"][0]["id"] == first["id"]
        assert client.get(f"/api/row/{second['row']}")["id"] == second["id"] != first["id"]
        assert client.judge(second, "normal")[1]["saved"][0]["id"] == second["id"]
        client.close()


def test_a_filter_finds_missing_values(open_session, folder, tmp_path):
    table = pl.read_csv(folder / "june.csv").with_columns(
        country=pl.when(pl.int_range(pl.len()) % 1000 == 0).then(None).otherwise("country")
    )
    table.write_csv(tmp_path / "june.csv")
    rows, _, odd = open_rows(open_session(tmp_path / "june.csv"), "country=missing")
    assert (sorted(rows), odd) == ([0, 1000, 2000], [])


@needs_browser
def test_a_filter_lists_decided_rows_last_and_opens_them(open_page, review):
    page = open_page()
    row = press(page, "n")
    page.fill("#filter", f"payment={row}")
    page.wait_for_function("row => document.querySelector('.row-id').innerText === row", arg=row)
    assert (
        page.inner_text("#queue-note") == f"1 row matches in the whole table of "
        f"{len(review.session.round.scores):,}; 1 of them has a verdict"
    )
    assert page.inner_text("#queue .entry .badge") == "normal"
    assert page.inner_text(".row-note").startswith("me marked this row as normal")
    page.fill("#filter", "payment:copy-")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 6")
    page.keyboard.press("Enter")
    given = {press(page, "n") for _ in range(6)}
    assert given == {f"copy-{i}" for i in range(6)}  # and does not come back to them
    assert shown(page) == "Nothing left to look at"
    page.wait_for_function("() => document.querySelectorAll('#queue .entry .badge.normal').length === 6")
    page.fill("#filter", "no such words")
    page.wait_for_function("() => document.querySelector('.row-id').innerText === 'No row matches'")
    assert page.problems == []


@needs_browser
def test_a_key_of_a_new_class_that_comes_too_early_is_said(open_page, review):
    page = open_page()
    page.evaluate("""() => new MutationObserver(() =>
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '9', code: 'Digit9', bubbles: true }))
    ).observe(document.getElementById('row-head'), { childList: true })""")
    page.keyboard.press("j")
    page.wait_for_selector("#doing:visible")
    assert page.inner_text("#doing").startswith("That was too quick")
    assert not page.is_visible("#naming")
    ready(page)
    page.keyboard.press("9")
    page.wait_for_selector("#naming[open]")


@needs_browser
def test_a_table_with_many_columns_can_be_read_in_context(browser, folder, tmp_path):
    table = pl.read_csv(folder / "june.csv")
    table.with_columns(**{f"some_rather_long_name_{i}": pl.lit("one and another word") for i in range(20)}).write_csv(
        tmp_path / "wide.csv"
    )  # fmt: skip
    with served(folder, tmp_path, table=tmp_path / "wide.csv", refit_every=0) as review:
        context = browser.new_context(viewport=LAPTOP)
        page = context.new_page()
        page.goto(review.url)
        ready(page)
        page.select_option(".context select", "country")
        page.wait_for_selector(".context tbody tr")
        heights = page.eval_on_selector_all(
            ".context tr", "rows => rows.map((row) => row.getBoundingClientRect().height)"
        )
        assert max(heights) < 60
        assert page.evaluate("document.documentElement.scrollWidth") <= LAPTOP["width"]
        context.close()


@needs_browser
def test_opening_says_how_much_is_done_and_how_long_it_will_take(browser, review):
    stage = {"name": "Scoring rows", "done": 50_000, "total": 200_000, "seconds": 10.0}
    state = state_view(review.session) | {"opened": False, "stage": stage, "people": [], "reading": False}
    context = browser.new_context()
    page = context.new_page()
    page.route("**/api/state*", lambda route: route.fulfill(json=state))
    page.goto(review.url)
    page.wait_for_function("() => document.getElementById('opening-stage').innerText")
    assert page.inner_text("#opening-stage") == "Scoring rows: 50,000 of 200,000 · 10 s, about 30 s left"
    bar = page.locator("#opening progress")
    assert (bar.get_attribute("value"), bar.get_attribute("max")) == ("50000", "200000")
    assert not page.is_visible("#verdicts")
    context.close()


@needs_browser
@pytest.mark.parametrize("viewport", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_help_begins_with_its_beginning(open_page, viewport):
    page = open_page(viewport=viewport)
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    assert page.locator("#help-title").bounding_box()["y"] > 0
    assert page.evaluate("document.activeElement.innerText") == "Close"
