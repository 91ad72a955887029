"""What the page shows about one row: reasons, typical values, and similar rows that were decided before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.review.log import Record
from dplan.review.rounds import Round
from dplan.tables.columns import Column
from dplan.tables.formatting import format_date, format_number, format_reason, format_value, typical_values

__all__ = ["row_details", "similar_rows", "visible"]

_REASONS, _LEAST_SHARE = 5, 0.1  # effects below a tenth of the total are not worth reading
_SIMILAR = 3
_BINS = 24
_LONGEST = 500  # characters of a value that are shown


def visible(text: str, most: int = _LONGEST) -> str:
    r"""Return text that is safe to show: control and direction characters are escaped, and long text is cut.

    Examples
    --------
    >>> visible("a\u202eb\x00"), visible("word " * 1000, most=10)
    ('a\\u202eb\\x00', 'word word … (5,000 characters)')
    """
    cut = text[:most]
    shown = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in cut)
    return shown if len(text) <= most else f"{shown.rstrip()} … ({len(text):,} characters)"


def row_details(current: Round, row: int, ids: Sequence[str]) -> dict[str, Any]:
    """Return what the model says about a row of the pool, as JSON values; the most important columns come first."""
    place = current.places[row]
    frame = current.pool[[place]]
    model, features = current.model, _Features(current)
    explanation = model.explain(frame)
    effects = explanation.effects[0]
    total = float(explanation.scores[0] - explanation.baseline)
    strongest = [
        int(j)
        for j in np.argsort(-effects, kind="stable")[:_REASONS]
        if effects[j] > 0 and effects[j] >= _LEAST_SHARE * total > 0
    ]
    prepared = current.prepared[place]
    reasons = [
        {
            **features.value(j, frame[model.columns[j]][0], prepared),
            "share": round(float(effects[j]) / total, 3),
            "text": features.reason(j, frame[model.columns[j]][0]),
            "picture": features.picture(j, prepared),
        }
        for j in strongest
    ]
    listed = [
        *strongest,
        *(j for j in np.argsort(-np.abs(effects), kind="stable").tolist() if j not in strongest),
    ]
    known = set(model.columns)
    return {
        "row": row,
        "score": round(float(current.scores[row]), 4),
        "baseline": round(explanation.baseline, 4),
        "reasons": reasons,
        "values": [features.value(j, frame[model.columns[j]][0], prepared) for j in listed],
        "others": [
            {"name": visible(name, 80), "value": _cell(frame[name][0])}
            for name in frame.columns
            if name not in known and name not in ids
        ],
        "columns": listed,
    }


class _Features:
    """The columns of the model, with their typical values."""

    def __init__(self, current: Round) -> None:
        self.model = current.model
        self.columns = current.model.preparation.columns_
        self.groups = current.model.preparation.feature_groups()
        self.starts = np.flatnonzero(np.diff(self.groups, prepend=-1))

    def background(self, j: int) -> Floats:
        column: Floats = self.model.background[:, self.starts[j]]
        return column

    def value(self, j: int, found: Any, prepared: Floats) -> dict[str, Any]:
        """Return a value with the column's name and typical values, and whether it is unusual."""
        column = self.columns[j]
        own, usual = prepared[self.starts[j]], self.background(j)
        if column.kind == "text":
            mine = prepared[self.groups == j]
            unusual = bool(mine.max() < 1) or column.fill[int(mine.argmax())] < 0.05
        else:
            low, high = np.quantile(usual, [0.05, 0.95])
            unusual = bool(own < low or own > high)
        return {
            "name": visible(column.name, 80),
            "value": _cell(found),
            "typical": visible(typical_values(column, usual), 120),
            "unusual": unusual,
        }

    def reason(self, j: int, found: Any) -> str:
        return visible(format_reason(self.columns[j], found, self.background(j)), 300)

    def picture(self, j: int, prepared: Floats) -> dict[str, Any]:
        """Return the distribution of a column, and where the row is in it."""
        column = self.columns[j]
        if column.kind == "text":
            return _bars(column, prepared[self.groups == j])
        if column.kind == "flag":
            share, own = column.fill[0], float(prepared[self.starts[j]])
            return {"bars": [["false", round(1 - share, 4), own == 0], ["true", round(share, 4), own == 1]]}
        usual, own = self.background(j).astype(np.float64), float(prepared[self.starts[j]])
        # The ends are those of most background rows, or the row itself.
        low, high = np.quantile(usual, [0.005, 0.995])
        low, high = min(low, own), max(high, own)
        if high <= low:
            low, high = low - 0.5, low + 0.5
        counts = np.histogram(np.clip(usual, low, high), np.linspace(low, high, _BINS + 1))[0]
        typical = np.quantile(usual, [0.05, 0.95])
        return {
            "bins": (counts / max(counts.max(), 1)).round(3).tolist(),
            "at": round((own - low) / (high - low), 4),
            "typical": [round(float(x), 4) for x in np.clip((typical - low) / (high - low), 0, 1)],
            "ends": [_original(column, float(x)) for x in (low, high)],
        }

    def restored(self, j: int, prepared: Floats) -> str:
        """Return the value of a prepared row of which the original is not known."""
        column = self.columns[j]
        if column.kind == "text":
            mine = prepared[self.groups == j]
            return visible(column.levels[int(mine.argmax())], 80) if mine.max() == 1 else "missing or rare"
        if column.kind == "flag":
            return {0.0: "false", 1.0: "true"}.get(float(prepared[self.starts[j]]), "missing")
        return _original(column, float(prepared[self.starts[j]]))


def _bars(column: Column, mine: NDArray[np.float32]) -> dict[str, Any]:
    own = int(mine.argmax()) if mine.max() == 1 else None
    order = np.argsort(-np.asarray(column.fill), kind="stable")[:4].tolist()
    if own is not None and own not in order:
        order.append(own)
    return {"bars": [[visible(column.levels[k], 40), round(column.fill[k], 4), k == own] for k in order]}


def _original(column: Column, value: float) -> str:
    factor, shift, span = column.scaling()
    with np.errstate(over="ignore"):
        found = float(np.nan_to_num((value * span + shift) / factor))
    return format_date(found) if column.kind == "date" else format_number(found)


def _cell(found: Any) -> str:
    return visible(found) if isinstance(found, str) else visible(format_value(found))


def similar_rows(
    current: Round, row: int, listed: Sequence[int], judged: Mapping[int, Record]
) -> dict[str, list[dict[str, Any]]]:
    """Return the nearest known anomalies and the nearest rows that were found normal, with their values.

    The values are those of the columns of the model with the listed indices.
    """
    features = _Features(current)
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
        stored = current.model.known_anomalies if decision == "anomaly" else current.prepared[:0]
        names = list(current.model.summary["labels"])
        titles += [f"known: {names[k]}" if k < len(names) else "known" for k in current.model.known_classes]
        every = np.concatenate([candidates, stored])
        found[decision] = []
        for i in _distinct(every, current.likeness.nearest(own, every, 4 * _SIMILAR)):
            gaps = current.likeness.differences(own, every[[i]])[0]
            values = [
                _column_text(frame, features.columns[j].name, i)
                if i < len(places)
                else features.restored(j, every[i])
                for j in listed
            ]
            differs = [bool(gaps[j] > 0.5) for j in listed]
            found[decision].append({"title": visible(titles[i], 60), "values": values, "differs": differs})
    return found


def _distinct(rows: Floats, order: NDArray[np.int64]) -> list[int]:
    """Return the first few positions with different rows: a row may be stored in the model and judged here."""
    seen: set[bytes] = set()
    kept: list[int] = []
    for i in order.tolist():
        if rows[i].tobytes() not in seen and len(kept) < _SIMILAR:
            seen.add(rows[i].tobytes())
            kept.append(i)
    return kept


def _title(record: Record) -> str:
    return ", ".join(record["row"]) + (f" ({record['class']})" if record["class"] else "")


def _column_text(frame: pl.DataFrame, name: str, row: int) -> str:
    return _cell(frame[name][row])
