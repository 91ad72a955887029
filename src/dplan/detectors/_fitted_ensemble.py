"""What a fitted ensemble is: members as plain arrays, and what their scores add up to."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, some_trees, sum_of_leaves
from dplan.agent.environment import ANOMALOUS
from dplan.agent.network import N_ACTIONS
from dplan.detectors._base import MemberKind
from dplan.detectors._continuing import ContinuingDetector
from dplan.detectors._explorers import EXPLORERS, Explorers, explore
from dplan.detectors._members import weighted_sum
from dplan.detectors._saving import COLUMNS, NETWORK, Array, Number, TreeArrays, check_network, same
from dplan.detectors._side_by_side import apart
from dplan.detectors._terms import ConstantTerm, ForestTerm, NeighboursTerm, NetworkTerm, Term, TreesTerm


def agent_sizes(n_columns: int, hidden_units: int) -> perceptron.Sizes:
    """Return the layers of one network agent."""
    return perceptron.layer_sizes(n_columns, (hidden_units,), N_ACTIONS)


class FittedEnsemble(ContinuingDetector):
    """Scores, and all else that needs no training; `dplan.DPLANEnsemble` says what the attributes are."""

    hidden_units: int

    round_name = "agent"
    _saved = (
        ContinuingDetector._saved
        | NETWORK
        | {
            "trees_": TreeArrays(may_be_empty=True),
            "neighbours_": Array(shape=(None, None, COLUMNS)),
            "forest_": TreeArrays(lowest=0),
            "usual_path_length_": Number(lowest=0),
            "middles_": Array(np.float64),
            "spreads_": Array(np.float64, lowest=0),
            "member_weights_": Array(np.float64, lowest=0),
        }
    )

    def uncertainty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Tell how far the agents disagree about rows: the standard deviation of their standardised scores.

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

    def _check_can_continue(self) -> None:
        if int(self.hidden_units) != self._fitted_units():
            raise ValueError(
                f"the network agents have {self._fitted_units()} hidden units and cannot continue with "
                f"hidden_units={self.hidden_units!r}; leave hidden_units as it was, or call fit."
            )

    def _fitted_units(self) -> int:
        """Return the hidden units of one network agent."""
        return int(self.layer_sizes_[1] // (self.layer_sizes_[2] // N_ACTIONS))

    def _agents(self) -> list[Floats]:
        """Return the weights of the network agents, in the order in which they stand."""
        sizes = agent_sizes(int(self.n_features_in_), self._fitted_units())
        return apart(self.layer_sizes_, self.weights_, sizes)

    def _tree_agents(self) -> list[Trees]:
        """Return the trees of each tree agent."""
        n_agents = len(self.member_weights_) - self._n_networks() - len(EXPLORERS)
        n_each = len(self.trees_.roots) // max(n_agents, 1)
        return [some_trees(self.trees_, i * n_each, (i + 1) * n_each) for i in range(n_agents)]

    def _member_scores(self, rows: Floats) -> NDArray[np.float64]:
        """Return what each member makes of each row, standardised."""
        values = product.outputs(self.weights_, self.layer_sizes_, rows)[:, ANOMALOUS::N_ACTIONS]
        scores = [
            *values.T,
            *(sum_of_leaves(trees, rows) for trees in self._tree_agents()),
            *explore(Explorers(self.neighbours_, self.forest_, self.usual_path_length_), rows),
        ]
        standard: NDArray[np.float64] = (np.stack(scores, axis=1) - self.middles_) / self.spreads_
        return standard

    def _score(self, rows: Floats) -> NDArray[np.floating]:
        return weighted_sum(self._member_scores(rows).T, self.member_weights_)

    def _disagreement(self, rows: Floats) -> NDArray[np.floating]:
        scores = self._member_scores(rows)[:, : -len(EXPLORERS)].T
        weights = self.member_weights_[: -len(EXPLORERS)]
        mean = weighted_sum(scores, weights)
        return np.sqrt(weighted_sum((scores - mean) ** 2, weights))

    def _row_steps(self) -> int:
        # Of each member and row, a few scores are held at the same time.
        return super()._row_steps() + 32 * len(self.member_weights_)

    def _terms(self) -> Sequence[Term]:
        # Standardising a member and weighing it is one factor, and something that all rows get alike.
        factors = self.member_weights_ / self.spreads_
        n_networks = self._n_networks()
        outputs = np.zeros(int(self.layer_sizes_[-1]))
        outputs[ANOMALOUS::N_ACTIONS] = factors[:n_networks]
        terms: list[Term] = [
            ConstantTerm(-float(factors @ self.middles_)),
            NetworkTerm(self.weights_, self.layer_sizes_, outputs),
        ]
        tree_agents = self._tree_agents()
        if tree_agents:
            n_each = len(tree_agents[0].roots)
            terms.append(TreesTerm(self.trees_, np.repeat(factors[n_networks : -len(EXPLORERS)], n_each)))
        neighbours, forest = factors[-len(EXPLORERS) :].tolist()
        return [
            *terms,
            NeighboursTerm(self.neighbours_, neighbours),
            ForestTerm(self.forest_, self.usual_path_length_, forest),
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
            raise ValueError(f"{sizes} are not the layers of whole network agents")
        n_trees = len(self.trees_.roots)
        n_boosted = len(self.member_weights_) - n_networks - len(EXPLORERS)
        if n_boosted < 0 or n_trees < n_boosted or (n_trees % n_boosted if n_boosted else n_trees):
            raise ValueError(f"{n_trees:,} trees_ are not those of {n_boosted:,} whole tree agents")
        for name in ("middles_", "spreads_"):
            same(getattr(self, name).shape, self.member_weights_.shape, name)
        if self.usual_path_length_ == 0 or (self.spreads_ == 0).any():
            raise ValueError("usual_path_length_ or one of the spreads_ is 0")

    def _n_networks(self) -> int:
        return int(self.layer_sizes_[-1]) // N_ACTIONS
