"""The data sets and scenarios by name: metadata from the paper and the publishers, read from ``datasets.toml``.

A scenario id determines the known classes and the contamination of the unlabelled rows; the seed and the protocol
determine the rows. If a rule changes so that different rows are drawn, ids get a new version.

===============================  =====================================================================
``unsw_nb15/dos-v1``             Scenario I: DoS is known, 2 % of the unlabelled rows are anomalies
``unsw_nb15/dos-known3-v1``      Scenario II: DoS and two more classes are known
``unsw_nb15/dos-pollution6-v1``  DoS is known, 6 % of the unlabelled rows are anomalies
===============================  =====================================================================
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from dplan.datasets.splits import Stream

__all__ = ["CATALOG", "ScenarioId", "Source", "scenario_id", "scenarios", "source_of"]

_VERSION = 1
_POLLUTION = (2, 4, 6, 8, 10, 12)  # percent
_DEFAULT_POLLUTION = 0.02


@dataclass(frozen=True)
class Source:
    """Metadata of a data set.

    Attributes
    ----------
    name : str
        The argument of `dplan.datasets.load`.
    label : str
        The column with the class.
    class_names : mapping
        Value of the label column → class name (the paper's, in lower case).
    normal : tuple of str
        Names of the normal classes.
    anomalies : tuple of str
        The anomaly classes, in the paper's order; class k of a scenario is the k-th of them.
    table_1 : mapping
        Rows per class in the paper's Table 1; ``"normal"`` counts all normal classes together.
    max_rows_per_class : int or None
        Maximum number of rows used of each anomaly class (appendix of the paper).
    n_features : int
        Columns before one-hot encoding.
    dimensions : int
        The paper's D, after one-hot encoding.
    ignored_columns : tuple of str
        Columns that are neither features nor the label.
    sha256 : str or None
        Checksum of the prepared Parquet file that the project's results were produced with.
    page, archive : str
        The publisher's web page, and the address of the archive, empty if the publisher requires a form. Publishers
        give no checksums, so downloads are checked by rows, columns and classes.
    citation, licence : str
        What to cite, and the terms of use.
    version : int
        Increased by hand when the same file and seed give different rows or features; recorded cells depend on it.
    """

    name: str
    label: str
    class_names: Mapping[str, str] | Mapping[int, str]
    normal: tuple[str, ...]
    anomalies: tuple[str, ...]
    table_1: Mapping[str, int]
    n_features: int
    dimensions: int
    citation: str
    licence: str
    max_rows_per_class: int | None = None
    ignored_columns: tuple[str, ...] = ()
    sha256: str | None = None
    page: str = ""
    archive: str = ""
    version: int = 1


def _read_catalog() -> dict[str, Source]:
    text = files("dplan.datasets").joinpath("datasets.toml").read_text(encoding="utf-8")
    catalog: dict[str, Source] = {}
    for name, entry in tomllib.loads(text).items():
        if "sample_of" in entry:  # it comes with the package, so nobody publishes it
            whole, mine = catalog[entry["sample_of"]], {"name": name, "citation": entry["citation"]}
            catalog[name] = replace(whole, **mine, page="", archive="", sha256=None)
        else:
            entry["class_names"] = dict(entry["class_names"])
            lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
            catalog[name] = Source(name=name, **(entry | lists))
    return catalog


# By name, in the paper's order.
CATALOG = _read_catalog()


def source_of(name: str) -> Source:
    """Return the metadata of a data set.

    Examples
    --------
    >>> source_of("har").anomalies
    ('downstairs', 'upstairs')
    >>> source_of("mnist")
    Traceback (most recent call last):
    ...
    ValueError: unknown data set 'mnist'; choose from unsw_nb15, annthyroid, har, ...
    """
    if name not in CATALOG:
        raise ValueError(f"unknown data set {name!r}; choose from {', '.join(CATALOG)}")
    return CATALOG[name]


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

    Examples
    --------
    >>> scenario_id("covertype-mini/cottonwood-v1").dataset
    'covertype-mini'
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
        for entry in _scenarios().values()
        if experiment in (None, entry.experiment) and dataset in (None, entry.dataset)
    ]


def scenario_id(id: str) -> ScenarioId:
    """Return the meaning of a scenario id.

    Examples
    --------
    >>> scenario_id("unsw_nb15/dos-known3-v1").known
    ('dos', 'fuzzers', 'generic')
    """
    registry = _scenarios()
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
def _scenarios() -> dict[str, ScenarioId]:
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
