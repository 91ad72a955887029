"""A fitted ensemble: its members as arrays, the score that they add up to, and the terms that explain it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.perceptron import Sizes
from dplan._kernels.trees import Trees, join_trees, sums_of_leaves
from dplan.agent.environment import ANOMALOUS
from dplan.agent.network import N_ACTIONS
from dplan.arrays import Float32s
from dplan.detectors._fields import same
from dplan.detectors._rows import Indices, Weights
from dplan.detectors._stacked import Bend, StackedTreesTerm, straight
from dplan.detectors._terms import ConstantTerm, ForestTerm, NeighboursTerm, NetworkTerm, Term, stacked
from dplan.detectors.ensemble.combining import EXPLORERS, Combination, weighted_sum
from dplan.detectors.ensemble.members import Explored, Explorers, Member, explore

# The kinds of members, and what users read.
KINDS = {
    "network": "networks",
    "boosted": "boosted trees",
    "randomised": "randomised trees",
    "judged": "forests that learn from verdicts",
    "neighbours": "nearest neighbours",
    "forest": "isolation forest",
}


class Fitted(NamedTuple):
    """The members as arrays, in this order: network agents, trees, explorers; see `dplan.DPLANEnsemble`."""

    theta: Float32s  # of all network agents, as one wide network
    sizes: Sizes
    trees: Trees  # of all members that are trees, each with as many
    explorers: Explorers
    medians: Weights  # these have an entry for each member
    scales: Weights
    kinds: Indices  # by their places in `KINDS`; none, if the file is old
    combination: Combination

    @property
    def n_networks(self) -> int:
        """Number of network agents."""
        return int(self.sizes[-1]) // N_ACTIONS

    @property
    def n_trees(self) -> int:
        """Number of members that are trees."""
        return len(self.medians) - self.n_networks - len(EXPLORERS)

    @property
    def hidden_units(self) -> int:
        """Hidden units of one network agent."""
        return int(self.sizes[1]) // self.n_networks


def assemble(
    agents: Sequence[Member], found: Explored, combination: Combination, n_columns: int, hidden_units: int
) -> Fitted:
    """Store members as arrays, given agents, networks first, and explorers."""
    members = [*agents, *found.members]
    networks = [agent.theta for agent in agents if agent.theta is not None]
    sizes, theta = stack_networks(networks, _agent_sizes(n_columns, hidden_units))
    return Fitted(
        theta,
        sizes,
        join_trees([agent.trees for agent in agents if agent.trees is not None]),
        found.explorers,
        np.array([member.middle for member in members]),
        np.array([member.spread for member in members]),
        np.array([list(KINDS).index(member.kind) for member in members]),
        combination,
    )


def member_scores(fitted: Fitted, rows: Float32s, own: Indices | None = None) -> NDArray[np.float64]:
    """Return the standardised scores of all members, with shape (rows, members).

    `own` tells how many samples of neighbours each row is in, if it may be in some.
    """
    values = product.outputs(fitted.theta, fitted.sizes, rows)[:, ANOMALOUS::N_ACTIONS]
    explored = explore(fitted.explorers, rows, own)
    grown = sums_of_leaves(fitted.trees, stacked(rows, explored), fitted.n_trees)
    scores = np.stack([*values.T, *grown, *explored], axis=1)
    standard: NDArray[np.float64] = (scores - fitted.medians) / fitted.scales
    return standard


def disagreement(scores: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """Return the standard deviation of the agents' standardised scores, given those of all members."""
    agents, weights = scores[:, : -len(EXPLORERS)].T, weights[: -len(EXPLORERS)]
    mean = weighted_sum(agents, weights)
    deviation: NDArray[np.float64] = np.sqrt(weighted_sum((agents - mean) ** 2, weights))
    return deviation


def terms(fitted: Fitted) -> list[Term]:
    """Return the terms of the score. Standardising a member and weighing it is one factor and one constant."""
    weights, _, bends = fitted.combination
    factors, n_agents = weights / fitted.scales, len(weights) - len(EXPLORERS)
    shifts = factors * fitted.medians
    outputs = np.zeros(int(fitted.sizes[-1]))
    outputs[ANOMALOUS::N_ACTIONS] = factors[: fitted.n_networks]
    of_trees = factors[fitted.n_networks : n_agents]
    n_each = len(fitted.trees.roots) // max(len(of_trees), 1)
    neighbours, quantiles, forest, average_path_length = fitted.explorers
    farthest = fitted.medians[n_agents] + bends.neighbours * fitted.scales[n_agents]
    return [
        ConstantTerm(-float(shifts[n_agents:].sum())),
        StackedTreesTerm(
            fitted.trees,
            np.repeat(of_trees, n_each),
            [NeighboursTerm(neighbours, quantiles), ForestTerm(forest, average_path_length)],
            [Bend(float(farthest), float(factors[n_agents]), 0.0), straight(float(factors[n_agents + 1]))],
            [ConstantTerm(-float(shifts[:n_agents].sum())), NetworkTerm(fitted.theta, fitted.sizes, outputs)],
            Bend(bends.agents, bends.slope, 1.0),
        ),
    ]


def kind_names(fitted: Fitted) -> list[str]:
    """Return what users read about the kind of each member."""
    if len(fitted.kinds):
        return [list(KINDS.values())[kind] for kind in fitted.kinds]
    explorers = [KINDS[kind] for kind in EXPLORERS]
    return [*fitted.n_networks * [KINDS["network"]], *fitted.n_trees * ["trees"], *explorers]


def explorer_terms(fitted: Fitted) -> list[Term]:
    """Return the terms of the explorers alone: the neighbours, and the forest where it has a weight.

    The unit is that of the neighbours' distances.
    """
    neighbours, quantiles, forest, average_path_length = fitted.explorers
    weight = _forest_weight(fitted)
    isolation = [ForestTerm(forest, average_path_length, weight)] if weight else []
    return [NeighboursTerm(neighbours, quantiles), *isolation]


def explorer_sums(fitted: Fitted, rows: Float32s, own: Indices) -> NDArray[np.float64]:
    """Return the sums of `explorer_terms` for training rows, none its own neighbour, given the samples each is in."""
    distances, isolation = explore(fitted.explorers, rows, own)
    sums: NDArray[np.float64] = distances + _forest_weight(fitted) * isolation
    return sums


def _forest_weight(fitted: Fitted) -> float:
    """Return the weight of isolation scores beside distances: as much as these, or none if it has none in the score."""
    return float(fitted.scales[-2] / fitted.scales[-1]) if fitted.combination.weights[-1] else 0.0


def check_fitted(fitted: Fitted) -> None:
    """Raise ValueError if the arrays, from a file, do not match each other."""
    sizes, n_networks, n_members = fitted.sizes.tolist(), fitted.n_networks, fitted.n_trees
    if len(sizes) != 3 or n_networks == 0 or sizes[2] % N_ACTIONS or sizes[1] % n_networks:
        raise ValueError(f"layer_sizes_ {sizes} do not match the network agents")
    n_trees = len(fitted.trees.roots)
    if n_members < 0 or n_trees < n_members or (n_trees % n_members if n_members else n_trees):
        raise ValueError(f"trees_ has {n_trees:,} trees, which do not match {n_members:,} tree agents")
    weights = fitted.combination.weights
    same(weights.shape, fitted.medians.shape, "member_weights_")
    same(fitted.scales.shape, fitted.medians.shape, "member_scales_")
    same(fitted.combination.asking.shape, fitted.medians.shape, "asking_weights_")
    if len(fitted.kinds):
        same(fitted.kinds.shape, fitted.medians.shape, "member_kinds_")
    if fitted.explorers.average_path_length == 0 or (fitted.scales == 0).any():
        raise ValueError("average_path_length_ or one of the member_scales_ is 0")


def network_agents(fitted: Fitted) -> list[Float32s]:
    """Return the weights of each network agent."""
    sizes = _agent_sizes(int(fitted.sizes[0]), fitted.hidden_units)
    return unstack_networks(fitted.sizes, fitted.theta, sizes)


def _agent_sizes(n_columns: int, hidden_units: int) -> Sizes:
    """Return the layers of one network agent."""
    return perceptron.layer_sizes(n_columns, (hidden_units,), N_ACTIONS)


def stack_networks(thetas: Sequence[Float32s], sizes: Sizes) -> tuple[Sizes, Float32s]:
    """Stack networks with one hidden layer into one wide network, to evaluate them with one matrix product.

    Examples
    --------
    >>> sizes = perceptron.layer_sizes(3, (2,), 2)
    >>> rng = np.random.default_rng(0)
    >>> thetas = [perceptron.glorot_uniform(sizes, rng) for _ in range(2)]
    >>> wide_sizes, wide = stack_networks(thetas, sizes)
    >>> row = np.ones((1, 3), dtype=np.float32)
    >>> alone = np.concatenate([perceptron.outputs(theta, sizes, row) for theta in thetas], axis=1)
    >>> wide_sizes, bool(np.allclose(perceptron.outputs(wide, wide_sizes, row), alone))
    (array([3, 4, 4]), True)
    """
    n_inputs, n_units, n_outputs = (int(size) for size in sizes)
    wide_sizes = perceptron.layer_sizes(n_inputs, (len(thetas) * n_units,), len(thetas) * n_outputs)
    wide = np.zeros(perceptron.n_parameters(wide_sizes), dtype=np.float32)
    for own, place in zip(thetas, _places(len(thetas), sizes), strict=True):
        for (kernel, biases), (rows, units), target in zip(
            perceptron.unflatten(own, sizes), place, perceptron.unflatten(wide, wide_sizes), strict=True
        ):
            target[0][rows, units], target[1][units] = kernel, biases
    return wide_sizes, wide


def unstack_networks(wide_sizes: Sizes, wide: Float32s, sizes: Sizes) -> list[Float32s]:
    """Undo `stack_networks`."""
    layers = perceptron.unflatten(wide, wide_sizes)
    return [
        np.concatenate(
            [
                part.ravel()
                for (kernel, biases), (rows, units) in zip(layers, place, strict=True)
                for part in (kernel[rows, units], biases[units])
            ]
        )
        for place in _places(int(wide_sizes[-1] // sizes[-1]), sizes)
    ]


def _places(count: int, sizes: Sizes) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Yield the slices of the wide hidden and output kernels that belong to each network."""
    _, n_units, n_outputs = (int(size) for size in sizes)
    for i in range(count):
        hidden = slice(i * n_units, (i + 1) * n_units)
        yield (slice(None), hidden), (hidden, slice(i * n_outputs, (i + 1) * n_outputs))
