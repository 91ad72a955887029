"""The page in a real browser: every key, undo, groups, filter, slider, phones, dark mode, keyboards and readers."""

import re
import shutil
import sys

import polars as pl
import pytest
from axe_core_python.sync_playwright import Axe

from dplan import LogisticBaseline
from dplan.review.engine import Engine
from dplan.review.log import read_log
from dplan.review.table import as_file
from dplan.review.view import threshold_view
from tests.browser import chromium, needs_browser
from tests.conftest import PROJECT
from tests.review.pictures import SIZES, take
from tests.review.serving import served
from tests.serving.process import until

pytestmark = needs_browser

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def table(folder, tmp_path_factory):
    """The payments, one of which is there several times, and one has hostile text."""
    table = pl.read_csv(folder / "june.csv", schema_overrides={"payment": pl.String})
    row = table.filter(pl.col("truth") == "fraud").sort("amount", descending=True)[:1]
    copies = pl.concat([row] * 6).with_columns(
        payment=pl.Series([f"copy-{i}" for i in range(6)]), amount=row["amount"][0] + pl.int_range(6) * 0.01
    )
    bad = row.with_columns(
        payment=pl.lit("<img src=x onerror=\"document.title='owned'\">"), amount=pl.col("amount") * 1.5
    )
    path = tmp_path_factory.mktemp("page") / "june.csv"
    pl.concat([table, copies, bad]).write_csv(path)
    return path


@pytest.fixture
def review(folder, table, tmp_path):
    own = tmp_path / "june.csv"
    shutil.copy(table, own)
    maker = Engine(as_file(own, ("payment",), None, tmp_path), folder / "fraud.dplan")
    with served(folder, tmp_path, table=own, refit_every=0, maker=maker) as review:
        yield review


@pytest.fixture
def open_page(browser, review):
    """Open the page in a new window; its errors and requests are collected."""
    contexts = []

    def opened(**options):
        context = browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # on a busy machine
        page.problems, page.asked = [], []
        page.on(
            "console", lambda message: page.problems.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(review.url)
        page.wait_for_selector(".reason")
        return page

    yield opened
    for context in contexts:
        context.close()


def shown(page):
    return page.inner_text(".row-id")


def press(page, key):
    """Press a key and wait until the page has dealt with it."""
    before = shown(page)
    page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('.row-id')?.innerText !== before", arg=before)
    return before


def verdicts(review):
    kinds = ("verdict", "undo")
    return [record for record in read_log(review.log) if record["kind"] in kinds]


def test_every_key(open_page, review):
    page = open_page()
    first = press(page, "a")
    second = press(page, "n")
    third = press(page, "u")
    given = verdicts(review)
    assert [record["verdict"] for record in given] == ["anomaly", "normal", "unsure"]
    assert [", ".join(record["row"]) for record in given] == [first, second, third]
    assert all(record["reasons"] for record in given)
    fourth = press(page, "1")  # the class that the model knows
    assert verdicts(review)[-1]["class"] == "fraud"
    page.keyboard.press("2")  # a new class is named once, then it has a key
    page.fill("#class-name", "card theft")
    fifth = shown(page)
    page.keyboard.press("Enter")
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=fifth)
    assert verdicts(review)[-1]["class"] == "card theft"
    press(page, "2")
    assert [record["class"] for record in verdicts(review)[-2:]] == ["card theft", "card theft"]
    top = press(page, "j")
    press(page, "k")
    assert shown(page) == top
    press(page, "ArrowDown")
    press(page, "ArrowUp")
    assert shown(page) == top
    press(page, "z")
    assert verdicts(review)[-1]["kind"] == "undo"
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("a")  # a key in a dialog is not a verdict
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")
    assert page.input_value("#who") == ""  # nor part of a name
    assert verdicts(review)[-1]["kind"] == "undo"
    page.keyboard.press("/")
    page.keyboard.type("an n")
    assert page.input_value("#filter") == "an n"  # nor is one in the filter
    page.keyboard.press("Escape")
    page.keyboard.press("Control+a")
    assert verdicts(review)[-1]["kind"] == "undo"
    page.keyboard.press("r")
    page.wait_for_function("() => document.getElementById('activity').innerText.startsWith('Learned')")
    assert review.session.round.number == 1
    assert fourth != fifth
    assert page.problems == []


def test_keys_right_after_a_dialog(open_page, review):
    """The browser takes the focus from a closed dialog when it draws next; fast fingers are earlier."""
    page = open_page()
    for _ in range(10):
        page.keyboard.press("?")
        page.focus("#who")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("an n")
        assert page.input_value("#filter") == "an n"
        page.keyboard.press("Escape")
    assert verdicts(review) == []


def test_undo_across_a_refit(open_page, review):
    page = open_page()
    row = press(page, "a")
    press(page, "n")
    press(page, "z")
    page.keyboard.press("r")
    page.wait_for_function("() => document.getElementById('activity').innerText.startsWith('Learned')")
    press(page, "z")
    assert shown(page) == row
    assert review.session.judged() == {}


def test_near_duplicates_get_a_verdict_with_one_key(open_page, review):
    page = open_page()
    page.fill("#filter", "payment:copy-")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 6")
    page.keyboard.press("Enter")
    assert page.inner_text("#queue-note").startswith("6 rows match")
    assert not page.is_visible("#group")
    press(page, "a")
    press(page, "a")
    page.wait_for_selector("#group:visible")
    page.keyboard.press("g")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 0")
    judged = list(review.session.judged().values())
    assert {record["verdict"] for record in judged} == {"anomaly"}
    assert len(judged) >= 6
    together = verdicts(review)[-1]["together"]
    page.keyboard.press("z")  # all of them at once
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length > 0")
    assert len(review.session.judged()) == len(judged) - together
    assert len(verdicts(review)[-1]["of"]) == together


def test_after_a_find_its_near_duplicates_come_next_and_then_one_key_decides_them(open_page, review):
    page = open_page()
    copy = review.session.round.pool.filter(pl.col("payment") == "copy-0")
    page.fill("#filter", f"items={copy['items'][0]} country={copy['country'][0]}")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length < 40")
    page.keyboard.press("Enter")
    entries = page.locator("#queue .entry .id").all_inner_texts()
    last = max(place for place, name in enumerate(entries) if name.startswith("copy-"))
    assert last < len(entries) - 1
    page.locator("#queue .entry").nth(last).click()
    page.wait_for_function("name => document.querySelector('.row-id').innerText === name", arg=entries[last])
    press(page, "a")
    alike = review.session.group(next(iter(review.session.judged())))
    assert shown(page) in {review.session.key(row).ids[0] for row in alike}
    press(page, "a")
    page.wait_for_selector("#group:visible")


def learned(page):
    page.keyboard.press("r")
    page.wait_for_function("() => document.getElementById('activity').innerText.startsWith('Learned')")


def test_after_a_refit_the_next_row_comes_from_the_top(open_page, review):
    page = open_page()
    for key in "anjjj":  # the reviewer goes down the queue, and would go on there
        press(page, key)
    fourth, fifth = page.locator("#queue .entry .id").all_inner_texts()[3:5]
    assert press(page, "n") == fourth
    assert shown(page) == fifth
    learned(page)
    (top,) = review.session.key(review.session.queue()[0]).ids
    page.wait_for_function("top => document.querySelector('#queue .id').innerText === top", arg=top)
    assert press(page, "n") == fifth != top
    assert shown(page) == top


def test_the_threshold_is_that_of_the_model_until_the_slider_is_moved(open_page, review):
    page = open_page()
    press(page, "a")
    learned(page)
    view = threshold_view(review.session)
    assert view["threshold"] != review.session.previous.model.threshold
    alerts = next(volume for score, volume in view["volume"] if score <= view["threshold"])
    page.wait_for_function("n => document.getElementById('volume').innerText.startsWith(`${n} `)", arg=alerts)


def test_the_threshold_shows_alerts_and_precision(open_page, review):
    page = open_page()
    for key in "aan":
        press(page, key)
    slider = page.locator("#threshold")
    slider.focus()
    page.keyboard.press("End")  # half of the table
    expected = "67 % of 3 reviewed alerts are anomalies"
    page.wait_for_function(
        "text => document.getElementById('threshold-note').innerText.includes(text)", arg=expected
    )
    assert page.inner_text("#volume").startswith("1,504 (50 %)")
    page.keyboard.press("Home")
    assert page.inner_text("#volume").startswith("1 (")
    assert slider.get_attribute("aria-valuetext").startswith("1 alerts")


def ask_no_more(page):
    """Have a window no longer ask for news, and wait for the answer that may be under way."""
    page.evaluate("for (let i = setTimeout(() => 0); i; i--) clearTimeout(i); window.setTimeout = () => 0")
    page.wait_for_load_state("networkidle")


def test_two_windows_contradict_each_other(open_page, review):
    one, two = open_page(), open_page()
    ask_no_more(two)
    row = press(one, "a")
    assert shown(two) == row
    two.keyboard.press("n")
    two.wait_for_selector("#conflict[open]")
    assert f"me marked {row} as anomaly in another window" in two.inner_text("#conflict-text")
    two.click("#change-it")
    two.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=row)
    until(lambda: [record["verdict"] for record in verdicts(review)] == ["anomaly", "normal"])


def test_a_stale_window_goes_on_after_a_refit(open_page, review):
    one, two = open_page(), open_page()
    ask_no_more(two)
    press(one, "a")
    one.keyboard.press("r")
    one.wait_for_function("() => document.getElementById('activity').innerText.startsWith('Learned')")
    press(two, "j")
    row = press(two, "n")  # of the old queue
    two.wait_for_function("() => document.getElementById('activity').innerText === 'Learned once'")
    assert (verdicts(review)[-1]["row"], verdicts(review)[-1]["round"]) == ([row], 1)
    assert two.inner_text("#queue .entry[aria-current] .id") == shown(two)
    assert two.problems == []


def test_a_table_that_changes_is_said_and_verdicts_still_count(open_page, review):
    page = open_page()
    with review.table.path.open("a", encoding="utf-8") as file:
        file.write("\n")
    press(page, "a")
    page.wait_for_selector("#banner:visible")
    assert "june.csv has changed since it was opened. Verdicts are still saved" in page.inner_text("#banner")
    press(page, "n")
    page.wait_for_selector("#banner:visible")
    assert len(verdicts(review)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits on this system")
def test_a_full_disk_is_said_and_the_row_stays(open_page, review):
    import resource

    page = open_page()
    row, before = shown(page), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (review.log.stat().st_size + 100, before[1]))
    try:
        page.keyboard.press("a")
        page.wait_for_selector("#banner:visible")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert page.inner_text("#banner").startswith("not saved: cannot write to")
    assert (shown(page), verdicts(review)) == (row, [])
    press(page, "a")
    page.wait_for_selector("#banner", state="hidden")
    assert len(verdicts(review)) == 1


def test_hostile_text_is_text(open_page):
    page = open_page()
    page.fill("#filter", "onerror")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 1")
    assert shown(page).startswith("<img src=x")
    assert page.title() == "june.csv · dplan review"
    assert page.locator("#row img, #queue img").count() == 0


def test_nothing_leaves_the_machine(open_page, review):
    page = open_page()
    press(page, "a")
    page.click("#finish")
    page.wait_for_selector("#finished[open]")
    own = review.url.split("?")[0]
    assert page.asked
    assert [url for url in page.asked if not url.startswith((own, "data:"))] == []
    assert page.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_is_accessible_and_fits(open_page, scheme, viewport):
    page = open_page(viewport=viewport, color_scheme=scheme, has_touch=viewport is PHONE)
    for key in "an":
        press(page, key)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", background)[:3])) > 380
    assert light == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    for selector in (".verdict.anomaly", ".verdict.normal", "#undo"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= viewport["height"]  # in sight without scrolling
        assert box["height"] >= (40 if viewport is PHONE else 28)
    page.evaluate("document.querySelector('details.all').open = true")
    found = Axe().run(page)["violations"]
    assert [
        (v["id"], v["nodes"][0]["html"][:100]) for v in found if v["impact"] in ("serious", "critical")
    ] == []
    page.keyboard.press("?")
    found = Axe().run(page)["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []


def test_touch_alone_is_enough(open_page, review):
    page = open_page(viewport=PHONE, has_touch=True, is_mobile=True)
    before = shown(page)
    page.tap(".verdict.anomaly")
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=before)
    page.tap("#undo")
    page.wait_for_function("before => document.querySelector('.row-id').innerText === before", arg=before)
    page.tap("#queue li:nth-child(2) .entry")
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=before)
    assert [record["kind"] for record in verdicts(review)] == ["verdict", "undo"]


def test_the_keyboard_alone_reaches_everything(open_page):
    page = open_page()
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"filter", "refit", "help-open", "finish", "threshold", "undo", "entry", "chip"} <= reached
    assert {"verdict anomaly", "verdict normal", "verdict unsure"} <= reached
    roles = page.locator("[role=status], main, aside[aria-label], [role=toolbar]")
    assert roles.count() >= 6
    press(page, "a")
    assert re.match(r"Saved: .* is anomaly\. Next: ", page.inner_text("#said"))


def test_a_lost_server_is_said(open_page, review):
    page = open_page()
    review._server.should_exit = True
    review._serving.join(600)
    page.keyboard.press("a")
    page.wait_for_selector("#banner:visible")
    assert "The server does not answer" in page.inner_text("#banner")
    assert verdicts(review) == []


def test_the_pictures_of_the_docs_can_be_taken(tmp_path, browser):
    take(tmp_path, browser, LogisticBaseline())
    assert {path.name for path in tmp_path.iterdir()} == set(SIZES)
    for name in SIZES:
        docs = PROJECT / "docs" / "images" / name
        assert (tmp_path / name).stat().st_size > 20_000
        assert docs.exists() == (name in (PROJECT / "docs" / "reviewing.md").read_text(encoding="utf-8"))
