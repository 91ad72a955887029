"""Rules of other packages, with at most five rules of three conditions.

imodels, wittgenstein, pysubgroup and Iguanas require versions of numpy, pandas and others that this package cannot use,
or would add a gigabyte, so they are installed by hand: ``pip install --no-deps imodels wittgenstein pysubgroup iguanas
tqdm xgboost``. A method whose package is not installed is left out.
"""

import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import polars as pl
from sklearn.tree import DecisionTreeClassifier

from dplan.arrays import Float64s
from experiments.kinds.alerts import Alerts, Labels, Mask

__all__ = ["rivals"]

_RULES, _DEPTH = 5, 3
_MOST_ROWS, _RIPPER_ROWS, _RIPPER_COLUMNS, _SUBGROUP_COLUMNS = 2_000, 1_300, 20, 12


def _numbers(found: Alerts) -> pl.DataFrame:
    """Return all test rows as numbers, text one-hot, with plain names."""
    prepared = found.prepared.astype(np.float64)
    return pl.from_numpy(prepared, schema=[f"c{i}" for i in range(prepared.shape[1])])


def _making(found: Alerts, most: int) -> Labels:
    """Return rows of the half that makes rules: all alerts, and others up to a number."""
    making = ~found.measuring
    alerts, ordinary = np.flatnonzero(making & found.alert), np.flatnonzero(making & ~found.alert)
    n = min(len(ordinary), max(most - len(alerts), len(alerts)))
    return np.concatenate([alerts, np.random.default_rng(0).choice(ordinary, n, replace=False)])


def _most_effective(found: Alerts, n: int) -> list[str]:
    """Return the features of the columns with the largest mean effect."""
    features = found.model.preparation.feature_groups()
    order = np.argsort(-found.effects.mean(axis=0), kind="stable")
    return [f"c{i}" for column in order for i in np.flatnonzero(features == column)][:n]


def tree(found: Alerts) -> list[Mask]:
    """Return the leaves of a tree of depth three in which most rows are alerts."""
    X, making = found.prepared, np.flatnonzero(~found.measuring)
    fitted = DecisionTreeClassifier(max_depth=_DEPTH, min_samples_leaf=4, random_state=0)
    fitted.fit(X[making], found.alert[making])
    leaves = fitted.apply(X)
    shares = {leaf: found.alert[making][leaves[making] == leaf].mean() for leaf in np.unique(leaves[making])}
    return [leaves == leaf for leaf, share in shares.items() if share > 0.5][:_RULES]


def skope(found: Alerts) -> list[Mask]:
    """Skope rules of imodels."""
    from imodels import SkopeRulesClassifier

    rows, making = _numbers(found), _making(found, _MOST_ROWS)
    fitted = SkopeRulesClassifier(max_depth=_DEPTH, n_estimators=30, random_state=0)
    frame = rows.to_pandas()
    fitted.fit(frame.iloc[making], found.alert[making].astype(int), feature_names=rows.columns)
    texts = [str(rule[0] if isinstance(rule, tuple) else rule.rule) for rule in fitted.rules_][:_RULES]
    return [frame.eval(text).to_numpy().astype(bool) for text in texts]


def ripper(found: Alerts) -> list[Mask]:
    """RIPPER of wittgenstein."""
    import wittgenstein

    columns, making = _most_effective(found, _RIPPER_COLUMNS), _making(found, _RIPPER_ROWS)
    frame = _numbers(found).select(columns).to_pandas()
    fitted = wittgenstein.RIPPER(max_rules=_RULES, max_rule_conds=_DEPTH, random_state=0)
    fitted.fit(frame.iloc[making], y=found.alert[making].astype(int), pos_class=1)
    masks = []
    for rule in fitted.ruleset_.rules:
        met = np.ones(len(frame), dtype=bool)
        for condition in rule.conds:
            name = condition.feature if isinstance(condition.feature, str) else columns[condition.feature]
            met &= _met(frame[name].to_numpy(), condition.val)
        masks.append(met)
    return masks


def _met(values: Float64s, found: object) -> Mask:
    """Return which values are in one of RIPPER's bins, such as ``0.1-0.5`` or ``<0.1``, or equal to its value."""
    text = str(found)
    if text.startswith("<"):
        return values <= float(text[1:])
    if text.startswith(">"):
        return values >= float(text[1:])
    low, _, high = text.lstrip("-").partition("-")
    if high and "e" not in text:
        sign = -1.0 if text.startswith("-") else 1.0
        return (values >= sign * float(low)) & (values <= float(high))
    return np.asarray(values == float(text))


def subgroups(found: Alerts) -> list[Mask]:
    """Subgroups of pysubgroup by weighted relative accuracy."""
    import pysubgroup

    columns, making = _most_effective(found, _SUBGROUP_COLUMNS), _making(found, _MOST_ROWS)
    every = _numbers(found).select(columns).to_pandas()
    frame = every.iloc[making].assign(alert=found.alert[making])
    target = pysubgroup.BinaryTarget("alert", True)
    space = pysubgroup.create_selectors(frame, ignore=["alert"])
    task = pysubgroup.SubgroupDiscoveryTask(
        frame, target, space, result_set_size=_RULES, depth=_DEPTH, qf=pysubgroup.WRAccQF()
    )
    results = pysubgroup.BeamSearch(beam_width=20).execute(task).to_descriptions()
    return [np.asarray(entry[1].covers(every)).astype(bool) for entry in results]


def iguanas(found: Alerts) -> list[Mask]:
    """Return the rules of Iguanas from a random forest with the highest F-scores (beta 0.5)."""
    from iguanas.rule_evaluation import apply_rules
    from iguanas.rule_generation import extract_rules
    from sklearn.ensemble import RandomForestClassifier

    rows, making = _numbers(found), _making(found, _MOST_ROWS)
    alert = found.alert[making]
    forest = RandomForestClassifier(
        n_estimators=30, max_depth=_DEPTH, class_weight="balanced", random_state=0
    )
    forest.fit(rows[making].to_pandas(), alert.astype(int))
    rules = list(dict.fromkeys(extract_rules(forest, False, "all_positive")["rule"]))
    met = apply_rules(rows[making], rules).to_numpy().astype(bool)
    hits, matched = (met & alert[:, None]).sum(axis=0), met.sum(axis=0)
    scores = 1.25 * hits / np.maximum(1, 0.25 * alert.sum() + matched)
    best = [rules[i] for i in np.argsort(-scores, kind="stable")[:_RULES]]
    return list(apply_rules(rows, best).to_numpy().astype(bool).T)


_PACKAGES: dict[str, tuple[str, Callable[[Alerts], list[Mask]]]] = {
    "depth-3 tree": ("sklearn", tree),
    "Skope rules": ("imodels", skope),
    "RIPPER": ("wittgenstein", ripper),
    "pysubgroup": ("pysubgroup", subgroups),
    "Iguanas": ("iguanas", iguanas),
}


def rivals(found: Alerts) -> dict[str, list[Mask]]:
    """Return the rules of each package that is installed, as the test rows that they match."""
    results = {}
    for name, (package, method) in _PACKAGES.items():
        if find_spec(package) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results[name] = method(found)
    return results
