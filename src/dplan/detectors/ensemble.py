"""DPLANEnsemble: many agents with two kinds of mind, and explorers of the raw features. Our own, beyond the paper."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from dplan._kernels import product
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import join_trees, sum_of_leaves
from dplan.agent.environment import ANOMALOUS
from dplan.detectors._base import Callback, Indices
from dplan.detectors._checks import as_generator, check_integer, check_n_jobs, check_number
from dplan.detectors._explorers import EXPLORERS, Explorers, as_members, draw_rows, grown_forest
from dplan.detectors._fitted_ensemble import FittedEnsemble, agent_sizes
from dplan.detectors._isolation import labelled_or_stand_ins
from dplan.detectors._members import KINDS, Member, agent_weights, boosted_trees, standardised
from dplan.detectors._side_by_side import side_by_side
from dplan.detectors.dplan import DPLAN

# How a network agent learns. The slow one is DPLAN as published but for its sampler; the fast one takes twenty times as
# long steps with less weight decay. Which is better differs from table to table, so there are both.
_SLOW: dict[str, Any] = {"sampler": "uniform"}
_FAST: dict[str, Any] = {"sampler": "uniform", "momentum": 0.95, "gradient_decay": 0.9, "l2": 0.003}

# Unlabelled rows that one agent sees: as many as a network agent can visit in its steps, and for trees so few that
# hidden anomalies among them weigh little.
_NETWORK_ROWS, _TREE_ROWS = 20_000, 5_000

# With fewer labels than this, every agent learns from all of them and none is held out.
_FEWEST_LABELS_TO_HOLD_OUT = 8


class Job(NamedTuple):
    """What one agent learns from."""

    kind: str
    number: int
    learned: Indices  # labelled rows
    held_out: Indices
    rng: np.random.Generator


class DPLANEnsemble(FittedEnsemble):
    """Agents of several kinds, each with its own experience, and explorers of the raw features. The recommended one.

    Three things were found out about DPLAN (``docs/ensemble.md``): drawing unlabelled rows uniformly is better than by
    proximity; many agents are better than one, and no single speed of learning is right everywhere; and an isolation
    forest in the agent's embedding is blind to what the embedding was never taught to see. This detector follows:

    - Every agent draws its own unlabelled rows, uniformly, and leaves out a part of the known anomalies.
    - Half of the score comes from network agents, DPLAN's own, that learn slowly or fast. The other half comes from
      agents whose action values are boosted trees: if rows are drawn uniformly, what comes next does not depend on
      what the agent does, so the action value is the expected reward and can be learned directly.
    - Two explorers of the raw features add what is rare in itself, labelled or not: the distance to the nearest
      neighbours among unlabelled rows, and an isolation forest.
    - Each one's scores are standardised against unlabelled rows, by the distance from their median to their 0.9
      quantile: an agent that sets a few rows far apart from all others is heard where it does so.
    - Held-out known anomalies tell how much each kind of agent is worth on this table.

    Parameters
    ----------
    n_agents : int, default=4
        Agents of each of the three kinds. More are better and cost more.
    hidden_units : int, default=20
        ReLU units of a network agent.
    n_steps, warmup_steps : int, default=20000, 10000
        Steps of a network agent, as in `DPLAN`.
    n_rounds : int, default=50
        Boosted trees of a tree agent.
    exploration : float, default=0.6
        Weight of the explorers beside all agents together, which have 1. Five sixths of it go to the nearest
        neighbours, one sixth to the isolation forest.
    n_trees, tree_size : int, default=100, 256
        Of the isolation forests: the explorer's, and those of the network agents' intrinsic reward.
    n_jobs : int or None, default=None
        Agents that are trained at the same time, each in a thread: None stands for one, -1 for one per core, as in
        scikit-learn. The result is the same.
    scale : bool, default=True
        Scale every column to [0, 1] by the training rows.
    contamination : float, default=0.02
        Share of rows like the unlabelled ones that `predict` calls anomalous. It sets the threshold and nothing else.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The same seed gives the same bytes.
    callback : callable or None, default=None
        Called after each member is trained as ``callback(detector, figures)``; the detector scores with the members
        that it has so far. If it returns True, it stays with these.
    verbose : int, default=0
        If not 0, one line per member is printed, or logged if the logger "dplan" is set up.

    Attributes
    ----------
    weights_, layer_sizes_ : ndarray
        All network agents side by side as one network, laid out as `dplan._kernels.perceptron` says: the hidden
        units of one after those of the other, and two outputs, Q(s, normal) and Q(s, anomalous), of each.
    trees_ : tuple of ndarray
        The trees of the tree agents, one agent after the other.
    neighbours_ : ndarray of float32, shape (n_samples, n_rows, n_columns)
        Unlabelled training rows, scaled, among which nearest neighbours are looked for.
    forest_ : tuple of ndarray
        The exploring isolation forest.
    usual_path_length_ : float
        What its path lengths are compared with.
    middles_, spreads_, member_weights_ : ndarray of float64
        What scores are standardised by, and the weight of each member: network agents, tree agents, the neighbours,
        the forest.
    score_quantiles_ : ndarray of float64
        Scores of unlabelled rows at 0, 0.1, …, 100 %.
    history_ : dict of list
        Per member: held_out_error (the mean share of unlabelled rows that score above its held-out anomalies, NaN
        without any) and seconds (since the start).

    Notes
    -----
    Without any labelled row, the 1 % of rows (at least 10) that an isolation forest isolates most easily stand in.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import DPLANEnsemble
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:40] += 4  # anomalies, of which ten are known
    >>> X[40:50, 0] -= 9  # and anomalies of a kind that nobody knows
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> detector = DPLANEnsemble(n_agents=1, n_steps=4000, warmup_steps=1000, random_state=0).fit(X, y)
    >>> bool(np.median(detector.percentile(X[:50])) > 95)
    True
    """

    n_agents: int = 4
    hidden_units: int = 20
    n_steps: int = 20_000
    warmup_steps: int = 10_000
    n_rounds: int = 50
    exploration: float = 0.6
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
        return len(KINDS) * int(self.n_agents)

    def _fit(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> Indices:
        return self._train(X, labels, rng, [])

    def _resume(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> Indices:
        return self._train(X, labels, rng, self._agents())

    def _train(
        self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator, earlier: Sequence[Floats]
    ) -> Indices:
        """Train all members, network agents from earlier weights if there are any; return the neighbours' numbers."""
        labelled, unlabelled = np.flatnonzero(labels), np.flatnonzero(labels == 0)
        if len(labelled) == 0:
            labelled, unlabelled = labelled_or_stand_ins(self._arrange(X), labels, rng)
        samples, reference = draw_rows(unlabelled, rng)
        usual = self._arrange(X, reference)
        neighbours = self._arrange(X, samples.ravel()).reshape(*samples.shape, X.shape[1])
        jobs = list(self._jobs(rng.permutation(labelled), rng))
        stop = Event()
        train_one = partial(self._member, X, unlabelled, usual, earlier, stop)
        forest = grown_forest(usual, int(self.n_trees), int(self.tree_size), rng)
        explorers = Explorers(neighbours, *forest)
        agents: list[Member] = []
        # Agents are handed over in the order in which they were asked for, so threads change nothing.
        with ThreadPoolExecutor(effective_n_jobs(self.n_jobs)) as pool:
            exploring = pool.submit(as_members, explorers, usual)
            running = [pool.submit(train_one, job) for job in jobs]
            try:
                for finished in running:
                    # In short waits: with polars' handler of Ctrl-C, it is heeded between two waits only.
                    while wait([exploring, finished], timeout=0.2).not_done:
                        pass
                    agents.append(finished.result())
                    # All at once: a training that fails before leaves the detector as it was.
                    self.neighbours_, self.forest_, self.usual_path_length_ = explorers
                    self._assemble(agents, exploring.result())
                    if self._record(held_out_error=agents[-1].error):
                        break
            finally:
                stop.set()  # or Ctrl-C would wait until agents under way have learned all
                for waiting in running:
                    waiting.cancel()
        neighbour_rows: Indices = samples.ravel()
        return neighbour_rows

    def _reference_scores(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        # A row's score does not depend on the rows beside it, so threads change nothing here either.
        n_threads = effective_n_jobs(self.n_jobs)
        with ThreadPoolExecutor(n_threads) as pool:
            parts = pool.map(partial(super()._reference_scores, X), np.array_split(rows, n_threads))
            return np.concatenate(list(parts))

    def _jobs(self, labelled: Indices, rng: np.random.Generator) -> Iterator[Job]:
        """Say what each agent is to learn; kinds take turns, so that a training cut short has some of each."""
        n_folds = max(int(self.n_agents), 2)
        fold = np.arange(len(labelled)) % n_folds
        holding_out = len(labelled) >= max(_FEWEST_LABELS_TO_HOLD_OUT, n_folds)
        for number in range(int(self.n_agents)):
            out = fold == number if holding_out else np.zeros(len(labelled), dtype=bool)
            for kind in KINDS:
                own_rng = np.random.default_rng(rng.integers(2**63))
                yield Job(kind, number, labelled[~out], labelled[out], own_rng)

    def _member(
        self,
        X: NDArray[np.floating],
        unlabelled: Indices,
        usual: Floats,
        earlier: Sequence[Floats],
        stop: Event,
        job: Job,
    ) -> Member:
        """Train one agent."""
        n_rows = _TREE_ROWS if job.kind == "trees" else _NETWORK_ROWS
        drawn = job.rng.choice(unlabelled, min(n_rows, len(unlabelled)), replace=False)
        rows = self._arrange(X, np.concatenate([job.learned, drawn]))
        known = np.arange(len(rows)) < len(job.learned)
        held_out = self._arrange(X, job.held_out)
        if job.kind == "trees":
            trees = boosted_trees(rows, known, int(self.n_rounds), job.rng)
            usual_scores, held_out_scores = sum_of_leaves(trees, usual), sum_of_leaves(trees, held_out)
            return standardised(job.kind, None, trees, usual_scores, held_out_scores)
        place = 2 * job.number + (job.kind == "fast")
        agent = self._agent(job.kind, lambda *_: stop.is_set())
        # Rows are checked and scaled already, and an agent needs no threshold of its own: this is all of its fit.
        agent._train_on_scaled(
            rows,
            known.astype(np.int64),
            as_generator(job.rng),
            earlier[place] if place < len(earlier) else None,
        )
        values = [
            product.outputs(agent.weights_, agent.layer_sizes_, part)[:, ANOMALOUS]
            for part in (usual, held_out)
        ]
        return standardised(job.kind, agent.weights_, None, *values)

    def _agent(self, kind: str, callback: Callback) -> DPLAN:
        return DPLAN(
            hidden_units=int(self.hidden_units),
            n_steps=int(self.n_steps),
            warmup_steps=int(self.warmup_steps),
            n_trees=int(self.n_trees),
            tree_size=int(self.tree_size),
            scale=False,
            callback=callback,
            **(_FAST if kind == "fast" else _SLOW),
        )

    def _assemble(self, agents: Sequence[Member], explorers: Sequence[Member]) -> None:
        """Put what agents learned into plain arrays, and weigh all members."""
        networks = [agent for agent in agents if agent.theta is not None]
        boosted = [agent for agent in agents if agent.trees is not None]
        self.layer_sizes_, self.weights_ = side_by_side(
            [agent.theta for agent in networks if agent.theta is not None],
            agent_sizes(int(self.n_features_in_), int(self.hidden_units)),
        )
        self.trees_ = join_trees([agent.trees for agent in boosted if agent.trees is not None])
        ordered = [*networks, *boosted, *explorers]
        self.middles_ = np.array([member.middle for member in ordered])
        self.spreads_ = np.array([member.spread for member in ordered])
        exploring = float(self.exploration) * np.array(list(EXPLORERS.values()))
        self.member_weights_ = np.concatenate([agent_weights([*networks, *boosted]), exploring])
