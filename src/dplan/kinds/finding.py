"""Kinds of alerts: groups of them with a name, a rule, what the rule was measured to be worth, and typical rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float64s, highest_first
from dplan.columns.formatting import cell, format_value
from dplan.kinds.conditions import candidates
from dplan.kinds.grouping import FEWEST_ALERTS, groups
from dplan.kinds.measures import LEVEL, wilson
from dplan.kinds.naming import likeness
from dplan.kinds.rounding import readable
from dplan.kinds.search import Rows, rule_of, search
from dplan.kinds.table import Counts, ScoredTable
from dplan.kinds.words import NOTHING, like, sentence
from dplan.rules.file import Kind, RuleFile
from dplan.rules.rule import Rule
from dplan.rules.values import rule_type, rule_values
from dplan.scoring.scorer import Scored
from dplan.tables.model import TableModel
from dplan.text import visible

__all__ = ["Group", "Kinds", "find_kinds", "rule_for"]

MOST_ALERTS = 2_000  # that are explained and grouped
_ORDINARY = 3_000  # other rows that rules are made from
_COLUMNS = 12  # with the largest effects, on which a rule may have conditions
_GOOD, _FEWEST = 0.3, 4  # of the objective and of alerts to make a rule from, without which there is none
_TYPICAL, _SHOWN_COLUMNS, _SETTING_APART = 3, 6, 2


@dataclass(frozen=True, eq=False)
class Group:
    """A kind, with the alerts that it was made from.

    Attributes
    ----------
    kind : Kind
        Its name, its rule and what is known of it.
    alerts : Scored
        Its alerts, the most typical first.
    columns : list of int
        The columns of the model, by their mean effect on the scores of these alerts, largest first.
    resembling : dict of int
        How many of its alerts resemble the known anomalies of each class.

    Examples
    --------
    >>> import dplan
    >>> rows = pl.DataFrame({"amount": [float(i % 90) for i in range(960)] + [900.0 + i for i in range(40)]})
    >>> model = dplan.TableDetector(dplan.LogisticBaseline()).fit(rows, [0] * 970 + [1] * 20 + [0] * 10)
    >>> group = model.kinds(rows, budget=40, n_kinds=1).groups[0]
    >>> group.kind.name, len(group.alerts), [model.to_model().columns[column] for column in group.columns]
    ('like class 1', 40, ['amount'])
    """

    kind: Kind
    alerts: Scored
    columns: list[int]
    resembling: dict[str, int]


@dataclass(frozen=True, eq=False, repr=False)
class Kinds:
    """The kinds of alerts of a table; shown as a table in a notebook.

    Attributes
    ----------
    table : ScoredTable
        The scored rows.
    groups : list of Group
        The kinds, the largest first; none if there are too few alerts.
    rules : RuleFile
        The same as data.

    Examples
    --------
    >>> import dplan
    >>> rows = pl.DataFrame({"amount": [float(i % 90) for i in range(960)] + [900.0 + i for i in range(40)]})
    >>> model = dplan.TableDetector(dplan.LogisticBaseline()).fit(rows, [0] * 970 + [1] * 20 + [0] * 10)
    >>> found = model.kinds(rows, budget=40, n_kinds=1)
    >>> print(found)
    40 alerts like class 1: `amount` at least 900. 28 of 28 matching rows were alerts (at least 91 %), ...
    >>> found.n_alerts, found.is_sampled
    (40, False)
    """

    table: ScoredTable
    groups: list[Group]
    rules: RuleFile

    @property
    def n_alerts(self) -> int:
        """The number of alerts."""
        return int(self.table.alert.sum())

    @property
    def is_sampled(self) -> bool:
        """Whether there were so many alerts that kinds were made from a sample of them."""
        return self.n_alerts > MOST_ALERTS

    @property
    def heading(self) -> str:
        """How many kinds of how many alerts there are."""
        if not self.groups:
            return f"{self.n_alerts:,} alerts are too few for kinds: there must be at least {FEWEST_ALERTS}."
        return f"{len(self.groups)} kinds of {self.n_alerts:,} alerts"

    def __repr__(self) -> str:
        return "\n".join(str(group.kind.about["sentence"]) for group in self.groups) or self.heading

    def _repr_html_(self) -> str:
        from dplan.notebook.kinds import kinds_html

        return kinds_html(self)


def find_kinds(table: ScoredTable, n_kinds: int | None = None) -> Kinds:
    """Find the kinds of the alerts of a scored table.

    Parameters
    ----------
    table : ScoredTable
        The table.
    n_kinds : int, optional
        The number of kinds.
    """
    found = np.flatnonzero(table.alert)
    if len(found) < FEWEST_ALERTS:
        return Kinds(table, [], RuleFile({}, ()))
    model, rng = table.scorer.model, np.random.default_rng(0)
    if len(found) > MOST_ALERTS:
        found = np.sort(rng.choice(found, MOST_ALERTS, replace=False))
    alerts = table.take(found)
    effects = np.maximum(model.explain(None, alerts.prepared, alerts.score).effects, 0.0)
    labels = groups(effects, n_kinds)
    making = np.flatnonzero(~table.alert & ~table.measuring)
    ordinary = making
    if len(making) > _ORDINARY:
        ordinary = np.sort(rng.choice(making, _ORDINARY, replace=False))
    others = table.take(ordinary) if len(ordinary) else alerts[:0]
    types, values = _values(table, alerts, others)
    weights = (int(table.alert.sum()) / len(found), len(making) / max(1, len(ordinary)))
    for_making = ~table.measuring[found]
    order = [highest_first(effects[labels == k].mean(axis=0)) for k in range(labels.max() + 1)]
    rules = []
    for k, columns in enumerate(order):
        names = [model.preparation.columns_[column].name for column in columns]
        some = [name for name in names if name in types][:_COLUMNS]
        kept = np.concatenate([for_making, np.ones(len(others), dtype=np.bool_)])
        kind = np.concatenate([labels == k, np.zeros(len(others), dtype=np.bool_)])[kept]
        plain = np.concatenate([np.zeros(len(alerts), np.bool_), np.ones(len(others), np.bool_)])[kept]
        rows = Rows(kind, plain, ~kind & ~plain, *weights)
        used = {name: types[name] for name in some}
        rules.append(rule_for(values.filter(pl.Series(kept)), used, rows))
    return _described(table, alerts, effects, labels, order, rules, types)


def rule_for(values: pl.DataFrame, types: dict[str, str], rows: Rows) -> Rule | None:
    """Return a rule that describes a kind, with numbers as people write them; None if there is no good one.

    Parameters
    ----------
    values : DataFrame
        The rows that the rule is made from.
    types : dict
        The columns that it may use, and their types.
    rows : Rows
        Which of the rows are of the kind, ordinary, or of other kinds.
    """
    if int(rows.kind.sum()) < _FEWEST:
        return None
    choices = [
        one
        for name, kind in types.items()
        for one in candidates(values[name], kind, rows.kind, rows.ordinary)
    ]
    found = search(choices, rows)
    if found is None or found.objective < _GOOD:
        return None
    return rule_of(readable(found, rows).conditions)


def _values(table: ScoredTable, alerts: Scored, others: Scored) -> tuple[dict[str, str], pl.DataFrame]:
    """Return the type of each column that rules can use, and the values of alerts and other rows in this order."""
    model = table.scorer.model
    assert alerts.table is not None
    assert others.table is not None
    both = pl.concat([alerts.table, others.table], how="vertical_relaxed").select(model.columns)
    read = model.read(both)
    # Of two names that differ in case alone, a database may take the other one.
    same = Counter(name.casefold() for name in model.columns)
    names = [name for name in model.columns if same[name.casefold()] == 1]
    types = {name: kind for name in names if (kind := rule_type(read[name])) is not None}
    return types, rule_values(model.preparation.columns_, both, types, model.missing)


def _described(
    table: ScoredTable,
    alerts: Scored,
    effects: Float64s,
    labels: NDArray[np.int64],
    order: Sequence[NDArray[np.int64]],
    rules: Sequence[Rule | None],
    types: dict[str, str],
) -> Kinds:
    """Measure the rules on the rows that did not make them, and put everything into words."""
    model = table.scorer.model
    good = [rule for rule in rules if rule is not None]
    used = {c.column: types[c.column] for rule in good for c in rule.conditions}
    counts = iter(table.count(good, used))
    assert alerts.table is not None
    values = rule_values(model.preparation.columns_, alerts.table, used, model.missing)
    is_measured = table.measuring[np.searchsorted(table.rows, alerts.rows)]
    share = int(table.alert.sum()) / len(alerts)
    alike = likeness(model, effects)
    names, groups_found = dict[str, int](), []
    for k, rule in enumerate(rules):
        own = np.flatnonzero(labels == k)
        centre = effects[own].mean(axis=0)
        own = own[np.argsort(((effects[own] - centre) ** 2).sum(axis=1), kind="stable")]
        near = {name: float(rows[own].mean()) for name, rows in alike.items()}
        of_class = max(near, key=lambda name: near[name]) if near else ""
        of_class = of_class if near.get(of_class, 0.0) >= 0.5 else ""
        name = like(of_class) if of_class else NOTHING
        names[name] = names.get(name, 0) + 1
        name += f" ({names[name]})" * (names[name] > 1)
        n_alerts = round(share * len(own))
        measured = None
        if rule is not None:
            met = values.select(rule.expression()).to_series().to_numpy()
            kind = own[is_measured[own]]
            measured = _measured(next(counts), int(table.measuring.sum()), len(kind), int(met[kind].sum()))
        resembling = {name: round(share * int(rows[own].sum())) for name, rows in alike.items()}
        above = centre - effects.mean(axis=0)
        columns = [
            model.columns[column] for column in highest_first(above)[:_SETTING_APART] if above[column] > 0
        ]
        about = {
            "class": of_class or None,
            "alerts": n_alerts,
            "measured": measured,
            "columns": columns,
            "sentence": sentence(name, n_alerts, rule, measured, columns, resembling, about=share > 1),
            "typical_rows": _typical(model, alerts[own[:_TYPICAL]], rule, order[k]),
            "muted": None,
        }
        groups_found.append(Group(Kind(name, rule, about), alerts[own], order[k].tolist(), resembling))
    of_name = {column.name: column for column in model.preparation.columns_}
    meanings = {name: of_name[name].described() for name in used if not of_name[name].is_as_stored}
    return Kinds(table, groups_found, RuleFile(used, tuple(group.kind for group in groups_found), meanings))


def _measured(found: Counts, rows: int, kind: int, kind_matched: int) -> dict[str, float]:
    return {
        "rows": rows,
        "matched": found.matched,
        "alerts": found.alerts,
        "kind": kind,
        "kind_matched": kind_matched,
        "level": LEVEL,
        "precision_at_least": round(wilson(found.alerts, found.matched), 4),
        "precision_at_most": round(wilson(found.alerts, found.matched, upper=True), 4),
        "coverage_at_least": round(wilson(kind_matched, kind), 4),
        "coverage_at_most": round(wilson(kind_matched, kind, upper=True), 4),
    }


def _typical(
    model: TableModel, alerts: Scored, rule: Rule | None, order: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return rows by their number in the table, with their ids and the columns that matter most."""
    assert alerts.table is not None
    names = [condition.column for condition in rule.conditions] if rule is not None else []
    names += [model.columns[column] for column in order]
    ids = [name for name in model.summary.ids if name in alerts.table.columns]
    shown = [*ids, *list(dict.fromkeys(names))[:_SHOWN_COLUMNS]]
    found = []
    for i, row in enumerate(alerts.rows.tolist()):
        values = {name: cell(alerts.table, name, i) for name in shown}
        texts = {name: v if isinstance(v, str) else format_value(v) for name, v in values.items()}
        found.append({"row": row + 1, "values": {name: visible(text) for name, text in texts.items()}})
    return found
