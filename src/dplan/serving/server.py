"""Run a service with uvicorn until it is told to stop."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import uvicorn

from dplan.serving.app import Service
from dplan.serving.metrics import log
from dplan.serving.models import Limits
from dplan.web import is_loopback, listen

__all__ = ["serve"]

_GRACE_SECONDS = 30  # for requests under way when the server is told to stop
_MAX_CONNECTIONS = 2_000


def serve(
    source: Path,
    host: str,
    port: int,
    limits: Limits,
    *,
    token: str | None = None,
    quiet: bool = False,
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
    started : callable
        Called with the address and the names of the models before requests are answered.
    """
    _log_to_stderr(quiet)
    local = is_loopback(host)
    service = Service(source, limits, token=token, local=local)
    if not service.models.current:
        problems = "; ".join(service.models.problems.values())
        raise ValueError(problems or f"{source} contains no .dplan file")
    if not local and token is None:
        log.warning("open to the network without a token", extra={"fields": {"host": host}})
    listening, url = listen(host, port)
    config = uvicorn.Config(
        service.app,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=_MAX_CONNECTIONS,
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
