"""A fitted ensemble: its members as arrays, and the score that they add up to."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import sums_of_leaves
from dplan.agent.environment import ANOMALOUS
from dplan.agent.network import N_ACTIONS
from dplan.detectors._base import Indices, MemberKind
from dplan.detectors._continuing import ContinuingDetector
from dplan.detectors._members import EXPLORERS, Explorers, explore, weighted_sum
from dplan.detectors._saving import COLUMNS, NETWORK, Array, Number, TreeArrays, check_network, same
from dplan.detectors._terms import (
    ConstantTerm,
    ForestTerm,
    NeighboursTerm,
    NetworkTerm,
    StackedTreesTerm,
    Term,
    stacked,
)


def agent_sizes(n_columns: int, hidden_units: int) -> perceptron.Sizes:
    """Return the layers of one network agent."""
    return perceptron.layer_sizes(n_columns, (hidden_units,), N_ACTIONS)


class FittedEnsemble(ContinuingDetector):
    """Scoring, saving and explaining; `dplan.DPLANEnsemble` documents the attributes."""

    hidden_units: int
    n_jobs: int | None

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
        }
    )

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
        return self._scored(X, self._disagreement)

    def _reference_scores(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        # A row's score does not depend on the other rows, so threads do not affect it either.
        n_threads = effective_n_jobs(self.n_jobs)
        with ThreadPoolExecutor(n_threads) as pool:
            parts = pool.map(partial(super()._reference_scores, X), np.array_split(rows, n_threads))
            return np.concatenate(list(parts))

    def _check_can_continue(self) -> None:
        if int(self.hidden_units) != self._fitted_units():
            raise ValueError(
                f"the network agents have {self._fitted_units()} hidden units and cannot continue with "
                f"hidden_units={self.hidden_units!r}; keep the original value, or call fit."
            )

    def _fitted_units(self) -> int:
        """Return the number of hidden units of one network agent."""
        return int(self.layer_sizes_[1] // (self.layer_sizes_[2] // N_ACTIONS))

    def _agents(self) -> list[Floats]:
        """Return the weights of each network agent."""
        sizes = agent_sizes(int(self.n_features_in_), self._fitted_units())
        return unstack_networks(self.layer_sizes_, self.weights_, sizes)

    def _member_scores(self, rows: Floats) -> NDArray[np.float64]:
        """Return the standardised scores of all members, with shape (rows, members)."""
        values = product.outputs(self.weights_, self.layer_sizes_, rows)[:, ANOMALOUS::N_ACTIONS]
        explored = explore(self._explorers(), rows)
        n_tree_agents = len(self.member_weights_) - self._n_networks() - len(EXPLORERS)
        grown = sums_of_leaves(self.trees_, stacked(rows, explored), n_tree_agents)
        scores = [*values.T, *grown, *explored]
        standard: NDArray[np.float64] = (
            np.stack(scores, axis=1) - self.member_medians_
        ) / self.member_scales_
        return standard

    def _explorers(self) -> Explorers:
        return Explorers(self.neighbours_, self.column_quantiles_, self.forest_, self.average_path_length_)

    def _score(self, rows: Floats) -> NDArray[np.floating]:
        return weighted_sum(self._member_scores(rows).T, self.member_weights_)

    def _disagreement(self, rows: Floats) -> NDArray[np.floating]:
        scores = self._member_scores(rows)[:, : -len(EXPLORERS)].T
        weights = self.member_weights_[: -len(EXPLORERS)]
        mean = weighted_sum(scores, weights)
        return np.sqrt(weighted_sum((scores - mean) ** 2, weights))

    def _row_steps(self) -> int:
        # For each member and row, a few scores are in memory at the same time.
        return super()._row_steps() + 32 * len(self.member_weights_)

    def _terms(self) -> Sequence[Term]:
        # Standardising a member and multiplying by its weight is one factor and one constant.
        factors = self.member_weights_ / self.member_scales_
        n_networks = self._n_networks()
        outputs = np.zeros(int(self.layer_sizes_[-1]))
        outputs[ANOMALOUS::N_ACTIONS] = factors[:n_networks]
        trees = factors[n_networks : -len(EXPLORERS)]
        n_each = len(self.trees_.roots) // max(len(trees), 1)
        return [
            ConstantTerm(-float(factors @ self.member_medians_)),
            NetworkTerm(self.weights_, self.layer_sizes_, outputs),
            StackedTreesTerm(
                self.trees_,
                np.repeat(trees, n_each),
                [
                    NeighboursTerm(*self._explorers()[:2]),
                    ForestTerm(self.forest_, self.average_path_length_),
                ],
                factors[-len(EXPLORERS) :].tolist(),
            ),
        ]

    def _embed(self, rows: Floats) -> Floats:
        embedded: Floats = perceptron.embed(self.weights_, self.layer_sizes_, rows)
        return embedded

    def _member_kinds(self) -> list[MemberKind]:
        *agents, neighbours, forest = self.member_weights_.tolist()
        networks, trees = agents[: self._n_networks()], agents[self._n_networks() :]
        weights = {
            "slow agents": networks[::2],
            "fast agents": networks[1::2],
            "tree agents": trees,
            "nearest neighbours": [neighbours],
            "isolation forest": [forest],
        }
        return [MemberKind(name, len(own), sum(own)) for name, own in weights.items() if own]

    def _check_saved(self) -> None:
        super()._check_saved()
        check_network(self, int(self.layer_sizes_[-1]))
        sizes, n_networks = self.layer_sizes_.tolist(), self._n_networks()
        if len(sizes) != 3 or n_networks == 0 or sizes[2] % N_ACTIONS or sizes[1] % n_networks:
            raise ValueError(f"layer_sizes_ {sizes} do not match the network agents")
        n_trees = len(self.trees_.roots)
        n_boosted = len(self.member_weights_) - n_networks - len(EXPLORERS)
        if n_boosted < 0 or n_trees < n_boosted or (n_trees % n_boosted if n_boosted else n_trees):
            raise ValueError(f"trees_ has {n_trees:,} trees, which do not match {n_boosted:,} tree agents")
        for name in ("member_medians_", "member_scales_"):
            same(getattr(self, name).shape, self.member_weights_.shape, name)
        if self.average_path_length_ == 0 or (self.member_scales_ == 0).any():
            raise ValueError("average_path_length_ or one of the member_scales_ is 0")

    def _n_networks(self) -> int:
        return int(self.layer_sizes_[-1]) // N_ACTIONS


def stack_networks(thetas: Sequence[Floats], sizes: perceptron.Sizes) -> tuple[perceptron.Sizes, Floats]:
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


def unstack_networks(wide_sizes: perceptron.Sizes, wide: Floats, sizes: perceptron.Sizes) -> list[Floats]:
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


def _places(count: int, sizes: perceptron.Sizes) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Yield the slices of the wide hidden and output kernels that belong to each network."""
    _, n_units, n_outputs = (int(size) for size in sizes)
    for i in range(count):
        hidden = slice(i * n_units, (i + 1) * n_units)
        yield (slice(None), hidden), (hidden, slice(i * n_outputs, (i + 1) * n_outputs))
