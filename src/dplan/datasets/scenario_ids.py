"""The paper's experiments by name: 13 data sets with one known class, 35 with more, and six pollution rates.

An id determines the known classes and the contamination of the unlabelled rows; the seed and the protocol determine the
rows. If a rule changes so that different rows are drawn, ids get a new version.

===============================  =====================================================================
``unsw_nb15/dos-v1``             Scenario I: DoS is known, 2 % of the unlabelled rows are anomalies
``unsw_nb15/dos-known3-v1``      Scenario II: DoS and two more classes are known
``unsw_nb15/dos-pollution6-v1``  DoS is known, 6 % of the unlabelled rows are anomalies
===============================  =====================================================================
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from dplan.datasets.registry import CATALOG
from dplan.datasets.splits import Stream

__all__ = ["ScenarioId", "scenario_id", "scenarios"]

_VERSION = 1
_POLLUTION = (2, 4, 6, 8, 10, 12)  # percent
_DEFAULT_POLLUTION = 0.02


@dataclass(frozen=True)
class ScenarioId:
    """The meaning of a scenario id.

    Attributes
    ----------
    id : str
        The id itself.
    dataset : str
        The data set that the rows come from.
    known : tuple of str
        Anomaly classes with labelled rows, in the order in which they were added.
    contamination : float
        Fraction of anomalies among the unlabelled rows.
    experiment : {"one-class", "more-classes", "pollution"}
        The paper's Scenario I, Scenario II, or the pollution experiment.
    """

    id: str
    dataset: str
    known: tuple[str, ...]
    contamination: float
    experiment: str


def scenarios(experiment: str | None = None, dataset: str | None = None) -> list[str]:
    """List scenario ids.

    Parameters
    ----------
    experiment : {"one-class", "more-classes", "pollution"}, optional
        Only those of one experiment: Scenario I, Scenario II or the pollution experiment.
    dataset : str, optional
        Only those of one data set.

    Returns
    -------
    list of str
        In the paper's order.

    Examples
    --------
    >>> scenarios("one-class", dataset="annthyroid")
    ['annthyroid/hypothyroid-v1', 'annthyroid/subnormal-v1']
    >>> paper = [id for id in scenarios() if not id.startswith("covertype-mini/")]
    >>> len(paper), len(scenarios("more-classes"))
    (126, 35)
    """
    return [
        entry.id
        for entry in _registry().values()
        if experiment in (None, entry.experiment) and dataset in (None, entry.dataset)
    ]


def scenario_id(id: str) -> ScenarioId:
    """Return the meaning of a scenario id.

    Examples
    --------
    >>> scenario_id("unsw_nb15/dos-known3-v1").known
    ('dos', 'fuzzers', 'generic')
    """
    registry = _registry()
    if id not in registry:
        name = id.split("/")[0]
        near = [known for known in registry if known.startswith(f"{name}/")][:3]
        hint = f"for example {', '.join(near)}" if near else f"the data sets are {', '.join(CATALOG)}"
        raise ValueError(f"unknown scenario {id!r}: {hint}; dplan.datasets.scenarios() lists all")
    return registry[id]


def added_classes(anomalies: tuple[str, ...], first: str) -> tuple[str, ...]:
    """Return the order in which Scenario II makes classes known: random, but fixed for each first class."""
    k = anomalies.index(first)
    others = np.array([j for j in range(len(anomalies)) if j != k])
    order = Stream(_VERSION, 2, k).shuffled(others)
    return (first, *(anomalies[j] for j in order))


@cache
def _registry() -> dict[str, ScenarioId]:
    entries = []
    for source in CATALOG.values():
        base = [(name, f"{source.name}/{name}") for name in source.anomalies]
        entries += [
            ScenarioId(f"{stem}-v1", source.name, (name,), _DEFAULT_POLLUTION, "one-class")
            for name, stem in base
        ]
        for name, stem in base:
            order = added_classes(source.anomalies, name)
            entries += [
                ScenarioId(f"{stem}-known{n}-v1", source.name, order[:n], _DEFAULT_POLLUTION, "more-classes")
                for n in range(2, len(order))  # at least one class stays unknown
            ]
        entries += [
            ScenarioId(f"{stem}-pollution{percent}-v1", source.name, (name,), percent / 100, "pollution")
            for name, stem in base
            for percent in _POLLUTION
        ]
    return {entry.id: entry for entry in entries}
