"""Several people at one table: each gets other rows, what they agree on is recorded, and each undoes their own."""

import pytest

from dplan.review.log import Refused
from tests.browser import needs_browser
from tests.review.browsing import press, ready, shown, verdicts
from tests.review.serving import Client, served


@pytest.fixture
def page(folder, tmp_path):
    with served(folder, tmp_path, refit_every=0) as page:
        yield page


def test_each_person_gets_other_rows(page):
    anna, ben = Client(page, "w1"), Client(page, "w2")
    for client, who in ((anna, "Anna"), (ben, "Ben")):
        client.get(f"/api/state?version=&window={client.window}&who={who}")
    given = []
    for _ in range(10):  # at the same time: neither knows what the other one is about to decide
        rows = [client.get(f"/api/queue?window={client.window}")["rows"][0] for client in (anna, ben)]
        assert rows[0]["row"] != rows[1]["row"]
        for client, row in zip((anna, ben), rows, strict=True):
            assert client.judge(row, "normal")[0] == 200
        given += rows
    assert len({row["row"] for row in given}) == 20
    top = page.session.round.order[:30].tolist()
    assert {row["row"] for row in given} <= set(top)  # nobody was sent far down for that
    assert anna.get("/api/state?version=")["people"] == ["Anna", "Ben"]
    for client in (anna, ben):
        client.close()


def test_a_row_that_somebody_reads_is_not_asked_again(page):
    anna, ben = Client(page, "w1"), Client(page, "w2")
    anna.get("/api/state?version=&window=w1")
    row = ben.get("/api/queue?window=w2")["rows"][0]["row"]
    anna.get(f"/api/state?version=&window=w1&open={row}")
    ben.get("/api/state?version=&window=w2")
    assert row not in [entry["row"] for entry in ben.get("/api/queue?window=w2")["rows"]]
    # Nothing is out of reach: the row is at the end of the queue.
    left = len(page.session.queue())
    assert row in [entry["row"] for entry in ben.get(f"/api/queue?window=w2&start={left - 20}")["rows"]]
    for client in (anna, ben):
        client.close()


def test_agreement_is_recorded_and_disagreement_is_a_list(page):
    anna, ben = Client(page, "w1"), Client(page, "w2")
    same, other = anna.get("/api/queue")["rows"][:2]
    for row in (same, other):
        anna.judge(row, "normal", who="Anna", comment="as always")
    assert ben.judge(same, "normal", who="Ben")[0] == 200
    status, answer = ben.judge(other, "anomaly", who="Ben")
    assert (status, answer["current"]["who"]) == (409, "Anna")
    assert ben.judge(other, "anomaly", who="Ben", replaces=answer["current"]["n"])[0] == 200
    history = ben.get("/api/history")
    assert (history["twice"], history["split"]) == (2, 1)
    (listed,) = ben.get("/api/history?split=1")["rows"]
    assert (listed["row"], listed["who"], listed["earlier"][0]["comment"]) == (
        other["row"],
        "Ben",
        "as always",
    )
    for client in (anna, ben):
        client.close()


def test_undo_knows_a_person_in_another_browser_and_nobody_else(page):
    desk, phone, ben = (Client(page, name) for name in ("desk", "phone", "bens"))
    first, second, third = desk.get("/api/queue")["rows"][:3]
    desk.judge(first, "normal", who="Anna")
    ben.judge(second, "normal", who="Ben")
    desk.judge(third, "anomaly")  # without a name, a verdict belongs to the window
    status, answer = phone.post("/api/undo", who="Anna")
    assert (status, answer["undone"][0]["number"]) == (200, first["row"])
    status, answer = phone.post("/api/undo", who="Anna")
    assert (status, answer["problem"]) == (
        409,
        "there is nothing to undo in this window, nor under this name",
    )
    assert desk.post("/api/undo")[1]["undone"][0]["number"] == third["row"]
    with pytest.raises(Refused):
        page.session.undo("elsewhere")
    assert list(page.session.judged()) == [second["row"]]
    for client in (desk, phone, ben):
        client.close()


@needs_browser
def test_two_people_see_each_other_and_different_rows(open_page, review):
    anna, ben = open_page(), open_page()
    for page, name in ((anna, "Anna"), (ben, "Ben")):
        page.click("#me")
        page.fill("#who", name)
        page.keyboard.press("Escape")
    anna.wait_for_function("() => document.getElementById('me').innerText === 'You are Anna, with Ben'")
    ben.wait_for_function("() => document.getElementById('me').innerText === 'You are Ben, with Anna'")
    for page in (anna, ben):  # each is told of the other
        press(page, "n")
    for _ in range(3):
        assert shown(anna) != shown(ben)
        for page in (anna, ben):
            press(page, "n")
        for page in (anna, ben):
            ready(page)
    given = verdicts(review)[2:]
    assert len({record["row"][0] for record in given}) == len(given) == 6
    assert {record["who"] for record in given} == {"Anna", "Ben"}
    assert not anna.problems
    assert not ben.problems
