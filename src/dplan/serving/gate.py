"""Around every request: how long it took, and one log line without the contents of rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "DISCONNECTED",
    "Gate",
    "JsonFormatter",
    "Note",
    "error_response",
    "json_response",
    "log",
]

log = logging.getLogger("dplan.serving")

DISCONNECTED = 499  # the status that nginx logs if a client leaves before it is answered


@dataclass
class Note:
    """What an endpoint notes about a request, for the log: the model and the number of rows."""

    model: str = ""
    rows: int = 0


class Gate:
    """Measures and logs every request.

    Parameters
    ----------
    app : ASGI application
        The application behind it.
    answered : callable
        Called with endpoint, status and seconds of each request.
    """

    def __init__(self, app: ASGIApp, answered: Callable[[str, int, float], object]) -> None:
        self._app, self._answered = app, answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        note = scope["dplan"] = Note()
        status = DISCONNECTED

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:  # a bug; the application has answered with 500
            # Without the message, which could contain values of rows.
            log.error("error", extra={"fields": {"error": type(error).__name__, "at": _place(error)}})
        finally:
            seconds = time.perf_counter() - started
            endpoint = getattr(scope.get("endpoint"), "__name__", "other")
            self._answered(endpoint, status, seconds)
            if log.isEnabledFor(logging.INFO):
                fields = {"endpoint": endpoint, "status": status, "ms": round(seconds * 1e3, 2)}
                if note.model:
                    fields |= {"model": note.model, "rows": note.rows}
                log.info("request", extra={"fields": fields})


class JsonFormatter(logging.Formatter):
    """Formats each log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = getattr(record, "fields", {})
        entry = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
        return orjson.dumps(entry).decode()


def json_response(content: object, status: int = 200) -> Response:
    """Return a response with JSON; arrays are written with the digits that read back to the same bits."""
    return Response(
        orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), status, None, "application/json"
    )


def error_response(status: int, message: str) -> Response:
    """Return a response with an error message."""
    return json_response({"error": message}, status)


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
