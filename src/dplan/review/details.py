"""What the page shows about one row: reasons, typical values, and similar rows that were decided before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.columns.formatting import cell, format_value
from dplan.review.log import Record
from dplan.review.rounds import Round
from dplan.tables.evidence import Evidence
from dplan.tables.model import TableModel
from dplan.tables.row_keys import feature_keys
from dplan.text import visible

__all__ = ["row_details", "similar_rows"]

_REASONS = 5
_SIMILAR = 3


def row_details(current: Round, row: int, ids: Sequence[str]) -> dict[str, Any]:
    """Return what the model says about a row of the pool, as JSON values; the most important columns come first."""
    place = current.places[row]
    frame, prepared = current.pool[[place]], current.prepared[[place]]
    model = current.model
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
    ranked = np.argsort(-np.abs(explanation.effects[0]), kind="stable").tolist()
    listed = [*why, *(j for j in ranked if j not in why)]
    known = set(model.columns)
    return {
        "row": row,
        "score": round(float(current.scores[row]), 4),
        "baseline": round(explanation.baseline, 4),
        "reasons": reasons,
        "values": [features.value(j) for j in listed],
        "others": [
            {"name": visible(name, 80), "value": _text(frame, name, 0)}
            for name in frame.columns
            if name not in known and name not in ids
        ],
        "columns": listed,
    }


class _Features:
    """The values of a row in the columns of the model."""

    def __init__(self, model: TableModel, frame: pl.DataFrame, prepared: Floats) -> None:
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
            "value": _text(self.frame, column.name, 0),
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
    current: Round, row: int, listed: Sequence[int], judged: Mapping[int, Record]
) -> dict[str, list[dict[str, Any]]]:
    """Return the nearest known anomalies and the nearest rows that were found normal, with their values.

    The values are those of the columns of the model with the listed indices.
    """
    evidence = current.model.evidence
    own = current.prepared[current.places[row]]
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


def _stored(model: TableModel, decision: str) -> tuple[Floats, list[str]]:
    """Return the rows with a verdict that a model remembers, and what they are called."""
    if decision == "normal":
        rows = model.background[:0] if model.checked_normal is None else model.checked_normal
        return rows, ["checked before"] * len(rows)
    names = list(model.summary.labels)
    known = zip(model.summary.known_names, model.known_classes.tolist(), strict=True)
    return model.known_anomalies, [f"{own} ({names[k]})" for own, k in known]


def _distinct(rows: Floats, order: NDArray[np.int64]) -> list[int]:
    """Return the first few positions with different rows: a row may be stored in the model and judged here."""
    first: dict[str, int] = {}
    for i, key in zip(order.tolist(), feature_keys(rows[order]), strict=True):
        first.setdefault(key, i)
    return list(first.values())[:_SIMILAR]


def _title(record: Record) -> str:
    return ", ".join(record["row"]) + (f" ({record['class']})" if record["class"] else "")


def _text(frame: pl.DataFrame, name: str, row: int) -> str:
    found = cell(frame, name, row)
    return visible(found if isinstance(found, str) else format_value(found))
