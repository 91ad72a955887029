"""The paper's published results, read from ``published.json`` next to this module.

Figures 2 to 5 of the paper have no numbers, so only values mentioned in its text are included.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

__all__ = ["Published", "average", "contents", "data_sets", "methods", "p_value", "result"]

Table = Literal["table2", "table3"]


class Published(NamedTuple):
    """A published mean, and its standard deviation if the paper gives one."""

    mean: float
    deviation: float | None


@cache
def contents() -> dict[str, Any]:
    """Return the whole file.

    Examples
    --------
    >>> contents()["text"]["steps"]["auc_pr_after_100000_steps"]["subnormal"]
    0.863
    """
    text = files("experiments.paper").joinpath("published.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def data_sets() -> list[str]:
    """List the 13 data sets in the paper's order, each named after its known anomaly class.

    Examples
    --------
    >>> data_sets()[:3], len(data_sets())
    (['analysis', 'backdoor', 'dos'], 13)
    """
    return list(contents()["table2"]["auc_pr"]["data_sets"])


def methods(table: Table) -> list[str]:
    """List the methods of a table in the paper's order, under our names.

    Examples
    --------
    >>> methods("table3")
    ['DPLAN', 'ERew', 'REnv', 'DQN+']
    """
    return list(contents()[table]["auc_pr"]["average"])


def result(table: Table, measure: str, data_set: str, method: str) -> Published | None:
    """Return a published result, or None if the paper does not report it.

    Examples
    --------
    >>> result("table2", "auc_pr", "dos", "DPLAN")
    Published(mean=0.681, deviation=0.002)
    >>> result("table3", "auc_roc", "dos", "DQN+")
    Published(mean=0.917, deviation=None)
    >>> result("table2", "auc_pr", "dos", "PReNet") is None
    True
    """
    return _as_published(contents()[table][measure]["data_sets"].get(data_set, {}).get(method))


def average(table: Table, measure: str, method: str) -> Published | None:
    """Return the average over the 13 data sets.

    Examples
    --------
    >>> average("table2", "auc_roc", "DUA")
    Published(mean=0.871, deviation=0.01)
    """
    return _as_published(contents()[table][measure]["average"].get(method))


def p_value(table: Table, measure: str, method: str) -> float | None:
    """Return the p-value of the difference from DPLAN.

    Examples
    --------
    >>> p_value("table2", "auc_pr", "DevNet")
    0.0024
    """
    value: float | None = contents()[table][measure]["p_value"].get(method)
    return value


def _as_published(value: float | list[float] | None) -> Published | None:
    if value is None:
        return None
    return Published(value[0], value[1]) if isinstance(value, list) else Published(value, None)
