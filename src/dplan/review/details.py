"""What the page shows about one row: reasons, typical values, and similar rows that were decided before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s, highest_first
from dplan.columns.formatting import cell, format_value
from dplan.review.log import Record, label_of
from dplan.review.rounds import GROUPINGS, Round
from dplan.review.session import Session
from dplan.review.view import row_name
from dplan.tables.evidence import Evidence
from dplan.tables.model import TableModel
from dplan.tables.row_keys import feature_keys
from dplan.text import visible

__all__ = ["context_view", "first_reasons", "group_view", "row_details", "similar_rows", "whole_value"]

_REASONS = 5
_SIMILAR = 3
_LONGEST = 200_000  # characters of a value
_COLUMNS = 30  # of a table of other rows


def row_details(current: Round, row: int, frame: pl.DataFrame, ids: Sequence[str]) -> dict[str, Any]:
    """Return what the model says about a row of the table, as JSON values; the most important columns come first."""
    model = current.model
    prepared = _prepared(current, row, frame)
    explanation = model.explain(frame, prepared, current.scores[[row]])
    (found,) = model.evidence.reasons(frame, prepared, explanation, _REASONS)
    features = _Features(model, frame, prepared[0])
    places = {column.name: j for j, column in enumerate(model.evidence.columns)}
    why = {places[reason.column]: reason for reason in found}
    reasons = [
        {
            **features.value(j),
            "share": round(reason.share, 3),
            "text": visible(reason.text(), 300),
            "note": visible(reason.note(), 300),
            "picture": features.picture(j),
        }
        for j, reason in why.items()
    ]
    ranked = highest_first(np.abs(explanation.effects[0])).tolist()
    listed = [*why, *(j for j in ranked if j not in why)]
    known = set(model.columns)
    return {
        "row": row,
        "score": round(float(current.scores[row]), 4),
        "baseline": round(explanation.baseline, 4),
        "novelty": _novelty(model, prepared),
        "reasons": reasons,
        "values": [features.value(j) for j in listed],
        "others": [
            {"name": visible(name, 80), **_long(frame, name)}
            for name in frame.columns
            if name not in known and name not in ids
        ],
        "columns": listed,
    }


def first_reasons(current: Round, frames: Mapping[int, pl.DataFrame]) -> dict[int, dict[str, str]]:
    """Return the first reason for the score of each row, as the queue shows it; rows without one are left out."""
    rows = list(frames)
    frame = pl.concat(frames.values(), how="diagonal_relaxed")
    prepared = np.concatenate([_prepared(current, row, frames[row]) for row in rows])
    explanation = current.model.explain(frame, prepared, current.scores[rows])
    found = current.model.evidence.reasons(frame, prepared, explanation, 1)
    return {
        row: {
            "name": visible(reasons[0].column, 80),
            "value": visible(reasons[0].value, 60),
            "text": visible(reasons[0].text(), 300),
        }
        for row, reasons in zip(rows, found, strict=True)
        if reasons
    }


def group_view(session: Session, row: int, by: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return the rows that belong together with a row, as a table in which some or all of them are decided at once.

    The row itself comes first, then others without a verdict, at most `Grouping.most`; the decided ones are counted.

    Parameters
    ----------
    session : Session
        The session.
    row : int
        The row.
    by : str
        One of `GROUPINGS`.
    columns : sequence of str
        The columns to show, the most important first.
    """
    with session.lock:
        current, judged = session.round, session.judged()
        alike = current.group(row, by)
        waiting = [other for other in dict.fromkeys([row, *alike]) if other not in judged]
        frames = {other: session.frame(other) for other in waiting[: GROUPINGS[by].most]}
        keys = {other: session.key(other) for other in frames}
    return {
        "by": by,
        "title": GROUPINGS[by].title,
        "name": visible(GROUPINGS[by].name(current, row), 80),
        "round": current.number,
        "open": len(waiting),
        "decided": Counter(
            visible(label_of(judged[other]), 60) for other in alike if other in judged
        ).most_common(),
        "columns": [visible(name, 80) for name in columns[:_COLUMNS]],
        "rows": [
            {
                "row": other,
                "digest": keys[other].digest,
                "id": row_name(keys[other].ids, other),
                "score": round(float(current.scores[other]), 6),
                "values": [visible(_whole(frame, name, 0), 60) for name in columns[:_COLUMNS]],
            }
            for other, frame in frames.items()
        ],
    }


def _prepared(current: Round, row: int, frame: pl.DataFrame) -> Float32s:
    """Return a row as the detector sees it."""
    if row in current.places:
        return current.prepared[[current.places[row]]]
    return current.model.prepare_with_report(frame)[0]


def _novelty(model: TableModel, prepared: Float32s) -> float | None:
    """Return how novel a row is, or None if the detector has no explorers."""
    if not model.detector._explorer_terms():
        return None
    return float(model.novelty_percentile(model.novelty_scores_of(prepared))[0])


class _Features:
    """The values of a row in the columns of the model."""

    def __init__(self, model: TableModel, frame: pl.DataFrame, prepared: Float32s) -> None:
        self.evidence, self.frame, self.prepared = model.evidence, frame, prepared

    def own(self, j: int) -> slice:
        return _own(self.evidence, j)

    def found(self, j: int) -> Any:
        return cell(self.frame, self.evidence.columns[j].name, 0)

    def value(self, j: int) -> dict[str, Any]:
        """Return a value with the column's name and typical values, and whether it is unusual."""
        column, typical = self.evidence.columns[j], self.evidence.typical[j]
        mine = self.prepared[self.own(j)]
        return {
            "name": visible(column.name, 80),
            **_long(self.frame, column.name),
            "typical": visible(typical.text, 120),
            "unusual": column.is_new(mine) or not typical.includes(mine),
        }

    def picture(self, j: int) -> dict[str, Any]:
        """Return the distribution of a column, and where the row is in it."""
        own, found = self.own(j), self.found(j)
        missing = found is None or found != found
        column, background = self.evidence.columns[j], self.evidence.background[:, own]
        return column.picture(background, self.prepared[own], missing=missing)


def _own(evidence: Evidence, j: int) -> slice:
    """Return the features of a column."""
    start = int(evidence.starts[j])
    return slice(start, start + evidence.columns[j].width)


def similar_rows(
    current: Round, row: int, own_frame: pl.DataFrame, listed: Sequence[int], judged: Mapping[int, Record]
) -> dict[str, list[dict[str, Any]]]:
    """Return the nearest known anomalies and the nearest rows that were found normal, with their values.

    The values are those of the columns of the model with the listed indices.
    """
    evidence = current.model.evidence
    own = _prepared(current, row, own_frame)[0]
    found: dict[str, list[dict[str, Any]]] = {}
    for decision in ("anomaly", "normal"):
        rows = [
            other
            for other, record in judged.items()
            if record["verdict"] == decision and other != row and other in current.places
        ]
        places = [current.places[other] for other in rows]
        candidates = current.prepared[places]
        frame = current.pool[places]
        titles = [_title(judged[other]) for other in rows]
        stored, names = _stored(current.model, decision)
        titles += names
        every = np.concatenate([candidates, stored])
        found[decision] = []
        for i in _distinct(every, current.likeness.nearest(own, every, 4 * _SIMILAR)):
            gaps = current.likeness.differences(own, every[[i]])[0]
            values = [
                _text(frame, evidence.columns[j].name, i)
                if i < len(places)
                else evidence.columns[j].restored(every[i][_own(evidence, j)])
                for j in listed
            ]
            differs = [bool(gaps[j] > 0.5) for j in listed]
            found[decision].append({"title": visible(titles[i], 60), "values": values, "differs": differs})
    return found


def _stored(model: TableModel, decision: str) -> tuple[Float32s, list[str]]:
    """Return the rows with a verdict that a model remembers, and what they are called."""
    if decision == "normal":
        rows = model.background[:0] if model.checked_normal is None else model.checked_normal
        return rows, ["checked before"] * len(rows)
    names = list(model.summary.labels)
    known = zip(model.summary.known_names, model.known_classes.tolist(), strict=True)
    return model.known_anomalies, [f"{own} ({names[k]})" for own, k in known]


def _distinct(rows: Float32s, order: NDArray[np.int64]) -> list[int]:
    """Return the first few positions with different rows: a row may be stored in the model and judged here."""
    first: dict[str, int] = {}
    for i, key in zip(order.tolist(), feature_keys(rows[order]), strict=True):
        first.setdefault(key, i)
    return list(first.values())[:_SIMILAR]


def _title(record: Record) -> str:
    return row_name(record["row"], record["number"]) + (f" ({record['class']})" if record["class"] else "")


def _text(frame: pl.DataFrame, name: str, row: int) -> str:
    return visible(_whole(frame, name, row))


def _whole(frame: pl.DataFrame, name: str, row: int) -> str:
    found = cell(frame, name, row)
    return found if isinstance(found, str) else format_value(found)


def _long(frame: pl.DataFrame, name: str) -> dict[str, Any]:
    """Return the value of a row and, if it was cut, the place of the column, by which all of it can be read."""
    whole = _whole(frame, name, 0)
    shown = visible(whole)
    cut = len(whole) > len(shown) or shown.endswith(" characters)")
    return {"value": shown, **({"cut": frame.columns.index(name)} if cut else {})}


def whole_value(frame: pl.DataFrame, column: int) -> dict[str, str]:
    """Return the whole value of a column of a row, up to what a browser can show."""
    name = frame.columns[column]
    return {"name": visible(name, 80), "value": visible(_whole(frame, name, 0), _LONGEST)}


def context_view(
    rows: pl.DataFrame, numbers: Sequence[int], scores: Sequence[float], own: int
) -> list[dict[str, Any]]:
    """Return rows of the same account, machine or customer as they are listed."""
    return [
        {
            "row": number,
            "own": number == own,
            "score": round(score, 6),
            "values": [visible(_whole(rows, name, place), 60) for name in rows.columns[:_COLUMNS]],
        }
        for place, (number, score) in enumerate(zip(numbers, scores, strict=True))
    ]
