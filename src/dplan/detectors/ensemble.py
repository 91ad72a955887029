"""DPLANEnsemble: an ensemble of agents and unsupervised explorers. Not from the paper."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from dplan._kernels import product
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import join_trees, sum_of_leaves
from dplan.agent.environment import ANOMALOUS, UNIFORM_ROWS
from dplan.detectors._base import Callback, Indices
from dplan.detectors._checks import (
    as_generator,
    check_integer,
    check_n_jobs,
    check_not_diverged,
    check_number,
)
from dplan.detectors._fitted_ensemble import FittedEnsemble, agent_sizes, stack_networks
from dplan.detectors._isolation import labelled_or_pseudo_anomalies
from dplan.detectors._judged_forest import judged_members
from dplan.detectors._members import (
    REPEATS,
    Explored,
    Job,
    Member,
    Verdicts,
    all_jobs,
    draw_rows,
    explored,
    grown_forest,
    member_weights,
    new_explorers,
    some_of,
    standardised,
)
from dplan.detectors._slips import slips
from dplan.detectors._tree_agents import BOOSTED_LEAVES, plausible, tree_agent
from dplan.detectors._verdicts import checked_share, normal_rows
from dplan.detectors.dplan import DPLAN

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


class DPLANEnsemble(FittedEnsemble):
    """Ensemble of agents and unsupervised explorers; the recommended detector.

    It is based on three findings about DPLAN (``docs/ensemble.md``): drawing unlabelled rows uniformly is better than
    by proximity; many agents are better than one, and no learning rate is best everywhere; and an isolation forest in
    the agent's embedding cannot see what the embedding has not learned. Therefore:

    - Every agent draws its own rows, uniformly. Some are networks, DPLAN's own, which learn slowly or fast.
    - The others are trees: if rows are drawn uniformly, the next row does not depend on the action, so the action
      value is the expected reward and can be learned directly. Boosted trees learn most from large tables and many
      labels; randomised trees, each from all labels and a few unlabelled rows, learn most from few labels, and are
      hardly misled by hidden anomalies. A first round of them finds rows that look like known anomalies; the second
      does not take these for normal.
    - Two explorers of the raw features tell how rare a row is, without labels: the distance to the nearest neighbours
      among unlabelled rows, and an isolation forest. Trees learn from both. The distance is added to the score as well:
      the less it finds of the known anomalies, the less it counts, down to half.
    - The scores of each member are standardised using unlabelled rows, by the distance from the median to the 0.9
      quantile, so an agent that separates a few rows clearly has more influence on them.

    Parameters
    ----------
    n_agents : int, default=2
        Agents of each kind; twice as many of randomised trees. With more, results are slightly better.
    hidden_units : int, default=20
        ReLU units of a network agent.
    n_steps, warmup_steps : int, default=20000, 10000
        Steps of a network agent, as in `DPLAN`.
    n_rounds : int, default=50
        Trees of a tree agent.
    exploration : float, default=0.35
        Largest weight of the nearest neighbours, relative to a weight of 1 for all agents.
    n_trees, tree_size : int, default=100, 256
        Trees, and rows per tree, of the isolation forests: the explorer's and those of the intrinsic rewards.
    n_jobs : int or None, default=None
        Number of agents trained at the same time, each in a thread; None means 1, -1 means all cores, as in
        scikit-learn. Does not affect the result.

    Attributes
    ----------
    weights_, layer_sizes_ : ndarray
        All network agents stacked into one wide network, in the layout described in `dplan._kernels.perceptron`: the
        hidden units of all agents, and two outputs, Q(s, normal) and Q(s, anomalous), for each agent.
    trees_ : tuple of ndarray
        The trees of all tree agents.
    neighbours_ : ndarray of float32, shape (n_samples, n_rows, n_columns)
        Samples of scaled unlabelled training rows, to search for nearest neighbours; half its rank is added to a value.
    column_quantiles_ : ndarray of float32, shape (n_quantiles, n_columns)
        Quantiles of the columns, which tell ranks.
    forest_ : tuple of ndarray
        The isolation forest of the explorer.
    average_path_length_ : float
        Average path length in a tree of `tree_size` rows, which normalises path lengths.
    member_medians_, member_scales_, member_weights_ : ndarray of float64
        Median and scale that standardise a member's scores, and its weight, for each member: network agents, tree
        agents, nearest neighbours, forest.
    score_quantiles_ : ndarray of float64
        Scores of unlabelled rows at 0, 0.1, …, 100 %.
    slips_ : ndarray of int64
        Indices of training rows that were left out as slips, see Notes; not saved with the detector.
    history_ : dict of list
        Per agent: agents (trained so far) and seconds (since fit started).

    Notes
    -----
    Checked normal rows (-1 in y) count as much as known anomalies for all agents, together at most as much as all
    unlabelled rows; for trees and explorers, they are rows that occur often. There are also additional members:
    isolation forests that learn from up to 512 verdicts how suspicious each leaf is. They learn from a few verdicts
    already, so they help most when a review begins; after 100 verdicts, they and the explorers count less and less.
    With more than 100 verdicts, checked rows that the other verdicts contradict are left out: they are probably slips.
    `sample_weight` changes the weight of verdicts.

    If no row is labelled, the 1 % of rows (at least 10) with the highest isolation scores are used instead.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import DPLANEnsemble
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:40] += 4  # anomalies, of which ten are known
    >>> X[40:50, 0] -= 9  # and anomalies of an unknown class
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> detector = DPLANEnsemble(n_agents=1, n_steps=4000, warmup_steps=1000, random_state=0).fit(X, y)
    >>> bool(np.median(detector.percentile(X[:50])) > 95)
    True
    """

    version = 4

    n_agents: int = 2
    hidden_units: int = 20
    n_steps: int = 20_000
    warmup_steps: int = 10_000
    n_rounds: int = 50
    exploration: float = 0.35
    n_trees: int = 100
    tree_size: int = 256
    n_jobs: int | None = None

    def _check_parameters(self) -> None:
        for name in ("n_agents", "hidden_units", "n_steps", "n_rounds", "n_trees"):
            check_integer(name, getattr(self, name), minimum=1)
        check_integer("warmup_steps", self.warmup_steps, minimum=0)
        check_integer("tree_size", self.tree_size, minimum=2)
        check_number("exploration", self.exploration, "[0, inf)")
        check_n_jobs(self.n_jobs)

    def _expected_rounds(self) -> int:
        return sum(REPEATS.values()) * int(self.n_agents)

    def _fit(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> Indices:
        return self._train(X, labels, rng, [])

    def _resume(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> Indices:
        return self._train(X, labels, rng, self._agents())

    def _train(
        self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator, earlier: Sequence[Floats]
    ) -> Indices:
        """Train all members, network agents from earlier weights if given; return the indices of the neighbours."""
        unlabelled = np.flatnonzero(labels == 0)
        slipped = self._slips(X, labels, rng)
        labels = labels.copy()
        labels[slipped] = 0  # neither verdicts nor, from here on, unlabelled rows
        anomalies, checked = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
        if cold := len(anomalies) == 0:
            anomalies, unlabelled = labelled_or_pseudo_anomalies(self._arrange(X), labels, rng)
        believed = self._confidence_in(anomalies), self._confidence_in(checked)
        share = checked_share(*believed)  # of the rows that trees and explorers take for normal
        samples, reference_rows = draw_rows(normal_rows(unlabelled, checked, believed[1], share), rng)
        known, reference = (self._arrange(X, rows) for rows in (anomalies, reference_rows))
        jobs = all_jobs(int(self.n_agents), rng)
        forest = grown_forest(reference, int(self.n_trees), int(self.tree_size), rng)
        explorers = new_explorers(self._arrange(X, samples.ravel()), samples.shape, forest)
        is_checked = labels[reference_rows] < 0
        stop = Event()
        agents: list[Member] = []
        confidence = None if self._confidence is None else believed[0]
        verdicts = Verdicts(anomalies, checked, unlabelled, reference_rows, confidence)
        # Results are collected in the order of submission, so threads do not affect them.
        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as pool:
            exploring = pool.submit(explored, explorers, known, reference)
            train_one = partial(self._member, X, verdicts, exploring, earlier, stop)
            # The first agent is a network, which learns while others would wait for the explorers. Without known
            # anomalies it is the only one, because agents know nothing then that explorers do not.
            running = [pool.submit(train_one, None, jobs[0])]
            try:
                usual = reference[~is_checked | is_checked.all()]
                judged = self._judged(X, labels, usual, rng) if len(checked) else []
                own_rng = np.random.default_rng(rng.integers(2**63))
                if not cold:
                    n_trees = -(-int(self.n_rounds) // (_CONTINUED if earlier else 1))
                    cleaning = pool.submit(self._cleaned, verdicts, exploring, is_checked, n_trees, own_rng)
                    running += [pool.submit(train_one, cleaning, job) for job in jobs[1:]]
                for finished in running:
                    # Wait briefly: with polars' signal handlers, Ctrl-C is only handled between waits.
                    while wait([finished], timeout=0.2).not_done:
                        pass
                    agents.append(finished.result())
                    # Set all attributes at once, so that a failed fit leaves the detector unchanged.
                    found = exploring.result()
                    self.neighbours_, self.column_quantiles_ = explorers.neighbours, explorers.quantiles
                    self.forest_, self.average_path_length_ = forest
                    self.slips_ = slipped
                    self._assemble([*agents, *judged], found.members)
                    kinds = [agent.kind for agent in sorted(agents, key=lambda agent: agent.theta is None)]
                    counts = (0 if cold else len(anomalies)), len(checked)
                    weight = float(self.exploration) * found.trust
                    self.member_weights_ = member_weights(kinds, len(judged), *counts, weight)
                    if self._record(agents=len(agents)):
                        break
            finally:
                stop.set()  # otherwise Ctrl-C would wait for running agents
                for waiting in running:
                    waiting.cancel()
        return samples.ravel()

    def _member(
        self,
        X: NDArray[np.floating],
        verdicts: Verdicts,
        exploring: Future[Explored],
        earlier: Sequence[Floats],
        stop: Event,
        cleaning: Future[Indices] | None,
        job: Job,
    ) -> Member:
        """Train one agent."""
        if job.kind not in _SPEEDS:
            found = exploring.result()
            cleaned = cleaning if job.kind == "randomised" else None
            rows = cleaned.result() if cleaned else np.arange(len(found.reference))
            n_leaves = -(-BOOSTED_LEAVES // (_CONTINUED if earlier else 1))
            trees = tree_agent(job.kind, int(self.n_rounds), n_leaves, verdicts, found, rows, job.rng)
            return standardised(job.kind, None, trees, sum_of_leaves(trees, found.reference))
        known = np.concatenate([verdicts.anomalies, verdicts.checked])
        labels = np.repeat([1, -1], [len(verdicts.anomalies), len(verdicts.checked)])
        drawn = some_of(verdicts.unlabelled, UNIFORM_ROWS, job.rng)
        place = 2 * job.number + (job.kind == "fast")
        weights = earlier[place] if place < len(earlier) else None
        agent = self._agent(job.kind, lambda *_: stop.is_set(), weights is not None)
        if self._confidence is not None:
            agent._confidence = np.append(self._confidence_in(known), np.ones(len(drawn)))  # type: ignore[misc]
        # Rows are already checked and scaled, and an agent needs no threshold, so `fit` is not called.
        agent._train_on_scaled(
            self._arrange(X, np.append(known, drawn)),
            np.append(labels, np.zeros(len(drawn), dtype=np.int64)),
            as_generator(job.rng),
            weights,
        )
        reference = np.ascontiguousarray(exploring.result().reference[:, : X.shape[1]])
        values = product.outputs(agent.weights_, agent.layer_sizes_, reference)[:, ANOMALOUS]
        check_not_diverged(values, type(self).__name__)
        return standardised(job.kind, agent.weights_, None, values)

    def _slips(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> Indices:
        """Return the rows with verdicts that other verdicts contradict."""
        judged = np.flatnonzero(labels) if (labels < 0).any() else np.zeros(0, dtype=np.int64)
        return judged[slips(self._arrange(X, judged), labels[judged] > 0, rng)]

    def _judged(
        self, X: NDArray[np.floating], labels: Indices, usual: Floats, rng: np.random.Generator
    ) -> list[Member]:
        """Return isolation forests of usual rows that have learned from verdicts."""
        some = some_of(np.flatnonzero(labels), _JUDGED_ROWS, rng)
        verdicts = self._arrange(X, some), labels[some] > 0, self._confidence_in(some)
        sizes = 2 * int(self.n_agents), int(self.n_rounds), int(self.tree_size)
        return judged_members(usual, *verdicts, *sizes, rng)

    def _cleaned(
        self,
        verdicts: Verdicts,
        exploring: Future[Explored],
        is_checked: NDArray[np.bool_],
        n_trees: int,
        rng: np.random.Generator,
    ) -> Indices:
        """Return the rows, among those that are explored, that were checked or do not look like known anomalies.

        Randomised trees that are not part of the ensemble tell. Without these rows, the ensemble's trees are better, on
        tables with many anomalies especially.
        """
        found = exploring.result()
        everything = np.arange(len(found.reference))
        trees = tree_agent("randomised", n_trees, BOOSTED_LEAVES, verdicts, found, everything, rng)
        return np.union1d(plausible(trees, found.reference), np.flatnonzero(is_checked))

    def _agent(self, kind: str, callback: Callback, continues: bool) -> DPLAN:
        n_learning = max(0, int(self.n_steps) - int(self.warmup_steps))
        return DPLAN(
            hidden_units=int(self.hidden_units),
            n_steps=int(self.n_steps) - (n_learning - n_learning // _CONTINUED if continues else 0),
            warmup_steps=int(self.warmup_steps),
            n_trees=int(self.n_trees),
            tree_size=int(self.tree_size),
            scale=False,
            callback=callback,
            **_SPEEDS[kind],
        )

    def _assemble(self, agents: Sequence[Member], explorers: Sequence[Member]) -> None:
        """Store the fitted agents as arrays, and what standardises the scores of all members."""
        networks = [agent for agent in agents if agent.theta is not None]
        growing = [agent for agent in agents if agent.trees is not None]
        self.layer_sizes_, self.weights_ = stack_networks(
            [agent.theta for agent in networks if agent.theta is not None],
            agent_sizes(int(self.n_features_in_), int(self.hidden_units)),
        )
        self.trees_ = join_trees([agent.trees for agent in growing if agent.trees is not None])
        ordered = [*networks, *growing, *explorers]
        self.member_medians_ = np.array([member.middle for member in ordered])
        self.member_scales_ = np.array([member.spread for member in ordered])
