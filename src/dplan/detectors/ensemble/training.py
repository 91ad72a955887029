"""Training of an ensemble: explorers, agents in threads, and forests that learn from verdicts."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from dplan._kernels import product
from dplan._kernels.trees import sum_of_leaves
from dplan.agent.environment import ANOMALOUS, UNIFORM_ROWS
from dplan.arrays import Float32s
from dplan.detectors._checks import as_generator, check_not_diverged
from dplan.detectors._rows import Indices, Labelling, labelled_or_pseudo_anomalies, normal_rows
from dplan.detectors.dplan import DPLAN
from dplan.detectors.ensemble.combining import (
    STRAIGHT,
    Combination,
    asking_weights,
    believed_weights,
    bends,
    score_of_votes,
    weighted_sum,
)
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
    new_explorers,
    some_of,
    standardised,
)

Arrange = Callable[[Indices | None], Float32s]  # returns scaled rows of the training table, by index

# How a network agent learns: it takes steps twenty times larger than DPLAN as published, with less weight decay, and
# draws rows uniformly.
_FAST: dict[str, Any] = {"sampler": "uniform", "momentum": 0.95, "gradient_decay": 0.9, "l2": 0.003}

# An agent that continues knows most things already: of its steps after the first ones, it takes one in so many. Boosted
# trees have as many fewer leaves then, and there are as many fewer trees that are not part of the ensemble.
_CONTINUED = 4

# Verdicts that forests learn from: with more, agents know better, and time grows with the cube.
_JUDGED_ROWS = 512

# Largest share of checked rows in what trees take for normal, and how many verdicts of either kind give half of it.
# Rows that were judged because they stood at the top are a biased sample: they must not drown the others.
_CHECKED_SHARE, _SOME_CHECKED, _SOME_KNOWN = 0.4, 10, 10


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
    normal = normal_rows(
        unlabelled, checked, labelling.confidence_in(checked), checked_share(len(anomalies), len(checked))
    )
    return TrainingRows(
        labelling, anomalies, unlabelled, *draw_rows(unlabelled, checked, normal, rng), slipped
    )


def checked_share(n_known: int, n_checked: int) -> float:
    """Return the share of checked rows in what trees take for normal.

    Examples
    --------
    >>> checked_share(10, 10), round(checked_share(5, 1), 3)
    (0.1, 0.012)
    """
    return _CHECKED_SHARE * n_checked / (n_checked + _SOME_CHECKED) * n_known / (n_known + _SOME_KNOWN)


def train(
    rows: TrainingRows,
    arrange: Arrange,
    settings: Settings,
    n_threads: int,
    earlier: Sequence[Float32s],
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
        exploring = pool.submit(explored, explorers, rows, known, reference)
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
                ordered = [*sorted(agents, key=lambda agent: agent.theta is None), *judged]
                yield assemble(ordered, found, _combination(rows, ordered, found, settings), *sizes)
        finally:
            stop.set()  # otherwise Ctrl-C would wait for running agents
            for waiting in running:
                waiting.cancel()


def _combination(
    rows: TrainingRows, agents: Sequence[Member], found: Explored, settings: Settings
) -> Combination:
    """Return how members are combined."""
    kinds = [agent.kind for agent in agents if agent.kind != "judged"]
    n_known, n_checked = len(rows.labelling.anomalies), len(rows.labelling.checked)
    n_judged = len(agents) - len(kinds)
    weights = believed_weights(kinds, n_judged, n_known, n_checked, found.found, settings.exploration)
    votes = [
        score_of_votes(agent.middle, agent.spread, settings.n_rounds)
        for agent in agents
        if agent.kind == "randomised"
    ]
    bent = STRAIGHT
    if n_known and votes:
        total = weighted_sum(np.array([agent.scores for agent in agents]), weights[: len(agents)])
        bent = bends(total, found.members[0].scores, float(np.mean(votes)))
    if not n_checked:
        return Combination(weights, weights, bent)
    return Combination(weights, asking_weights(kinds, n_judged, n_known, n_checked), bent)


def train_agent(
    rows: TrainingRows,
    arrange: Arrange,
    settings: Settings,
    exploring: Future[Explored],
    earlier: Sequence[Float32s],
    stop: Event,
    cleaning: Future[Indices] | None,
    job: Job,
) -> Member:
    """Train one agent."""
    if job.kind != "network":
        found = exploring.result()
        clean = cleaning if job.kind == "randomised" else None
        allowed = clean.result() if clean else np.arange(len(found.reference))
        n_leaves = _fewer(BOOSTED_LEAVES, earlier)
        trees = tree_agent(job.kind, settings.n_rounds, n_leaves, rows, found, allowed, job.rng)
        return standardised(job.kind, None, trees, sum_of_leaves(trees, found.reference)[rows.standard])
    checked = rows.labelling.checked
    known = np.concatenate([rows.anomalies, checked])
    drawn = some_of(rows.unlabelled, UNIFORM_ROWS, job.rng)
    labels = np.repeat([1, -1, 0], [len(rows.anomalies), len(checked), len(drawn)])
    confidence = None
    if rows.labelling.confidence is not None:
        confidence = np.append(rows.labelling.confidence_in(known), np.ones(len(drawn)))
    weights = earlier[job.number] if job.number < len(earlier) else None
    agent = network_agent(settings, lambda *_: stop.is_set(), weights is not None)
    # Rows are already checked and scaled, and an agent needs no threshold, so `fit` is not called.
    scaled, labelling = arrange(np.append(known, drawn)), Labelling(labels, confidence)
    agent._train_on_scaled(scaled, labelling, as_generator(job.rng), weights)
    reference = np.ascontiguousarray(exploring.result().reference[:, : scaled.shape[1]])
    values = product.outputs(agent.weights_, agent.layer_sizes_, reference)[:, ANOMALOUS]
    check_not_diverged(values, "DPLANEnsemble")
    return standardised(job.kind, agent.weights_, None, values[rows.standard])


def network_agent(settings: Settings, callback: Any, continues: bool) -> DPLAN:
    """Return a network agent, not trained yet."""
    n_learning = max(0, settings.n_steps - settings.warmup_steps)
    return DPLAN(
        hidden_units=settings.hidden_units,
        n_steps=settings.n_steps - (n_learning - n_learning // _CONTINUED if continues else 0),
        warmup_steps=settings.warmup_steps,
        n_trees=settings.n_trees,
        tree_size=settings.tree_size,
        scale=False,
        callback=callback,
        **_FAST,
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
    rows: TrainingRows, arrange: Arrange, settings: Settings, reference: Float32s, rng: np.random.Generator
) -> list[Member]:
    """Return isolation forests of unlabelled rows that have learned from verdicts."""
    labelling = rows.labelling
    unlabelled = reference[rows.standard]
    some = some_of(np.flatnonzero(labelling.labels), _JUDGED_ROWS, rng)
    verdicts = arrange(some), labelling.labels[some] > 0, labelling.confidence_in(some)
    sizes = 2 * settings.n_agents, settings.n_rounds, settings.tree_size
    return judged_members(unlabelled, *verdicts, *sizes, rng)


def _fewer(count: int, earlier: Sequence[Float32s]) -> int:
    """Return a number of trees or leaves, smaller if agents continue."""
    return -(-count // _CONTINUED) if earlier else count
