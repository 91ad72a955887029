"""Every morning: the review goes on with what was learned and decided, at the same address."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import polars as pl
import pytest

from dplan.review.folder import Kept, ReviewFiles, kept_in, newest_table
from dplan.review.log import read_log
from dplan.tables.model import TableModel
from tests.browser import needs_browser
from tests.review.browsing import ready
from tests.review.serving import Client, served
from tests.review.test_kinds import rule_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")


@contextmanager
def day(folder, *arguments, code=0):
    """Run the command in a folder for a while, then press Ctrl-C; yield the page, whose output is known afterwards."""
    command = [sys.executable, "-m", "dplan", "review", *map(str, arguments), "--no-browser"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    link = r"http://127\.0\.0\.1:\d+/\?token=\S+"
    urls = [re.search(link, process.stdout.readline())[0] for _ in range(2)]
    page = SimpleNamespace(url=urls[0], reading_url=urls[1])
    page.client = Client(page)
    try:
        while not page.client.get("/api/state")["opened"]:
            time.sleep(0.1)
        yield page
    finally:
        page.client.close()
        process.send_signal(signal.SIGINT)
        page.out, page.err = process.stdout.read(), process.stderr.read()
        process.wait(120)
        for pipe in (process.stdout, process.stderr):
            pipe.close()
    assert (process.returncode, "Traceback" in page.err) == (code, False), page.err


def test_the_next_morning_begins_where_yesterday_ended(folder, tmp_path):
    shutil.copy(folder / "fraud.dplan", tmp_path)
    rows = pl.read_csv(folder / "june.csv")
    rows[:1500].write_csv(tmp_path / "june-17.csv")
    with day(tmp_path, "fraud.dplan", "june-17.csv", "--target", 40) as first:
        for verdict in ("anomaly", "normal", "anomaly"):
            entry = first.client.get("/api/queue")["rows"][0]
            assert first.client.judge(entry, verdict)[0] == 200
        state = first.client.get("/api/state")
        assert state["today"] == {"rows": 3, "target": 40}
    assert "Learning from the last 3 verdicts" in first.out
    learned = TableModel.load(tmp_path / "fraud-reviewed.dplan")
    kept = tmp_path / "fraud.review.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600

    # Some rows come again; the labels of somebody else's are no table to review.
    rows[1400:].write_csv(tmp_path / "june-18.csv")
    rows[:20].with_columns(verdict=pl.lit("")).write_csv(tmp_path / "labels.csv")
    with day(tmp_path) as second:
        assert (second.url, second.reading_url) == (first.url, first.reading_url)
        state = second.client.get("/api/state")
        assert (state["table"], state["rows"], state["unmatched"]) == ("june-18.csv", 1600, 0)
        assert state["today"]["target"] == 40
        history = second.client.get("/api/history")
        assert history["total"] == 3
        entry = second.client.get("/api/queue")["rows"][0]
        assert second.client.judge(entry, "anomaly")[0] == 200
    assert "Continuing with what was learned before, and with june-18.csv." in second.out
    sessions = [
        record for record in read_log(tmp_path / "fraud.verdicts.jsonl") if record["kind"] == "session"
    ]
    assert [record["table"] for record in sessions] == ["june-17.csv", "june-18.csv"]
    again = TableModel.load(tmp_path / "fraud-reviewed.dplan")
    assert again.known_anomalies.shape[0] == learned.known_anomalies.shape[0] + 1
    # A third day: nothing has grown by a word.
    with day(tmp_path) as third:
        assert third.client.get("/api/state")["table"] == "june-18.csv"
    assert {path.name for path in tmp_path.iterdir()} == {
        "fraud.dplan", "fraud-reviewed.dplan", "fraud-reviewed.dplan.previous", "fraud.verdicts.jsonl",
        "fraud.review.json", "june-17.csv", "june-18.csv", "labels.csv",
    }  # fmt: skip


def test_kinds_are_used_the_next_morning_as_well(folder, tmp_path):
    shutil.copy(folder / "fraud.dplan", tmp_path)
    shutil.copy(folder / "june.csv", tmp_path)
    rule_file().save(tmp_path / "kinds.json")
    with day(tmp_path, "fraud.dplan", "june.csv", "--kinds", "kinds.json", "--every", 0) as first:
        rule = first.client.get("/api/kinds")["kinds"][0]["id"]
        assert first.client.post("/api/mute", rule=rule, mute=True, reason="known")[0] == 200
    with day(tmp_path, "--every", 0) as second:
        assert second.client.get("/api/state")["muted"] == {"kinds": 1, "rows": 60}
    (tmp_path / "kinds.json").unlink()
    with day(tmp_path, "--every", 0) as third:
        assert third.client.get("/api/state")["muted"] is None
    assert "kinds.json is gone, so the review goes on without kinds." in third.err


def test_a_host_that_others_can_reach_is_warned_of(folder, tmp_path):
    for name in ("fraud.dplan", "june.csv"):
        shutil.copy(folder / name, tmp_path)
    with day(tmp_path, "fraud.dplan", "june.csv", "--host", "0.0.0.0") as page:
        pass
    assert "Warning: --host 0.0.0.0 lets other machines connect" in page.err
    assert "Put a proxy with TLS in front." in page.err


def test_without_a_review_in_the_folder_the_command_says_how_to_begin(tmp_path):
    command = [sys.executable, "-m", "dplan", "review"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert (
        "there is no review to continue in this folder; begin one with  dplan review [MODEL] TABLE"
        in found.stderr
    )
    for name in ("a", "b"):
        Kept(table="t.csv").write(tmp_path / f"{name}.review.json")
    with pytest.raises(ValueError, match=r"several reviews were begun in this folder \(a, b\)"):
        kept_in(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"port": "1"}', '{"ids": [1]}', '{"other": 1}', "null"])
def test_a_damaged_file_is_a_clear_error(tmp_path, text):
    (tmp_path / "a.review.json").write_text(text)
    with pytest.raises(ValueError, match="is damaged; delete it"):
        Kept.read(tmp_path / "a.review.json")


def test_the_newest_table_has_the_same_columns_or_it_is_yesterdays(tmp_path):
    def table(name, text, seconds):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (seconds, seconds))

    table("monday.csv", "id,amount\n1,2\n", 1000)
    kept = Kept(table=str(tmp_path / "monday.csv"), columns=["id", "amount"])
    table("older.csv", "id,amount\n1,2\n", 500)
    table("alerts.csv", "id,amount,score\n1,2,3\n", 3000)
    assert newest_table(kept).name == "monday.csv"
    table("tuesday.csv", "id,amount\n1,2\n", 2000)
    assert newest_table(kept).name == "tuesday.csv"
    (tmp_path / "monday.csv").unlink()
    (tmp_path / "tuesday.csv").unlink()
    assert newest_table(kept).name == "older.csv"
    (tmp_path / "older.csv").unlink()
    with pytest.raises(FileNotFoundError, match="is gone, and no other table"):
        newest_table(kept)


def test_names_do_not_grow(tmp_path):
    model, table = tmp_path / "fraud.dplan", tmp_path / "june.csv"
    first = ReviewFiles.of(table, model)
    assert ReviewFiles.of(table, first.model) == first
    with pytest.raises(ValueError, match="is also an input"):
        ReviewFiles.of(table, model, model_out=model)


def test_a_review_that_is_still_running_is_pointed_to(folder, tmp_path):
    shutil.copy(folder / "fraud.dplan", tmp_path)
    pl.read_csv(folder / "june.csv")[:500].write_csv(tmp_path / "june.csv")
    with day(tmp_path, "fraud.dplan", "june.csv") as page:
        again = subprocess.run(
            [sys.executable, "-m", "dplan", "review", "--no-browser"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert again.returncode == 1
        assert f"if that is this review, its page is {page.url}" in again.stderr


def test_a_port_that_is_taken_is_said_and_the_token_stays(folder, tmp_path):
    with served(folder, tmp_path, continues=True) as page:
        url, port = page.url, page._socket.getsockname()[1]
    import socket

    with socket.create_server(("127.0.0.1", port)), served(folder, tmp_path, continues=True) as page:
        assert page.moved
        assert page.url.split("token=")[1] == url.split("token=")[1]


READ_ONLY = (
    "/api/verdict",
    "/api/undo",
    "/api/rename",
    "/api/refit",
    "/api/finish",
    "/api/threshold",
    "/api/anything",
)


def test_a_lead_can_read_and_change_nothing(folder, tmp_path):
    with served(folder, tmp_path) as page:
        lead = Client(SimpleNamespace(url=page.reading_url))
        before = page.log.read_bytes()
        assert lead.get("/api/state")["reading"]
        assert lead.get("/api/history")["total"] == 0
        entry = lead.get("/api/queue")["rows"][0]
        for path in READ_ONLY:
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                status, _, text = lead.request(method, path, {"row": entry["row"], "digest": entry["digest"],
                                                              "verdict": "normal", "window": "w"})  # fmt: skip
                assert (status, text) == (403, b"This link is for reading only; nothing was changed.\n")
        assert page.log.read_bytes() == before
        own = Client(page)
        assert not own.get("/api/state")["reading"]
        assert own.judge(entry, "normal")[0] == 200
        for client in (lead, own):
            client.close()


@needs_browser
def test_the_page_of_a_lead_has_nothing_to_press(browser, review):
    review.session.target = 2
    context = browser.new_context()
    page = context.new_page()
    page.goto(review.reading_url)
    ready(page)
    assert page.is_visible(".only-reading")
    for selector in ("#verdicts", "#refit", "#finish", "#use-threshold", "#group"):
        assert not page.is_visible(selector)
    page.keyboard.press("a")
    page.keyboard.press("j")
    page.wait_for_timeout(300)
    assert not page.is_visible("#banner")
    entry = review.session.queue()[0]
    review.session.judge([entry], "normal")
    page.wait_for_function("() => document.getElementById('today').innerText === '1 of 2 today'")
    context.close()
