"""What each kind of member of DPLANEnsemble is worth.

    DPLAN_DATA_HOME=path/to/data python -m experiments.ensemble.members [--print]

One ensemble is fitted per task; its members are then put together in other ways, on three collections: ADGym's tables
(seeds 1 to 3), KEEL's (100 to 102) and the paper's 13 data sets (100 and 101). A second ensemble has no first round of
randomised trees, so the others learn from all unlabelled rows; the neighbours of a third see no ranks. Every
measurement is one line of `records/members.jsonl`; what is there is not measured again. The weights of
the kinds were chosen by looking at these figures, so this is a study and no test; the paper's seeds 0 to 9 were not
looked at.
"""

import argparse
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dplan
from dplan.datasets import load, scenario
from dplan.datasets.registry import scenarios
from dplan.detectors.ensemble.members import EXPLORERS, shares_of_kinds
from dplan.metrics import RankedScores
from experiments.data import adgym, keel
from experiments.ensemble import recording
from experiments.suites import PAPER_DATASETS

RECORDS = recording.RECORDS / "members.jsonl"
Scores = NDArray[np.float64]


def everything(rows: Any, exploring: Any, *_: Any) -> NDArray[np.int64]:
    """Let the randomised trees of an ensemble learn from all unlabelled rows."""
    return np.arange(len(exploring.result().reference))


def tasks() -> Iterator[tuple[str, str, int, int, Any]]:
    """Yield collection, table, seed, number of labels, and a function that makes the task."""
    for seed in (1, 2, 3):
        for n_labels in (5, 10, 20):
            for name in adgym.tables():
                yield "adgym", name, seed, n_labels, lambda n=name, s=seed, k=n_labels: adgym.task(n, s, k)
    for seed in (100, 101, 102):
        for n_labels in (5, 30):
            for name in keel.NAMES:
                yield "keel", name, seed, n_labels, lambda n=name, s=seed, k=n_labels: keel.task(n, s, k)
    for dataset in PAPER_DATASETS:
        data = load(dataset)
        for seed in (100, 101):
            for n_labels in (10, 60):
                for id in scenarios("one-class", dataset):
                    yield (
                        "paper",
                        id,
                        seed,
                        n_labels,
                        lambda i=id, s=seed, k=n_labels, d=data: scenario(i, seed=s, n_labelled=k, dataset=d),
                    )


def arms(members: Scores, n_labels: int, trust: float, exploration: float) -> Iterator[tuple[str, Scores]]:
    """Yield the scores of the ensemble as it is, without each kind of member, and of each kind alone."""
    shares = shares_of_kinds(n_labels)
    n_networks = 2 * dplan.DPLANEnsemble().n_agents
    networks, trees = members[:, :n_networks], members[:, n_networks:-2]
    boosted = np.arange(trees.shape[1]) % 3 == 0  # one boosted agent, then two of randomised trees, and so on
    kinds = dict(
        zip(shares, (networks[:, ::2], networks[:, 1::2], trees[:, boosted], trees[:, ~boosted]), strict=True)
    )
    mean = {kind: own.mean(axis=1) for kind, own in kinds.items()}
    explored = members[:, -2:] @ np.array(list(EXPLORERS.values()))

    def agents(*without: str) -> Scores:
        kept = {kind: weight for kind, weight in shares.items() if kind not in without}
        total: Scores = sum((weight * mean[kind] for kind, weight in kept.items()), np.zeros(()))
        return total / sum(kept.values())

    yield "as it is", agents() + exploration * trust * explored
    for kind in shares:
        yield f"without {kind}", agents(kind) + exploration * trust * explored
        yield f"{kind} alone", mean[kind]
    yield "without networks", agents("slow", "fast") + exploration * trust * explored
    yield (
        "one agent of each kind",
        sum(shares[kind] * own[:, 0] for kind, own in kinds.items()) + (exploration * trust * explored),
    )
    yield "without explorers", agents()
    yield "explorers alone", explored
    forest = members[:, -2:] @ np.array([5 / 6, 1 / 6])
    yield "isolation forest with a sixth of the explorers' weight", agents() + exploration * trust * forest
    yield "explorers trusted everywhere", agents() + exploration * explored
    yield "explorers twice as heavy", agents() + 2 * exploration * trust * explored
    one_sided = sum(weight * np.logaddexp(0, 2 * mean[kind]) / 2 for kind, weight in shares.items())
    yield "one-sided agents", one_sided + exploration * trust * explored


def measured(task: Any, scores: Scores) -> dict[str, float]:
    """Return the areas over all anomalies, and over those of unknown classes."""
    ranked, normal, figures = RankedScores(scores), task.y_test == 0, {}
    for suffix, group in (("", ~normal), ("_unknown", task.unknown_mask)):
        areas = ranked.areas(group, normal)
        if areas is not None:
            figures[f"auc_pr{suffix}"], figures[f"auc_roc{suffix}"] = (round(area, 4) for area in areas)
    return figures


def measure() -> None:
    """Measure what is not recorded yet."""
    there = {
        tuple(record[key] for key in ("collection", "table", "seed", "labels"))
        for record in recording.read(RECORDS)
    }
    for collection, table, seed, n_labels, make in tasks():
        if (collection, table, seed, n_labels) in there:
            continue
        task = make()
        with threadpool_limits(1):
            detector = dplan.DPLANEnsemble(random_state=seed).fit(task.X, task.y)
            members = detector._member_scores(detector._arrange(np.ascontiguousarray(task.X_test)))
            with patch("dplan.detectors.ensemble.training.cleaned", everything):
                once = dplan.DPLANEnsemble(random_state=seed).fit(task.X, task.y)
            with patch("dplan.detectors.ensemble.members.column_quantiles", lambda rows: rows[:0]):
                unranked = dplan.DPLANEnsemble(random_state=seed).fit(task.X, task.y)
        trust = float(detector.member_weights_[-2:].sum()) / detector.exploration
        place = {"collection": collection, "table": table, "seed": seed, "labels": n_labels}
        found = [
            *arms(members, n_labels, trust, detector.exploration),
            ("without a first round of trees", once.anomaly_score(task.X_test)),
            ("neighbours without ranks", unranked.anomaly_score(task.X_test)),
        ]
        recording.add(RECORDS, [{**place, "arm": name, **measured(task, scores)} for name, scores in found])


def lines() -> Iterator[str]:
    """Yield a table of means: over seeds and tables, for each collection and number of labels."""
    records = recording.read(RECORDS)
    groups = sorted({(record["collection"], record["labels"]) for record in records})
    yield "| arm | " + " | ".join(f"{collection}, {n} labels" for collection, n in groups) + " |"
    yield "|---" * (len(groups) + 1) + "|"
    for arm in dict.fromkeys(record["arm"] for record in records):
        cells = []
        for group in groups:
            own = [r for r in records if r["arm"] == arm and (r["collection"], r["labels"]) == group]
            figures = ["auc_pr", "auc_roc"] + ["auc_pr_unknown", "auc_roc_unknown"] * (group[0] != "adgym")
            means = [np.mean([record[name] for record in own if name in record]) for name in figures]
            shown = [f"{mean:.3f}".lstrip("0") for mean in means]
            cells.append("; ".join("/".join(shown[i : i + 2]) for i in range(0, len(shown), 2)))
        yield f"| {arm} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--print", action="store_true", help="only print the means of what is recorded")
    if not arguments.parse_args().print:
        measure()
    print("\n".join(lines()))
