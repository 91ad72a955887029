"""Kinds on the review page: their names, a queue of one kind, and a verdict for the rest of a kind."""

import datetime
from urllib.parse import urlsplit

import pytest

from dplan.exceptions import VerdictLogError
from dplan.review.engine import Engine
from dplan.review.export import count_lines
from dplan.review.log import Standing, read_log
from dplan.review.table import as_file
from dplan.rules.file import Kind, RuleFile
from dplan.rules.muting import muted
from dplan.rules.rule import Condition, Rule
from tests.browser import needs_browser
from tests.review.browsing import PHONE, press, ready, shown, verdicts
from tests.review.serving import Client, served

FOREIGN = "foreign <b>"  # 60 payments, all of them fraud


def rule_file():
    foreign = Kind(FOREIGN, Rule((Condition("country", "text", values=("XX",)),)))
    many = Kind("many items", Rule((Condition("items", "integer", at_least=5),)))
    return RuleFile({"country": "text", "items": "integer"}, (foreign, many))


def maker_of(folder, tmp_path):
    return Engine(as_file(folder / "june.csv", ("payment",), None, tmp_path), folder / "fraud.dplan")


@pytest.fixture
def review(folder, tmp_path):
    rule_file().save(tmp_path / "kinds.json")
    options = {"refit_every": 0, "maker": maker_of(folder, tmp_path), "kinds": tmp_path / "kinds.json"}
    with served(folder, tmp_path, **options) as review:
        yield review


def of_kind(client, name):
    return next(one for one in client.get("/api/state")["kinds"] if one["name"] == name)


def test_the_server_tells_kinds_and_offers_the_rest_after_three_equal_verdicts(review):
    client = Client(review)
    kind = of_kind(client, FOREIGN)
    assert (kind["open"], kind["rule"], kind["equal"]) == (60, "`country` = 'XX'", "")
    only = client.get(f"/api/queue?kind={kind['number']}")
    assert only["left"] == 60
    assert {entry["kind"] for entry in only["rows"]} == {FOREIGN}
    for entry, verdict in zip(only["rows"], ["anomaly", "unsure", "anomaly", "anomaly"], strict=False):
        assert client.judge(entry, verdict)[0] == 200
        assert of_kind(client, FOREIGN)["equal"] == ""
    client.judge(only["rows"][4], "anomaly")
    kind = of_kind(client, FOREIGN)
    assert (kind["equal"], kind["open"]) == ("anomaly", 55)
    table = client.get(f"/api/group/{kind['row']}?by=kind")
    assert (table["name"], table["open"], len(table["rows"])) == (FOREIGN, 55, 55)
    rows = [{"row": one["row"], "digest": one["digest"]} for one in table["rows"]]
    status, saved = client.post("/api/verdict", rows=rows, verdict="anomaly", round=0)
    assert (status, len(saved["saved"])) == (200, 55)
    assert FOREIGN not in [one["name"] for one in client.get("/api/state")["kinds"]]
    _, undone = client.post("/api/undo")  # all of it
    assert len(undone["undone"]) == 55
    assert of_kind(client, FOREIGN)["open"] == 55
    assert len(Standing(read_log(review.log)).current) == 5
    client.close()


def test_three_unsure_verdicts_offer_nothing(review):
    client = Client(review)
    number = of_kind(client, FOREIGN)["number"]
    for entry in client.get(f"/api/queue?kind={number}")["rows"][:3]:
        client.judge(entry, "unsure")
    assert of_kind(client, FOREIGN)["equal"] == ""
    client.close()


def test_nobody_is_asked_about_rows_of_a_muted_kind(folder, tmp_path):
    found, today = rule_file(), datetime.date.today()
    muted(found, found.kinds[0], owner="ann", reason="known", today=today).save(tmp_path / "kinds.json")
    options = {"refit_every": 0, "maker": maker_of(folder, tmp_path), "kinds": tmp_path / "kinds.json"}
    with served(folder, tmp_path, **options) as review:
        client = Client(review)
        state, queue = client.get("/api/state"), client.get("/api/queue")
        assert state["muted"] == {"kinds": 1, "rows": 60}
        assert [one["name"] for one in state["kinds"]] == ["many items"]
        assert queue["left"] == 3000 - 60
        assert not review.session.round.muted & {*review.session.queue(), *review.session.beyond()}
        client.close()


def all_kinds(client):
    return {one["name"]: one for one in client.get("/api/kinds")["kinds"]}


def test_a_kind_is_muted_and_unmuted_on_the_page_in_its_file_and_in_the_log(review, tmp_path):
    client, path = Client(review), tmp_path / "kinds.json"
    kind = all_kinds(client)[FOREIGN]
    assert (kind["open"], kind["decided"], kind["muted"]) == (60, 0, None)
    entry = client.get("/api/queue?kind=0")["rows"][0]
    client.judge(entry, "normal")
    status, answer = client.post("/api/mute", rule=kind["id"], mute=True, reason=" our own shop ", who="Ann")
    assert status == 200
    until = (datetime.date.today() + datetime.timedelta(90)).isoformat()
    record = {"owner": "Ann", "reason": "our own shop", "until": until}
    assert answer["kinds"][0]["muted"] == record
    assert RuleFile.load(path).kinds[0].about["muted"] == record
    state, queue = client.get("/api/state"), client.get("/api/queue")
    assert state["muted"] == {"kinds": 1, "rows": 59}
    assert queue["left"] == 3000 - 60
    assert not review.session.round.muted & {*review.session.queue(), *review.session.beyond()}
    assert review.session.refit(wait=True)  # learning keeps it
    assert client.get("/api/state")["muted"] == {"kinds": 1, "rows": 59}

    assert count_lines(read_log(review.log)).muted[FOREIGN]["until"] == until  # which labels replay prints
    assert client.post("/api/mute", rule=kind["id"], mute=False, reason="")[0] == 200
    assert count_lines(read_log(review.log)).muted == {}
    assert RuleFile.load(path).kinds[0].about["muted"] is None
    assert client.get("/api/queue")["left"] == 3000 - 1
    lines = [line for line in read_log(review.log) if line["kind"] in ("mute", "unmute")]
    assert [(line["kind"], line["name"], line["who"]) for line in lines] == [
        ("mute", FOREIGN, "Ann"), ("unmute", FOREIGN, "me"),
    ]  # fmt: skip
    assert (lines[0]["reason"], lines[0]["until"], lines[0]["rule"]) == ("our own shop", until, kind["id"])
    assert len(Standing(read_log(review.log)).current) == 1
    client.close()


def test_a_kind_with_a_find_or_without_a_reason_is_not_muted(review, tmp_path):
    client, before = Client(review), (tmp_path / "kinds.json").read_bytes()
    kind = all_kinds(client)[FOREIGN]
    assert client.post("/api/mute", rule=kind["id"], mute=True, reason="  ") == (
        409, {"problem": "muting needs an owner and a reason", "current": None},
    )  # fmt: skip
    client.judge(client.get("/api/queue?kind=0")["rows"][0], "anomaly")
    status, answer = client.post("/api/mute", rule=kind["id"], mute=True, reason="known")
    assert status == 409
    assert answer["problem"] == f"the rule of '{FOREIGN}' matches 1 known anomaly, so it cannot be muted"
    assert client.post("/api/mute", rule="nothing", mute=True, reason="known")[0] == 400
    assert (tmp_path / "kinds.json").read_bytes() == before
    assert {line["kind"] for line in read_log(review.log)} == {"session", "verdict"}
    client.close()


def test_an_anomaly_lifts_the_mute_of_the_kinds_whose_rules_it_meets(review, tmp_path):
    client = Client(review)
    kind = all_kinds(client)[FOREIGN]
    row, other = client.get("/api/queue?kind=0")["rows"][:2]
    assert client.post("/api/mute", rule=kind["id"], mute=True, reason="our own shop")[0] == 200
    answers = [
        client.judge(entry, verdict)[1]["note"] for entry, verdict in ((other, "normal"), (row, "anomaly"))
    ]
    assert answers == ["", f"Not muted any more, because an anomaly meets the rule: {FOREIGN}."]
    assert all_kinds(client)[FOREIGN]["muted"] is None
    assert RuleFile.load(tmp_path / "kinds.json").kinds[0].about["muted"] is None
    lines = [line for line in read_log(review.log) if line["kind"] in ("mute", "unmute")]
    assert [line["kind"] for line in lines] == ["mute", "unmute"]
    assert lines[0]["conditions"] == "`country` = 'XX'"
    assert client.post("/api/mute", rule=kind["id"], mute=True, reason="our own shop")[0] == 409
    client.close()


def test_an_anomaly_of_a_muted_kind_is_saved_even_if_the_kind_stays_muted(review, tmp_path):
    client = Client(review)
    kind = all_kinds(client)[FOREIGN]
    row = client.get("/api/queue?kind=0")["rows"][0]
    assert client.post("/api/mute", rule=kind["id"], mute=True, reason="our own shop")[0] == 200
    (tmp_path / "kinds.json").write_text("{}")
    status, answer = client.judge(row, "anomaly")
    assert status == 200
    assert answer["note"].startswith(
        f"'{FOREIGN}' stays muted, although an anomaly meets its rule: cannot read the kinds"
    )
    assert len(Standing(read_log(review.log)).current) == 1
    client.close()


def test_what_somebody_else_has_muted_is_kept_and_other_rules_are_refused(review, tmp_path):
    client, path = Client(review), tmp_path / "kinds.json"
    kinds, rules = all_kinds(client), rule_file()
    muted(rules, rules.kinds[1], owner="ben", reason="bulk orders").save(path)
    assert client.post("/api/mute", rule=kinds[FOREIGN]["id"], mute=True, reason="known")[0] == 200
    assert [one["muted"]["owner"] for one in all_kinds(client).values()] == ["me", "ben"]
    RuleFile(rules.columns, rules.kinds[:1]).save(path)
    status, answer = client.post("/api/mute", rule=kinds[FOREIGN]["id"], mute=False)
    assert status == 409
    assert answer["problem"] == "kinds.json has other rules now; start the review again to use them"
    path.unlink()
    assert client.post("/api/mute", rule=kinds[FOREIGN]["id"], mute=False)[0] == 409
    assert client.get("/api/state")["muted"]["kinds"] == 2
    client.close()


def test_muting_is_saved_in_both_files_or_in_neither(review, tmp_path, monkeypatch):
    client, before = Client(review), (tmp_path / "kinds.json").read_bytes()
    rule = all_kinds(client)[FOREIGN]["id"]

    def full(*_):
        raise VerdictLogError("not saved: the disk is full")

    monkeypatch.setattr(review.session.log, "append", full)
    assert client.post("/api/mute", rule=rule, mute=True, reason="known")[0] == 507
    assert (tmp_path / "kinds.json").read_bytes() == before
    assert client.get("/api/state")["muted"] == {"kinds": 0, "rows": 0}
    client.close()


def test_who_may_only_read_cannot_mute(review):
    client = Client(review)
    client.cookie = f"dplan-review-{client.port}={urlsplit(review.reading_url).query.removeprefix('token=')}"
    rule = client.get("/api/kinds")["kinds"][0]["id"]
    status, _, _ = client.request(
        "POST", "/api/mute", {"window": "w", "rule": rule, "mute": True, "reason": "x"}
    )
    assert status == 403
    client.close()


def test_kinds_that_the_model_cannot_tell_are_refused(folder, tmp_path):
    other = Kind("other", Rule((Condition("colour", "text", values=("red",)),)))
    RuleFile({"colour": "text"}, (other,)).save(tmp_path / "kinds.json")
    options = {"maker": maker_of(folder, tmp_path), "kinds": tmp_path / "kinds.json"}
    with (
        pytest.raises(ValueError, match="the rules use column 'colour'"),
        served(folder, tmp_path, **options),
    ):
        pass


@needs_browser
def test_the_queue_and_the_row_name_the_kind_and_one_kind_can_be_chosen(open_page, review):
    page = open_page()
    assert FOREIGN in page.inner_text(".badge.kind")
    assert FOREIGN in page.inner_text("#queue .entry .kind >> nth=0")
    number = page.eval_on_selector_all(
        "#by-kind option", "found => found.find((one) => one.innerText.startsWith('many items')).value"
    )
    page.select_option("#by-kind", number)
    page.wait_for_function("""() => [...document.querySelectorAll('#queue .kind')].length > 0 &&
      [...document.querySelectorAll('#queue .kind')].every((one) => one.innerText.includes('many items'))""")
    page.wait_for_function("() => document.querySelector('.badge.kind')?.innerText === 'kind: many items'")
    assert not page.problems


@needs_browser
def test_a_file_in_which_no_kind_has_a_rule_is_said(browser, folder, tmp_path):
    RuleFile({}, (Kind("like fraud", None),)).save(tmp_path / "kinds.json")
    options = {"maker": maker_of(folder, tmp_path), "kinds": tmp_path / "kinds.json"}
    with served(folder, tmp_path, **options) as review:
        page = browser.new_page()
        page.goto(review.url)
        ready(page)
        assert not page.is_visible("#by-kind")
        page.click("#kinds-open")
        page.wait_for_selector("#all-kinds[open]")
        assert page.inner_text("#muting-said").startswith("No kind in the file has a rule")
        assert not page.is_visible("#all-kinds table")
        page.close()


@needs_browser
@pytest.mark.parametrize("viewport", [None, PHONE])
def test_one_key_offers_the_rest_of_a_kind_and_undo_takes_all_of_it_back(open_page, review, viewport):
    page = open_page(**({} if viewport is None else {"viewport": viewport}))
    number = page.eval_on_selector_all(
        "#by-kind option", "found => found.find((one) => one.innerText.startsWith('foreign')).value"
    )
    page.select_option("#by-kind", number)
    page.wait_for_function(
        "() => document.getElementById('queue-note').innerText.startsWith('60 rows of this')"
    )
    ready(page)
    for _ in range(3):
        assert page.is_hidden("#rest")
        press(page, "a")
        page.wait_for_function(
            """n => document.querySelector('#tiles b').innerText === String(n)""", arg=_ + 1
        )
    page.wait_for_selector("#rest:visible")
    assert f"57 more rows of {FOREIGN}: anomaly?" in page.inner_text("#rest")
    ready(page)
    page.click("#rest") if viewport else page.keyboard.press("s")
    page.wait_for_selector("#grouped[open]")
    assert page.inner_text("#grouped-title") == f"Decide rows of this kind together: {FOREIGN}"
    page.click("#grouped-rows tr >> nth=1")  # not this one
    assert page.inner_text("#grouped-count") == "One key decides these 56 checked rows:"
    page.wait_for_selector("#grouped[aria-busy=false]")  # a key that comes sooner is ignored
    page.keyboard.press("a")
    page.wait_for_selector("#grouped", state="hidden")
    page.wait_for_function(
        "() => document.getElementById('queue-note').innerText.startsWith('1 row of this')"
    )
    assert [record["together"] for record in verdicts(review)][3:] == [56] * 56
    ready(page)
    assert shown(page)
    page.keyboard.press("z")
    page.wait_for_function(
        "() => document.getElementById('queue-note').innerText.startsWith('57 rows of this')"
    )
    assert len(Standing(read_log(review.log)).current) == 3
    assert not page.problems


@needs_browser
@pytest.mark.parametrize("viewport", [None, PHONE])
def test_a_harmless_kind_is_muted_with_a_reason_and_back(open_page, review, viewport):
    page = open_page(**({} if viewport is None else {"viewport": viewport}))
    first = shown(page)
    page.click("#kinds-open")
    line = page.locator("#all-kinds-rows tr", has_text=FOREIGN)
    assert "`country` = 'XX'" in line.inner_text()
    line.locator("button").click()
    assert page.inner_text("#mute-form label span") == f"Why is “{FOREIGN}” harmless?"
    page.keyboard.type("our own shop")  # the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => document.getElementById('muting-said').innerText === 'Muted: {FOREIGN}.'")
    assert "by me: our own shop" in line.inner_text()
    page.wait_for_function("() => document.getElementById('kinds-open').innerText === 'All kinds (1 muted)'")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.getElementById('queue-note').innerText.includes('60 muted')")
    assert shown(page) == first  # what somebody reads stays until they leave it
    assert FOREIGN not in page.inner_text("#queue")
    page.click("#kinds-open")
    line.locator("button").click()
    page.wait_for_function("() => document.getElementById('kinds-open').innerText === 'All kinds'")
    page.keyboard.press("Escape")
    page.wait_for_function(f"() => document.getElementById('queue').innerText.includes('{FOREIGN}')")
    assert [line["kind"] for line in read_log(review.log)] == ["session", "mute", "unmute"]
    assert not page.problems


@needs_browser
def test_the_list_of_kinds_says_why_one_cannot_be_muted(open_page, review):
    page = open_page()
    press(page, "a")
    page.click("#kinds-open")
    page.locator("#all-kinds-rows tr", has_text=FOREIGN).locator("button").click()
    page.keyboard.type("known")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.getElementById('muting-said').innerText.includes('1 known anomaly')"
    )
    page.goto(review.reading_url)
    page.wait_for_selector("#kinds-open:visible")
    page.click("#kinds-open")
    page.wait_for_selector("#all-kinds-rows th")
    assert page.locator("#all-kinds-rows button").count() == 0
