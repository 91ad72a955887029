"""The page's server: what it answers, and what it refuses."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import polars as pl
import pytest

from dplan.review.log import read_log
from tests.review.serving import Client, served

HOSTILE = {
    "html": "<b>bold</b><img src=x onerror=alert(1)>",
    "script": "</script><script>document.title='owned'</script>",
    "right to left": "\u202eevil\u202c שלום",
    "long": ("word " * 20_000).strip() + ".",
    "template": "{{ 7 * 7 }} ${7*7}",
}


@pytest.fixture(scope="module")
def hostile(folder, tmp_path_factory):
    """The payments, the highest of which have hostile ids and countries."""
    table = pl.read_csv(folder / "june.csv", schema_overrides={"payment": pl.String})
    rows = table.filter(pl.col("truth") == "fraud").sort("amount", descending=True)[: len(HOSTILE)]
    bad = rows.with_columns(payment=pl.Series(HOSTILE.values()), note=pl.Series(HOSTILE.values()))
    path = tmp_path_factory.mktemp("hostile") / "<i>june.csv"
    pl.concat([bad, table.with_columns(note=pl.lit(""))], how="diagonal").write_csv(path)
    return path


@pytest.fixture(scope="module")
def page(folder, hostile, tmp_path_factory):
    with served(folder, tmp_path_factory.mktemp("page"), table=hostile, refit_every=0) as page:
        yield page


@pytest.fixture
def client(page):
    client = Client(page)
    yield client
    client.close()


def test_the_link_sets_a_cookie_and_leaves_the_address_bar(client):
    status, headers, _ = client.request("GET", f"/?token={client.token}", cookie=False)
    assert status == 303
    assert headers["location"] == "/"
    cookie = headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    status, headers, body = client.request("GET", "/")
    assert status == 200
    assert client.token not in body.decode()


@pytest.mark.parametrize("path", ["/", "/api/state", "/api/queue", "/static/main.js", "/api/row/1", "/none"])
def test_nothing_is_answered_without_the_token(client, path):
    for headers in ({}, {"Cookie": f"dplan-review-{client.port}=wrong"}):
        status, _, body = client.request("GET", path, headers=headers, cookie=False)
        assert status == 403
        assert b"Open the link that was printed in the terminal" in body
    status, _, _ = client.request("GET", f"{path}?token=wrong", cookie=False)
    assert status == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),  # DNS rebinding
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Host": "[::1"}, 421),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_other_sites_cannot_give_verdicts(client, page, headers, status):
    before = len(read_log(page.log))
    entry = client.get("/api/queue")["rows"][0]
    body = json.dumps(
        {"window": "w", "row": entry["row"], "digest": entry["digest"], "verdict": "normal"}
    ).encode()
    sent = {"Content-Type": "application/json", **headers}
    found, answered, text = client.request("POST", "/api/verdict", body, sent)
    assert found == status
    assert text.strip()
    assert "access-control-allow-origin" not in answered
    assert len(read_log(page.log)) == before


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "localhost:9999", "LOCALHOST"])
def test_this_machine_may_be_called_by_its_names(client, host):
    status, _, _ = client.request("GET", "/api/state", headers={"Host": host})
    assert status in (200, 403)  # the cookie is bound to the port
    assert status != 421


@pytest.mark.parametrize("said", [True, False], ids=["with a length", "in chunks"])
def test_a_large_request_is_refused(client, page, said):
    before = len(read_log(page.log))
    sent = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    sent.putrequest("POST", "/api/verdict")
    length = ("Content-Length", "10000000") if said else ("Transfer-Encoding", "chunked")
    for header in (("Cookie", client.cookie), ("Content-Type", "application/json"), length):
        sent.putheader(*header)
    sent.endheaders()
    piece = b"x" * 50_000
    with contextlib.suppress(ConnectionError):  # the server need not listen to the end
        for _ in range(4):  # of the 10 MB
            sent.send(piece if said else b"c350\r\n" + piece + b"\r\n")
    answer = sent.getresponse()
    assert answer.status == 413
    assert b"large" in answer.read()
    sent.close()
    assert len(read_log(page.log)) == before


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"[" * 30_000, b'{"row": 1}', b'{"row": "a", "digest": 1, "verdict": [], "window": 2}',
     b'{"row": 0, "digest": "", "verdict": "maybe", "window": "w"}', b"\xff\xfe"],
)  # fmt: skip
def test_nonsense_is_refused(client, page, body):
    before = len(read_log(page.log))
    status, _, text = client.request("POST", "/api/verdict", body, {"Content-Type": "application/json"})
    assert status in (400, 409)
    assert json.loads(text)["problem"]
    assert len(read_log(page.log)) == before


def test_every_answer_has_a_strict_policy(client):
    for path in (
        "/",
        "/static/main.js",
        "/static/review.css",
        "/static/shared.css",
        "/api/state",
        "/nothing",
    ):
        _, headers, _ = client.request("GET", path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    _, headers, body = client.request("GET", "/")
    assert b"<script>" not in body
    assert b" style=" not in body
    assert b" onclick" not in body
    assert "&lt;i&gt;june.csv" in body.decode()


def test_files_outside_the_static_folder_are_not_served(client):
    for path in (
        "/static/../page.html",
        "/static/%2e%2e/page.html",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
    ):
        status, _, body = client.request("GET", path)
        assert status in (400, 404)
        assert b"import" not in body


def test_hostile_text_reaches_the_page_as_text(client):
    found = [
        client.get(f"/api/queue?filter={word}")["rows"] for word in ("bold", "script", "evil", "word", "7")
    ]
    queue = [entry for rows in found for entry in rows]
    ids = " ".join(entry["id"] for entry in queue)
    assert "<b>bold</b>" in ids  # as text; the page never interprets it
    assert "\u202e" not in ids
    assert "\\u202e" in ids
    assert all(len(entry["id"]) < 130 for entry in queue)
    long = next(entry for entry in queue if entry["id"].startswith("word word"))
    assert "(100,000 characters)" in long["id"]
    status, _, body = client.request("GET", f"/api/row/{long['row']}")
    assert status == 200
    assert len(body) < 30_000


def test_row_details_have_reasons_pictures_and_similar_rows(client):
    entry = client.get("/api/queue")["rows"][-1]
    details = client.get(f"/api/row/{entry['row']}")
    assert details["reasons"]
    for reason in details["reasons"]:
        assert reason["text"].startswith(f"`{reason['name']}` = ")
        picture = reason["picture"]
        assert ("bins" in picture) != ("bars" in picture)
        if "bins" in picture:
            assert 0 <= picture["at"] <= 1
            assert max(picture["bins"]) == 1
    assert len(details["similar"]["anomaly"]) == 3  # known from training
    assert all(len(one["values"]) == len(details["values"]) for one in details["similar"]["anomaly"])
    assert {value["name"] for value in details["values"]} == {
        "amount",
        "items",
        "day",
        "new_customer",
        "country",
    }
    assert {value["name"] for value in details["others"]} == {"truth", "note"}


def test_two_windows_and_a_stale_one(folder, tmp_path):
    with served(folder, tmp_path, refit_every=0) as page:
        one, two = Client(page, "one"), Client(page, "two")
        first, second = one.get("/api/queue")["rows"][:2]
        assert one.judge(first, "anomaly")[0] == 200
        status, answer = two.judge(first, "normal")
        assert status == 409
        assert answer["current"]["verdict"] == "anomaly"
        assert answer["current"]["who"] == "me"
        status, answer = two.judge(first, "normal", replaces=answer["current"]["n"])
        assert status == 200
        version = one.get("/api/state")["version"]
        assert one.get(f"/api/state?version={version}") == {"version": version, "people": []}
        assert one.post("/api/refit")[1] == {"started": True}
        deadline = time.monotonic() + 120
        while one.get("/api/state")["round"] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # A window that still shows the queue of the last round: its verdict counts, and it learns of the new round.
        status, answer = two.judge(second, "anomaly")
        assert status == 200
        assert answer["round"] == 1
        assert (tmp_path / "new.dplan").exists()
        status, answer = one.post("/api/finish")
        assert status == 200
        assert [line.split(":")[0] for line in answer["written"]] == ["verdicts", "updated model"]
        one.close()
        two.close()
    kinds = [record["kind"] for record in read_log(tmp_path / "verdicts.jsonl")]
    assert kinds == ["session", "verdict", "verdict", "refit", "verdict"]


FULL_DISK = """
import resource, sys, json
from pathlib import Path
from tests.review.serving import Client, served
folder, own = Path(sys.argv[1]), Path(sys.argv[2])
with served(folder, own, refit_every=0) as page:
    client = Client(page)
    first, second = client.get("/api/queue")["rows"][:2]
    limit = (own / "verdicts.jsonl").stat().st_size + 100
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    refused = client.judge(first, "anomaly")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    again = client.judge(first, "anomaly")
    print(json.dumps([refused, again]))
    client.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits on this system")
def test_a_full_disk_is_said_and_the_same_verdict_works_later(folder, tmp_path):
    command = [sys.executable, "-c", FULL_DISK, str(folder), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (status, answer), (later, _) = json.loads(run.stdout)
    assert status == 507
    assert answer["problem"].startswith("not saved: cannot write to")
    assert later == 200
    assert [record["kind"] for record in read_log(tmp_path / "verdicts.jsonl")] == ["session", "verdict"]


def test_a_table_that_cannot_be_opened_is_a_clean_error(folder, tmp_path):
    (tmp_path / "bad.csv").write_text("payment,amount\na,1\n")
    with (
        pytest.raises(ValueError, match="missing columns"),
        served(folder, tmp_path, table=tmp_path / "bad.csv"),
    ):
        pass


def test_a_second_page_on_the_same_log_is_refused(page, folder, tmp_path):
    with pytest.raises(OSError, match="another review is writing"), served(folder, tmp_path, log=page.log):
        pass


def test_headers_have_a_limit_before_any_token(review):
    port = urlsplit(review.url).port
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with contextlib.suppress(ConnectionError):  # the server may have closed it already
            for _ in range(64):
                connection.sendall(b"x" * 65_536)
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = connection.recv(1000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
