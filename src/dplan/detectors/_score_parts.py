"""What a detector's score is the sum of, for those whose score is one: read by explanations and by the ONNX export."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees
from dplan.agent.environment import ANOMALOUS
from dplan.agent.network import N_ACTIONS

# Of the network's outputs, for detectors whose score is a weighted sum of them.
_OUTPUT_WEIGHTS = {"DPLAN": (0.0, 1.0), "DevNet": (1.0,), "DUA": (1.0,), "PReNet": (0.5, 0.5)}

NAMES = (*_OUTPUT_WEIGHTS, "DPLANEnsemble", "BoostedBaseline", "IForest")

_NOTHING = np.zeros(0)


class Parts(NamedTuple):
    """A score as ``constant`` and a sum of up to four parts."""

    output_weights: NDArray[np.float64] = _NOTHING  # of the outputs of the detector's network
    trees: Trees | None = None
    tree_weights: NDArray[np.float64] = _NOTHING  # of the leaves in each tree
    forest: Trees | None = None  # adds its weight times 2^(-mean path length / usual path length)
    usual_path_length: float = 1.0
    forest_weight: float = 1.0
    neighbours: Floats | None = None  # adds its weight times the mean distance to the nearest of each sample
    neighbours_weight: float = 1.0
    constant: float = 0.0


def score_parts(detector: Any) -> Parts | None:
    """Take a fitted detector's score apart, or return None if it is no such sum.

    Examples
    --------
    >>> from dplan import IForest
    >>> parts = score_parts(IForest(n_trees=7, random_state=0).fit(np.random.default_rng(0).random((50, 2))))
    >>> len(parts.forest.roots), parts.trees, len(parts.output_weights)
    (7, None, 0)
    """
    name = type(detector).__name__
    if name in _OUTPUT_WEIGHTS:
        added = 0.5 * getattr(detector, "reference_score_", 0.0)  # by PReNet, to every row alike
        return Parts(np.array(_OUTPUT_WEIGHTS[name]), constant=added)
    if name == "DPLANEnsemble":
        return _parts_of_ensemble(detector)
    if name == "IForest":
        return Parts(forest=detector.trees_, usual_path_length=max(detector.usual_path_length_, 1.0))
    if name == "BoostedBaseline" and hasattr(detector, "trees_"):  # CatBoost keeps its trees to itself
        return Parts(trees=detector.trees_, tree_weights=np.ones(len(detector.trees_.roots)))
    return None


def _parts_of_ensemble(detector: Any) -> Parts:
    """Standardising a member and weighing it is one factor, and something that all rows get alike."""
    factors = detector.member_weights_ / detector.spreads_
    n_networks = int(detector.layer_sizes_[-1]) // N_ACTIONS
    output_weights = np.zeros(int(detector.layer_sizes_[-1]))
    output_weights[ANOMALOUS::N_ACTIONS] = factors[:n_networks]
    tree_agents = detector._tree_agents()
    rounds = [len(trees.roots) for trees in tree_agents]
    return Parts(
        output_weights=output_weights,
        trees=detector.trees_ if tree_agents else None,
        tree_weights=np.repeat(factors[n_networks : n_networks + len(rounds)], rounds),
        neighbours=detector.neighbours_,
        neighbours_weight=float(factors[-2]),
        forest=detector.forest_,
        usual_path_length=detector.usual_path_length_,
        forest_weight=float(factors[-1]),
        constant=-float(factors @ detector.middles_),
    )
