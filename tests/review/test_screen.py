"""A verdict is about what was on the screen: the row that the reader saw when the key was pressed, and no other."""

import pytest

from dplan.review import engine
from tests.browser import needs_browser
from tests.review.browsing import LAPTOP, press, ready, shown, verdicts
from tests.serving.process import until

pytestmark = needs_browser


def ids(review):
    return [", ".join(record["row"]) for record in verdicts(review)]


def by_mouse(page):
    page.click(".chip.new")
    page.fill("#class-name", "card theft")
    page.click("#name-it")


def by_mouse_and_enter(page):
    page.click(".chip.new")
    page.keyboard.type("card theft")
    page.keyboard.press("Enter")


def by_tab_and_enter(page):
    page.focus(".chip.new")
    page.keyboard.press("Enter")
    page.keyboard.type("card theft")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")


@pytest.mark.parametrize("name", [by_mouse, by_mouse_and_enter, by_tab_and_enter])
def test_naming_a_class_decides_one_row(open_page, review, name):
    page = open_page()
    row = shown(page)
    name(page)
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=row)
    ready(page)
    for key in ("Enter", " "):  # nothing that would decide has the focus
        page.keyboard.press(key)
        page.wait_for_timeout(300)
    assert not page.is_visible("#naming")
    assert [(record["row"], record["class"]) for record in verdicts(review)] == [([row], "card theft")]


@pytest.mark.parametrize("button", [".verdict.anomaly", ".verdict.normal", ".chip >> nth=0"])
def test_a_button_that_was_clicked_does_not_decide_again(open_page, review, button):
    page = open_page()
    row = shown(page)
    page.click(button)
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=row)
    ready(page)
    for key in ("Enter", " "):
        page.keyboard.press(key)
        page.wait_for_timeout(300)
    assert ids(review) == [row]


def test_the_open_row_stays_when_the_detector_learns(open_page, review):
    page = open_page()
    for key in "anj":
        press(page, key)
    row, score = shown(page), page.inner_text(".standing b")
    review.session.refit(wait=True)
    page.wait_for_function("() => document.getElementById('activity').innerText === 'Learned once'")
    (top,) = review.session.key(review.session.queue()[0]).ids
    page.wait_for_function("top => document.querySelector('#queue .id').innerText === top", arg=top)
    assert shown(page) == row != top
    assert page.inner_text(".standing b") == score
    press(page, "n")
    saved = verdicts(review)[-1]
    assert saved["row"] == [row]
    # What is recorded is what the reader saw, not what the detector says now.
    assert (saved["round"], f"{saved['score']:.2f}") == (0, score)
    assert saved["model"] == review.session.base.digest


def test_the_open_row_stays_and_says_so_when_somebody_else_decides_it(open_page, review):
    page = open_page()
    row = shown(page)
    # A key at the very moment at which the note appears was meant for the row without it.
    page.evaluate("""() => {
      const press = () => document.querySelector('.row-note') &&
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', code: 'KeyA', bubbles: true }));
      new MutationObserver(press).observe(document.getElementById('row'), { childList: true, subtree: true });
    }""")
    number = review.session.queue()[0]
    review.session.judge([number], "normal", window="other", who="Ben")
    page.wait_for_selector(".row-note")
    assert page.inner_text(".row-note").startswith("Ben marked this row as normal")
    assert shown(page) == row
    ready(page)
    assert not page.is_visible("#conflict")
    page.keyboard.press("a")
    page.wait_for_selector("#conflict[open]")
    assert f"Ben marked {row} as normal" in page.inner_text("#conflict-text")
    page.click("#conflict [data-close]")
    assert [record["who"] for record in verdicts(review)] == ["Ben"]
    ready(page)
    press(page, "j")
    assert shown(page) != row


def test_keys_do_not_queue_up_onto_rows_that_nobody_has_seen(open_page, review):
    page = open_page()
    page.evaluate("""() => {
      window.seen = [];
      const look = () => { const id = document.querySelector('.row-id')?.innerText;
        if (id && window.seen.at(-1)?.id !== id) window.seen.push({ id, at: performance.now() }); };
      new MutationObserver(look).observe(document.getElementById('row'), { childList: true, subtree: true });
      look();
      window.asked = [];
      const ask = window.fetch;
      window.fetch = (path, options) => {
        const row = document.querySelector('.row-id').innerText;
        if (path !== '/api/verdict') return ask(path, options);
        const one = { row, at: performance.now(), answered: false };
        window.asked.push(one);
        return ask(path, options).finally(() => { one.answered = true; });
      };
    }""")
    for _ in range(50):
        page.keyboard.press("n")
    page.wait_for_function("() => window.asked.every((one) => one.answered)")
    seen, asked = page.evaluate("() => [window.seen, window.asked]")
    assert [one["row"] for one in asked] == ids(review)
    assert len(asked) < 50
    first = {one["id"]: one["at"] for one in reversed(seen)}
    assert all(one["at"] - first[one["row"]] >= 150 for one in asked[1:])


def test_a_slow_network_shows_that_a_verdict_is_being_saved(open_page, review):
    held = []
    page = open_page(routes={"**/api/verdict": lambda route: held.append(route)})
    row = shown(page)
    page.keyboard.press("a")
    page.wait_for_selector("#doing:visible")
    assert page.inner_text("#doing") == f"Saving: {row} is anomaly…"
    page.keyboard.press("n")
    page.keyboard.press("j")
    page.click(".verdict.normal")
    assert shown(page) == row
    assert len(held) == 1
    held[0].continue_()
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=row)
    ready(page)
    assert not page.is_visible("#doing")
    assert [(record["row"], record["verdict"]) for record in verdicts(review)] == [([row], "anomaly")]


class Network:
    """The way to the server, which can be cut."""

    def __init__(self):
        self.is_cut = False

    def __call__(self, route):
        if self.is_cut:
            route.abort("internetdisconnected")
        else:
            route.continue_()


def test_a_verdict_that_could_not_be_saved_is_sent_again(open_page, review):
    network = Network()
    page = open_page(routes={"**/api/**": network})
    row = shown(page)
    network.is_cut = True
    page.keyboard.press("a")
    page.wait_for_selector("#unsaved:visible")
    assert page.inner_text("#unsaved-text") == (
        f"Not saved yet: {row} is anomaly. The server does not answer; it is sent again until it is saved."
    )
    page.keyboard.press("n")
    assert (shown(page), verdicts(review)) == (row, [])
    network.is_cut = False
    page.wait_for_selector("#unsaved", state="hidden")
    ready(page)
    assert [(record["row"], record["verdict"]) for record in verdicts(review)] == [([row], "anomaly")]
    assert shown(page) != row


def test_a_verdict_that_could_not_be_saved_can_be_taken_back(open_page, review):
    network = Network()
    page = open_page(routes={"**/api/**": network})
    row = shown(page)
    network.is_cut = True
    page.keyboard.press("a")
    page.click("#take-back")
    page.wait_for_selector("#unsaved", state="hidden")
    network.is_cut = False
    ready(page)
    assert shown(page) == row
    press(page, "n")
    assert [record["verdict"] for record in verdicts(review)] == ["normal"]


def test_a_lost_answer_does_not_save_a_verdict_twice(open_page, review):
    lost = []

    def lose(route):
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch().status)
            route.abort()

    page = open_page(routes={"**/api/verdict": lose})
    row = shown(page)
    page.keyboard.press("a")
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=row)
    ready(page)
    assert lost == [200]
    assert ids(review) == [row]


def test_a_row_that_is_not_drawn_takes_no_verdict(open_page, review):
    held, is_held = [], False
    page = open_page(
        routes={"**/api/row/*": lambda route: held.append(route) if is_held else route.continue_()}
    )
    first = shown(page)
    press(page, "j")
    second = shown(page)
    press(page, "k")
    is_held = True
    page.evaluate("() => document.querySelectorAll('#queue .entry')[5].click()")
    page.wait_for_function("() => document.getElementById('row-body').innerText.startsWith('Explaining')")
    page.keyboard.press("a")
    page.wait_for_timeout(300)
    assert verdicts(review) == []
    held[0].continue_()
    ready(page)
    assert shown(page) not in (first, second)
    press(page, "a")
    assert len(verdicts(review)) == 1


def test_the_open_row_stays_when_it_leaves_the_pool(open_page, review, monkeypatch):
    page = open_page()
    press(page, "a")
    for _ in range(3):
        press(page, "j")
    row = shown(page)
    monkeypatch.setattr(engine, "POOL", 1)
    review.session.refit(wait=True)
    page.wait_for_function("() => document.getElementById('activity').innerText === 'Learned once'")
    assert shown(page) == row
    press(page, "n")
    assert ids(review)[-1] == row
    assert page.problems == []


def test_letters_of_another_layout_and_letters_that_are_switched_off(open_page, review):
    page = open_page()
    row = shown(page)
    page.evaluate(
        "() => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ф', code: 'KeyA', bubbles: true }))"
    )
    page.wait_for_function("before => document.querySelector('.row-id').innerText !== before", arg=row)
    assert [record["verdict"] for record in verdicts(review)] == ["anomaly"]
    ready(page)
    page.click("#help-open")
    page.uncheck("#letters")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.keyboard.press("1")
    page.wait_for_timeout(300)
    assert len(verdicts(review)) == 1
    page.click(".verdict.normal")
    until(lambda: len(verdicts(review)) == 2)


def test_a_verdict_names_the_row_that_was_displayed(review):
    from tests.review.serving import Client

    client = Client(review)
    first, second = client.get("/api/queue")["rows"][:2]
    status, answer = client.post("/api/verdict", row=first["row"], verdict="normal")
    assert status == 400
    status, answer = client.post("/api/verdict", row=first["row"], digest=second["digest"], verdict="normal")
    assert (status, answer["problem"]) == (409, "this row is not the one that was shown; reload the page")
    client.close()
    assert verdicts(review) == []


def test_a_note_is_in_sight_however_far_down_somebody_reads(open_page, review):
    page = open_page(viewport=LAPTOP)
    row = shown(page)
    page.evaluate("document.querySelector('details.all').open = true")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    review.session.judge(
        [review.session.queue()[0]], "normal", window="other", who="Ben", comment="ask finance"
    )
    page.wait_for_selector(".row-note")
    for selector in (".row-id", ".row-note"):
        box = page.locator(selector).bounding_box()
        assert page.locator("header.bar").bounding_box()["height"] <= box["y"] < LAPTOP["height"]
    ready(page)
    page.keyboard.press("a")
    page.wait_for_selector("#conflict[open]")
    assert (
        page.inner_text("#conflict-text")
        == f"Ben marked {row} as normal (“ask finance”). Your verdict was not saved."
    )
    page.click("#change-it")
    until(lambda: len(verdicts(review)) == 2)
    ready(page)
    page.keyboard.press("h")
    page.wait_for_selector("#history-rows tr")
    assert "before: normal (Ben: “ask finance”)" in page.inner_text("#history-rows")
