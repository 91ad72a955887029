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
from dplan.review.view import state_view
from tests.browser import needs_browser
from tests.review.browsing import press, ready, shown
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
    assert all(done <= total for done, total in scoring)
    if name == "june.parquet":  # which says how many rows it has; the others are estimated from what was read
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
