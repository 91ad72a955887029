"""iForest: isolation forest (Liu et al., ICDM 2008), by scikit-learn."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.forest import average_path_length
from dplan._kernels.trees import Trees, depth_of_nodes, isolation, join_trees, one_tree
from dplan.arrays import Float32s
from dplan.detectors._base import Detector
from dplan.detectors._checks import check_integer
from dplan.detectors._fields import Number, TreeArrays
from dplan.detectors._rows import Indices, Labelling
from dplan.detectors._terms import ForestTerm, Term


class IForest(Detector):
    """Isolation forest. Unsupervised: it ignores labels.

    Random splits isolate a row that is unlike the others after few steps. The forest is grown on all rows but labelled
    anomalies, which are known not to be normal; labels are not used in any other way.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees. From the paper.
    max_samples : int, default=256
        Rows per tree. From the paper.
    scale : {"minmax", "rank", "both"} or bool, default=True
        How columns are scaled, using the training rows: to [0, 1] by minimum and maximum ("minmax" or True), by rank in
        the column, or by the mean of both; False leaves values unchanged, and ranks the rows as "minmax" does, except
        for rounding.

    Attributes
    ----------
    trees_ : tuple of ndarray
        The nodes of all trees: roots, depths, children, features, thresholds and the path lengths of leaves.
    average_path_length_ : float
        Average path length in a tree of `max_samples` rows, which normalises path lengths.
    history_ : dict of list
        One entry: trees and seconds.

    References
    ----------
    F. T. Liu, K. M. Ting, Z.-H. Zhou: Isolation Forest. ICDM 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import IForest
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> X[7] = 9
    >>> int(IForest(random_state=0).fit(X).anomaly_score(X).argmax())
    7
    """

    n_estimators: int = 100
    max_samples: int = 256

    uses_labels = False
    _saved = Detector._saved | {"average_path_length_": Number(lowest=0), "trees_": TreeArrays(lowest=0)}
    _renamed: ClassVar[dict[str, str]] = {
        "n_trees": "n_estimators",
        "tree_size": "max_samples",
    }

    def _check_parameters(self) -> None:
        check_integer("n_estimators", self.n_estimators, minimum=1)
        check_integer("max_samples", self.max_samples, minimum=2)

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        from sklearn.ensemble import IsolationForest  # here, because scoring does not need it

        rows = self._arrange(X, labelling.normal)
        forest = IsolationForest(
            n_estimators=int(self.n_estimators),
            max_samples=min(int(self.max_samples), len(rows)),
            random_state=int(rng.integers(2**31)),
        ).fit(rows)
        self.trees_ = join_trees([path_lengths(tree.tree_) for tree in forest.estimators_])
        self.average_path_length_ = average_path_length(forest.max_samples_)
        self._record(trees=float(self.n_estimators))

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        return isolation(self.trees_, max(self.average_path_length_, 1.0), rows)

    def _explorer_terms(self) -> Sequence[Term]:
        return self._terms()

    def _novelty_quantiles(self) -> NDArray[np.float64]:
        return self.score_quantiles_  # the score is the novelty

    def _keep_novelty(self, X: NDArray[np.floating], rows: Indices) -> None:
        self.novelty_quantiles_ = None

    def _terms(self) -> Sequence[Term]:
        return [ForestTerm(self.trees_, max(self.average_path_length_, 1.0))]


def path_lengths(tree: Any) -> Trees:
    """Convert one of scikit-learn's trees; the value of a leaf is the expected depth of a row that ends there."""
    left, right, is_leaf = tree.children_left, tree.children_right, tree.children_left < 0
    beyond = np.array([average_path_length(int(n)) for n in tree.n_node_samples])
    lengths = depth_of_nodes(left, right, is_leaf) + beyond
    return one_tree(left, right, is_leaf, tree.feature, tree.threshold, lengths)
