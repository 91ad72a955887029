"""The data behind a scenario id: the paper's data sets, and tables of other collections.

==========================  =====================================================================================
``unsw_nb15/dos-v1``        a data set of the paper and a known class (`dplan.datasets.scenario`)
``adgym/33_skin-v1``        an ADBench table, split as ADGym did (`experiments.data.adgym`)
``keel/letter-v1``          a KEEL table with several anomaly classes (`experiments.data.keel`)
``discovery/abalone-v1``    a table to review (`experiments.data.reviews`)
==========================  =====================================================================================
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from dplan.datasets import Task, load, scenario
from dplan.datasets.registry import CATALOG
from experiments.configuration import data_fingerprint
from experiments.data import adgym, keel, reviews
from experiments.data.arrays import ArrayTask, fingerprint, thinned

__all__ = [
    "COLLECTIONS",
    "AnyTask",
    "collection_of",
    "data_version",
    "describe",
    "load_review",
    "load_task",
    "load_thinned",
    "source_name",
]

AnyTask = Task | ArrayTask
_MOST_ROWS = 3_000, 5_000  # unlabelled and test rows, where a cell fits many times
COLLECTIONS = {"adgym": "ADGym", "paper": "the paper's", "keel": "KEEL", "embedded": "embedded"}
# Increased by hand when the same file and seed give different rows.
_VERSIONS = {"adgym": 1, "keel": 1, "discovery": 1}


def source_name(id: str) -> str:
    """Return the data set of the paper, or the table of another collection, that a scenario draws its rows from.

    Examples
    --------
    >>> source_name("unsw_nb15/dos-v1"), source_name("adgym/33_skin-v1")
    ('unsw_nb15', 'adgym/33_skin')
    """
    first = id.split("/")[0]
    return first if first in CATALOG else id.removesuffix("-v1")


def collection_of(id: str) -> str:
    """Return the collection that a scenario belongs to, one of `COLLECTIONS`.

    Examples
    --------
    >>> collection_of("unsw_nb15/dos-v1"), collection_of("keel/letter-v1")
    ('paper', 'keel')
    """
    first = id.split("/")[0]
    if first in CATALOG:
        return "paper" if CATALOG[first].page else "embedded"
    return first


def data_version(id: str) -> int:
    """Return the version of the rule that draws the rows of a scenario."""
    first = id.split("/")[0]
    return CATALOG[first].version if first in CATALOG else _VERSIONS[first]


def load_task(id: str, seed: int, protocol: str, labels: int | None, home: Path | None) -> AnyTask:
    """Return the task of a scenario; `labels` is the number of labelled rows, if the suite sets it, and may be 0."""
    collection, _, name = source_name(id).partition("/")
    if collection == "adgym":
        assert labels is not None
        return adgym.task(name, seed, labels, home)
    if collection == "keel":
        assert labels is not None
        return keel.task(name, seed, labels)
    count = {} if labels is None else {"n_labelled": max(labels, 1)}
    task = scenario(id, seed=seed, protocol=protocol, dataset=load(collection, home), **count)  # type: ignore[arg-type]
    return replace(task, y=np.zeros_like(task.y)) if labels == 0 else task


def load_thinned(id: str, seed: int, protocol: str, labels: int | None, home: Path | None) -> ArrayTask:
    """Return the task of a scenario with at most 3,000 unlabelled rows and 5,000 test rows."""
    return thinned(load_task(id, seed, protocol, labels, home), seed, *_MOST_ROWS)


def load_review(id: str, seed: int, home: Path | None) -> reviews.ReviewTable:
    """Return the table of a scenario to review."""
    collection, _, name = source_name(id).partition("/")
    if collection == "discovery":
        return reviews.table(name, home)
    return reviews.drawn(id, seed, load(collection, home))


def describe(source: str, home: Path | None) -> tuple[str, list[str]]:
    """Return a fingerprint of the contents of a source, and what it lacks compared with the paper's Table 1."""
    collection, _, name = source.partition("/")
    if collection == "adgym":
        return fingerprint(*adgym.table(name, home)), []
    if collection == "keel":
        return fingerprint(*keel.table(name)[:2]), []
    if collection == "discovery":
        return fingerprint(*reviews.table(name, home)), []
    dataset = load(collection, home)
    return data_fingerprint(dataset), list(dataset.partial)
