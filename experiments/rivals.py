"""Methods that the benchmark compares with but the package does not offer as detectors.

==============  ========================================================================================
name            what it is
==============  ========================================================================================
`CatBoost`      CatBoost with its defaults, as ADGym ran it; needs the extra ``experiments``
`GaussianNB`    naive Bayes of scikit-learn, as ADGym ran it: the check that the splits are the same
`Explorers`     the unsupervised explorers of `DPLANEnsemble` alone
`Updated`       `DPLANEnsemble` that continues training with `partial_fit` whenever it is fitted again
`AADForest`     coniferest's AADForest, a forest that learns from verdicts; needs ``experiments``
`PineForest`    coniferest's PineForest, likewise
==============  ========================================================================================
"""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dplan.detectors.ensemble import DPLANEnsemble

__all__ = ["RIVALS", "AADForest", "CatBoost", "Explorers", "GaussianNB", "PineForest", "Updated"]

Rows = NDArray[np.floating]
Labels = NDArray[np.int64]
Scores = NDArray[np.float64]


class Rival:
    """What the runner needs to know about a method besides `fit` and `anomaly_score`."""

    version = 1  # increased by hand when the same seed gives different scores
    uses_labels = True
    _renamed: ClassVar[dict[str, str]] = {}


class _Classifier(Rival):
    """A classifier of labelled anomalies against all other rows."""

    _model: Any

    def fit(self, X: Rows, y: Labels) -> Self:
        """Fit the classifier."""
        self._model.fit(X, (y > 0).astype(np.int64))
        return self

    def anomaly_score(self, X: Rows) -> Scores:
        """Return the predicted probability of an anomaly."""
        probabilities: Scores = self._model.predict_proba(X)[:, 1]
        return probabilities


class CatBoost(_Classifier):
    """CatBoost with its default parameters."""

    def __init__(self, random_state: int = 0, callback: Any = None, **parameters: Any) -> None:
        try:
            from catboost import CatBoostClassifier
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "CatBoost is not installed; run  pip install 'dplan-ad[experiments]'"
            ) from error
        self._model = CatBoostClassifier(
            random_state=random_state, thread_count=1, verbose=False, allow_writing_files=False, **parameters
        )


class GaussianNB(_Classifier):
    """Gaussian naive Bayes; it draws no random numbers."""

    def __init__(self, random_state: int = 0, callback: Any = None) -> None:
        from sklearn.naive_bayes import GaussianNB as Model

        self._model = Model()


class Explorers(Rival):
    """The explorers of `DPLANEnsemble` alone, which use no labels."""

    version = DPLANEnsemble.version
    uses_labels = False

    def __init__(self, random_state: int = 0, callback: Any = None) -> None:
        # Agents that learn nothing, and explorers that outweigh them.
        self._ensemble = DPLANEnsemble(
            n_agents=1,
            n_steps=1,
            warmup_steps=0,
            n_rounds=1,
            hidden_units=1,
            exploration=1e9,
            random_state=random_state,
        )

    def fit(self, X: Rows, y: Labels) -> Self:
        """Fit to all rows."""
        self._ensemble.fit(X, y)
        return self

    def anomaly_score(self, X: Rows) -> Scores:
        """Return the weighted sum of the explorers' standardised scores."""
        return self._ensemble.anomaly_score(X)


class Updated(Rival):
    """`DPLANEnsemble` that continues training when it is fitted again, as ``dplan update`` does."""

    version = DPLANEnsemble.version

    def __init__(self, random_state: int = 0, callback: Any = None, **parameters: Any) -> None:
        self._ensemble = DPLANEnsemble(random_state=random_state, **parameters)

    def fit(self, X: Rows, y: Labels) -> Self:
        """Fit, or continue."""
        self._ensemble.partial_fit(X, y)
        return self

    def anomaly_score(self, X: Rows) -> Scores:
        """Return the scores of the ensemble."""
        return self._ensemble.anomaly_score(X)


class _Coniferest(Rival):
    """A forest of coniferest that learns from verdicts."""

    def __init__(self, random_state: int = 0, callback: Any = None, **parameters: Any) -> None:
        try:
            import coniferest
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "coniferest is not installed; run  pip install 'dplan-ad[experiments]'"
            ) from error
        from importlib import import_module

        name = type(self).__name__
        forest = getattr(import_module(f"{coniferest.__name__}.{name.lower()}"), name)
        self._forest = forest(random_seed=random_state, n_jobs=1, **parameters)

    def fit(self, X: Rows, y: Labels) -> Self:
        """Grow the forest, or adapt it to more verdicts: y = 1 for anomalies, -1 for checked normal rows."""
        judged = np.flatnonzero(y)
        if len(judged) == 0:
            self._forest.fit(X)
        else:
            self._forest.fit_known(X, X[judged], -y[judged])  # coniferest's anomalies are -1
        return self

    def anomaly_score(self, X: Rows) -> Scores:
        """Return the negated score of coniferest, in which low means anomalous."""
        scores: Scores = -self._forest.score_samples(X)
        return scores


class AADForest(_Coniferest):
    """Active anomaly discovery in an isolation forest (Das et al. 2017), by coniferest."""


class PineForest(_Coniferest):
    """A filtered isolation forest, by coniferest."""


RIVALS: dict[str, Any] = {
    rival.__name__: rival for rival in (CatBoost, GaussianNB, Explorers, Updated, AADForest, PineForest)
}
