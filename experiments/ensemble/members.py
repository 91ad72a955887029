"""What each kind of member of DPLANEnsemble is worth.

    DPLAN_DATA_HOME=path/to/data python -m experiments.ensemble.members FOLDER [--jobs 2] [--print]

One ensemble is fitted per task; its members are then put together in other ways, on three collections: ADGym's tables
(seeds 1 to 3), KEEL's (100 to 102) and the paper's 13 data sets (100 and 101). A second ensemble has no first round of
randomised trees, so the others learn from all unlabelled rows; the neighbours of a third see no ranks. What
was measured is in `experiments/results/ensemble-members`. The weights of the kinds were chosen by looking at it, so
this is a study and no test; the paper's seeds 0 to 9 were not looked at.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dplan
from dplan.datasets.registry import scenarios
from dplan.detectors.ensemble.combining import EXPLORERS, STRAIGHT, Bends, combined
from dplan.detectors.ensemble.fitted import kind_names
from experiments.data import adgym, keel
from experiments.data.sources import load_task
from experiments.ensemble.measuring import RESULTS, Arms, Place, areas, main, measured
from experiments.pages import markdown_table
from experiments.suites import PAPER_DATASETS

RECORDS = RESULTS / "ensemble-members"
Scores = NDArray[np.float64]


def everything(rows: Any, exploring: Any, *_: Any) -> NDArray[np.int64]:
    """Let the randomised trees of an ensemble learn from all unlabelled rows."""
    return np.arange(len(exploring.result().reference))


def places() -> list[Place]:
    """List collections, tables, seeds and numbers of labels."""
    paper = [id for dataset in PAPER_DATASETS for id in scenarios("one-class", dataset)]
    collections = (
        ("adgym", adgym.tables(), (1, 2, 3), (5, 10, 20)),
        ("keel", keel.NAMES, (100, 101, 102), (5, 30)),
        ("paper", paper, (100, 101), (10, 60)),
    )
    return [
        {"collection": collection, "table": table, "seed": seed, "labels": n_labels}
        for collection, tables, seeds, numbers in collections
        for seed in seeds
        for n_labels in numbers
        for table in tables
    ]


def arms(place: Place) -> Arms:
    """Fit three ensembles, and put the members of the first one together in many ways."""
    collection, table, seed = place["collection"], place["table"], place["seed"]
    id = table if collection == "paper" else f"{collection}/{table}-v1"
    task = load_task(id, seed, "resampled", place["labels"], None)
    with threadpool_limits(1):
        detector = dplan.DPLANEnsemble(random_state=seed).fit(task.X, task.y)
        members = detector._member_scores(detector._arrange(np.ascontiguousarray(task.X_test)))
        with patch("dplan.detectors.ensemble.training.cleaned", everything):
            once = dplan.DPLANEnsemble(random_state=seed).fit(task.X, task.y)
        with patch("dplan.detectors.ensemble.members.column_quantiles", lambda rows: rows[:0]):
            unranked = dplan.DPLANEnsemble(random_state=seed).fit(task.X, task.y)
    found = [
        *mixtures(members, kind_names(detector._fitted()), detector.member_weights_, Bends(*detector.bends_)),
        ("without a first round of trees", once.anomaly_score(task.X_test)),
        ("neighbours without ranks", unranked.anomaly_score(task.X_test)),
    ]
    return {name: areas(task, scores) for name, scores in found}


def mixtures(
    members: Scores, names: Sequence[str], weights: Scores, bends: Bends
) -> Iterator[tuple[str, Scores]]:
    """Yield the scores of the ensemble as it is, without each kind of member, and of each kind alone."""
    kinds = np.array(names)
    agents, exploring = weights[: -len(EXPLORERS)], weights[-len(EXPLORERS) :]

    def score(agents: Scores, exploring: Scores, bends: Bends = bends) -> Scores:
        total = max(float(agents.sum()), 1e-9)
        return combined(members.T, np.concatenate([agents / total, exploring]), bends)

    yield "as it is", score(agents, exploring)
    for kind in dict.fromkeys(names[: len(agents)]):
        own = kinds[: len(agents)] == kind
        yield f"without {kind}", score(np.where(own, 0.0, agents), exploring)
        yield f"{kind} alone", members[:, : len(agents)][:, own].mean(axis=1)
    first = np.array([kind not in names[:place] for place, kind in enumerate(names[: len(agents)])])
    counts = np.array([names.count(kind) for kind in names[: len(agents)]])
    yield "one agent of each kind", score(agents * first * counts, exploring)
    yield "without explorers", score(agents, 0 * exploring)
    yield "explorers alone", members[:, -len(EXPLORERS) :] @ np.array(list(EXPLORERS.values()))
    yield "explorers twice as heavy", score(agents, 2 * exploring)
    yield "a plain sum", score(agents, exploring, STRAIGHT)
    yield "low scores of agents count in full", score(agents, exploring, bends._replace(slope=1.0))
    yield (
        "neighbours without a limit",
        score(agents, exploring, bends._replace(neighbours=STRAIGHT.neighbours)),
    )


def lines(folder: Path = RECORDS) -> Iterator[str]:
    """Yield a table of means: over seeds and tables, for each collection and number of labels."""
    records = measured(folder)
    groups = sorted({(record["collection"], record["labels"]) for record in records})
    rows = []
    for arm in dict.fromkeys(record["arm"] for record in records):
        cells = [arm]
        for group in groups:
            own = [r for r in records if r["arm"] == arm and (r["collection"], r["labels"]) == group]
            figures = ["auc_pr", "auc_roc"] + ["auc_pr_unknown", "auc_roc_unknown"] * (group[0] != "adgym")
            means = [np.mean([record[name] for record in own if name in record]) for name in figures]
            shown = [f"{mean:.3f}".lstrip("0") for mean in means]
            cells.append("; ".join("/".join(shown[i : i + 2]) for i in range(0, len(shown), 2)))
        rows.append(cells)
    yield from markdown_table(["arm", *(f"{collection}, {n} labels" for collection, n in groups)], rows)


if __name__ == "__main__":
    main(str(__doc__), places, arms, lines)
