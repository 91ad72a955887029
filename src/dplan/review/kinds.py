"""Kinds of rows in a review: how many rows are open, when a verdict may go for the rest of one, and muting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import polars as pl

from dplan.exceptions import VerdictLogError
from dplan.review.log import Record, Refused
from dplan.review.rounds import Round
from dplan.review.session import Session
from dplan.rules.file import Kind, RuleFile
from dplan.rules.muting import muted, n_matching, unmuted
from dplan.text import shown, visible

__all__ = ["kind_list", "kinds_view", "lift", "mute", "muted_view", "unmute"]

_EQUAL = 3  # verdicts about rows of a kind, after which the page offers to decide the others


def kinds_view(current: Round, judged: Mapping[int, Record]) -> list[dict[str, Any]]:
    """Return the kinds of the rows that may be shown, as JSON values: those with open rows, most of them first.

    Parameters
    ----------
    current : Round
        The round.
    judged : mapping of int to dict
        The verdict that counts for each row, the oldest first.
    """
    if current.rules is None:
        return []
    rows: dict[int, list[int]] = {}
    given: dict[
        int, dict[int, Record]
    ] = {}  # of each kind, by line: rows that are there twice are decided once
    for row, kind in current.kind_of.items():
        if row not in judged and row not in current.muted:
            rows.setdefault(kind, []).append(row)
    for row, record in judged.items():
        if row in current.kind_of:
            given.setdefault(current.kind_of[row], {})[record["n"]] = record
    return [
        {
            "number": kind,
            "name": visible(current.rules.kinds[kind].name, 80),
            "rule": visible(str(current.rules.kinds[kind].rule), 300),
            "open": len(waiting),
            "row": waiting[0],  # the one with the highest score
            "equal": _equal([*given.get(kind, {}).values()]),
        }
        for kind, waiting in sorted(rows.items(), key=lambda one: -len(one[1]))
    ]


def muted_view(current: Round, judged: Mapping[int, Record]) -> dict[str, int] | None:
    """Return how many kinds are muted, and how many rows are not asked about therefore; None if there are no kinds."""
    if current.rules is None:
        return None
    n_kinds = sum(kind.is_muted(date.today()) for kind in current.rules.kinds)
    return {"kinds": n_kinds, "rows": len(current.muted - judged.keys())}


def _equal(records: Sequence[Record]) -> str:
    """Return the label of the last verdicts about rows of a kind if it is the same, and one to learn from; else ""."""
    last = {(record["verdict"], record["class"]) for record in records[-_EQUAL:]}
    if len(records) < _EQUAL or len(last) > 1:
        return ""
    ((verdict, name),) = last
    return "" if verdict == "unsure" else visible(name or verdict, 60)


def kind_list(session: Session) -> list[dict[str, Any]]:
    """Return all kinds that have a rule, as JSON values, with what was decided about their rows."""
    with session.lock:
        current, judged, today = session.round, session.judged(), date.today()
        of_kind: dict[int, list[int]] = {}
        for row, kind in current.kind_of.items():
            of_kind.setdefault(kind, []).append(row)
        return [
            {
                "number": number,
                "name": visible(kind.name, 80),
                "id": kind.rule.id,
                "rule": visible(str(kind.rule), 300),
                "open": sum(row not in judged for row in of_kind.get(number, ())),
                "decided": sum(row in judged for row in of_kind.get(number, ())),
                "muted": {name: visible(text, 300) for name, text in kind.about["muted"].items()}
                if kind.is_muted(today)
                else None,
            }
            for number, kind in enumerate(() if current.rules is None else current.rules.kinds)
            if kind.rule is not None
        ]


def mute(session: Session, rule: str, reason: str, *, who: str = "", window: str = "") -> None:
    """Mute the kind with the id of a rule; raise Refused if rows that were found to be anomalies meet it.

    Parameters
    ----------
    session : Session
        The session.
    rule : str
        The id of the rule.
    reason : str
        Why the rows are harmless.
    who, window
        Recorded in the file of kinds, and in the log.
    """
    with session.lock:
        rules = _as_on_disk(session)
        kind = rules.named(rule)
        found = [row for row, record in session.judged().items() if record["verdict"] == "anomaly"]
        n_known = _n_of_kind(session, rules, kind, found)
        owner = who or session.who
        try:
            changed = muted(rules, kind, owner=owner, reason=reason, n_known=n_known)
        except ValueError as error:
            raise Refused(str(error)) from None
        until = changed.named(rule).about["muted"]["until"]
        line = {"kind": "mute", "rule": rule, "name": kind.name, "reason": reason, "until": until}
        meaning = {"conditions": str(kind.rule)}
        _save(session, rules, changed, {**line, **meaning, "who": owner, "window": window})


def unmute(session: Session, rule: str, *, who: str = "", window: str = "") -> None:
    """Ask about rows of a kind again, and let them be alerts."""
    with session.lock:
        rules = _as_on_disk(session)
        kind = rules.named(rule)
        line = {
            "kind": "unmute",
            "rule": rule,
            "name": kind.name,
            "who": who or session.who,
            "window": window,
        }
        _save(session, rules, unmuted(rules, kind), line)


def lift(session: Session, rows: Sequence[int], *, who: str = "", window: str = "") -> list[str]:
    """Unmute the kinds whose rules are met by some of the rows, which were found to be anomalies; return their names.

    Raises Refused if kinds that the rows meet stay muted, because their file has changed or cannot be written.
    """
    with session.lock:
        rules, today = session.round.rules, date.today()
        if rules is None:
            return []
        met = [k for k in rules.kinds if k.is_muted(today) and _n_of_kind(session, rules, k, rows)]
        for kind in met:
            assert kind.rule is not None
            try:
                unmute(session, kind.rule.id, who=who, window=window)
            except (Refused, VerdictLogError) as error:
                raise Refused(
                    f"{shown(kind.name)} stays muted, although an anomaly meets its rule: {error}"
                ) from None
        return [kind.name for kind in met]


def _n_of_kind(session: Session, rules: RuleFile, kind: Kind, rows: Sequence[int]) -> int:
    """Return how many of the rows meet the rule of a kind."""
    if not rows:
        return 0
    table = pl.concat([session.frame(row) for row in rows], how="vertical_relaxed")
    return n_matching(kind, rules.columns, table, session.round.model)


def _as_on_disk(session: Session) -> RuleFile:
    """Return the kinds with what somebody else has muted meanwhile; raise Refused if they are other kinds."""
    now, path = session.round.rules, session.kinds.path
    if now is None or path is None:
        raise Refused("this review has no kinds")
    try:
        found = RuleFile.load(path)
    except (OSError, ValueError) as error:
        raise Refused(f"cannot read the kinds again: {error}") from None
    if found.rules != now.rules:
        raise Refused(f"{path.name} has other rules now; start the review again to use them")
    return found


def _save(session: Session, before: RuleFile, changed: RuleFile, line: Record) -> None:
    """Save changed kinds and a line of the log: both, or neither."""
    path = session.kinds.path
    assert path is not None
    try:
        changed.save(path)
    except OSError as error:
        raise VerdictLogError(f"not saved: cannot write to {path}: {error.strerror or error}") from error
    try:
        session.log.append(line)
    except VerdictLogError:
        before.save(path)
        raise
    session.use_kinds(changed)
