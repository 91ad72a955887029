"""Run a service with uvicorn until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dplan.rules.file import RuleFile
from dplan.serving.app import Service
from dplan.serving.metrics import log
from dplan.serving.models import Limits
from dplan.web import is_loopback, listen

__all__ = ["serve"]

_GRACE_SECONDS = 30  # for requests under way when the server is told to stop
_MAX_CONNECTIONS = 2_000
_SPARE_FILES = 64  # of those that may be open: models are loaded, however many clients there are
_MAX_PIPELINED = 16  # requests that a client sends without waiting for an answer
_MAX_HEADERS = 65_536  # bytes of headers, or of anything else that is not the content of a body


def serve(
    source: Path,
    host: str,
    port: int,
    limits: Limits,
    *,
    token: str | None = None,
    quiet: bool = False,
    novelty: bool = False,
    kinds: RuleFile | None = None,
    started: Callable[[str, list[str]], object] = lambda url, models: None,
) -> None:
    """Serve models until SIGTERM or Ctrl-C; requests under way are finished.

    Parameters
    ----------
    source : path
        A model file, or a folder of them.
    host, port : str, int
        Address to listen on; port 0 for a free one.
    limits : Limits
        Limits of the server.
    token : str, optional
        Token that requests must have.
    quiet : bool
        Do not log requests.
    novelty : bool
        Answer how novel rows are, too.
    kinds : RuleFile, optional
        Answer the kinds of alerts by these rules, too.
    started : callable
        Called with the address and the names of the models before requests are answered.
    """
    _log_to_stderr(quiet)
    local = is_loopback(host)
    service = Service(source, limits, token=token, local=local, novelty=novelty, kinds=kinds)
    if not service.models.current:
        problems = "; ".join(service.models.problems.values())
        raise ValueError(problems or f"{source} contains no .dplan file")
    if not local and token is None:
        log.warning("open to the network without a token", extra={"fields": {"host": host}})
    listening, url = listen(host, port)
    most = _connections()
    config = uvicorn.Config(
        service.app,
        http=_limited(limits.seconds, most),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=most,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    # What is loaded stays. Otherwise the garbage collector would go through all of it, libraries included, again and
    # again, which takes longer than to answer the requests.
    gc.collect()
    gc.freeze()
    with listening:
        started(url, list(service.models.current))
        try:
            server.run(sockets=[listening])
        except (KeyboardInterrupt, SystemExit):  # uvicorn sends itself the signal again, when all is done
            if not server.should_exit:
                raise
    log.info("stopped")


def _connections() -> int:
    """Return how many connections may be open."""
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_CONNECTIONS if files < 0 else max(1, min(_MAX_CONNECTIONS, files - _SPARE_FILES))


def _limited(seconds: float, most: int) -> type[asyncio.Protocol]:
    """Return what handles a connection: uvicorn's protocol, with limits on what it takes from anybody.

    Headers are limited in size and time. So is what a client can send instead: trailers and extensions of chunks, the
    rest of a body after the answer, and further requests before it, which uvicorn keeps until their turn.

    Parameters
    ----------
    seconds : float
        Time to receive the headers of a request, or the rest of one that has been answered.
    most : int
        Connections; further ones are closed at once.
    """

    class Limited(HttpToolsProtocol):
        in_headers = True
        n_parts = 0  # headers and pieces of bodies that have arrived
        size = 0  # bytes since the last of them
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.close()
            else:
                self.start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.in_headers and self.timer is None:
                self.start_timer()
            before, left = self.n_parts, _MAX_HEADERS - self.size
            super().data_received(data[:left])
            if self.transport.is_closing():
                return
            if self.n_parts > before:
                if len(data) > left:
                    super().data_received(data[left:])
            elif len(data) > left:
                self.refuse(431, "Request Header Fields Too Large")
            else:
                self.size += len(data)

        def on_headers_complete(self) -> None:
            self.stop_timer()
            self.in_headers, self.size = False, 0
            self.n_parts += 1
            if len(self.pipeline) >= _MAX_PIPELINED:
                raise ValueError("too many requests at once")  # which ends the parser: the status is 400
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self.size = 0
            self.n_parts += 1
            super().on_body(body)

        def on_message_complete(self) -> None:
            self.in_headers = True
            if self.cycle.response_complete:  # so uvicorn does not limit the time until the next request
                self.stop_timer()
                self.start_timer()
            super().on_message_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.is_answered():
                self.start_timer()

        def is_answered(self) -> bool:
            return not self.in_headers and self.cycle.response_complete

        def refuse(self, status: int, reason: str) -> None:
            self.stop_timer()
            if not self.is_answered():
                body = orjson.dumps({"error": reason})
                head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\n"
                head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                self.transport.write(head.encode() + body)
            self.transport.close()

        def start_timer(self) -> None:
            self.timer = self.loop.call_later(seconds, self.refuse, 408, "Request Timeout")

        def stop_timer(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return Limited


class _JsonFormatter(logging.Formatter):
    """Formats each log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = getattr(record, "fields", {})
        entry = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
        return orjson.dumps(entry).decode()


def _log_to_stderr(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    for name, level in (
        ("dplan.serving", logging.WARNING if quiet else logging.INFO),
        ("uvicorn", logging.WARNING),
    ):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
