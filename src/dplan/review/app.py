"""The page and its interface, as an ASGI application."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dplan._version import __version__
from dplan.exceptions import VerdictLogError
from dplan.review.details import row_details, similar_rows
from dplan.review.log import Decision
from dplan.review.rounds import Round
from dplan.review.session import Refused, Session
from dplan.review.view import queue_view, state_view, threshold_view, verdict_view
from dplan.text import visible
from dplan.web import receive_body

__all__ = ["create_app"]

_FOLDER = Path(__file__).parent
_SHARED_STYLE = _FOLDER.parent / "_html" / "style.css"
_READ_AHEAD = 3  # rows that are explained before they are shown
_LONGEST_NAME = 100
_LARGEST_BODY, _SLOWEST_BODY = 65_536, 30.0  # bytes, seconds


class Pages:
    """The session as seen through HTTP.

    Parameters
    ----------
    session : Session
        The session.
    finish : callable
        Writes the results and returns where they are.
    """

    def __init__(self, session: Session, finish: Callable[[], list[str]]) -> None:
        self.session, self.finish = session, finish
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="explaining")
        self._details: dict[tuple[int, int], Future[dict[str, Any]]] = {}

    def page(self, request: Request) -> Response:
        """Return the page itself."""
        return HTMLResponse(_template().render(title=self.session.maker.table.path.name, version=__version__))

    def state(self, request: Request) -> Response:
        """Return counts, progress and what is under way; nothing if the page is up to date."""
        if request.query_params.get("version") == str(self.session.version) and self.session.stage is None:
            return JSONResponse({"version": self.session.version})
        return JSONResponse(state_view(self.session))

    def queue(self, request: Request) -> Response:
        """Return the next rows."""
        found = queue_view(self.session, request.query_params.get("filter", "")[:1000])
        current = self.session.round
        for entry in found["rows"][:_READ_AHEAD]:
            if entry["row"] in current.places:
                self._explained(current, entry["row"])
        return JSONResponse(found)

    def row(self, request: Request) -> Response:
        """Return one row in full."""
        row = request.path_params["row"]
        current, judged = self.session.round, self.session.judged()
        details = dict(self._explained(current, row).result())
        similar = similar_rows(current, row, details.pop("columns"), judged)
        key = self.session.key(row)
        return JSONResponse(
            {
                **details,
                "similar": similar,
                "digest": key.digest,
                "id": visible(", ".join(key.ids), 80),
                "judged": verdict_view(judged[row]) if row in judged else None,
            }
        )

    def threshold(self, request: Request) -> Response:
        """Return how many alerts each threshold gives."""
        return JSONResponse(threshold_view(self.session))

    def verdict(self, body: dict[str, Any]) -> Response:
        """Save a verdict about a row, or about all open rows that nearly duplicate it."""
        row, verdict, name = body["row"], body["verdict"], body.get("class", "").strip()
        if verdict not in get_args(Decision) or len(name) > _LONGEST_NAME:
            raise HTTPException(400, "not a verdict")
        session = self.session
        rows: list[int] = [row]
        digests: list[str] | None = [body["digest"]]
        if body.get("group"):
            judged = session.judged()
            rows, digests = [other for other in session.group(row) if other not in judged], None
            agreed = session.confirmed(row)
            if agreed is None or (agreed["verdict"], agreed["class"]) != (verdict, name):
                raise Refused("too few of these rows have this verdict; look at another one first")
        saved = session.judge(
            rows,
            verdict,
            name if verdict == "anomaly" else "",
            digests=digests,
            replaces=body.get("replaces"),
            seconds=min(max(float(body.get("seconds", 0)), 0), 86_400),
            window=body["window"][:60],
            who=body.get("who", "")[:60],
            reasons=self._reasons(rows),
        )
        return JSONResponse({"saved": [verdict_view(r) for r in saved], "round": session.round.number})

    def undo(self, body: dict[str, Any]) -> Response:
        """Withdraw the last verdict of a window."""
        undone = self.session.undo(body["window"][:60], body.get("who", "")[:60])
        return JSONResponse({"undone": [verdict_view(record) for record in undone]})

    def refit(self, body: dict[str, Any]) -> Response:
        """Learn from the verdicts now."""
        return JSONResponse({"started": self.session.refit()})

    def finished(self, body: dict[str, Any]) -> Response:
        """Write the results."""
        return JSONResponse({"written": self.finish()})

    def _explained(self, current: Round, row: int) -> Future[dict[str, Any]]:
        """Return the details of a row, which are computed once per round."""
        if row not in current.places:
            raise Refused("this row is not open for review")
        key = (current.number, row)
        if key not in self._details:
            if len(self._details) > 500:
                self._details.clear()
            ids = self.session.maker.table.ids
            self._details[key] = self._pool.submit(row_details, current, row, ids)
        return self._details[key]

    def _reasons(self, rows: list[int]) -> dict[int, list[str]]:
        """Return the reasons that were shown for rows."""
        number = self.session.round.number
        shown = {row: self._details.get((number, row)) for row in rows}
        return {
            row: [reason["text"] for reason in future.result()["reasons"]]
            for row, future in shown.items()
            if future is not None and future.done() and future.exception() is None
        }


def create_app(session: Session, finish: Callable[[], list[str]]) -> Starlette:
    """Return the application."""
    pages = Pages(session, finish)
    return Starlette(
        routes=[
            Route("/", pages.page),
            Route("/api/state", pages.state),
            Route("/api/queue", pages.queue),
            Route("/api/row/{row:int}", pages.row),
            Route("/api/threshold", pages.threshold),
            Route("/api/verdict", _taking_json(pages.verdict), methods=["POST"]),
            Route("/api/undo", _taking_json(pages.undo), methods=["POST"]),
            Route("/api/refit", _taking_json(pages.refit), methods=["POST"]),
            Route("/api/finish", _taking_json(pages.finished), methods=["POST"]),
            Route("/static/shared.css", _shared_style),
            Mount("/static", StaticFiles(directory=_FOLDER / "static")),
        ],
        exception_handlers={
            Refused: _refused,
            VerdictLogError: _not_saved,
            HTTPException: _http_error,
            Exception: lambda _, error: _problem(500, f"unexpected error: {error}"),
        },
    )


def _taking_json(answer: Callable[[dict[str, Any]], Response]) -> Callable[[Request], Any]:
    """Return an endpoint that passes the body to a function in a thread, since it may wait for the disk."""
    from starlette.concurrency import run_in_threadpool

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


def _shared_style(_: Request) -> Response:
    return Response(_SHARED_STYLE.read_text(encoding="utf-8"), media_type="text/css")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("page.html")
