"""The page and its interface, as an ASGI application."""

from __future__ import annotations

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
from dplan.review.answers import ERRORS, number, taking_json
from dplan.review.details import (
    context_view,
    first_reasons,
    group_view,
    row_details,
    similar_rows,
    whole_value,
)
from dplan.review.history import class_name, history_view, known_classes, rename_class, workbook
from dplan.review.kinds import kind_list, lift, mute, unmute
from dplan.review.log import Decision, Refused
from dplan.review.progress import choose_threshold, threshold_view
from dplan.review.rounds import GROUPINGS, Round
from dplan.review.session import Session
from dplan.review.table import repeated_columns
from dplan.review.view import Readers, entry_view, queue_view, row_name, state_view, verdict_view
from dplan.text import visible

__all__ = ["create_app"]

_FOLDER = Path(__file__).parent
_SHARED_STYLE = _FOLDER.parent / "_html" / "style.css"
_READ_AHEAD = 3  # rows that are explained before they are shown
_LONGEST_NAME, _LONGEST_COMMENT = 100, 2_000
_MOST_ROWS = 100  # of one request


class Pages:
    """The session as seen through HTTP.

    Parameters
    ----------
    session : Session
        The session.
    finish : callable
        Writes the results and returns where they are.
    model_name : str
        The name of the model file that is written.
    """

    def __init__(self, session: Session, finish: Callable[[], list[str]], model_name: str) -> None:
        self.session, self.finish, self.model_name = session, finish, model_name
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="explaining")
        self._details: dict[tuple[int, int], Future[dict[str, Any]]] = {}
        self.readers = Readers()
        self._first: dict[tuple[int, int], dict[str, str] | None] = {}  # reasons, by round and row

    def page(self, request: Request) -> Response:
        """Return the page itself."""
        return HTMLResponse(_template().render(title=self.session.maker.table.path.name, version=__version__))

    def state(self, request: Request) -> Response:
        """Return counts, progress and what is under way; nothing if the page is up to date."""
        asked, reading = request.query_params, request.scope.get("reading", False)
        if "window" in asked and not reading:
            who = visible(asked.get("who") or self.session.who, 60)
            self.readers.seen(asked["window"][:60], who, number(asked.get("open", "-1")))
        people = self.readers.names()
        if asked.get("version") == str(self.session.version) and self.session.stage is None:
            return JSONResponse({"version": self.session.version, "people": people})
        return JSONResponse({**state_view(self.session), "reading": reading, "people": people})

    def queue(self, request: Request) -> Response:
        """Return the next rows."""
        asked = request.query_params
        text, window = asked.get("filter", "")[:1000], asked.get("window", "")[:60]
        part = {name: number(asked[name]) for name in ("start", "kind") if name in asked}
        found = queue_view(self.session, text, readers=self.readers, window=window, **part)
        for entry in found["rows"][:_READ_AHEAD]:
            self._explained(self.session.round, entry["row"])
        judged = self.session.judged().get(number(asked.get("open", "-1")))
        return JSONResponse({**found, "open": None if judged is None else verdict_view(judged)})

    def row(self, request: Request) -> Response:
        """Return one row in full."""
        row = request.path_params["row"]
        current, judged = self.session.round, self.session.judged()
        details = dict(self._explained(current, row).result())
        similar = similar_rows(current, row, self.session.frame(row), details.pop("columns"), judged)
        key = self.session.key(row)
        return JSONResponse(
            {
                **details,
                "similar": similar,
                "entry": entry_view(self.session, row, judged),
                "contexts": [visible(name, 80) for name in repeated_columns(current.pool)],
                "round": current.number,
                "digest": key.digest,
                "id": row_name(key.ids, row),
            }
        )

    def reasons(self, request: Request) -> Response:
        """Return the first reason for each of some rows of the queue."""
        current = self.session.round
        rows = [number(row) for row in request.query_params.get("rows", "").split(",")][:_MOST_ROWS]
        new = {row: self.session.frame(row) for row in rows if (current.number, row) not in self._first}
        if new:
            found = self._pool.submit(first_reasons, current, new).result()
            self._first |= {(current.number, row): found.get(row) for row in new}
        first = {row: self._first[current.number, row] for row in rows}
        self._first = {key: value for key, value in self._first.items() if key[0] == current.number}
        return JSONResponse({"round": current.number, "reasons": first})

    def group(self, request: Request) -> Response:
        """Return the rows that may be decided together with a row."""
        row, by = request.path_params["row"], request.query_params.get("by", "duplicates")
        if by not in GROUPINGS:
            raise HTTPException(404, "there is no such group")
        current = self.session.round
        listed = self._explained(current, row).result()["columns"]
        columns = [current.model.evidence.columns[j].name for j in listed]
        return JSONResponse(group_view(self.session, row, by, columns))

    def threshold(self, request: Request) -> Response:
        """Return how many alerts each threshold gives."""
        return JSONResponse(threshold_view(self.session))

    def choose_threshold(self, body: dict[str, Any]) -> Response:
        """Write a threshold into the model file."""
        score = float(body["score"])
        alerts = choose_threshold(
            self.session, score, body["round"], who=body.get("who", "")[:60], window=body["window"][:60]
        )
        return JSONResponse({"model": visible(self.model_name, 120), "score": score, "alerts": alerts})

    def history(self, request: Request) -> Response:
        """Return what was decided."""
        wanted = {name: request.query_params.get(name, "") for name in ("who", "label", "day", "split")}
        return JSONResponse(history_view(self.session, wanted))

    def workbook(self, request: Request) -> Response:
        """Return what was decided as an Excel workbook."""
        table = self.session.maker.table
        name = "".join(c if c.isalnum() and c.isascii() else "-" for c in table.path.stem)
        return Response(
            workbook(self.session.log.records, table.ids),
            media_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            headers={"Content-Disposition": f'attachment; filename="{name}-verdicts.xlsx"'},
        )

    def value(self, request: Request) -> Response:
        """Return the whole value of a column, which the page cuts."""
        frame = self.session.frame(request.path_params["row"])
        column = request.path_params["column"]
        if column >= frame.width:
            raise HTTPException(404, "there is no such column")
        return JSONResponse(whole_value(frame, column))

    def context(self, request: Request) -> Response:
        """Return the rows of the table with the same value in a column."""
        row, wanted = request.path_params["row"], request.query_params.get("column", "")
        current = self.session.round
        frame = self.session.frame(row)
        column = next((name for name in frame.columns if visible(name, 80) == wanted), None)
        if column is None:
            raise HTTPException(404, "there is no such column")
        rows, numbers, total = self.session.rows.beside(row, column)
        return JSONResponse(
            {
                "columns": [visible(name, 80) for name in rows.columns[:30]],
                "rows": context_view(rows, numbers, current.scores[numbers].tolist(), row),
                "total": total,
            }
        )

    def kinds(self, request: Request) -> Response:
        """Return all kinds, with those that are muted."""
        return JSONResponse({"kinds": kind_list(self.session)})

    def mute(self, body: dict[str, Any]) -> Response:
        """Mute the kind of a rule, or end that."""
        by = {"who": body.get("who", "")[:60], "window": body["window"][:60]}
        if body["mute"]:
            mute(self.session, body["rule"], body["reason"].strip()[:_LONGEST_COMMENT], **by)
        else:
            unmute(self.session, body["rule"], **by)
        return JSONResponse({"kinds": kind_list(self.session)})

    def rename(self, body: dict[str, Any]) -> Response:
        """Give a class another name."""
        names = {"who": body.get("who", "")[:60], "window": body["window"][:60]}
        return JSONResponse(
            {"name": rename_class(self.session, body["from"], body["to"][:_LONGEST_NAME], **names)}
        )

    def verdict(self, body: dict[str, Any]) -> Response:
        """Save a verdict about a row, or about the rows that were checked in a table."""
        verdict, session = body["verdict"], self.session
        try:
            name = class_name(body.get("class", ""), known_classes(session))
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        if verdict not in get_args(Decision) or len(name) > _LONGEST_NAME:
            raise HTTPException(400, "not a verdict")
        about = body.get("rows", [body])
        rows: list[int] = [one["row"] for one in about]
        digests: list[str] = [one["digest"] for one in about]
        if not rows or len(set(rows)) < len(rows) or len(rows) > _MOST_ROWS:
            raise HTTPException(400, "not a list of rows")
        saved = session.judge(
            rows,
            verdict,
            name if verdict == "anomaly" else "",
            digests=digests,
            replaces=body.get("replaces"),
            shown=body.get("round"),
            seconds=min(max(float(body.get("seconds", 0)), 0), 86_400),
            window=body["window"][:60],
            who=body.get("who", "")[:60],
            reasons=self._reasons(rows, body.get("round")),
            comment=body.get("comment", "").strip()[:_LONGEST_COMMENT],
        )
        note = self._lifted(rows, body) if verdict == "anomaly" else ""
        answer = {"saved": [verdict_view(r) for r in saved], "round": session.round.number, "note": note}
        return JSONResponse(answer)

    def _lifted(self, rows: list[int], body: dict[str, Any]) -> str:
        """Unmute the kinds of rows that were found to be anomalies, and say so."""
        try:
            names = lift(self.session, rows, who=body.get("who", "")[:60], window=body["window"][:60])
        except Refused as refusal:
            return str(refusal)
        listed = ", ".join(visible(name, 80) for name in names)
        return f"Not muted any more, because an anomaly meets the rule: {listed}." if names else ""

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
        key = (current.number, row)
        if key not in self._details:
            if len(self._details) > 500:
                self._details.clear()
            ids = self.session.maker.table.ids
            self._details[key] = self._pool.submit(row_details, current, row, self.session.frame(row), ids)
        return self._details[key]

    def _reasons(self, rows: list[int], shown: int | None) -> dict[int, list[str]]:
        """Return the reasons that were shown for rows in a round."""
        number = self.session.round.number if shown is None else shown
        explained = {row: self._details.get((number, row)) for row in rows}
        return {
            row: [reason["text"] for reason in future.result()["reasons"]]
            for row, future in explained.items()
            if future is not None and future.done() and future.exception() is None
        }


def create_app(session: Session, finish: Callable[[], list[str]], model_name: str) -> Starlette:
    """Return the application."""
    pages = Pages(session, finish, model_name)
    return Starlette(
        routes=[
            Route("/", pages.page),
            Route("/api/state", pages.state),
            Route("/api/queue", pages.queue),
            Route("/api/row/{row:int}", pages.row),
            Route("/api/reasons", pages.reasons),
            Route("/api/group/{row:int}", pages.group),
            Route("/api/value/{row:int}/{column:int}", pages.value),
            Route("/api/context/{row:int}", pages.context),
            Route("/api/history", pages.history),
            Route("/api/kinds", pages.kinds),
            Route("/api/mute", taking_json(pages.mute), methods=["POST"]),
            Route("/api/workbook", pages.workbook),
            Route("/api/threshold", pages.threshold),
            Route("/api/threshold", taking_json(pages.choose_threshold), methods=["POST"]),
            Route("/api/verdict", taking_json(pages.verdict), methods=["POST"]),
            Route("/api/undo", taking_json(pages.undo), methods=["POST"]),
            Route("/api/rename", taking_json(pages.rename), methods=["POST"]),
            Route("/api/refit", taking_json(pages.refit), methods=["POST"]),
            Route("/api/finish", taking_json(pages.finished), methods=["POST"]),
            Route("/static/shared.css", _shared_style),
            Mount("/static", StaticFiles(directory=_FOLDER / "static")),
        ],
        exception_handlers=ERRORS,
    )


def _shared_style(_: Request) -> Response:
    return Response(_SHARED_STYLE.read_text(encoding="utf-8"), media_type="text/css")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("page.html")
