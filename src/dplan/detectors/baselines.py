"""Baselines: classifiers that treat unlabelled rows as normal."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dplan._kernels.product import affine
from dplan._kernels.trees import Trees, join_trees, one_tree, sum_of_leaves
from dplan.arrays import Float32s
from dplan.detectors._base import Detector
from dplan.detectors._checks import check_integer, check_number
from dplan.detectors._fields import COLUMNS, Array, Number, TreeArrays
from dplan.detectors._rows import Labelling, balanced_weights, labelled_or_pseudo_anomalies
from dplan.detectors._terms import ConstantTerm, LinearTerm, Term, TreesTerm


class Classifier(Detector):
    """A detector that learns to tell anomalies from all other rows."""

    def _task(
        self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator
    ) -> tuple[Float32s, NDArray[np.bool_], NDArray[np.float64] | None]:
        """Return all rows, scaled, which of them are anomalies, and their weights if there are verdicts to weigh."""
        rows = self._arrange(X)
        anomalies = labelled_or_pseudo_anomalies(rows, labelling, rng)[0]
        anomalous = np.zeros(len(X), dtype=bool)
        anomalous[anomalies] = True
        checked = labelling.checked
        if len(checked) == 0 and labelling.confidence is None:
            return rows, anomalous, None
        confidences = (labelling.confidence_in(rows) for rows in (anomalies, checked))
        return rows, anomalous, balanced_weights(len(X), anomalies, checked, *confidences)


class LogisticBaseline(Classifier):
    """Class-balanced logistic regression, labelled anomalies against all unlabelled rows.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the regularisation strength, as in scikit-learn's LogisticRegression. Its default.
    max_iter : int, default=1000
        Maximum number of iterations of the solver.
    random_state : int, RandomState, Generator or None, default=None
        Seed. Only used if no row is labelled.

    Attributes
    ----------
    coef_ : ndarray of float64
        One per column.
    intercept_ : float
        The score of a row of zeros.
    n_iter_ : int
        Iterations of the solver.
    history_ : dict of list
        One entry: iterations and seconds.

    Notes
    -----
    Checked normal rows (-1 in y) are negatives like unlabelled rows, with more weight: each weighs as much as a
    labelled anomaly, but all together at most half of the negatives. `sample_weight` changes the weight of verdicts.

    If no row is labelled, the 1 % of rows (at least 10) with the highest isolation scores are used instead.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import LogisticBaseline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:50] += 4  # anomalies, of which ten are known
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> scores = LogisticBaseline().fit(X, y).anomaly_score(X)
    >>> bool(scores[:50].mean() > scores[50:].mean() + 1)
    True
    """

    C: float = 1.0
    max_iter: int = 1000

    is_random = False
    _saved = Detector._saved | {"coef_": Array(np.float64, (COLUMNS,)), "intercept_": Number()}
    _renamed: ClassVar[dict[str, str]] = {
        "inverse_penalty": "C",
        "n_iterations": "max_iter",
    }

    def _check_parameters(self) -> None:
        check_number("C", self.C, "(0, inf)")
        check_integer("max_iter", self.max_iter, minimum=1)

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression  # here, because scoring does not need it

        rows, anomalous, weights = self._task(X, labelling, rng)
        class_weight = "balanced" if weights is None else None  # the weights are balanced already
        model = LogisticRegression(C=float(self.C), class_weight=class_weight, max_iter=int(self.max_iter))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # the ranking converges long before the weights
            model.fit(rows, anomalous, weights)
        self.coef_ = model.coef_[0].astype(np.float64)
        self.intercept_ = float(model.intercept_[0])
        self._record(iterations=float(model.n_iter_[0]))

    @property
    def n_iter_(self) -> int:  # noqa: D102
        return int(self.history_["iterations"][-1])

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        weights, biases = self.coef_[:, None], np.array([self.intercept_])
        return affine(rows, weights.astype(np.float32), biases.astype(np.float32))[:, 0]

    def _terms(self) -> Sequence[Term]:
        return [LinearTerm(self.coef_), ConstantTerm(self.intercept_)]


class BoostedBaseline(Classifier):
    """Gradient-boosted trees, labelled anomalies against all unlabelled rows.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of boosting iterations. scikit-learn's default.
    learning_rate : float, default=0.1
        Learning rate (shrinkage). scikit-learn's default.
    l2 : float, default=1.0
        L2 regularisation of leaf values. XGBoost's default, because without it (scikit-learn's default) the first trees
        overshoot when labelled anomalies are very rare.

    Attributes
    ----------
    trees_ : tuple of ndarray
        The nodes of all trees: roots, depths, children, features, thresholds and leaf values.
    history_ : dict of list
        One entry: trees and seconds.

    Notes
    -----
    Checked normal rows (-1 in y) are negatives like unlabelled rows, with more weight: each weighs as much as a
    labelled anomaly, but all together at most half of the negatives. `sample_weight` changes the weight of verdicts.
    With either, anomalies and negatives have equal total weights; otherwise every row has a weight of 1.

    If no row is labelled, the 1 % of rows (at least 10) with the highest isolation scores are used instead.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import BoostedBaseline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:50] += 4  # anomalies, of which twenty are known
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:20] = 1
    >>> scores = BoostedBaseline(random_state=0).fit(X, y).anomaly_score(X)
    >>> bool(scores[:50].mean() > scores[50:].mean() + 1)
    True
    """

    n_estimators: int = 100
    learning_rate: float = 0.1
    l2: float = 1.0

    is_random = False  # up to 200,000 rows
    _saved = Detector._saved | {"trees_": TreeArrays()}
    _renamed: ClassVar[dict[str, str]] = {"n_trees": "n_estimators"}
    _removed: ClassVar[dict[str, Any]] = {"engine": "scikit-learn"}

    def _check_parameters(self) -> None:
        check_integer("n_estimators", self.n_estimators, minimum=1)
        check_number("learning_rate", self.learning_rate, "(0, inf)")
        check_number("l2", self.l2, "[0, inf)")

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier  # here, because scoring does not need it

        rows, anomalous, weights = self._task(X, labelling, rng)
        model = HistGradientBoostingClassifier(
            max_iter=int(self.n_estimators),
            learning_rate=float(self.learning_rate),
            l2_regularization=float(self.l2),
            early_stopping=False,  # it would hold out some of the few labelled anomalies
            random_state=int(rng.integers(2**31)),
        )
        # One thread, as everywhere here: on a busy machine more threads mostly wait for each other.
        with threadpool_limits(1, user_api="openmp"):
            model.fit(rows, anomalous, weights)
        self.trees_ = join_trees([boosted_tree(tree.nodes) for (tree,) in model._predictors])
        self._record(trees=float(self.n_estimators))

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        return sum_of_leaves(self.trees_, rows)

    def _terms(self) -> Sequence[Term]:
        return [TreesTerm(self.trees_, np.ones(len(self.trees_.roots)))]


def boosted_tree(nodes: NDArray[Any]) -> Trees:
    """Convert one of scikit-learn's boosted trees."""
    names = ("left", "right", "is_leaf", "feature_idx", "num_threshold", "value")
    left, right, is_leaf, features, thresholds, values = (nodes[name] for name in names)
    return one_tree(
        left.astype(np.int64), right.astype(np.int64), is_leaf.astype(bool), features, thresholds, values
    )
