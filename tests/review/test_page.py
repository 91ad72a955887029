"""The page in a real browser: every key, undo, groups, filter, slider, phones, dark mode, keyboards and readers."""

import re
import sys

import polars as pl
import pytest
from axe_core_python.sync_playwright import Axe

from dplan import LogisticBaseline
from dplan.review.progress import FEWEST, threshold_view
from dplan.review.view import queue_view
from dplan.tables.model import TableModel
from tests.browser import needs_browser
from tests.conftest import PROJECT
from tests.review.browsing import DESKTOP, LAPTOP, PHONE, press, ready, shown, verdicts
from tests.review.pictures import SIZES, take
from tests.review.serving import Client
from tests.serving.process import until

pytestmark = needs_browser


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
    ready(page)
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
    ready(page)
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


def copies(page):
    """Show the six copies in the queue, and one of them on the screen."""
    page.fill("#filter", "payment:copy-")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry').length === 6")
    page.keyboard.press("Enter")
    assert page.inner_text("#queue-note").startswith("6 rows match")
    page.wait_for_function("() => document.querySelector('.row-id').innerText.startsWith('copy-')")
    page.wait_for_selector("#group:visible")
    ready(page)


def in_table(page):
    """Open the table of near duplicates; return the ids in it, and those that are checked."""
    page.keyboard.press("g")
    page.wait_for_selector("#grouped[open][aria-busy=false]")
    rows = page.locator("#grouped-rows tr")
    checked = rows.filter(has=page.locator("input:checked"))
    return rows.locator("th").all_inner_texts(), checked.locator("th").all_inner_texts()


def test_a_group_is_decided_in_a_table_that_shows_what_one_key_will_decide(open_page, review):
    page = open_page()
    copies(page)
    anchor = shown(page)
    listed, checked = in_table(page)
    assert listed == checked
    assert listed[0] == anchor
    assert {f"copy-{i}" for i in range(6)} <= set(listed)
    n = len(listed)
    assert page.inner_text("#grouped-count") == f"One key decides these {n} checked rows:"
    left_out = page.locator("#grouped-rows tr", has_text="copy-3")
    left_out.locator("input").uncheck()
    assert page.inner_text("#grouped-count") == f"One key decides these {n - 1} checked rows:"
    page.keyboard.press("a")
    page.wait_for_selector("#grouped", state="hidden")
    page.wait_for_function("() => document.querySelectorAll('#queue .entry:not(:has(.badge))').length === 1")
    given = verdicts(review)
    assert {row for record in given for row in record["row"]} == set(listed) - {"copy-3"}
    assert {(record["verdict"], record["together"]) for record in given} == {("anomaly", n - 1)}
    ready(page)
    page.keyboard.press("z")  # all of them at once
    page.wait_for_function("() => document.querySelectorAll('#queue .entry:not(:has(.badge))').length === 6")
    assert review.session.judged() == {}
    assert page.problems == []


def test_a_group_gets_a_class_by_its_key_and_by_its_name(open_page, review):
    page = open_page()
    copies(page)
    in_table(page)
    page.click("#group-all")  # none
    assert page.inner_text("#grouped-count") == "Check the rows to decide."
    assert page.locator("#grouped-verdicts .verdict.anomaly").is_disabled()
    page.click("#grouped-rows tr >> nth=1")  # anywhere in the row
    page.click("#group-classes .chip.new")
    page.fill("#class-name", "test card")
    page.keyboard.press("Enter")
    until(lambda: len(verdicts(review)) == 1)
    assert verdicts(review)[0]["class"] == "test card"
    ready(page)
    in_table(page)
    page.keyboard.press("2")  # fraud is the first class
    page.wait_for_selector("#grouped", state="hidden")
    until(lambda: len(verdicts(review)) > 1)
    assert {record["class"] for record in verdicts(review)} == {"test card"}


def test_a_key_before_the_table_was_seen_decides_nothing(open_page, review):
    page = open_page()
    copies(page)
    page.evaluate("""() => {
      const table = document.getElementById('grouped');
      const early = () => table.open && table.getAttribute('aria-busy') === 'true' &&
        table.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', code: 'KeyA' }));
      new MutationObserver(early).observe(table, { childList: true, subtree: true, attributes: true });
    }""")
    in_table(page)
    assert page.is_visible("#grouped")
    assert verdicts(review) == []


def test_a_group_in_which_somebody_else_has_decided_a_row_is_shown_again(open_page, review):
    page = open_page()
    copies(page)
    listed, _ = in_table(page)
    (row,) = (row for row in review.session.queue() if review.session.key(row).ids == ("copy-4",))
    review.session.judge([row], "normal", window="other", who="Ben")
    page.keyboard.press("a")
    page.wait_for_function(
        "() => document.getElementById('grouped-said').innerText.startsWith('Ben marked copy-4')"
    )
    assert len(verdicts(review)) == 1
    assert page.locator("#grouped-rows th").all_inner_texts() == [name for name in listed if name != "copy-4"]
    page.wait_for_timeout(300)
    page.keyboard.press("a")
    page.wait_for_selector("#grouped", state="hidden")
    until(lambda: len(verdicts(review)) == len(listed))


def test_after_a_find_its_near_duplicates_come_next(open_page, review):
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
    alike = review.session.round.group(next(iter(review.session.judged())))
    assert shown(page) in {review.session.key(row).ids[0] for row in alike}


def test_every_entry_has_its_first_reason_and_every_row_can_be_reached(open_page, review):
    page = open_page()
    page.wait_for_function(
        "() => [...document.querySelectorAll('#queue .why')].every((why) => why.innerText)"
    )
    first = page.get_attribute("#queue .why bdi", "title")
    assert first.startswith("`")
    assert page.inner_text(".reason h3") in first
    total = len(review.session.round.scores)
    assert (
        page.inner_text("#queue-note")
        == f"Rows 1–40. {total:,} rows without a verdict, of {total:,} in the table"
    )
    page.locator("#queue .entry").last.click()
    before = page.locator("#queue .entry .id").last.inner_text()
    page.wait_for_function("id => document.querySelector('.row-id').innerText === id", arg=before)
    press(page, "j")  # into the next part
    assert page.inner_text("#queue-note").startswith("Rows 41–80.")
    press(page, "k")
    assert shown(page) == before
    seen = [
        entry["row"]
        for start in range(0, total, 40)
        for entry in queue_view(review.session, start=start)["rows"]
    ]
    assert sorted(seen) == list(range(total))
    # The last row of the table, far outside the pool, is decided like any other.
    last = queue_view(review.session, start=total)["rows"][-1]
    assert last["row"] not in review.session.round.places
    client = Client(review)
    assert client.judge(last, "normal")[0] == 200
    client.close()
    assert page.problems == []


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


def test_the_next_row_comes_from_the_top_even_if_the_queue_hears_of_a_refit_before_the_rest_of_the_page(
    open_page, review
):
    holding, held = set(), {"state": [], "queue": []}

    def network(route):
        url = route.request.url
        name = "queue" if "/api/queue" in url else "state" if "version=&" not in url else ""
        if name in holding:
            held[name].append(route)
        else:
            route.continue_()

    def let_go(name):
        holding.discard(name)
        for route in held[name]:
            route.continue_()

    page = open_page(routes={"**/api/state*": network, "**/api/queue*": network})
    for key in "anjjj":
        press(page, key)
    fifth = page.locator("#queue .entry .id").all_inner_texts()[4]
    holding |= {"state", "queue"}
    press(page, "n")
    until_held(page, held["state"])
    until_held(page, held["queue"])
    assert review.session.refit(wait=True)
    let_go("queue")  # of the new round, on a page that has the state before it
    (top,) = review.session.key(review.session.queue()[0]).ids
    page.wait_for_function("top => document.querySelector('#queue .id').innerText === top", arg=top)
    let_go("state")
    page.wait_for_function("() => document.getElementById('activity').innerText.startsWith('Learned')")
    assert press(page, "n") == fifth != top
    assert shown(page) == top


def until_held(page, requests):
    for _ in range(1_200):
        if requests:
            return
        page.wait_for_timeout(25)
    pytest.fail("the page did not ask")


def test_the_threshold_is_that_of_the_model_until_the_slider_is_moved(open_page, review):
    page = open_page()
    press(page, "a")
    learned(page)
    view = threshold_view(review.session)
    assert view["threshold"] != review.session.previous.model.threshold
    alerts = next(level["alerts"] for level in view["volume"] if level["score"] <= view["threshold"])
    page.wait_for_function("n => document.getElementById('volume').innerText.startsWith(`${n} `)", arg=alerts)


def test_the_threshold_shows_alerts_and_precision_and_goes_into_the_model(open_page, review):
    page = open_page()
    for key in "aan":
        press(page, key)
    slider = page.locator("#threshold")
    slider.focus()
    page.keyboard.press("End")  # half of the table
    expected = f"3 reviewed, 2 of them anomalies; after {FEWEST} verdicts"
    page.wait_for_function(
        "text => document.getElementById('threshold-note').innerText.includes(text)", arg=expected
    )
    assert page.inner_text("#volume").startswith("1,504 (50 %)")
    page.keyboard.press("Home")
    assert page.inner_text("#volume").startswith("1 (")
    assert slider.get_attribute("aria-valuetext").startswith("1 alert at")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    page.click("#use-threshold")
    page.wait_for_function(
        "() => document.getElementById('threshold-said').innerText.startsWith('new.dplan now')"
    )
    model = TableModel.load(review.model_path)
    alerts = int((review.session.round.scores >= model.threshold).sum())
    assert page.inner_text("#volume").startswith(f"{alerts} (")
    assert f"alerts: {alerts} in this table" in page.inner_text("#threshold-said")
    for row in review.session.queue()[: FEWEST - 3]:
        review.session.judge([row], "normal", window="other")
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_function(
        "() => document.getElementById('threshold-note').innerText.includes('90 % interval')"
    )


def ask_no_more(page):
    """Have a window no longer ask for news, and wait for the answer that may be under way."""
    ready(page)
    page.evaluate("""() => {
      const later = window.setTimeout;
      for (let i = later(() => 0); i; i--) clearTimeout(i);
      window.setTimeout = (job, ...more) => (job.name === "poll" ? 0 : later(job, ...more));
    }""")
    page.wait_for_load_state("networkidle")


def test_two_windows_contradict_each_other(open_page, review):
    one, two = open_page(), open_page()
    row = shown(one)
    two.fill("#filter", f"payment={row}")  # the queue has other rows for each window
    two.wait_for_function("row => document.querySelector('.row-id').innerText === row", arg=row)
    two.keyboard.press("Enter")
    ready(two)
    ask_no_more(two)
    press(one, "a")
    assert shown(two) == row
    two.keyboard.press("n")
    two.wait_for_selector("#conflict[open]")
    assert f"me marked {row} as anomaly" in two.inner_text("#conflict-text")
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
    # The row on the screen stays, whether or not it is in the part of the new queue that is listed.
    assert two.locator("#queue .entry[aria-current] .id").all_inner_texts() in ([], [shown(two)])
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
    page.wait_for_function("() => document.querySelector('.row-id').innerText.startsWith('<img src=x')")
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
@pytest.mark.parametrize("viewport", [DESKTOP, LAPTOP, PHONE], ids=["desktop", "laptop", "phone"])
def test_the_page_is_accessible_and_fits(open_page, scheme, viewport):
    page = open_page(viewport=viewport, color_scheme=scheme, has_touch=viewport is PHONE)
    for key in "an":
        press(page, key)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", background)[:3])) > 380
    assert light == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    for selector in ("#verdicts .anomaly", "#verdicts .normal", "#undo"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= viewport["height"]  # in sight without scrolling
        assert box["height"] >= (40 if viewport is PHONE else 28)
    page.evaluate("document.querySelector('details.all').open = true")
    assert unfit(page) == []
    for key, dialog in {"?": "help", "h": "history"}.items():
        page.keyboard.press(key)
        page.wait_for_selector(f"#{dialog}[open]")
        assert unfit(page) == []
        page.keyboard.press("Escape")
    copies(page)
    in_table(page)
    assert unfit(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def unfit(page):
    """Return what somebody could not read or reach."""
    return [(v["id"], v["nodes"][0]["html"][:100]) for v in Axe().run(page)["violations"]]


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
