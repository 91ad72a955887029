"""What was decided: every row with a verdict, by person, label and day, the names of classes, and all as a workbook."""

from __future__ import annotations

import io
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from dplan.review.log import Record, Refused, Standing, key_of, label_of
from dplan.review.session import Session
from dplan.review.view import verdict_view
from dplan.tables.words import is_reserved
from dplan.tables.workbook import write_workbook
from dplan.text import shown, visible

__all__ = ["class_name", "history_view", "known_classes", "rename_class", "workbook"]


def class_name(text: str, known: Iterable[str] = ()) -> str:
    r"""Return the name of a class as it is stored; raise ValueError if a column of labels would read it otherwise.

    Blanks of all kinds are the same, characters without a width count for nothing, and known classes keep their
    spelling.

    Examples
    --------
    >>> class_name(" card\xa0 thef\u200bt "), class_name("CARD theft", ["Card theft"])
    ('card theft', 'Card theft')
    """
    kept = "".join(c for c in unicodedata.normalize("NFC", text) if unicodedata.category(c) != "Cf")
    name = " ".join(kept.split())
    if name and is_reserved(name):
        raise ValueError(f"{shown(name)} means something else in a column of labels; choose another name")
    return next((other for other in known if other.casefold() == name.casefold()), name)


def known_classes(session: Session) -> list[str]:
    """Return the classes of the first model and those that the reviewers have named."""
    trained = [] if session.base is None else session.base.model.summary.classes
    named = (record["class"] for record in session.log.verdicts.current.values())
    return [name for name in dict.fromkeys([*trained, *named]) if name]


def rename_class(session: Session, before: str, after: str, *, who: str = "", window: str = "") -> str:
    """Give a class that the reviewers have named another name; the name of another class merges the two."""
    with session.lock:
        trained = [] if session.base is None else session.base.model.summary.classes
        known = known_classes(session)
        if before not in known or before in trained:
            raise Refused(f"there is no class {shown(before)} that reviewers have named")
        name = class_name(after, [other for other in known if other != before])
        if not name:
            raise Refused("a class needs a name")
        if name != before:
            line = {"from": before, "to": name, "who": who or session.who, "window": window}
            session.log.append({"kind": "rename", **line})
            session.version += 1
        return name


_LISTED = 200


def history_view(session: Session, wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return the rows with a verdict, the latest first, with all their verdicts.

    Parameters
    ----------
    session : Session
        The session.
    wanted : mapping
        Values of ``who``, ``label``, ``day`` and ``split`` (any value: only rows about which people disagreed) that the
        verdict must have.
    """
    with session.lock:
        verdicts = session.log.verdicts
        current = [dict(record) for record in reversed(verdicts.current.values())]
        given = {key: list(each) for key, each in verdicts.given().items()}
        rows = {record["n"]: row for row, record in session.judged().items()}
    fields = {record["n"]: _fields(record) for record in current}
    shown = [
        record
        for record in current
        if all(
            not value or fields[record["n"]].get(name) == value
            for name, value in wanted.items()
            if name != "split"
        )
        and (not wanted.get("split") or _is_split(given[key_of(record)]))
    ]
    return {
        "total": len(shown),
        "choices": {
            name: Counter(fields[record["n"]][name] for record in current).most_common(100)
            for name in ("who", "label", "day")
        },
        "split": sum(_is_split(given[key_of(record)]) for record in current),
        "twice": sum(len({other["who"] for other in given[key_of(record)]}) > 1 for record in current),
        "rows": [
            {
                **verdict_view(record),
                "row": rows.get(record["n"]),
                "score": record["score"],
                "earlier": [
                    verdict_view(other)
                    for other in reversed(given[key_of(record)])
                    if other["n"] != record["n"]
                ],
            }
            for record in shown[:_LISTED]
        ],
    }


def _fields(record: Record) -> dict[str, str]:
    return {
        "who": visible(record["who"] or "unknown", 60),
        "label": visible(label_of(record), 60),
        "day": record["time"][:10],
    }


def _is_split(given: Sequence[Record]) -> bool:
    """Return whether different people gave a row different verdicts."""
    latest = {record["who"]: label_of(record) for record in given}
    return len(set(latest.values())) > 1


def workbook(records: Sequence[Record], ids: Sequence[str]) -> bytes:
    """Return an Excel workbook of the verdicts that count, the oldest first."""
    current = list(Standing(records).current.values())
    names = list(ids) or ["row"]
    columns: dict[str, list[Any]] = {
        name: [record["row"][place] for record in current] for place, name in enumerate(names)
    }
    own = {
        "verdict": [record["verdict"] for record in current],
        "class": [record["class"] for record in current],
        "who": [record["who"] for record in current],
        "when": [datetime.fromisoformat(record["time"]).replace(tzinfo=None) for record in current],
        "score": [float(record["score"]) for record in current],
        "rank": [record["rank"] for record in current],
        "reasons": ["\n".join(record["reasons"]) for record in current],
        "comment": [record.get("comment", "") for record in current],
    }
    for name, values in own.items():
        while name in columns:
            name = f"review_{name}"
        columns[name] = values
    buffer = io.BytesIO()
    schema: dict[str, Any] = {"when": pl.Datetime("ms"), "score": pl.Float64, "rank": pl.Int64}
    frame = pl.DataFrame(columns, schema_overrides={n: t for n, t in schema.items() if n in columns})
    write_workbook(frame, buffer, sheet="Verdicts")
    return buffer.getvalue()
