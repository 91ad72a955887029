"""What was decided can be seen, changed, undone, renamed and taken out; any row can be found."""

import io

import polars as pl
import pytest
from click.testing import CliRunner

from dplan.cli.main import main
from dplan.review.history import class_name
from dplan.review.log import Standing, read_log
from dplan.text import visible
from tests.browser import needs_browser
from tests.review.browsing import press, ready, shown, verdicts
from tests.review.serving import Client


@pytest.fixture
def client(review):
    client = Client(review)
    yield client
    client.close()


@pytest.fixture
def decided(client):
    """Four decided rows, by two people."""
    rows = client.get("/api/queue")["rows"][:4]
    client.judge(rows[0], "anomaly", who="Anna", **{"class": "card theft"})
    client.judge(rows[1], "normal", who="Anna", comment="a known customer")
    client.judge(rows[2], "unsure", who="Ben")
    client.judge(rows[3], "anomaly", who="Ben", **{"class": "=1+1"})
    return rows


def test_every_decided_row_is_listed_by_person_label_and_day(client, decided):
    found = client.get("/api/history")
    assert [one["row"] for one in found["rows"]] == [entry["row"] for entry in reversed(decided)]
    assert dict(map(tuple, found["choices"]["who"])) == {"Anna": 2, "Ben": 2}
    ((day, n),) = found["choices"]["day"]
    assert n == 4
    assert client.get(f"/api/history?day={day}&who=Ben")["total"] == 2
    assert [one["row"] for one in client.get("/api/history?label=unsure")["rows"]] == [decided[2]["row"]]
    assert client.get("/api/history?label=card%20theft")["rows"][0]["who"] == "Anna"
    assert client.get("/api/history?day=1999-01-01")["total"] == 0
    assert found["rows"][2]["comment"] == "a known customer"


def test_disagreements_are_a_list_and_agreement_is_recorded(client, decided, review):
    before = client.get("/api/history")["rows"][-1]
    assert client.post("/api/verdict", row=decided[0]["row"], digest=decided[0]["digest"], verdict="anomaly", who="Ben",
                       **{"class": "card theft", "window": "ben"})[0] == 200  # fmt: skip
    assert client.get("/api/history")["split"] == 0
    row = client.get("/api/history")["rows"][0]
    assert [one["who"] for one in (row, *row["earlier"])] == ["Ben", "Anna"]
    status, answer = client.judge(decided[1], "anomaly", who="Ben")
    assert status == 409
    client.judge(decided[1], "anomaly", who="Ben", replaces=answer["current"]["n"])
    (split,) = client.get("/api/history?split=1")["rows"]
    assert (split["row"], split["verdict"], split["earlier"][0]["verdict"]) == (
        decided[1]["row"],
        "anomaly",
        "normal",
    )
    assert before["row"] == decided[0]["row"]


def test_the_workbook_has_what_was_decided_and_no_formula(client, decided):
    status, headers, body = client.request("GET", "/api/workbook")
    assert status == 200
    assert headers["content-disposition"] == 'attachment; filename="june-verdicts.xlsx"'
    sheet = pl.read_excel(io.BytesIO(body))
    assert sheet.columns == [
        "payment",
        "verdict",
        "class",
        "who",
        "when",
        "score",
        "rank",
        "reasons",
        "comment",
    ]
    assert sheet["verdict"].to_list() == ["anomaly", "normal", "unsure", "anomaly"]
    assert sheet["class"].to_list()[3] == "=1+1"
    assert b"<f>" not in body
    assert sheet["payment"].to_list() == [entry["id"] for entry in decided]


@pytest.mark.parametrize("name", ["normal", "Unsure", "anomaly", "yes", "1", "unlabelled"])
def test_a_class_has_no_name_that_means_something_else(client, name, review):
    entry = client.get("/api/queue")["rows"][0]
    status, answer = client.judge(entry, "anomaly", **{"class": name})
    assert status == 400
    assert "means something else in a column of labels; choose another name" in answer["problem"]
    assert verdicts(review) == []


def test_blanks_and_joiners_do_not_split_a_class(client, review):
    first, second, third = client.get("/api/queue")["rows"][:3]
    for entry, name in ((first, "card theft"), (second, "card\xa0theft\u200b"), (third, " Card  Theft")):
        assert client.judge(entry, "anomaly", **{"class": name})[0] == 200
    assert {record["class"] for record in verdicts(review)} == {"card theft"}
    assert visible("12\xa0000 \u202f€") == "12\xa0000 \u202f€"
    assert class_name("\u202ecard") == "card"


def test_classes_are_renamed_and_merged(client, decided, review):
    assert client.post("/api/rename", **{"from": "=1+1", "to": "Card Theft"})[1] == {"name": "card theft"}
    assert [one["name"] for one in client.get("/api/state")["classes"]] == ["fraud", "card theft"]
    status, _ = client.post("/api/rename", **{"from": "fraud", "to": "x"})
    assert status == 409
    assert client.post("/api/rename", **{"from": "card theft", "to": "normal"})[0] == 400
    current = Standing(read_log(review.log)).current.values()
    assert [record["class"] for record in current] == ["card theft", "", "", "card theft"]
    assert [one["class"] for one in client.get("/api/history?label=card%20theft")["rows"]] == [
        "card theft"
    ] * 2


def test_rows_of_the_same_account(client, review):
    entry = client.get("/api/queue")["rows"][0]
    details = client.get(f"/api/row/{entry['row']}")
    assert "country" in details["contexts"]
    assert not {"payment", "amount"} & set(details["contexts"])
    found = client.get(f"/api/context/{entry['row']}?column=country")
    table = pl.read_csv(review.table.path)
    country = table["country"][entry["row"]]
    assert found["total"] == (table["country"] == country).sum()
    place = found["columns"].index("country")
    assert {one["values"][place] for one in found["rows"]} == {country}
    assert [one["row"] for one in found["rows"]] == sorted(one["row"] for one in found["rows"])
    assert [one["row"] for one in found["rows"] if one["own"]] == [entry["row"]]
    status, _, _ = client.request("GET", f"/api/context/{entry['row']}?column=nothing")
    assert status == 404


def test_labels_out_is_checked_at_the_start(folder, tmp_path):
    for name, problem in (("labels.doc", "unsupported file type"), ("none/labels.csv", "check the folder")):
        run = CliRunner().invoke(
            main, ["review", str(folder / "fraud.dplan"), str(folder / "june.csv"), "--no-browser", "--log",
                   str(tmp_path / "log"), "--labels-out", str(tmp_path / name)],
        )  # fmt: skip
        assert run.exit_code == 1
        assert problem in run.output
        assert not (tmp_path / "log").exists()


@needs_browser
def test_a_decided_row_is_opened_and_changed_and_undo_outlives_the_tab(open_page, review):
    page = open_page()
    first = press(page, "a")
    press(page, "u")
    ready(page)
    page.keyboard.press("h")
    page.wait_for_selector("#history[open] tbody tr")
    assert page.locator("#history-rows tr").count() == 2
    page.select_option("#by-label", "anomaly")
    page.wait_for_function("() => document.querySelectorAll('#history-rows tr').length === 1")
    page.click("#history-rows button")
    page.wait_for_function("id => document.querySelector('.row-id').innerText === id", arg=first)
    ready(page)
    assert page.inner_text(".row-note").startswith("me marked this row as anomaly (")
    page.keyboard.press("n")
    page.click("#change-it")
    page.wait_for_function("id => document.querySelector('.row-id').innerText !== id", arg=first)
    assert [record["verdict"] for record in verdicts(review)] == ["anomaly", "unsure", "normal"]
    again = page.context.new_page()
    page.close()
    again.goto(review.url)
    ready(again)
    again.keyboard.press("z")
    again.wait_for_function("id => document.querySelector('.row-id').innerText === id", arg=first)
    assert verdicts(review)[-1]["kind"] == "undo"
    assert again.inner_text(".row-note").startswith("me marked this row as anomaly (")


@needs_browser
def test_any_row_is_found_and_read_and_the_filter_explains_itself(open_page, review):
    page = open_page()
    last = int(review.session.round.scores.argmin())
    page.fill("#filter", f"j{last:05}")
    page.wait_for_function("id => document.querySelector('.row-id').innerText === id", arg=f"j{last:05}")
    page.wait_for_function(
        "() => document.getElementById('queue-note').innerText.startsWith('1 row matches in the')"
    )
    page.keyboard.press("Enter")
    ready(page)
    page.keyboard.press("n")
    page.wait_for_function("() => document.querySelector('.row-id').innerText === 'Nothing left to look at'")
    assert verdicts(review)[-1]["row"] == [f"j{last:05}"]
    page.fill("#filter", "amout>100")
    page.wait_for_function("() => document.getElementById('queue-note').innerText.includes('did you mean')")
    page.fill("#filter", "")
    ready(page)
    page.select_option(".context select", "country")
    page.wait_for_selector(".context tbody tr")
    page.click(".context th:nth-child(2) button")
    assert shown(page)
    assert page.problems == []


@needs_browser
def test_a_name_that_means_something_else_is_said_where_it_was_typed(open_page, review):
    page = open_page()
    page.click(".chip.new")
    page.fill("#class-name", "normal")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.getElementById('naming-note').innerText.includes('means something else')"
    )
    page.fill("#class-name", "card theft")
    page.keyboard.press("Enter")
    page.wait_for_selector("#naming", state="hidden")
    ready(page)
    assert [record["class"] for record in verdicts(review)] == ["card theft"]
