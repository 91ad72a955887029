"""The page in a cell of a notebook, and links that may be stored there."""

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import pytest

from tests.browser import needs_browser
from tests.review.browsing import LAPTOP, press, ready, verdicts
from tests.review.serving import Client

CELL = "<!doctype html><title>Notebook</title><div>{cell}</div>"


@pytest.fixture
def notebook():
    """Serve a page with the output of a cell; yield a function that takes the output and returns the address."""
    content = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content[-1].encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def showing(cell, host="localhost"):
        content.append(CELL.format(cell=cell))
        return f"http://{host}:{server.server_port}/"

    yield showing
    server.shutdown()
    server.server_close()


def link_in(html):
    return urlsplit(re.search('"(http[^"]+)"', html)[1])


@needs_browser
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_review_is_done_in_a_cell(browser, review, notebook, host):
    cell = review.show(height=600, host=host)._repr_html_()
    context = browser.new_context(viewport=LAPTOP, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(45_000)
    page.goto(notebook(cell, host))
    frame = page.frames[1]
    ready(frame)
    assert page.locator("iframe").bounding_box()["height"] == 600
    frame.click("#row")
    frame.keyboard = page.keyboard
    before = press(frame, "n")
    assert [line["verdict"] for line in verdicts(review)] == ["normal"]
    # The notebook is loaded again, with a link that was used: the browser is known.
    page.reload()
    ready(page.frames[1])
    assert page.frames[1].inner_text(".row-id") != before
    context.close()
    # Another browser gets nothing for it.
    other = browser.new_context()
    page = other.new_page()
    page.goto(notebook(cell, host))
    assert "This link works once. Run the cell of the notebook again" in page.frames[1].inner_text("body")
    other.close()


def test_what_a_notebook_stores_has_no_token_and_works_once(review):
    client = Client(review)
    for html in (review.show()._repr_html_(), review._repr_html_()):
        assert client.token not in html
        link = link_in(html)
        path = f"{link.path}?{link.query}"
        status, headers, _ = client.request("GET", path, cookie=False)
        assert (status, headers["location"]) == (303, "/")
        assert headers["set-cookie"].startswith(f"dplan-review-{client.port}={client.token};")
        status, _, body = client.request("GET", path, cookie=False)
        assert (status, body.decode()) == (
            403,
            "This link works once. Run the cell of the notebook again for a new one.\n",
        )
        assert client.request("GET", path)[0] == 200  # with the cookie of the first time
        assert client.request("POST", path, {}, cookie=False)[0] == 403
    frame = review.show()
    assert frame._repr_html_() != frame._repr_html_()
    client.close()


def test_only_pages_of_this_machine_may_frame_a_review_and_only_after_it_was_shown_in_a_cell(review):
    client = Client(review)
    policies = []
    for _ in range(2):
        policies.append(client.request("GET", "/")[1]["content-security-policy"])
        review.show()
    assert "frame-ancestors 'none'" in policies[0]
    loopback = "frame-ancestors http://localhost:* http://127.0.0.1:*"
    assert policies[1] == policies[0].replace("frame-ancestors 'none'", loopback)
    with pytest.raises(ValueError, match=r"host must be localhost or 127\.0\.0\.1, not 'example\.org'"):
        review.show(host="example.org")
    client.close()
