"""What a server on this machine lets in, one request at a time in this process."""

import asyncio
import socket

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from dplan.web import Bearer, Cookie, Guard, is_loopback, listen, names_of, receive_body

INSIDE = PlainTextResponse("inside")


def scope(method="GET", path="/", query="", **headers):
    given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": given, "http_version": "1.1", "scheme": "http", "server": ("localhost", 8000),
    }  # fmt: skip


def answer(guard, given):
    """Return the status, the headers and the text of an answer."""
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(guard(given, None, send))
    start, body = sent
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], names, body["body"].decode()


def guarded(admission=None, hosts=(), **headers):
    refuse = lambda status, text: PlainTextResponse(text, status)  # noqa: E731
    return Guard(INSIDE, admission, refuse, hosts=hosts, headers=headers)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000", "[::1]"]
)
def test_names_of_this_machine_are_answered(host):
    assert answer(guarded(), scope(host=host))[::2] == (200, "inside")


@pytest.mark.parametrize(
    "host",
    [
        "example.org", "localhost.example.org", "localhost:80@example.org", "localhost@example.org", "example.org:80",
        "[::1]example.org", "::1:80:80", "localhost:123456", "localhost:", "", "128.0.0.1", "[::2]", "localhost/x",
    ],
)  # fmt: skip
def test_other_names_are_refused(host):
    allowed = host == "localhost:"  # a port may be empty
    status, _, text = answer(guarded(), scope(host=host))
    assert status == (200 if allowed else 421)
    assert allowed or text == "this server answers requests to localhost only; start it with --host"


def test_a_server_on_the_network_is_called_by_its_names():
    own = guarded(hosts=["Plum.Example", "10.0.0.7"])
    for host in ("plum.example:8000", "PLUM.EXAMPLE", "10.0.0.7", "localhost"):
        assert answer(own, scope(host=host))[0] == 200
    status, _, text = answer(own, scope(host="pear.example"))
    assert (status, text) == (
        421,
        "this server answers requests under the names of this machine only; start it with --host",
    )
    assert answer(guarded(hosts=None), scope(host="anything.example"))[0] == 200


@pytest.mark.parametrize("hosts", [(), None])
def test_two_host_headers_are_refused(hosts):
    twice = scope(host="localhost")
    twice["headers"] *= 2
    assert answer(guarded(hosts=hosts), twice)[::2] == (400, "the request has several Host headers")


def test_every_answer_has_the_headers_unless_it_has_its_own():
    found = answer(guarded(**{"X-Extra": "yes", "content-type": "text/html"}), scope(host="localhost"))[1]
    assert found["x-extra"] == "yes"
    assert found["content-type"].startswith("text/plain")
    assert answer(guarded(**{"X-Extra": "yes"}), scope(host="example.org"))[1]["x-extra"] == "yes"


def test_other_protocols_are_not_answered():
    seen = []

    async def app(given, receive, send):
        seen.append(given["type"])

    guard = Guard(app, None, lambda *_: INSIDE, hosts=())
    for kind in ("websocket", "lifespan"):
        asyncio.run(guard({"type": kind}, None, None))
    assert seen == ["lifespan"]


def test_programs_send_the_token_in_a_header():
    guard = guarded(Bearer("open sesame", ["/ping"]))
    for given in ("Bearer open sesame", "bearer open sesame"):
        assert answer(guard, scope(host="localhost", authorization=given))[0] == 200
    for given in ("Bearer open", "Basic open sesame", "open sesame", "Bearer caf\xe9", ""):
        status, headers, text = answer(guard, scope(host="localhost", authorization=given))
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert "Authorization: Bearer TOKEN" in text
    assert answer(guard, scope(host="localhost"))[0] == 401
    assert answer(guard, scope(path="/ping", host="localhost"))[0] == 200


def test_a_link_becomes_a_cookie_and_nothing_else_is_admitted():
    guard = guarded(Cookie("secret", "dplan"))
    own = {"host": "localhost:8000"}
    status, headers, _ = answer(guard, scope(query="token=secret", **own))
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"].lower()
    assert cookie.startswith("dplan-8000=secret;")
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert answer(guard, scope(cookie="dplan-8000=secret", **own))[0] == 200
    json = {"content_type": "Application/JSON; charset=utf-8", "cookie": "dplan-8000=secret"}
    assert answer(guard, scope("POST", **own, **json))[0] == 200
    for refused in (
        scope(**own),
        scope(query="token=wrong", **own),
        scope(cookie="dplan-8000=wrong", **own),
        scope(cookie="dplan-80=secret", **own),
        scope("POST", query="token=secret", content_type="application/json", **own),
    ):
        status, _, text = answer(guard, refused)
        assert (status, text) == (
            403,
            "Wrong or missing token. Open the link that was printed in the terminal.",
        )
    assert answer(guard, scope(cookie="dplan-80=secret", host="localhost"))[0] == 200


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"origin": "http://localhost:8000"}, 200),
        ("POST", {"origin": "http://LOCALHOST:8000"}, 200),
        ("POST", {"origin": "http://evil.example"}, 403),
        ("POST", {"origin": "null"}, 403),
        ("POST", {"origin": "http://[::1"}, 403),
        ("GET", {"origin": "http://evil.example"}, 403),
        ("POST", {"sec_fetch_site": "cross-site"}, 403),
        ("POST", {"sec_fetch_site": "same-site"}, 403),
        ("POST", {"sec_fetch_site": "same-origin"}, 200),
        ("GET", {"sec_fetch_site": "cross-site"}, 200),  # a link in a mail
        ("HEAD", {"sec_fetch_site": "cross-site"}, 200),
        ("POST", {"content_type": "text/plain"}, 415),
        ("POST", {"content_type": ""}, 415),
        ("GET", {"content_type": "text/plain"}, 200),
    ],
)
def test_requests_of_other_sites_are_refused(method, headers, status):
    given = {"host": "localhost:8000", "cookie": "d-8000=t", "content_type": "application/json", **headers}
    found, _, text = answer(guarded(Cookie("t", "d")), scope(method, **given))
    expected = {
        200: "inside",
        403: "Requests from other web sites are not answered.",
        415: "Requests must be JSON.",
    }
    assert (found, text) == (status, expected[status])


class Body:
    """The body of a request in pieces; counts what was taken, and never ends if it stalls."""

    def __init__(self, *sizes, stalls=False):
        self.sizes, self.stalls, self.taken = list(sizes), stalls, 0

    async def __call__(self):
        if not self.sizes and self.stalls:
            await asyncio.sleep(3600)
        size = self.sizes.pop(0) if self.sizes else 0
        self.taken += size
        return {"type": "http.request", "body": b"x" * size, "more_body": bool(self.sizes) or self.stalls}


def received(body, most=10, seconds=3600, **headers):
    return asyncio.run(
        receive_body(Request(scope("POST", **headers), body), most, seconds, hint="; see --help")
    )


def test_a_body_up_to_the_limit_is_received():
    assert received(Body(4, 6)) == b"x" * 10
    assert received(Body(), content_length="0") == b""
    assert received(Body(10), content_length="40") == b"x" * 10


@pytest.mark.parametrize(
    ("sizes", "headers", "taken"),
    [
        ((11,), {}, 11),
        ((5, 6, 7), {}, 18),  # all of it is received, because many clients read the answer only then
        ((10, 10, 10, 10), {"content_length": "40"}, 40),
        ((10, 10, 10, 11, 10), {}, 41),  # but not without an end
        ((10, 10, 10, 10, 5, 5), {}, 45),
        ((10, 31), {"content_length": "41"}, 0),
        ((10, 1), {"content_length": "11", "expect": "100-continue"}, 0),
        ((10, 1, 1), {"expect": "100-continue"}, 11),
    ],
)
def test_a_body_over_the_limit_is_refused(sizes, headers, taken):
    body = Body(*sizes)
    with pytest.raises(HTTPException) as refused:
        received(body, **headers)
    assert (refused.value.status_code, refused.value.detail) == (
        413,
        "the body is larger than 10 bytes; see --help",
    )
    assert refused.value.headers == {"Connection": "close"}
    assert body.taken == taken


@pytest.mark.parametrize(("size", "status"), [(3, 408), (10, 408), (11, 413)])
def test_a_body_that_stalls_is_not_waited_for(size, status):
    with pytest.raises(HTTPException) as refused:
        received(Body(size, stalls=True), seconds=0.01)
    assert (refused.value.status_code, refused.value.headers) == (status, {"Connection": "close"})
    if status == 408:
        assert refused.value.detail == "the body did not arrive within 0.01 seconds"


def test_loopback_is_a_matter_of_names_and_numbers():
    assert [is_loopback(host) for host in ("localhost", "127.1.2.3", "::1", "::2", "10.0.0.1", "x", "")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip
    assert names_of("localhost") == set()
    assert names_of("0.0.0.0") == {"0.0.0.0", socket.gethostname(), socket.getfqdn()}


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_a_server_listens_before_it_answers(host, shown):
    try:
        listening, url = listen(host, 0)
    except OSError:
        pytest.skip(f"there is no {host} here")
    with listening:
        port = listening.getsockname()[1]
        assert url == f"http://{shown}:{port}"
        with socket.create_connection((host, port), timeout=60):
            pass
        with pytest.raises(OSError, match=rf"cannot listen on {host}:{port}: \w"):
            listen(host, port)


def test_a_link_for_reading_changes_nothing():
    guard = guarded(Cookie("secret", "d", "look"))
    own = {"host": "localhost:8000", "content_type": "application/json"}
    for token in ("secret", "look"):
        status, headers, _ = answer(guard, scope(query=f"token={token}", **own))
        assert (status, headers["set-cookie"].partition(";")[0]) == (303, f"d-8000={token}")
        for method in ("GET", "HEAD", "POST", "PUT"):
            given = scope(method, cookie=f"d-8000={token}", **own)
            found, _, text = answer(guard, given)
            assert given["reading"] == (token == "look")
            if token == "look" and method in ("POST", "PUT"):
                assert (found, text) == (403, "This link is for reading only; nothing was changed.")
            else:
                assert (found, text) == (200, "inside")
    plain = guarded(Cookie("secret", "d"))
    given = scope(cookie="d-8000=secret", **own)
    assert answer(plain, given)[0] == 200
    assert given["reading"] is False
    assert [answer(plain, scope(query=query, **own))[0] for query in ("", "token=", "ticket=")] == [403] * 3


def test_a_ticket_opens_the_page_once():
    cookie = Cookie("secret", "d", "look")
    guard, tickets = guarded(cookie), [cookie.ticket(), cookie.ticket()]
    own = {"host": "localhost:8000"}
    assert len({*tickets, "secret", "look"}) == 4
    assert min(map(len, tickets)) >= 20
    for ticket in tickets:
        status, headers, _ = answer(guard, scope(query=f"ticket={ticket}", **own))
        assert (status, headers["set-cookie"].partition(";")[0]) == (303, "d-8000=secret")
        status, _, text = answer(guard, scope(query=f"ticket={ticket}", **own))
        assert (status, text) == (
            403,
            "This link works once. Run the cell of the notebook again for a new one.",
        )
        assert answer(guard, scope(query=f"ticket={ticket}", cookie="d-8000=secret", **own))[0] == 200
