"""A review page on a real server, and requests to it."""

import http.client
import json
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

from dplan.review.server import Review
from dplan.review.table import as_file


@contextmanager
def served(folder, tmp_path, *, table=None, model="fraud.dplan", **options):
    """Serve a review of the payments until the end of the block."""
    path = None if model is None else folder / model
    file = as_file(table or folder / "june.csv", ("payment",), None, tmp_path)
    settings = {
        "log": tmp_path / "verdicts.jsonl",
        "model_out": tmp_path / "new.dplan",
        "who": "me",
        **options,
    }
    with Review(file, path, **settings) as page:
        page.start()
        page.wait_until_opened()
        yield page


class Client:
    """A browser window, without the window."""

    def __init__(self, page, window="w"):
        parts = urlsplit(page.url)
        self.port, self.window = parts.port, window
        self.token = parse_qs(parts.query)["token"][0]
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        self.cookie = f"dplan-review-{self.port}={self.token}"

    def request(self, method, path, body=None, headers=None, cookie=True):
        """Return status, headers and body."""
        # A new connection each time: the server ends those that are idle for seconds.
        sent = {"Connection": "close", **({"Cookie": self.cookie} if cookie else {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        self.connection.request(method, path, body, {**sent, **(headers or {})})
        answer = self.connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def get(self, path):
        status, _, body = self.request("GET", path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path, **body):
        status, _, text = self.request("POST", path, {"window": self.window, **body})
        return status, json.loads(text)

    def judge(self, entry, verdict, **more):
        return self.post("/api/verdict", row=entry["row"], digest=entry["digest"], verdict=verdict, **more)

    def close(self):
        self.connection.close()
