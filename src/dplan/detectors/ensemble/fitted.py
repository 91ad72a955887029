"""A fitted ensemble: its members as arrays, the score that they add up to, and the terms that explain it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.perceptron import Floats, Sizes
from dplan._kernels.trees import Trees, join_trees, sums_of_leaves
from dplan.agent.environment import ANOMALOUS
from dplan.agent.network import N_ACTIONS
from dplan.detectors._fields import same
from dplan.detectors._rows import Weights
from dplan.detectors._terms import (
    ConstantTerm,
    ForestTerm,
    NeighboursTerm,
    NetworkTerm,
    StackedTreesTerm,
    Term,
    stacked,
)
from dplan.detectors.ensemble.members import EXPLORERS, Explorers, Member, explore, weighted_sum


class Fitted(NamedTuple):
    """The members as arrays, in this order: network agents, trees, explorers; see `dplan.DPLANEnsemble`."""

    theta: Floats  # of all network agents, as one wide network
    sizes: Sizes
    trees: Trees  # of all members that are trees, each with as many
    explorers: Explorers
    medians: Weights  # these three have an entry for each member
    scales: Weights
    weights: Weights

    @property
    def n_networks(self) -> int:
        """Number of network agents."""
        return int(self.sizes[-1]) // N_ACTIONS

    @property
    def n_trees(self) -> int:
        """Number of members that are trees."""
        return len(self.weights) - self.n_networks - len(EXPLORERS)

    @property
    def hidden_units(self) -> int:
        """Hidden units of one network agent."""
        return int(self.sizes[1]) // self.n_networks


def assemble(
    agents: Sequence[Member],
    found: Sequence[Member],
    explorers: Explorers,
    weights: Weights,
    n_columns: int,
    hidden_units: int,
) -> Fitted:
    """Store members as arrays, given agents in any order, and explorers with what standardises their scores."""
    networks = [(agent, agent.theta) for agent in agents if agent.theta is not None]
    growing = [(agent, agent.trees) for agent in agents if agent.trees is not None]
    sizes, theta = stack_networks([theta for _, theta in networks], _agent_sizes(n_columns, hidden_units))
    ordered = [*(agent for agent, _ in networks), *(agent for agent, _ in growing), *found]
    return Fitted(
        theta,
        sizes,
        join_trees([trees for _, trees in growing]),
        explorers,
        np.array([member.middle for member in ordered]),
        np.array([member.spread for member in ordered]),
        weights,
    )


def member_scores(fitted: Fitted, rows: Floats) -> NDArray[np.float64]:
    """Return the standardised scores of all members, with shape (rows, members)."""
    values = product.outputs(fitted.theta, fitted.sizes, rows)[:, ANOMALOUS::N_ACTIONS]
    explored = explore(fitted.explorers, rows)
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
    factors = fitted.weights / fitted.scales
    outputs = np.zeros(int(fitted.sizes[-1]))
    outputs[ANOMALOUS::N_ACTIONS] = factors[: fitted.n_networks]
    of_trees = factors[fitted.n_networks : -len(EXPLORERS)]
    n_each = len(fitted.trees.roots) // max(len(of_trees), 1)
    neighbours, quantiles, forest, average_path_length = fitted.explorers
    return [
        ConstantTerm(-float(factors @ fitted.medians)),
        NetworkTerm(fitted.theta, fitted.sizes, outputs),
        StackedTreesTerm(
            fitted.trees,
            np.repeat(of_trees, n_each),
            [NeighboursTerm(neighbours, quantiles), ForestTerm(forest, average_path_length)],
            factors[-len(EXPLORERS) :].tolist(),
        ),
    ]


def check_fitted(fitted: Fitted) -> None:
    """Raise ValueError if the arrays, from a file, do not match each other."""
    sizes, n_networks, n_members = fitted.sizes.tolist(), fitted.n_networks, fitted.n_trees
    if len(sizes) != 3 or n_networks == 0 or sizes[2] % N_ACTIONS or sizes[1] % n_networks:
        raise ValueError(f"layer_sizes_ {sizes} do not match the network agents")
    n_trees = len(fitted.trees.roots)
    if n_members < 0 or n_trees < n_members or (n_trees % n_members if n_members else n_trees):
        raise ValueError(f"trees_ has {n_trees:,} trees, which do not match {n_members:,} tree agents")
    same(fitted.medians.shape, fitted.weights.shape, "member_medians_")
    same(fitted.scales.shape, fitted.weights.shape, "member_scales_")
    if fitted.explorers.average_path_length == 0 or (fitted.scales == 0).any():
        raise ValueError("average_path_length_ or one of the member_scales_ is 0")


def network_agents(fitted: Fitted) -> list[Floats]:
    """Return the weights of each network agent."""
    sizes = _agent_sizes(int(fitted.sizes[0]), fitted.hidden_units)
    return unstack_networks(fitted.sizes, fitted.theta, sizes)


def _agent_sizes(n_columns: int, hidden_units: int) -> Sizes:
    """Return the layers of one network agent."""
    return perceptron.layer_sizes(n_columns, (hidden_units,), N_ACTIONS)


def stack_networks(thetas: Sequence[Floats], sizes: Sizes) -> tuple[Sizes, Floats]:
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


def unstack_networks(wide_sizes: Sizes, wide: Floats, sizes: Sizes) -> list[Floats]:
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
