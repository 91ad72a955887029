"""Training of an ensemble: explorers, agents in threads, and forests that learn from verdicts."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from dplan._kernels import product
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import sum_of_leaves
from dplan.agent.environment import ANOMALOUS, UNIFORM_ROWS
from dplan.detectors._checks import as_generator, check_not_diverged
from dplan.detectors._rows import Indices, Labelling, labelled_or_pseudo_anomalies, normal_rows
from dplan.detectors.dplan import DPLAN
from dplan.detectors.ensemble.fitted import Fitted, assemble
from dplan.detectors.ensemble.learners import (
    BOOSTED_LEAVES,
    judged_members,
    plausible,
    slips,
    tree_agent,
)
from dplan.detectors.ensemble.members import (
    Explored,
    Job,
    Member,
    TrainingRows,
    all_jobs,
    draw_rows,
    explored,
    grown_forest,
    member_weights,
    new_explorers,
    some_of,
    standardised,
)

Arrange = Callable[[Indices | None], Floats]  # returns scaled rows of the training table, by index

# How a network agent learns. The slow one is DPLAN as published, with a uniform sampler; the fast one takes steps
# twenty times larger, with less weight decay. Which is better depends on the table, so there are both.
_SPEEDS: dict[str, dict[str, Any]] = {
    "slow": {"sampler": "uniform"},
    "fast": {"sampler": "uniform", "momentum": 0.95, "gradient_decay": 0.9, "l2": 0.003},
}

# An agent that continues knows most things already: of its steps after the first ones, it takes one in so many. Boosted
# trees have as many fewer leaves then, and there are as many fewer trees that are not part of the ensemble.
_CONTINUED = 4

# Verdicts that forests learn from: with more, agents know better, and time grows with the cube.
_JUDGED_ROWS = 512


class Settings(NamedTuple):
    """The parameters of `DPLANEnsemble` that training depends on."""

    n_agents: int
    hidden_units: int
    n_steps: int
    warmup_steps: int
    n_rounds: int
    exploration: float
    n_trees: int
    tree_size: int


def choose_rows(arrange: Arrange, labelling: Labelling, rng: np.random.Generator) -> TrainingRows:
    """Choose the rows that members learn from."""
    labels, unlabelled = labelling.labels.copy(), labelling.unlabelled
    judged = np.flatnonzero(labels) if (labels < 0).any() else np.zeros(0, dtype=np.int64)
    slipped = judged[slips(arrange(judged), labels[judged] > 0, rng)]
    labels[slipped] = 0  # neither verdicts nor, from here on, unlabelled rows
    labelling = labelling._replace(labels=labels)
    anomalies, checked = labelling.anomalies, labelling.checked
    if len(anomalies) == 0:
        anomalies, unlabelled = labelled_or_pseudo_anomalies(arrange(None), labelling, rng)
    share = labelling.checked_share(anomalies)  # of the rows that trees and explorers take for normal
    normal = normal_rows(unlabelled, checked, labelling.confidence_in(checked), share)
    return TrainingRows(labelling, anomalies, unlabelled, *draw_rows(normal, rng), slipped)


def train(
    rows: TrainingRows,
    arrange: Arrange,
    settings: Settings,
    n_threads: int,
    earlier: Sequence[Floats],
    rng: np.random.Generator,
) -> Generator[Fitted, None, None]:
    """Train all members, and yield the ensemble after each agent; close the iterator to stop.

    Network agents continue from earlier weights if these are given.
    """
    known, reference = arrange(rows.anomalies), arrange(rows.explored)
    sizes = known.shape[1], settings.hidden_units
    n_known, n_checked = len(rows.labelling.anomalies), len(rows.labelling.checked)
    jobs = all_jobs(settings.n_agents, rng)
    forest = grown_forest(reference, settings.n_trees, settings.tree_size, rng)
    explorers = new_explorers(arrange(rows.neighbours.ravel()), rows.neighbours.shape, forest)
    stop = Event()
    agents: list[Member] = []
    # Results are collected in the order of submission, so threads do not affect them.
    with ThreadPoolExecutor(n_threads) as pool:
        exploring = pool.submit(explored, explorers, known, reference)
        train_one = partial(train_agent, rows, arrange, settings, exploring, earlier, stop)
        # The first agent is a network, which learns while others would wait for the explorers. Without known
        # anomalies it is the only one, because agents know nothing then that explorers do not.
        running = [pool.submit(train_one, None, jobs[0])]
        try:
            judged = judged_agents(rows, arrange, settings, reference, rng) if n_checked else []
            own_rng = np.random.default_rng(rng.integers(2**63))
            if n_known:
                cleaning = pool.submit(cleaned, rows, exploring, _fewer(settings.n_rounds, earlier), own_rng)
                running += [pool.submit(train_one, cleaning, job) for job in jobs[1:]]
            for finished in running:
                # Wait briefly: with polars' signal handlers, Ctrl-C is only handled between waits.
                while wait([finished], timeout=0.2).not_done:
                    pass
                agents.append(finished.result())
                found = exploring.result()
                kinds = [agent.kind for agent in sorted(agents, key=lambda agent: agent.theta is None)]
                exploration = settings.exploration * found.trust
                weights = member_weights(kinds, len(judged), n_known, n_checked, exploration)
                yield assemble([*agents, *judged], found.members, explorers, weights, *sizes)
        finally:
            stop.set()  # otherwise Ctrl-C would wait for running agents
            for waiting in running:
                waiting.cancel()


def train_agent(
    rows: TrainingRows,
    arrange: Arrange,
    settings: Settings,
    exploring: Future[Explored],
    earlier: Sequence[Floats],
    stop: Event,
    cleaning: Future[Indices] | None,
    job: Job,
) -> Member:
    """Train one agent."""
    if job.kind not in _SPEEDS:
        found = exploring.result()
        clean = cleaning if job.kind == "randomised" else None
        allowed = clean.result() if clean else np.arange(len(found.reference))
        n_leaves = _fewer(BOOSTED_LEAVES, earlier)
        trees = tree_agent(job.kind, settings.n_rounds, n_leaves, rows, found, allowed, job.rng)
        return standardised(job.kind, None, trees, sum_of_leaves(trees, found.reference))
    checked = rows.labelling.checked
    known = np.concatenate([rows.anomalies, checked])
    drawn = some_of(rows.unlabelled, UNIFORM_ROWS, job.rng)
    labels = np.repeat([1, -1, 0], [len(rows.anomalies), len(checked), len(drawn)])
    confidence = None
    if rows.labelling.confidence is not None:
        confidence = np.append(rows.labelling.confidence_in(known), np.ones(len(drawn)))
    place = 2 * job.number + (job.kind == "fast")
    weights = earlier[place] if place < len(earlier) else None
    agent = network_agent(job.kind, settings, lambda *_: stop.is_set(), weights is not None)
    # Rows are already checked and scaled, and an agent needs no threshold, so `fit` is not called.
    scaled, labelling = arrange(np.append(known, drawn)), Labelling(labels, confidence)
    agent._train_on_scaled(scaled, labelling, as_generator(job.rng), weights)
    reference = np.ascontiguousarray(exploring.result().reference[:, : scaled.shape[1]])
    values = product.outputs(agent.weights_, agent.layer_sizes_, reference)[:, ANOMALOUS]
    check_not_diverged(values, "DPLANEnsemble")
    return standardised(job.kind, agent.weights_, None, values)


def network_agent(kind: str, settings: Settings, callback: Any, continues: bool) -> DPLAN:
    """Return a network agent of a kind, not trained yet."""
    n_learning = max(0, settings.n_steps - settings.warmup_steps)
    return DPLAN(
        hidden_units=settings.hidden_units,
        n_steps=settings.n_steps - (n_learning - n_learning // _CONTINUED if continues else 0),
        warmup_steps=settings.warmup_steps,
        n_trees=settings.n_trees,
        tree_size=settings.tree_size,
        scale=False,
        callback=callback,
        **_SPEEDS[kind],
    )


def cleaned(
    rows: TrainingRows, exploring: Future[Explored], n_trees: int, rng: np.random.Generator
) -> Indices:
    """Return the rows, among those that are explored, that were checked or do not look like known anomalies.

    Randomised trees that are not part of the ensemble tell. Without the other rows, the ensemble's trees are better, on
    tables with many anomalies especially.
    """
    found = exploring.result()
    everything = np.arange(len(found.reference))
    trees = tree_agent("randomised", n_trees, BOOSTED_LEAVES, rows, found, everything, rng)
    return np.union1d(plausible(trees, found.reference), np.flatnonzero(rows.is_checked))


def judged_agents(
    rows: TrainingRows, arrange: Arrange, settings: Settings, reference: Floats, rng: np.random.Generator
) -> list[Member]:
    """Return isolation forests of unlabelled rows that have learned from verdicts."""
    labelling = rows.labelling
    unlabelled = reference[~rows.is_checked | rows.is_checked.all()]
    some = some_of(np.flatnonzero(labelling.labels), _JUDGED_ROWS, rng)
    verdicts = arrange(some), labelling.labels[some] > 0, labelling.confidence_in(some)
    sizes = 2 * settings.n_agents, settings.n_rounds, settings.tree_size
    return judged_members(unlabelled, *verdicts, *sizes, rng)


def _fewer(count: int, earlier: Sequence[Floats]) -> int:
    """Return a number of trees or leaves, smaller if agents continue."""
    return -(-count // _CONTINUED) if earlier else count
