"""Which parts of DPLAN matter: one agent changed in one point, and ensembles put together in many ways.

    DPLAN_DATA_HOME=path/to/data python -m experiments.ensemble.parts [--seeds 100,101,102] [--group agent …]

All 13 data sets of Scenario I, protocol `resampled`. The seeds are for choosing and apart from those that results are
reported on (0 to 9). Every measurement is one line of `records/parts.jsonl`; what is there is not measured again. The
page reads them.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dplan
from dplan._kernels import perceptron
from dplan.datasets import Task, load, scenario
from dplan.datasets.registry import scenarios
from dplan.detectors.ensemble.training import network_agent
from experiments.cells import metrics
from experiments.ensemble import recording
from experiments.suites import PAPER_DATASETS

RECORDS = recording.RECORDS / "parts.jsonl"
FIGURES = ("auc_pr", "auc_roc", "auc_pr_known", "auc_roc_known", "auc_pr_unknown", "auc_roc_unknown")

Scores = NDArray[np.float64]
Rows = NDArray[np.floating]
Labels = NDArray[np.int64]
Arm = tuple[str, Scores]  # something to measure: a name, and the scores that it gives the test rows of a task

_UNIFORM: dict[str, Any] = {"sampler": "uniform"}
_FAST: dict[str, Any] = {**_UNIFORM, "momentum": 0.95, "gradient_decay": 0.9}
AGENTS: dict[str, dict[str, Any]] = {
    "as published": {},
    "published, fast": {"momentum": 0.95, "gradient_decay": 0.9},
    "uniform sampler": _UNIFORM,
    "uniform, γ = 0": {**_UNIFORM, "discount": 0.0},
    "uniform, γ = 0.9": {**_UNIFORM, "discount": 0.9},
    "uniform, no intrinsic reward": {**_UNIFORM, "intrinsic_reward": False},
    "uniform, intrinsic reward by rank": {**_UNIFORM, "novelty_scaling": "rank"},
    "uniform, intrinsic reward unscaled": {**_UNIFORM, "novelty_scaling": "none"},
    "uniform, intrinsic reward from raw features": {**_UNIFORM, "novelty_features": "raw"},
    "uniform, original DQN's optimiser": {**_UNIFORM, "optimizer": "dqn"},
    "uniform, target network every 500 steps": {**_UNIFORM, "target_update_steps": 500},
    "uniform, 40,000 steps": {**_UNIFORM, "n_steps": 40_000},
    "uniform, 80 units": {**_UNIFORM, "hidden_units": 80},
    "uniform, fast, L2 0.01": _FAST,
    "uniform, fast, L2 0.003": {**_FAST, "l2": 0.003},
    "uniform, fast, L2 0.003, intrinsic reward by rank": {**_FAST, "l2": 0.003, "novelty_scaling": "rank"},
    "uniform, fast, L2 0.003, intrinsic reward unscaled": {**_FAST, "l2": 0.003, "novelty_scaling": "none"},
    "uniform, fast, L2 0.003, intrinsic reward from raw features": {
        **_FAST,
        "l2": 0.003,
        "novelty_features": "raw",
    },
    "uniform, fast, no L2": {**_FAST, "l2": 0.0},
    "uniform, fast, no L2, no intrinsic reward": {**_FAST, "l2": 0.0, "intrinsic_reward": False},
}
RIVALS = (
    "DPLANEnsemble",
    "DPLAN",
    "BoostedBaseline",
    "LogisticBaseline",
    "PReNet",
    "DevNet",
    "IForest",
    "DeepSAD",
    "DUA",
    "REPEN",
)
LABELS = (5, 15, 30, 60)
NOISE = (0.1, 0.3)


def agents(task: Task, seed: int) -> Iterator[Arm]:
    """Train one agent per change; of two of them, judge Q(s, anomalous) - Q(s, normal) too."""
    for name, changes in AGENTS.items():
        agent = dplan.DPLAN(**changes, random_state=seed).fit(task.X, task.y)
        yield (name, agent.anomaly_score(task.X_test))
        if name in ("uniform sampler", "uniform, fast, L2 0.003"):
            values = perceptron.outputs(agent.weights_, agent.layer_sizes_, agent._arrange(task.X_test))
            yield (f"{name}, score Q¹ - Q⁰", (values[:, 1] - values[:, 0]).astype(np.float64))


def raw_reward(*arguments: Any) -> dplan.DPLAN:
    """Explore inside the reward: return a network agent whose forest sees the raw features."""
    agent = network_agent(*arguments)
    agent.novelty_features = "raw"
    return agent


def ensembles(task: Task, seed: int) -> Iterator[Arm]:
    """Put the members of one ensemble together in many ways."""
    ensemble = dplan.DPLANEnsemble(n_jobs=-1, random_state=seed).fit(task.X, task.y)
    test = ensemble._member_scores(ensemble._arrange(task.X_test))
    labelled, unlabelled = np.flatnonzero(task.y), np.flatnonzero(task.y == 0)
    some = np.random.default_rng(seed).choice(unlabelled, min(10_000, len(unlabelled)), replace=False)
    usual = ensemble._member_scores(ensemble._arrange(task.X, np.sort(some)))
    given = ensemble.member_weights_
    n_agents = len(given) - 2
    agents, neighbours, forest = test[:, :n_agents] @ given[:n_agents], test[:, -2], test[:, -1]
    kinds = {"slow": slice(0, 8, 2), "fast": slice(1, 8, 2), "trees": slice(8, 12)}
    shares = {"slow": 0.25, "fast": 0.25, "trees": 0.5}
    explored = test[:, -2:] @ given[-2:]

    for weight in (0.0, 0.3, 0.6, 1.0):
        yield (f"exploration {weight}", agents + weight / ensemble.exploration * explored)
    yield ("explored by the neighbours alone, 0.4", agents + 0.4 * neighbours)
    yield ("explored by the neighbours alone, 0.6", agents + 0.6 * neighbours)
    yield ("explored by the forest alone, 0.2", agents + 0.2 * forest)
    yield ("explored by the forest alone, 0.4", agents + 0.4 * forest)
    known = ensemble._member_scores(ensemble._arrange(task.X, labelled))
    for name, place, full in (("neighbours", -2, 0.6), ("forest", -1, 0.6)):
        area = np.searchsorted(np.sort(usual[:, place]), known[:, place]).mean() / len(usual)
        weight = full * max(2 * area - 1, 0.0)  # nothing if it ranks known anomalies at random
        yield (f"explored by the {name} alone, as it ranks known anomalies", agents + weight * test[:, place])
    yield ("neighbours alone", neighbours)
    yield ("forest alone", forest)

    def mixed(**parts: float) -> Scores:
        total = sum(share * test[:, kinds[kind]].mean(axis=1) for kind, share in parts.items())
        return np.asarray(total / sum(parts.values()) + explored)

    yield ("fixed weights", mixed(**shares))
    yield ("no tree agents", mixed(slow=1.0, fast=1.0))
    yield ("no network agents", mixed(trees=1.0))
    yield ("no slow agents", mixed(fast=1.0, trees=1.0))
    yield ("no fast agents", mixed(slow=1.0, trees=1.0))
    for count in (1, 2):
        own = sum(share * test[:, kinds[kind]][:, :count].mean(axis=1) for kind, share in shares.items())
        yield (f"{count} agent{'s' * (count > 1)} of each kind", np.asarray(own + explored))
    by_deviation = (test - usual.mean(axis=0)) / usual.std(axis=0)
    yield ("standardised by the standard deviation", by_deviation @ given)
    ranks = np.stack([np.searchsorted(np.sort(u), t) for u, t in zip(usual.T, test.T, strict=True)], axis=1)
    yield ("percentiles averaged", ranks @ given)
    others: dict[str, dict[str, Any]] = {
        "8 agents of each kind": {"n_agents": 8},
        "200 boosted trees an agent": {"n_rounds": 200},
        "network agents of 80 units": {"hidden_units": 80},
    }
    for name, changes in others.items():
        other = dplan.DPLANEnsemble(**changes, n_jobs=-1, random_state=seed).fit(task.X, task.y)
        yield (name, other.anomaly_score(task.X_test))
    with patch("dplan.detectors.ensemble.training.network_agent", raw_reward):
        inside = dplan.DPLANEnsemble(random_state=seed).fit(task.X, task.y)
    yield ("raw features inside the reward too", inside.anomaly_score(task.X_test))
    members = inside._member_scores(inside._arrange(task.X_test))
    yield ("raw features inside the reward, no explorers", members[:, :-2] @ inside.member_weights_[:-2])


def few_labels(task: Task, count: int) -> tuple[Rows, Labels]:
    """Return the rows to learn from with the first few labelled ones alone; the others are taken out."""
    kept = np.ones(len(task.y), dtype=bool)
    kept[np.flatnonzero(task.y)[count:]] = False
    return task.X[kept], task.y[kept]


def wrong_labels(task: Task, seed: int, share: float) -> tuple[Rows, Labels]:
    """Return the rows to learn from with some unlabelled rows labelled as known anomalies, in place of true ones."""
    labelled, unlabelled = np.flatnonzero(task.y), np.flatnonzero(task.y == 0)
    rng = np.random.default_rng(seed)
    count = round(share * len(labelled))
    y = task.y.copy()
    y[rng.choice(unlabelled, count, replace=False)] = task.y[labelled[0]]
    kept = np.ones(len(y), dtype=bool)
    kept[rng.choice(labelled, count, replace=False)] = False
    return task.X[kept], y[kept]


def from_few_labels(task: Task, seed: int, count: int) -> Iterator[Arm]:
    """Train rivals from a few labelled rows."""
    X, y = few_labels(task, count)
    for name in RIVALS:
        yield (name, getattr(dplan, name)(random_state=seed).fit(X, y).anomaly_score(task.X_test))


def from_wrong_labels(task: Task, seed: int, share: float) -> Iterator[Arm]:
    """Train some rivals from labels of which a share is wrong."""
    X, y = wrong_labels(task, seed, share)
    for name in ("DPLANEnsemble", "DPLAN", "BoostedBaseline", "LogisticBaseline"):
        yield (name, getattr(dplan, name)(random_state=seed).fit(X, y).anomaly_score(task.X_test))


GROUPS: dict[str, Callable[[Task, int], Iterator[Arm]]] = {
    "agent": agents,
    "ensemble": ensembles,
    **{f"{count} labels": partial(from_few_labels, count=count) for count in LABELS},
    **{f"{share:.0%} wrong labels": partial(from_wrong_labels, share=share) for share in NOISE},
}


def main() -> None:
    """Measure what is not there yet."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", default="100,101,102")
    arguments.add_argument("--group", action="append", choices=GROUPS)
    chosen = arguments.parse_args()
    there = {(record["group"], record["scenario"], record["seed"]) for record in recording.read(RECORDS)}
    for seed in map(int, chosen.seeds.split(",")):
        for dataset in PAPER_DATASETS:
            for task_id in scenarios("one-class", dataset):
                for group in chosen.group or GROUPS:
                    if (group, task_id, seed) not in there:
                        write(group, task_id, seed, scenario(task_id, seed=seed, dataset=load(dataset)))


def write(group: str, task_id: str, seed: int, task: Task) -> None:
    """Measure one group of arms on one task; its lines are written together, or none of them."""
    started = time.perf_counter()
    records = []
    with threadpool_limits(1):
        for name, scores in GROUPS[group](task, seed):
            found = metrics(task, scores)
            figures = {figure: round(found[figure], 4) for figure in FIGURES}
            place = {"group": group, "arm": name, "scenario": task_id, "seed": seed}
            records.append({**place, **figures})
    recording.add(RECORDS, records)
    print(f"{group}: {task_id}, seed {seed}: {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
