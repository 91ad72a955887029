"""Mute a kind: its rows are scored and counted, but no alerts, until it expires."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from dplan.rules.file import Kind, RuleFile
from dplan.rules.values import rule_values
from dplan.tables.model import TableModel
from dplan.tables.words import words_of
from dplan.text import shown

__all__ = ["anomalies_matched", "muted", "n_matching", "unmuted"]


def anomalies_matched(kind: Kind, types: Mapping[str, str], table: pl.DataFrame, model: TableModel) -> int:
    """Return how many known anomalies of a table meet the rule of a kind.

    Parameters
    ----------
    kind : Kind
        The kind.
    types : mapping
        The types of the columns that the rules use.
    table : polars.DataFrame
        Rows with the label column of the model.
    model : TableModel
        Knows which labels are anomalies.
    """
    label = model.summary.label
    if label not in table.columns:
        raise ValueError(f"the table has no column {shown(label)}, which has the labels of the model")
    return n_matching(kind, types, table.filter(pl.Series(words_of(model).marks(table[label]) > 0)), model)


def n_matching(kind: Kind, types: Mapping[str, str], table: pl.DataFrame, model: TableModel) -> int:
    """Return how many rows of a table meet the rule of a kind; 0 if it has none."""
    if kind.rule is None:
        return 0
    used = {condition.column: types[condition.column] for condition in kind.rule.conditions}
    values = rule_values(model.preparation.columns_, table, used, model.missing)
    return int(values.select(kind.rule.expression()).to_series().sum())


def muted(
    found: RuleFile,
    kind: Kind,
    *,
    owner: str,
    reason: str,
    days: int = 90,
    n_known: int = 0,
    today: datetime.date | None = None,
) -> RuleFile:
    """Return the file with a kind muted; raise ValueError if it cannot be.

    Parameters
    ----------
    found : RuleFile
        The file.
    kind : Kind
        One of its kinds.
    owner, reason : str
        Who answers for it, and why its alerts are harmless.
    days : int
        After how many days it expires.
    n_known : int
        The number of known anomalies that meet the rule, as from `anomalies_matched`.
    today : date, optional
        The day from which it counts.

    Examples
    --------
    >>> from dplan.rules.rule import Condition, Rule
    >>> kind = Kind("cheap", Rule((Condition("price", "integer", at_most=9),)))
    >>> found = RuleFile({"price": "integer"}, (kind,))
    >>> day = datetime.date(2024, 1, 1)
    >>> muted(found, kind, owner="ann", reason="tests", today=day).kinds[0].about["muted"]["until"]
    '2024-03-31'
    >>> muted(found, kind, owner="ann", reason="tests", n_known=2)
    Traceback (most recent call last):
    ValueError: the rule of 'cheap' matches 2 known anomalies, so it cannot be muted
    """
    if kind.rule is None:
        raise ValueError(
            f"{shown(kind.name)} has no rule, so it cannot be muted: nothing says which rows it means"
        )
    if n_known:
        anomalies = "known anomalies" if n_known > 1 else "known anomaly"
        raise ValueError(
            f"the rule of {shown(kind.name)} matches {n_known:,} {anomalies}, so it cannot be muted"
        )
    if not owner.strip() or not reason.strip():
        raise ValueError("muting needs an owner and a reason")
    until = (today or datetime.date.today()) + datetime.timedelta(days=days)
    record = {"owner": owner.strip(), "reason": reason.strip(), "until": until.isoformat()}
    return _with(found, kind, record)


def unmuted(found: RuleFile, kind: Kind) -> RuleFile:
    """Return the file with a kind that is not muted.

    Parameters
    ----------
    found : RuleFile
        The file.
    kind : Kind
        One of its kinds.

    Examples
    --------
    >>> from dplan.rules.rule import Condition, Rule
    >>> kind = Kind("cheap", Rule((Condition("price", "integer", at_most=9),)))
    >>> found = RuleFile({"price": "integer"}, (kind,))
    >>> found = muted(found, kind, owner="ann", reason="tests")
    >>> unmuted(found, found.named("cheap")).kinds[0].about["muted"] is None
    True
    """
    return _with(found, kind, None)


def _with(found: RuleFile, kind: Kind, record: Mapping[str, str] | None) -> RuleFile:
    changed = replace(kind, about={**kind.about, "muted": record})
    return replace(found, kinds=tuple(changed if one is kind else one for one in found.kinds))
