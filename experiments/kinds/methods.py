"""Ways to group alerts and to describe the groups: ours, and other clusterings with the same search for rules."""

from collections.abc import Callable

import numpy as np
import polars as pl
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.cluster import HDBSCAN, KMeans

from dplan.arrays import Float64s
from dplan.kinds.finding import rule_for
from dplan.kinds.grouping import groups
from dplan.kinds.search import Rows
from dplan.rules.rule import Rule
from experiments.kinds.alerts import Alerts, Labels, Mask

__all__ = ["CLUSTERINGS", "covering", "rules_of_groups"]

_COLUMNS, _ORDINARY, _MOST_RULES = 12, 3_000, 5


def ours(found: Alerts) -> Labels:
    """Ward's linkage of positive effects."""
    return groups(found.effects)


def score_alone(found: Alerts) -> Labels:
    """Use the height of the score alone."""
    return groups(found.scores[found.alert][:, None])


def effects_hdbscan(found: Alerts) -> Labels:
    """HDBSCAN of positive effects; noise is a group."""
    return _dense(found.effects)


def values_hdbscan(found: Alerts) -> Labels:
    """HDBSCAN of the prepared values."""
    return _dense(found.prepared[found.alert].astype(np.float64))


def values_kmeans(found: Alerts) -> Labels:
    """k-means of the prepared values, with as many groups as Ward's linkage of them would have."""
    rows = found.prepared[found.alert].astype(np.float64)
    n = len(np.unique(groups(rows)))
    return KMeans(n, n_init=10, random_state=0).fit_predict(rows).astype(np.int64)  # type: ignore[no-any-return]


def values_ward(found: Alerts) -> Labels:
    """Ward's linkage of the prepared values."""
    rows = found.prepared[found.alert].astype(np.float64)
    n = len(np.unique(groups(found.effects)))
    return fcluster(linkage(rows, "ward"), n, "maxclust").astype(np.int64)  # type: ignore[no-any-return]


def top_two(found: Alerts) -> Labels:
    """Group by the two columns with the largest effects: the five most frequent pairs, and all others."""
    pairs = np.sort(np.argsort(-found.effects, axis=1, kind="stable")[:, :2], axis=1)
    _, labels, sizes = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    frequent = np.argsort(-sizes, kind="stable")[:5]
    place = np.full(len(sizes), len(frequent))
    place[frequent] = np.arange(len(frequent))
    return place[labels.ravel()].astype(np.int64)


def _dense(rows: Float64s) -> Labels:
    return HDBSCAN(min_cluster_size=max(5, len(rows) // 20), copy=True).fit_predict(rows).astype(np.int64)  # type: ignore[no-any-return]


CLUSTERINGS: dict[str, Callable[[Alerts], Labels]] = {
    "kinds: positive effects, Ward": ours,
    "effects, HDBSCAN": effects_hdbscan,
    "score alone, Ward": score_alone,
    "values, k-means": values_kmeans,
    "values, HDBSCAN": values_hdbscan,
    "values, Ward": values_ward,
    "top two columns": top_two,
}


class Making:
    """The rows that rules are made from: half of the alerts, and up to 3,000 of the other rows of that half."""

    def __init__(self, found: Alerts) -> None:
        making = ~found.measuring
        alerts, ordinary = np.flatnonzero(making & found.alert), np.flatnonzero(making & ~found.alert)
        some = ordinary
        if len(ordinary) > _ORDINARY:
            some = np.sort(np.random.default_rng(0).choice(ordinary, _ORDINARY, replace=False))
        self.found, self.weight = found, len(ordinary) / max(1, len(some))
        self.rows = np.concatenate([alerts, some])
        self.ordinary = np.isin(self.rows, some)
        self.values = found.table.select(list(found.types))[self.rows]

    def rule(self, kind: Mask, others: Mask, effects: Float64s) -> Rule | None:
        """Return a rule for some test rows, on the columns with the largest mean of some effects."""
        found, order = self.found, np.argsort(-effects.mean(axis=0), kind="stable")
        names = [found.model.columns[column] for column in order]
        some = [name for name in names if name in found.types][:_COLUMNS]
        rows = Rows(kind[self.rows], self.ordinary, others[self.rows], 1.0, self.weight)
        return rule_for(self.values, {name: found.types[name] for name in some}, rows)


def rules_of_groups(found: Alerts, labels: Labels) -> list[Mask]:
    """Return which test rows the rule of each group matches, if the group has a good one."""
    making, rules = Making(found), []
    places = np.flatnonzero(found.alert)
    for number in np.unique(labels).tolist():
        kind = np.zeros(len(found.alert), dtype=np.bool_)
        kind[places[labels == number]] = True
        rule = making.rule(kind, found.alert & ~kind, found.effects[labels == number])
        if rule is not None:
            rules.append(matches(found.table, rule))
    return rules


def covering(found: Alerts) -> list[Mask]:
    """Return rules for all alerts, one after the other, each for the alerts that are left."""
    making, rules = Making(found), list[Mask]()
    left = found.alert.copy()
    while len(rules) < _MOST_RULES and (left & ~found.measuring).sum() >= 4:
        rule = making.rule(left, found.alert & ~left, found.effects[left[found.alert]])
        if rule is None:
            break
        rules.append(matches(found.table, rule))
        left &= ~rules[-1]
    return rules


def matches(table: pl.DataFrame, rule: Rule) -> Mask:
    """Return which rows a rule matches."""
    return table.select(rule.expression()).to_series().to_numpy()
