"""The members of an ensemble: agents and explorers, their fitted state, scale and weight."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.forest import average_path_length, grow, new_forest
from dplan._kernels.neighbours import column_quantiles, mean_nearest_distance, sample_sizes, spread_out
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, complete_trees, isolation
from dplan.detectors._rows import Indices, Labelling, Weights
from dplan.detectors._terms import stacked

# Shares of the kinds of agents in the score: that of networks is fixed, that of boosted trees grows with the number of
# known anomalies (so many give half of the largest), and randomised trees, which learn most from few, have the rest.
_NETWORKS, _BOOSTED, _SOME_LABELS = 0.06, 0.3, 10

# The kinds of agents, and how many there are for each of `n_agents`. Randomised trees gain most from numbers, and are
# cheap.
REPEATS = {"slow": 1, "fast": 1, "boosted": 1, "randomised": 2}

# Shares of the explorers in their total weight. The forest adds nothing to neighbours that see ranks, but trees learn
# from it. Without known anomalies the forest decides: its first rows are seldom all of one kind, so reviewing them
# teaches more.
EXPLORERS = {"neighbours": 1.0, "forest": 0.0}
COLD_EXPLORERS = {"neighbours": 0.0, "forest": 1.0}

_LEAST_TRUST = 0.5

# Share of the forests that learn from verdicts in the weight of all agents, with few verdicts. With more, the other
# agents know better; better than explorers too, which wrong verdicts mislead most.
_JUDGED_SHARE, _FEW_VERDICTS = 0.75, 100

# As long as every verdict is a false alarm, the forests have been looking in the wrong place: after so many of them,
# the neighbours, which find other rows, count as much.
_FALSE_ALARMS = 20

_REFERENCE_ROWS = 10_000  # rows that standardise scores


class Member(NamedTuple):
    """An agent or an explorer: its fitted state, and what standardises its scores."""

    kind: str
    theta: Floats | None  # of a network agent
    trees: Trees | None  # of a tree agent
    middle: float
    spread: float


class Job(NamedTuple):
    """One agent to train."""

    kind: str
    number: int
    rng: np.random.Generator


def all_jobs(n_agents: int, rng: np.random.Generator) -> list[Job]:
    """List the agents to train; kinds alternate, so that a stopped fit has some of each."""
    return [
        Job(kind, number, np.random.default_rng(rng.integers(2**63)))
        for number in range(n_agents)
        for kind, count in REPEATS.items()
        for _ in range(count)
    ]


class TrainingRows(NamedTuple):
    """The rows of the training table that members learn from, by index."""

    labelling: Labelling  # slips have no label
    anomalies: Indices  # labelled ones; pseudo-anomalies if there are none
    unlabelled: Indices
    neighbours: Indices  # unlabelled and checked rows to search for nearest neighbours, as (samples, rows)
    explored: Indices  # others, which standardise scores; in both, checked rows are repeated
    slips: Indices  # rows that were called normal, although other verdicts contradict

    @property
    def is_checked(self) -> NDArray[np.bool_]:
        """Which of the explored rows were checked and are normal."""
        return self.labelling.labels[self.explored] < 0


def standardised(
    kind: str, theta: Floats | None, trees: Trees | None, reference: NDArray[np.floating]
) -> Member:
    """Return a member, given its scores of unlabelled rows.

    The unit is the distance from the median to the 0.9 quantile: up to a tenth of the rows can be extreme without
    enlarging the unit, so an agent that separates a few rows clearly has more influence on them.

    Examples
    --------
    >>> member = standardised("boosted", None, None, np.arange(101.0))
    >>> member.middle, member.spread
    (50.0, 40.0)
    """
    reference = reference.astype(np.float64)
    middle, high = np.quantile(reference, [0.5, 0.9])
    spread = max(high - middle, 0.1 * reference.std())  # most rows may be equal, for trees especially
    return Member(kind, theta, trees, float(middle), float(spread) or 1.0)


def shares_of_kinds(n_known: int) -> dict[str, float]:
    """Return the share of each kind of agent, given the number of known anomalies.

    Examples
    --------
    >>> shares_of_kinds(10), shares_of_kinds(90)["boosted"]
    ({'slow': 0.06, 'fast': 0.06, 'boosted': 0.15, 'randomised': 0.73}, 0.27)
    """
    boosted = _BOOSTED * n_known / (n_known + _SOME_LABELS)
    return {
        "slow": _NETWORKS,
        "fast": _NETWORKS,
        "boosted": boosted,
        "randomised": 1 - 2 * _NETWORKS - boosted,
    }


def agent_weights(kinds: Sequence[str], n_known: int) -> Weights:
    """Return the weights of agents of these kinds, which add up to 1.

    Examples
    --------
    >>> agent_weights(["boosted", "randomised", "boosted"], 10).round(3)
    array([0.085, 0.83 , 0.085])
    """
    share_of = shares_of_kinds(n_known)
    shares = np.array([share_of[kind] / kinds.count(kind) for kind in kinds])
    normal: Weights = shares / shares.sum()
    return normal


def member_weights(
    agents: Sequence[str], n_judged: int, n_known: int, n_checked: int, exploring: float
) -> Weights:
    """Return the weights of agents of these kinds, of forests that learn from verdicts, and of the explorers.

    `exploring` is the total weight of the explorers; if some rows were checked, it falls as verdicts become many.
    Without known anomalies agents have no weight. Forests that have learned from checked rows replace the explorers at
    first, and share with the neighbours as false alarms become many.

    Examples
    --------
    >>> member_weights(["slow", "fast"], 1, 50, 200, 0.3).round(2)
    array([0.44, 0.44, 0.12, 0.05, 0.  ])
    >>> member_weights(["slow"], 0, 0, 0, 0.3), member_weights(["slow"], 1, 0, 20, 0.3)
    (array([0., 0., 1.]), array([0. , 0.5, 0.5, 0. ]))
    """
    if n_known:
        fewness = min(1.0, _FEW_VERDICTS / (n_known + n_checked)) ** 2 if n_judged else 1.0
        learned = _JUDGED_SHARE * fewness if n_judged else 0.0
        agents_share, explorers = 1 - learned, exploring * fewness * _shares(EXPLORERS)
    else:
        learned = _FALSE_ALARMS / (_FALSE_ALARMS + n_checked) if n_judged else 0.0
        agents_share, explorers = 0.0, (1 - learned) * _shares(EXPLORERS if n_judged else COLD_EXPLORERS)
    forests = np.full(n_judged, learned / max(n_judged, 1))
    return np.concatenate([agent_weights(agents, n_known) * agents_share, forests, explorers])


def _shares(explorers: dict[str, float]) -> Weights:
    return np.array(list(explorers.values()))


def separation(anomalies: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return how far scores tell anomalies from other rows: 2a - 1, where a is the area under the ROC curve.

    Examples
    --------
    >>> separation(np.array([9.0]), np.arange(5.0)), separation(np.ones(2), np.ones(3))
    (1.0, 0.0)
    """
    ordered = np.sort(others)
    below = np.searchsorted(ordered, anomalies) + np.searchsorted(ordered, anomalies, side="right")
    return float(below.mean()) / len(others) - 1


def weighted_sum(scores: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the weighted scores of members in order: not a matrix product, whose rounding depends on other rows.

    Examples
    --------
    >>> weighted_sum(np.array([[1.0, 2.0], [10.0, 20.0]]), np.array([1.0, 0.5]))
    array([ 6., 12.])
    """
    total: NDArray[np.float64] = np.add.accumulate(weights[:, np.newaxis] * scores, axis=0)[-1]
    return total


class Explorers(NamedTuple):
    """Two unsupervised members that measure how rare a row is: nearest neighbours and an isolation forest."""

    neighbours: Floats  # rows to search, with shape (samples, rows, columns), spread out
    quantiles: Floats  # of the columns, which tell how far to spread out other rows
    forest: Trees
    average_path_length: float  # normalises path lengths in the forest


def new_explorers(neighbours: Floats, shape: tuple[int, ...], forest: tuple[Trees, float]) -> Explorers:
    """Return explorers, given rows to search as samples of this shape, and a forest with its average path length."""
    quantiles = column_quantiles(neighbours)
    return Explorers(spread_out(quantiles, neighbours).reshape(*shape, -1), quantiles, *forest)


class Explored(NamedTuple):
    """What explorers found."""

    explorers: Explorers
    members: list[Member]
    trust: float  # how far they can be trusted
    known: Floats  # known anomalies, with the explorers' scores as additional columns
    reference: Floats  # other rows, likewise


def draw_rows(unlabelled: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Draw samples of neighbours, and other rows to standardise with: a neighbour would be nearest to itself.

    Examples
    --------
    >>> samples, reference = draw_rows(np.arange(100), np.random.default_rng(0))
    >>> samples.shape, len(reference), np.intersect1d(samples, reference)
    ((4, 6), 76, array([], dtype=int64))
    """
    n_samples, n_each = sample_sizes(len(unlabelled))
    n_neighbours = n_samples * n_each
    drawn = some_of(unlabelled, n_neighbours + _REFERENCE_ROWS, rng)
    others = drawn[n_neighbours:] if len(drawn) > n_neighbours else drawn
    return drawn[:n_neighbours].reshape(n_samples, n_each), others


def grown_forest(
    reference: Floats, n_trees: int, tree_size: int, rng: np.random.Generator
) -> tuple[Trees, float]:
    """Grow an isolation forest on the raw features; return it with its average path length."""
    forest = new_forest(n_trees, min(tree_size, len(reference)))
    for tree in range(n_trees):
        grow(forest, tree, reference[rng.choice(len(reference), forest.tree_size, replace=False)], rng)
    trees = complete_trees(forest.features, forest.thresholds, forest.path_lengths)
    return trees, max(average_path_length(forest.tree_size), 1.0)


def explore(explorers: Explorers, rows: Floats) -> list[NDArray[np.float64]]:
    """Return each row's mean distance to nearest neighbours, and its isolation score in (0, 1]."""
    return [
        mean_nearest_distance(explorers.neighbours, spread_out(explorers.quantiles, rows)),
        isolation(explorers.forest, explorers.average_path_length, rows),
    ]


def explored(explorers: Explorers, known: Floats, reference: Floats) -> Explored:
    """Explore known anomalies and other rows."""
    of_known, of_reference = explore(explorers, known), explore(explorers, reference)
    members = [
        standardised(kind, None, None, scores) for kind, scores in zip(EXPLORERS, of_reference, strict=True)
    ]

    def rarity(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        factors = [share / member.spread for share, member in zip(EXPLORERS.values(), members, strict=True)]
        return weighted_sum(np.array(scores), np.array(factors))

    # Explorers see no labels, so known anomalies are a fair sample of what they find. Even if they find none of these,
    # there may be unknown ones that they do find.
    trust = max(_LEAST_TRUST, separation(rarity(of_known), rarity(of_reference)))
    return Explored(explorers, members, trust, stacked(known, of_known), stacked(reference, of_reference))


def some_of(rows: Indices, count: int, rng: np.random.Generator) -> Indices:
    """Draw rows, all of them if there are no more."""
    return rng.choice(rows, min(count, len(rows)), replace=False)
