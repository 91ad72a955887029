"""Which parts of DPLAN matter: one agent, changed in one point; and what wrong labels cost.

    DPLAN_DATA_HOME=path/to/data python -m experiments.ensemble.agents FOLDER [--jobs 2] [--print]

All 13 data sets of Scenario I, protocol `resampled`. The seeds are for choosing and apart from those that results are
reported on (0 to 9). What was measured is in `experiments/results/ensemble-agents`; wrong labels with an
earlier version of the ensemble.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dplan
from dplan._kernels import perceptron
from dplan.datasets.registry import scenarios
from experiments.data.sources import AnyTask, load_task
from experiments.ensemble.measuring import RESULTS, Arms, Place, areas, main, measured
from experiments.suites import PAPER_DATASETS

RECORDS = RESULTS / "ensemble-agents"
SEEDS = (100, 101, 102)

Scores = NDArray[np.float64]

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
WRONG = {"10% wrong labels": 0.1, "30% wrong labels": 0.3}


def places() -> list[Place]:
    """List groups of arms, scenarios and seeds."""
    return [
        {"group": group, "scenario": id, "seed": seed}
        for seed in SEEDS
        for dataset in PAPER_DATASETS
        for id in scenarios("one-class", dataset)
        for group in ("agent", *WRONG)
    ]


def arms(place: Place) -> Arms:
    """Measure a group of arms on one task."""
    seed, group = place["seed"], place["group"]
    task = load_task(place["scenario"], seed, "resampled", None, None)
    with threadpool_limits(1):
        found = agents(task, seed) if group == "agent" else from_wrong_labels(task, seed, WRONG[group])
        return {name: areas(task, scores) for name, scores in found}


def agents(task: AnyTask, seed: int) -> Iterator[tuple[str, Scores]]:
    """Train one agent per change; of two of them, judge Q(s, anomalous) - Q(s, normal) too."""
    for name, changes in AGENTS.items():
        agent = dplan.DPLAN(**changes, random_state=seed).fit(task.X, task.y)
        yield (name, agent.anomaly_score(task.X_test))
        if name in ("uniform sampler", "uniform, fast, L2 0.003"):
            values = perceptron.outputs(agent.weights_, agent.layer_sizes_, agent._arrange(task.X_test))
            yield (f"{name}, score Q¹ - Q⁰", (values[:, 1] - values[:, 0]).astype(np.float64))


def wrong_labels(task: AnyTask, seed: int, share: float) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Return the rows to learn from with some unlabelled rows labelled as known anomalies, in place of true ones."""
    labelled, unlabelled = np.flatnonzero(task.y), np.flatnonzero(task.y == 0)
    rng = np.random.default_rng(seed)
    count = round(share * len(labelled))
    y = task.y.copy()
    y[rng.choice(unlabelled, count, replace=False)] = task.y[labelled[0]]
    kept = np.ones(len(y), dtype=bool)
    kept[rng.choice(labelled, count, replace=False)] = False
    return task.X[kept], y[kept]


def from_wrong_labels(task: AnyTask, seed: int, share: float) -> Iterator[tuple[str, Scores]]:
    """Train some detectors from labels of which a share is wrong."""
    X, y = wrong_labels(task, seed, share)
    for name in ("DPLANEnsemble", "DPLAN", "BoostedBaseline", "LogisticBaseline"):
        yield (name, getattr(dplan, name)(random_state=seed).fit(X, y).anomaly_score(task.X_test))


def lines(folder: Path = RECORDS) -> Iterator[str]:
    """Yield the mean of both areas for each arm."""
    records = measured(folder)
    for group, arm in dict.fromkeys((record["group"], record["arm"]) for record in records):
        own = [record for record in records if (record["group"], record["arm"]) == (group, arm)]
        auc_pr, auc_roc = (np.mean([record[name] for record in own]) for name in ("auc_pr", "auc_roc"))
        yield f"{group}: {arm}: {auc_pr:.3f} / {auc_roc:.3f}"


if __name__ == "__main__":
    main(str(__doc__), places, arms, lines)
