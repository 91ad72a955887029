"""What the page is told: the state of the session, the queue and its filter, and the threshold, as JSON values."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl

from dplan.review.log import Record, label_of
from dplan.review.progress import alert_volume, found_so_far, next_rows, without_feedback
from dplan.review.session import Session
from dplan.text import visible

__all__ = ["matching", "open_rows", "queue_view", "state_view", "threshold_view", "verdict_view"]

_TERM = re.compile(r'\s*("(?:[^"]*)"|[^\s"]\S*)')
_CONDITION = re.compile(r"^(.+?)(>=|<=|!=|=|>|<|:)(.*)$", re.DOTALL)

_SHOWN = 40  # rows of the queue
_RECENT = 20  # verdicts that the recent precision is about
_POINTS = 300  # of the progress curve
_MOVED = 3  # places, before the page mentions that a row has moved
_EARLIER = 10  # places that a row must be before its rank, to say that only the explorers find it
_DISAGREE = 0.85  # quantile of the disagreement above which it is mentioned


def state_view(session: Session) -> dict[str, Any]:
    """Return counts, progress and what is under way."""
    with session.lock:
        stage, opened = session.stage, session._round is not None
        found: dict[str, Any] = {
            "version": session.version,
            "table": visible(session.maker.table.path.name, 120),
            "who": visible(session.who, 60),
            "opened": opened,
            "refitting": session.refitting,
            "error": visible(session.error or _changed(session)),
            "every": session.refit_every,
            "stage": None if stage is None else {
                "name": stage[0], "done": stage[1], "total": stage[2],
                "seconds": round(time.monotonic() - session.stage_since, 1),
            },
        }  # fmt: skip
        if not opened:
            return found
        judged = session.judged()
        current, base = session.round, session.base or session.round
        waiting = session.since_refit
        unmatched = session.unmatched
    looked_at = list(judged.values())
    hits = [record["verdict"] == "anomaly" for record in looked_at]
    decided = [record["verdict"] == "anomaly" for record in looked_at if record["verdict"] != "unsure"]
    estimate = next_rows(decided)
    verdicts = {row: record["verdict"] == "anomaly" for row, record in judged.items()}
    baseline = without_feedback(base.rows.tolist(), verdicts, len(hits))
    some: list[int] = np.unique(np.linspace(0, len(hits) - 1, _POINTS).astype(int)).tolist() if hits else []
    curve = found_so_far(hits)
    labels = Counter(label_of(r, session.default_class) for r in looked_at if r["verdict"] == "anomaly")
    return found | {
        "round": current.number,
        "rows": len(current.scores),
        "pool": len(current.rows),
        "waiting": waiting,
        "unmatched": unmatched,
        "counts": {
            "reviewed": len(looked_at),
            **{
                name: sum(r["verdict"] == name for r in looked_at) for name in ("anomaly", "normal", "unsure")
            },
        },
        "classes": _classes(session, labels),
        "default_class": visible(session.default_class, 60),
        "recent": {"of": len(hits[-_RECENT:]), "found": sum(hits[-_RECENT:])},
        "next": None if estimate is None else estimate._asdict(),
        "curve": {
            "looked_at": [i + 1 for i in some],
            "found": [curve[i] for i in some],
            "without": [round(baseline[i], 2) for i in some if i < len(baseline)],
        },
        "can_learn": any(record["verdict"] != "unsure" for record in looked_at),
    }


def _changed(session: Session) -> str:
    """Return what has happened to the table's file, or an empty string."""
    try:
        session.maker.table.check_unchanged()
    except ValueError as error:
        return str(error)
    return ""


def _classes(session: Session, labels: Counter[str]) -> list[dict[str, Any]]:
    """Return the classes that have a key: those of the model, then those that the reviewers have named."""
    base = session.base or session.round
    names = [*base.model.summary.classes, *labels]
    names = [name for name in dict.fromkeys(names) if name != "anomaly"]
    return [{"name": visible(name, 60), "rows": labels[name]} for name in names[:9]]


def queue_view(session: Session, text: str = "") -> dict[str, Any]:
    """Return the next rows, and how many there are."""
    with session.lock:
        rows = open_rows(session, text)
        current, before, judged = session.round, session.previous, session.judged()
        shown = [row for row in rows[:_SHOWN] if session.key(row) not in session.log.verdicts.current]
        keys = [session.key(row) for row in shown]
    percentiles: list[float] = current.model.percentile(current.scores[shown]).tolist() if shown else []
    # Members disagree more about high scores, so a row is compared with those beside it.
    places = [current.places[row] for row in shown]
    known = len(current.disagreement) > 0 and bool(places)
    limit = np.quantile(current.disagreement[places], _DISAGREE) if known else np.inf
    entries = []
    for row, key, percentile in zip(shown, keys, percentiles, strict=True):
        place = current.places[row]
        alike = session.group(row)
        rank, rank_before = current.rank(row), None if before is None else before.rank(row)
        moved = 0 if rank_before is None else rank_before - rank
        entries.append(
            {
                "row": row,
                "digest": key.digest,
                "id": visible(", ".join(key.ids), 80),
                "score": round(float(current.scores[row]), 3),
                "percentile": percentile,
                "rank": rank,
                "moved": moved if abs(moved) >= _MOVED else 0,
                "disagree": bool(len(current.disagreement) and current.disagreement[place] > limit),
                "explored": bool(row in current.explored and rank > current.ranks.get(row, rank) + _EARLIER),
                "alike": len(alike),
                "alike_open": sum(other not in judged for other in alike),
                "confirmed": _confirmed(session, row),
            }
        )
    return {"round": current.number, "left": len(rows), "pool": len(current.order), "rows": entries}


def open_rows(session: Session, text: str = "") -> list[int]:
    """Return the numbers of the rows to ask about, in order, that match a filter."""
    with session.lock:
        rows, current = session.queue(), session.round
    if not text.strip():
        return rows
    kept = matching(current.pool, text)
    return [row for row in rows if kept[current.places[row]]]


def _confirmed(session: Session, row: int) -> dict[str, str] | None:
    found = session.confirmed(row)
    return None if found is None else {"verdict": found["verdict"], "class": visible(found["class"], 60)}


def threshold_view(session: Session) -> dict[str, Any]:
    """Return how many alerts each threshold gives, and the scores and verdicts of reviewed rows."""
    current = session.round
    judged = session.judged()
    return {
        "round": current.number,
        "rows": len(current.scores),
        "threshold": current.model.threshold,
        "volume": alert_volume(current.ascending),
        "reviewed": [
            [round(float(current.scores[row]), 6), record["verdict"] == "anomaly"]
            for row, record in judged.items()
            if record["verdict"] != "unsure"
        ],
    }


def verdict_view(record: Record) -> dict[str, Any]:
    """Return a verdict as the page shows it."""
    kept = {name: record[name] for name in ("n", "number", "verdict", "time", "seconds", "round")}
    return kept | {
        "id": visible(", ".join(record["row"]), 80),
        "class": visible(record["class"], 60),
        "who": visible(record["who"], 60),
    }


def matching(table: pl.DataFrame, text: str) -> pl.Series:
    """Return which rows match a filter: each word must be in some value, and each condition must hold.

    A condition is ``column=value``, ``column!=value``, ``column:part`` or a comparison of numbers such as
    ``amount>=100``. Quote a term with spaces: ``"country=New Zealand"``. Upper and lower case are the same.

    Examples
    --------
    >>> table = pl.DataFrame({"amount": ["5", "120"], "country": ["FR", "DE"]})
    >>> matching(table, "amount>=100 de").to_list()
    [False, True]
    >>> matching(table, "country!=de").to_list()
    [True, False]
    """
    texts = table.select(pl.all().cast(pl.String, strict=False).str.to_lowercase().fill_null(""))
    found = pl.Series([True]).new_from_index(0, table.height)
    for term in _TERM.findall(text):
        found = found & _matches(table, texts, term.strip('"'))
    return found


def _matches(table: pl.DataFrame, texts: pl.DataFrame, term: str) -> pl.Series:
    parts = _CONDITION.match(term)
    if parts and (column := _column(table.columns, parts[1].strip())) is not None:
        operator, wanted = parts[2], parts[3].strip().lower()
        if operator == ":":
            return texts[column].str.contains(wanted, literal=True)
        numbers = table[column].cast(pl.Float64, strict=False)
        with suppress(ValueError):
            number = float(wanted)
            held = {
                ">": numbers > number,
                "<": numbers < number,
                ">=": numbers >= number,
                "<=": numbers <= number,
                "=": numbers == number,
                "!=": numbers != number,
            }[operator].fill_null(operator == "!=")
            return held if operator not in ("=", "!=") else _equal(texts[column], wanted, operator, held)
        if operator in ("=", "!="):
            return _equal(texts[column], wanted, operator, None)
        return pl.Series([False]).new_from_index(0, table.height)
    return texts.select(pl.any_horizontal(pl.all().str.contains(term.lower(), literal=True))).to_series()


def _equal(texts: pl.Series, wanted: str, operator: str, numbers: pl.Series | None) -> pl.Series:
    """Compare as text and, where both are numbers, as numbers."""
    same = texts.str.strip_chars() == wanted
    if operator == "=":
        return same if numbers is None else same | numbers
    return ~same if numbers is None else ~same & numbers


def _column(columns: Sequence[str], name: str) -> str | None:
    if name in columns:
        return name
    return next((column for column in columns if column.lower() == name.lower()), None)
