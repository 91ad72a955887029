import os
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import dplan.datasets
from tests.experiments.small_cells import make_small_plan
from tests.tables.payments import payments, payments_model

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of the four real data sets: `$DPLAN_DATA_HOME`, else `../shared/data` beside the project."""
    chosen = os.environ.get("DPLAN_DATA_HOME")
    folder = Path(chosen) if chosen else PROJECT.parent / "shared" / "data"
    missing = [
        name
        for name in ("unsw_nb15", "annthyroid", "har", "covertype")
        if not (folder / f"{name}.parquet").is_file()
    ]
    if missing:
        pytest.skip(
            f"{', '.join(missing)} not in {folder}: set DPLAN_DATA_HOME to the folder that holds them"
        )
    return folder


@pytest.fixture(scope="session")
def dataset(request):
    """Load a data set; a test that asks for one that is not there is skipped."""

    def load(name: str) -> dplan.datasets.Dataset:
        embedded = name == "covertype-mini"
        return dplan.datasets.load(name, home=None if embedded else request.getfixturevalue("data_home"))

    return load


@dataclass
class Served:
    """What the server has and how it behaves; tests change it while it runs."""

    content: bytes = b""
    etag: str = '"version-1"'
    last_modified: str = ""
    break_off_after: list[int] = field(default_factory=list)  # bytes sent by each of the next answers
    failures: list[int] = field(default_factory=list)  # status codes of the next answers
    stall_after: int = 0  # bytes after which an answer stands still until the test ends
    say_length: bool = True
    chunked: bool = False
    ignore_range: bool = False
    wrong_range: bool = False
    requests: list[dict[str, str]] = field(default_factory=list)
    path: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        served: Served = self.server.served
        served.requests.append(dict(self.headers))
        if served.failures:
            self.send_error(served.failures.pop(0))
            return
        if served.path and self.path != served.path:
            self.send_error(404)
            return
        start = self._start(served)
        if start is not None and start >= len(served.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(served.content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = served.content[start or 0 :]
        self.send_response(206 if start is not None else 200)
        if start is not None:
            first = start + 1 if served.wrong_range else start
            self.send_header(
                "Content-Range", f"bytes {first}-{len(served.content) - 1}/{len(served.content)}"
            )
        if served.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"".join(
                b"%x\r\n%s\r\n" % (len(body[i : i + 50_000]), body[i : i + 50_000])
                for i in range(0, len(body) + 50_000, 50_000)
            )
        elif served.say_length:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        if served.etag:
            self.send_header("ETag", served.etag)
        if served.last_modified:
            self.send_header("Last-Modified", served.last_modified)
        self.end_headers()
        if served.break_off_after:
            self.wfile.write(body[: served.break_off_after.pop(0)])
            self.wfile.flush()
            self.close_connection = True
            return
        if served.stall_after:
            self.wfile.write(body[: served.stall_after])
            self.wfile.flush()
            self.server.closing.wait()
            self.close_connection = True
            return
        self.wfile.write(body)

    def _start(self, served: Served):
        wanted = self.headers.get("Range")
        if wanted is None or served.ignore_range:
            return None
        if self.headers.get("If-Range") not in (served.etag, served.last_modified):
            return None
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *args):
        pass


class Server:
    """Serves until `close`."""

    def __init__(self):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.served = self._server.served = Served()
        self._server.closing = threading.Event()
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch):
    """A real HTTP server on 127.0.0.1 that can break off, as servers do."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def table():
    return payments()


@pytest.fixture(scope="session")
def model():
    return payments_model()


@pytest.fixture(scope="session")
def model_path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "payments.dplan"
    model.save(path)
    return path


@pytest.fixture
def small_plan():
    return make_small_plan()
