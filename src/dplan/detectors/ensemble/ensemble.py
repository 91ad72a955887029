"""DPLANEnsemble: an ensemble of agents and unsupervised explorers. Not from the paper."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels import perceptron
from dplan._kernels.neighbours import samples_with
from dplan.arrays import Float32s
from dplan.detectors._checks import check_integer, check_n_jobs, check_number
from dplan.detectors._continuing import ContinuingDetector
from dplan.detectors._fields import COLUMNS, NETWORK, Array, Number, Optional, TreeArrays, check_network
from dplan.detectors._rows import Indices, Labelling
from dplan.detectors._terms import MemberKind, Term
from dplan.detectors.ensemble import fitted
from dplan.detectors.ensemble.combining import (
    EXPLORERS,
    STRAIGHT,
    Bends,
    Combination,
    combined,
    weighted_sum,
)
from dplan.detectors.ensemble.members import REPEATS, Explorers
from dplan.detectors.ensemble.training import Settings, choose_rows, train
from dplan.estimators import check_fitted


class DPLANEnsemble(ContinuingDetector):
    """Ensemble of agents and unsupervised explorers; the recommended detector.

    It is based on three findings about DPLAN (``docs/ensemble.md``): drawing unlabelled rows uniformly is better than
    by proximity; many agents are better than one; and an isolation forest in the agent's embedding cannot see what the
    embedding has not learned. Therefore:

    - Every agent draws its own rows, uniformly. Some are networks, DPLAN's own, which learn faster than published.
    - The others are trees: if rows are drawn uniformly, the next row does not depend on the action, so the action
      value is the expected reward and can be learned directly. Boosted trees learn most from large tables and many
      labels; randomised trees, each from all labels and a few unlabelled rows, learn most from few labels, and are
      hardly misled by hidden anomalies. A first round of them finds rows that look like known anomalies; the second
      does not take these for normal.
    - Two explorers of the raw features tell how rare a row is, without labels: the distance to the nearest neighbours
      among unlabelled rows, and an isolation forest. Trees learn from both. The distance is added to the score as well:
      the less it finds of the known anomalies, and the more of them there are, the less it counts.
    - The scores of each member are standardised using unlabelled rows, by the distance from the median to the 0.9
      quantile, so an agent that separates a few rows clearly has more influence on them.
    - Being unlike known anomalies does not make a row normal. Low sums of the agents' scores count less where the
      oddest unlabelled rows do not lean towards the known classes either, down to half.

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
    exploration : float, default=1.0
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
    member_kinds_ : ndarray of int64
        The kind of each member; empty if the detector was saved by an earlier version.
    asking_weights_ : ndarray of float64
        The weight of each member in `suspicion`.
    bends_ : ndarray of float64, shape (3,)
        The sum of the agents' scores below which it counts less, how much it counts there, and the largest score of
        the nearest neighbours.
    score_quantiles_ : ndarray of float64
        Scores of unlabelled rows at 0, 0.1, …, 100 %.
    slips_ : ndarray of int64
        Indices of training rows that were left out as slips, see Notes; not saved with the detector.
    history_ : dict of list
        Per agent: agents (trained so far) and seconds (since fit started).

    Notes
    -----
    Checked normal rows (-1 in y) teach all agents; for trees, they are rows that occur often, the more so the more
    verdicts of both kinds there are. There are also additional members: isolation forests that learn from up to 512
    verdicts how suspicious each leaf is. They learn from a few verdicts already, so they help most to find anomalies
    when a review begins. In `suspicion`, which orders a review, they have most of the weight at first, and explorers
    have none once an anomaly is known; in the score the forests have little weight then, because other members know
    better. After 100 verdicts, they and the explorers count less and less. With more than 100 verdicts, checked rows
    that the other verdicts contradict are left out: they are probably slips. `sample_weight` changes the weight of
    verdicts.

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
    >>> detector.suspicion(X).shape, detector.uncertainty(X).shape
    ((1000,), (1000,))
    """

    version = 5
    round_name = "agent"
    _saved = (
        ContinuingDetector._saved
        | NETWORK
        | {
            "trees_": TreeArrays(may_be_empty=True, n_more_columns=len(EXPLORERS)),
            "neighbours_": Array(shape=(None, None, COLUMNS)),
            "column_quantiles_": Array(shape=(None, COLUMNS)),
            "forest_": TreeArrays(lowest=0),
            "average_path_length_": Number(lowest=0),
            "member_medians_": Array(np.float64),
            "member_scales_": Array(np.float64, lowest=0),
            "member_weights_": Array(np.float64, lowest=0),
            "member_kinds_": Optional(
                Array(np.int64, lowest=0, largest=len(fitted.KINDS) - 1), np.zeros(0, dtype=np.int64)
            ),
            "asking_weights_": Optional(Array(np.float64, lowest=0), np.zeros(0)),
            "bends_": Optional(Array(np.float64, (len(STRAIGHT),)), np.array(STRAIGHT)),
        }
    )

    n_agents: int = 2
    hidden_units: int = 20
    n_steps: int = 20_000
    warmup_steps: int = 10_000
    n_rounds: int = 50
    exploration: float = 1.0
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

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        return self._train(X, labelling, rng, [])

    def _resume(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        agents = fitted.network_agents(self._fitted())
        # Before version 5, every other network agent was a slow one.
        return self._train(X, labelling, rng, agents if len(self.member_kinds_) else agents[1::2])

    def _train(
        self,
        X: NDArray[np.floating],
        labelling: Labelling,
        rng: np.random.Generator,
        earlier: Sequence[Float32s],
    ) -> None:
        """Train all members, network agents from earlier weights if given."""
        arrange = partial(self._arrange, X)
        rows = choose_rows(arrange, labelling, rng)
        self._own_samples = samples_with(rows.neighbours, len(X))
        parameters = {name: getattr(self, name) for name in Settings._fields}
        settings = Settings(
            **{name: Settings.__annotations__[name](value) for name, value in parameters.items()}
        )
        n_threads = _n_threads(self.n_jobs)
        with closing(train(rows, arrange, settings, n_threads, earlier, rng)) as growing:
            for n_agents, found in enumerate(growing, start=1):
                self._keep(found)
                self.slips_ = rows.slips
                if self._record(agents=n_agents):
                    break

    def _keep(self, found: fitted.Fitted) -> None:
        """Store the members as attributes."""
        self.weights_, self.layer_sizes_, self.trees_ = found.theta, found.sizes, found.trees
        self.neighbours_, self.column_quantiles_, self.forest_, self.average_path_length_ = found.explorers
        self.member_medians_, self.member_scales_, self.member_kinds_ = (
            found.medians,
            found.scales,
            found.kinds,
        )
        self.member_weights_, self.asking_weights_, bends = found.combination
        self.bends_ = np.array(bends)

    def _fitted(self) -> fitted.Fitted:
        """Return what `_keep` stored."""
        explorers = Explorers(
            self.neighbours_, self.column_quantiles_, self.forest_, self.average_path_length_
        )
        members = self.member_medians_, self.member_scales_, self.member_kinds_
        combination = Combination(self.member_weights_, self.asking_weights_, Bends(*self.bends_.tolist()))
        return fitted.Fitted(self.weights_, self.layer_sizes_, self.trees_, explorers, *members, combination)

    def _member_scores(self, rows: Float32s, own: Indices | None = None) -> NDArray[np.float64]:
        """Return the standardised scores of all members, with shape (rows, members)."""
        return fitted.member_scores(self._fitted(), rows, own)

    def _score(self, rows: Float32s, own: Indices | None = None) -> NDArray[np.floating]:
        scores = self._member_scores(rows, own).T
        return combined(scores, self.member_weights_, Bends(*self.bends_.tolist()))

    def suspicion(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how much it is worth to ask a person about rows; `dplan.query` may order rows by it.

        What to ask is not what to believe. If there are checked rows among the verdicts, the forests that learn from
        verdicts decide at first: they find most in a review that has just begun. Otherwise this is `anomaly_score`.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            Higher is more suspicious; comparable with each other only.
        """
        return self._scores_and_suspicion(X)[1]

    def _scores_and_suspicion(self, X: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_fitted(self, "history_")
        if np.array_equal(self.asking_weights_, self.member_weights_):
            return super()._scores_and_suspicion(X)
        suspicion: list[NDArray[np.float64]] = []

        def score(rows: Float32s) -> NDArray[np.float64]:
            members = self._member_scores(rows).T  # nearly all the work, so it is done once for both
            suspicion.append(weighted_sum(members, self.asking_weights_))
            return combined(members, self.member_weights_, Bends(*self.bends_.tolist()))

        scores = self._scored(X, score)
        # Blocks come in order, and what verifying adds comes after them.
        return scores, np.concatenate(suspicion)[: len(scores)]

    def uncertainty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how much the agents disagree: the standard deviation of their standardised scores.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            In the unit of `anomaly_score`.
        """
        return self._scored(
            X, lambda rows: fitted.disagreement(self._member_scores(rows), self.member_weights_)
        )

    def _terms(self) -> Sequence[Term]:
        return fitted.terms(self._fitted())

    def _explorer_terms(self) -> Sequence[Term]:
        return fitted.explorer_terms(self._fitted())

    def _embed(self, rows: Float32s) -> Float32s:
        embedded: Float32s = perceptron.embed(self.weights_, self.layer_sizes_, rows)
        return embedded

    def _reference_scores(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        # A row's score does not depend on the other rows, so threads do not affect it either.
        n_threads = _n_threads(self.n_jobs)
        own = self._own_samples[rows]
        alone = own == 0
        scores = np.empty(len(rows))
        with ThreadPoolExecutor(n_threads) as pool:
            parts = pool.map(partial(super()._reference_scores, X), np.array_split(rows[alone], n_threads))
            scores[alone] = np.concatenate(list(parts))
        # The others are neighbours, a few at most: none is its own.
        if not alone.all():
            scores[~alone] = self._score(self._arrange(X, rows[~alone]), own[~alone])
        return scores

    def _reference_novelty(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        return fitted.explorer_sums(self._fitted(), self._arrange(X, rows), self._own_samples[rows])

    def _row_steps(self) -> int:
        # For each member and row, a few scores are in memory at the same time.
        return super()._row_steps() + 32 * len(self.member_weights_)

    def _member_kinds(self) -> list[MemberKind]:
        kinds = fitted.kind_names(self._fitted())
        return [
            MemberKind(name, kinds.count(name), float(self.member_weights_[[k == name for k in kinds]].sum()))
            for name in dict.fromkeys(kinds)
        ]

    def _check_can_continue(self) -> None:
        hidden_units = self._fitted().hidden_units
        if int(self.hidden_units) != hidden_units:
            raise ValueError(
                f"the network agents have {hidden_units} hidden units and cannot continue with "
                f"hidden_units={self.hidden_units!r}; keep the original value, or call fit."
            )

    def _check_saved(self) -> None:
        super()._check_saved()
        if not len(self.asking_weights_):
            self.asking_weights_ = self.member_weights_
        check_network(self, int(self.layer_sizes_[-1]))
        fitted.check_fitted(self._fitted())


def _n_threads(n_jobs: int | None) -> int:
    from joblib import effective_n_jobs  # here, because scoring does not need it

    found: int = effective_n_jobs(n_jobs)
    return found
