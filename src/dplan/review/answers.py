"""Requests with a JSON body, and what the page's server answers if it cannot do what was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dplan.exceptions import VerdictLogError
from dplan.review.log import Refused
from dplan.review.view import verdict_view
from dplan.web import receive_body

__all__ = ["ERRORS", "number", "taking_json"]

_LARGEST_BODY, _SLOWEST_BODY = 65_536, 30.0  # bytes, seconds


def taking_json(answer: Callable[[dict[str, Any]], Response]) -> Callable[[Request], Any]:
    """Return an endpoint that passes the body to a function in a thread, since it may wait for the disk."""

    async def endpoint(request: Request) -> Response:
        content = await receive_body(request, _LARGEST_BODY, _SLOWEST_BODY)
        try:
            body = json.loads(content)
            if not isinstance(body, dict):
                raise ValueError("expected a JSON object")
        except (ValueError, RecursionError) as error:
            return _problem(400, f"not a valid request: {error}")
        try:
            return await run_in_threadpool(answer, body)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            return _problem(400, f"not a valid request: {error!r:.100}")

    return endpoint


def number(text: str) -> int:
    """Return a number of a request's address; anything else is a bad request."""
    try:
        return int(text)
    except ValueError:
        raise HTTPException(400, "not a number") from None


def _problem(status: int, message: str, **more: Any) -> JSONResponse:
    return JSONResponse({"problem": message, **more}, status)


def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _problem(error.status_code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _problem(409, str(error), current=None if error.current is None else verdict_view(error.current))


def _not_saved(_: Request, error: Exception) -> Response:
    return _problem(507, str(error))


ERRORS: dict[Any, Any] = {
    Refused: _refused,
    VerdictLogError: _not_saved,
    HTTPException: _http_error,
    Exception: lambda _, error: _problem(500, f"unexpected error: {error}"),
}
