"""The members of an ensemble: agents and explorers, their fitted state and scale."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.forest import average_path_length, grow, new_forest
from dplan._kernels.neighbours import (
    draw_samples,
    mean_nearest_distance,
    samples_with,
    spread_out,
    without_own,
)
from dplan._kernels.scaling import column_quantiles
from dplan._kernels.trees import Trees, complete_trees, isolation
from dplan.arrays import Float32s
from dplan.detectors._rows import Indices, Labelling, Weights
from dplan.detectors._terms import stacked
from dplan.detectors.ensemble.combining import EXPLORERS, separation

# The kinds of agents, and how many there are for each of `n_agents`. Randomised trees gain most from numbers, and are
# cheap.
REPEATS = {"network": 1, "boosted": 1, "randomised": 2}

_REFERENCE_ROWS = 10_000  # rows that standardise scores


class Member(NamedTuple):
    """An agent or an explorer: its fitted state, and what standardises its scores."""

    kind: str
    theta: Float32s | None  # of a network agent
    trees: Trees | None  # of a tree agent
    middle: float
    spread: float
    scores: Weights  # of unlabelled rows, standardised


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
    explored: Indices  # rows that trees and the forest take for normal; checked ones are repeated
    slips: Indices  # rows that were called normal, although other verdicts contradict

    @property
    def is_checked(self) -> NDArray[np.bool_]:
        """Which of the explored rows were checked and are normal."""
        return self.labelling.labels[self.explored] < 0

    @property
    def standard(self) -> NDArray[np.bool_]:
        """Which of the explored rows standardise scores: those without a verdict, or checked rows are high above."""
        checked = self.is_checked
        return ~checked | checked.all()


def standardised(
    kind: str, theta: Float32s | None, trees: Trees | None, reference: NDArray[np.floating]
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
    spread = float(spread) or 1.0
    return Member(kind, theta, trees, float(middle), spread, (reference - middle) / spread)


class Explorers(NamedTuple):
    """Two unsupervised members that measure how rare a row is: nearest neighbours and an isolation forest."""

    neighbours: Float32s  # rows to search, with shape (samples, rows, columns), spread out
    quantiles: Float32s  # of the columns, which tell how far to spread out other rows
    forest: Trees
    average_path_length: float  # normalises path lengths in the forest


def new_explorers(neighbours: Float32s, shape: tuple[int, ...], forest: tuple[Trees, float]) -> Explorers:
    """Return explorers, given rows to search as samples of this shape, and a forest with its average path length."""
    quantiles = column_quantiles(neighbours)
    return Explorers(spread_out(quantiles, neighbours).reshape(*shape, -1), quantiles, *forest)


class Explored(NamedTuple):
    """What explorers found."""

    explorers: Explorers
    members: list[Member]
    found: float  # how far the neighbours separate known anomalies from unlabelled rows
    known: Float32s  # known anomalies, with the explorers' scores as additional columns
    reference: Float32s  # the explored rows, likewise


def draw_rows(
    unlabelled: Indices, checked: Indices, normal: Indices, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Draw samples of neighbours, in which no row is repeated, and rows to explore.

    Examples
    --------
    >>> rows, nobody = np.arange(100), np.zeros(0, dtype=int)
    >>> samples, explored = draw_rows(rows, nobody, rows, np.random.default_rng(0))
    >>> samples.shape, len(explored)
    ((8, 25), 100)
    """
    return draw_samples(np.append(unlabelled, checked), rng), some_of(normal, _REFERENCE_ROWS, rng)


def grown_forest(
    reference: Float32s, n_trees: int, tree_size: int, rng: np.random.Generator
) -> tuple[Trees, float]:
    """Grow an isolation forest on the raw features; return it with its average path length."""
    forest = new_forest(n_trees, min(tree_size, len(reference)))
    for tree in range(n_trees):
        grow(forest, tree, reference[rng.choice(len(reference), forest.tree_size, replace=False)], rng)
    trees = complete_trees(forest.features, forest.thresholds, forest.path_lengths)
    return trees, max(average_path_length(forest.tree_size), 1.0)


def explore(explorers: Explorers, rows: Float32s, own: Indices | None = None) -> list[NDArray[np.float64]]:
    """Return each row's mean distance to nearest neighbours, and its isolation score in (0, 1].

    `own` tells how many samples of neighbours each row is in, if it may be in some.
    """
    distances = mean_nearest_distance(explorers.neighbours, spread_out(explorers.quantiles, rows))
    if own is not None:
        distances = without_own(distances, own, len(explorers.neighbours))
    return [distances, isolation(explorers.forest, explorers.average_path_length, rows)]


def explored(explorers: Explorers, rows: TrainingRows, known: Float32s, reference: Float32s) -> Explored:
    """Explore known anomalies and other rows."""
    own = samples_with(rows.neighbours, len(rows.labelling.labels))[rows.explored]
    of_known, of_reference = explore(explorers, known), explore(explorers, reference, own)
    unlabelled = [scores[rows.standard] for scores in of_reference]
    members = [
        standardised(kind, None, None, scores) for kind, scores in zip(EXPLORERS, unlabelled, strict=True)
    ]
    # Explorers see no labels, so known anomalies are a fair sample of what they find.
    found = separation(of_known[0], unlabelled[0])
    return Explored(explorers, members, found, stacked(known, of_known), stacked(reference, of_reference))


def some_of(rows: Indices, count: int, rng: np.random.Generator) -> Indices:
    """Draw rows, all of them if there are no more."""
    return rng.choice(rows, min(count, len(rows)), replace=False)
