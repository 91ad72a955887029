"""What the page is told: the state of the session, the queue and its filter, and the threshold, as JSON values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import Any

import numpy as np

from dplan.review.kinds import kinds_view, muted_view
from dplan.review.log import Record, label_of
from dplan.review.progress import FEWEST, found_so_far, likely_rate, next_rows
from dplan.review.rounds import GROUPINGS
from dplan.review.session import Session
from dplan.text import visible

__all__ = ["Readers", "entry_view", "open_rows", "queue_view", "row_name", "state_view", "verdict_view"]

_SHOWN = 40  # rows of the queue at a time
_RECENT = 20  # verdicts that the recent precision is about
_POINTS = 300  # of the progress curve
_MOVED = 3  # places, before the page mentions that a row has moved
_EARLIER = 10  # places that a row must be before its rank, to say that only the explorers find it
_AWAY = 90  # seconds after which a window that was not heard of is closed
_DISAGREE = 0.85  # quantile of the disagreement above which it is mentioned


class Readers:
    """Who has the page open and which row each reads, so that several people get different rows.

    Examples
    --------
    >>> readers = Readers()
    >>> readers.seen("w1", "Anna", 7)
    >>> readers.share([7, 8, 9, 10], {7: 1, 8: 2, 9: 3, 10: 4}, "w1")
    [7, 8, 9, 10]
    >>> readers.seen("w2", "Ben", 8)
    >>> readers.share([7, 8, 9, 10], {7: 1, 8: 2, 9: 3, 10: 4}, "w2")
    [9, 8, 10, 7]
    >>> readers.names()
    ['Anna', 'Ben']
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str, int]] = {}

    def seen(self, window: str, who: str, row: int) -> None:
        """Note that somebody has a row on the screen, -1 for none."""
        now = time.monotonic()
        present = {name: one for name, one in self._seen.items() if now - one[0] < _AWAY}
        self._seen = {**present, window: (now, who, row)}

    def names(self) -> list[str]:
        """Return who is there, however many windows they have open."""
        return sorted({who for _, who, _ in self._seen.values()})

    def share(self, rows: Sequence[int], ranks: Mapping[int, int], window: str) -> list[int]:
        """Return rows with those before the others that this window is to ask about: every second one of two people's.

        Rows that somebody else reads come last. Who gets a row depends on its rank, so it stays when rows are decided.
        """
        windows = sorted(self._seen)
        if window not in windows or len(windows) == 1:
            return list(rows)
        own, taken = windows.index(window), {one[2] for name, one in self._seen.items() if name != window}

        def turn(row: int) -> int:
            return 2 if row in taken else int(ranks.get(row, row) % len(windows) != own)

        return sorted(rows, key=turn)


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
        current = session.round
        waiting = session.since_refit
        unmatched = session.unmatched
    looked_at = list({record["n"]: record for record in judged.values()}.values())
    hits = [record["verdict"] == "anomaly" for record in looked_at]
    decided = [record["verdict"] == "anomaly" for record in looked_at if record["verdict"] != "unsure"]
    rate = likely_rate(decided)
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
        "kinds": kinds_view(current, judged),
        "muted": muted_view(current, judged),
        "default_class": visible(session.default_class, 60),
        "today": {"rows": _today(looked_at), "target": session.target},
        "recent": {"of": len(hits[-_RECENT:]), "found": sum(hits[-_RECENT:])},
        "fewest": FEWEST,
        "next": None if rate is None else next_rows(rate)._asdict(),
        "curve": {"looked_at": [i + 1 for i in some], "found": [curve[i] for i in some]},
        "excel": find_spec("xlsxwriter") is not None,
        "can_learn": any(record["verdict"] != "unsure" for record in looked_at),
    }


def _today(records: Iterable[Record]) -> int:
    """Return how many of these verdicts were given since midnight, where the server is."""
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return sum(datetime.fromisoformat(record["time"]) >= midnight for record in records)


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


def queue_view(
    session: Session,
    text: str = "",
    start: int = 0,
    readers: Readers | None = None,
    window: str = "",
    kind: int = -1,
) -> dict[str, Any]:
    """Return a part of the rows to look at, and how many there are: all of the table, or those that match a filter.

    Rows that match a filter and have a verdict already come last.

    Parameters
    ----------
    session : Session
        The session.
    text : str
        The filter.
    start : int
        Rows to leave out at the beginning; if there are fewer, the last part is returned.
    readers, window
        Who has the page open, and for whom the queue is; without a filter, each gets other rows.
    kind : int
        Only rows of the kind with this number; -1 for all rows.
    """
    with session.lock:
        waiting, decided, odd = open_rows(session, text)
        current = session.round
        if readers is not None and not text.strip():
            waiting = readers.share(waiting, current.ranks, window)
        if kind >= 0:
            waiting = [row for row in waiting if current.kind_of.get(row) == kind]
            decided = [row for row in decided if current.kind_of.get(row) == kind]
        some = bool(text.strip()) or kind >= 0
        left = len(waiting) if some else len(current.scores) - len({*session.judged(), *current.muted})
        start = max(0, min(start, (left + len(decided) - 1) // _SHOWN * _SHOWN))
        if start + _SHOWN > len(waiting) and left > len(waiting):
            waiting = waiting + session.beyond()
        shown = (waiting + decided)[start : start + _SHOWN]
        session.rows.fetch(row for row in shown if row not in current.places)
        # Members disagree more about high scores, so a row is compared with those beside it.
        places = [current.places[row] for row in shown if row in current.places]
        known = len(current.disagreement) > 0 and bool(places)
        limit = float(np.quantile(current.disagreement[places], _DISAGREE)) if known else np.inf
        judged = session.judged()
        entries = [entry_view(session, row, judged, limit) for row in shown]
    return {
        "round": current.number,
        "start": start,
        "size": _SHOWN,
        "left": left,
        "rows": entries,
        "odd": [visible(one, 300) for one in odd],
        "decided": len(decided),
    }


def row_name(ids: Sequence[str], number: int) -> str:
    """Return what the page calls a row: its ids or, if they are missing, its number.

    Examples
    --------
    >>> row_name(["a", "7"], 1203), row_name(["", " "], 1203)
    ('a, 7', 'row 1,204')
    """
    return visible(", ".join(ids), 80) if any(one.strip() for one in ids) else f"row {number + 1:,}"


def entry_view(
    session: Session, row: int, judged: Mapping[int, Record], limit: float = np.inf
) -> dict[str, Any]:
    """Return what the queue says about a row; above a limit, it says that members disagree."""
    current, before = session.round, session.previous
    key, rank = session.key(row), current.rank(row)
    rank_before = None if before is None else before.rank(row)
    moved = 0 if rank_before is None else rank_before - rank
    unsure = row in current.places and len(current.disagreement) > 0
    return {
        "row": row,
        "digest": key.digest,
        "id": row_name(key.ids, row),
        "score": round(float(current.scores[row]), 6),
        "percentile": float(current.model.percentile(current.scores[[row]])[0]),
        "rank": rank,
        "moved": moved if abs(moved) >= _MOVED else 0,
        "disagree": bool(unsure and current.disagreement[current.places[row]] > limit),
        "explored": bool(row in current.explored and rank > current.ranks.get(row, rank) + _EARLIER),
        "kind": visible(current.kind_name(row), 80),
        "kind_number": current.kind_of.get(row, -1),
        "judged": verdict_view(judged[row]) if row in judged else None,
        "groups": [
            {
                "by": by,
                "title": grouping.title,
                "name": visible(grouping.name(current, row), 80),
                "rows": len(alike),
                "open": sum(r not in judged for r in alike),
            }
            for by, grouping in GROUPINGS.items()
            if len(alike := current.group(row, by)) > 1
        ],
    }


def open_rows(session: Session, text: str = "") -> tuple[list[int], list[int], list[str]]:
    """Return the rows to ask about, in order; those that match a filter and are decided; what is odd about it."""
    with session.lock:
        current = session.round
        if not text.strip():
            return session.queue(), [], []
        found = session.rows.matching(text, current.scores)
        judged, first = session.judged(), {row: place for place, row in enumerate(session.queue())}
    waiting = [row for row in found.rows if row not in judged]
    # Rows of the queue come in its order, the others of the table behind them.
    waiting.sort(key=lambda row: first.get(row, len(first)))
    return waiting, [row for row in found.rows if row in judged], found.odd


def verdict_view(record: Record) -> dict[str, Any]:
    """Return a verdict as the page shows it."""
    kept = {name: record[name] for name in ("n", "number", "verdict", "time", "seconds", "round")}
    return kept | {
        "id": row_name(record["row"], record["number"]),
        "class": visible(record["class"], 60),
        "who": visible(record["who"], 60),
        "comment": visible(record.get("comment", ""), 2_000),
    }
