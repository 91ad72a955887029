"""The methods of the experiments by name: detectors, variants of DPLAN, and rivals that the package does not offer.

A name such as ``DevNet (both)`` is a method with the scaling ``scale="both"`` instead of its published one.

==============  ========================================================================================
rival           what it is
==============  ========================================================================================
`CatBoost`      CatBoost with its defaults, as ADGym ran it; needs the extra ``experiments``
`GaussianNB`    naive Bayes of scikit-learn, as ADGym ran it: the check that the splits are the same
`Explorers`     the unsupervised explorers of `DPLANEnsemble` alone
`Updated`       `DPLANEnsemble` that continues training with `partial_fit` whenever it is fitted again
`AADForest`     coniferest's AADForest, a forest that learns from verdicts; needs ``experiments``
`PineForest`    coniferest's PineForest, likewise
==============  ========================================================================================
"""

from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dplan.detectors import variants
from dplan.detectors._registry import list_detectors
from dplan.detectors.ensemble import DPLANEnsemble
from dplan.detectors.ensemble.combining import EXPLORERS

__all__ = ["RESCALED", "RIVALS", "create", "detector_class", "method_names"]

Rows = NDArray[np.floating]
Labels = NDArray[np.int64]
Scores = NDArray[np.float64]


# Competitors of the ensemble that gain most from ranks: is its lead over them more than scaling?
RESCALED = {f"{name} (both)": name for name in ("Uniform", "DevNet", "PReNet", "DeepSAD", "LogisticBaseline")}


def method_names() -> list[str]:
    """List all methods: the detectors, the variants of DPLAN, and the rivals.

    Examples
    --------
    >>> method_names()[0], method_names()[-1]
    ('DPLAN', 'PineForest')
    """
    names = [entry.name for entry in list_detectors()]
    return list(dict.fromkeys([*names, *variants.names(), *RESCALED, *RIVALS]))


def create(method: str, **parameters: Any) -> Any:
    """Return the unfitted detector of a method.

    Examples
    --------
    >>> create("ERew"), create("IForest"), create("DevNet (both)")
    (DPLAN(intrinsic_reward=False), IForest(), DevNet(scale='both'))
    """
    if method in RESCALED:
        return create(RESCALED[method], scale="both", **parameters)
    if method in variants.PARAMETERS:
        return variants.variant(method, **parameters)
    if method in RIVALS:
        return RIVALS[method](**parameters)
    return next(entry for entry in list_detectors() if entry.name == method).create(**parameters)


@cache
def detector_class(method: str) -> Any:
    """Return the class of a method, which has its version."""
    return RIVALS[method] if method in RIVALS else type(create(method))


class Rival:
    """A method from elsewhere, with what a cell needs to know about it."""

    version = 1  # increased by hand when the same seed gives different scores
    uses_labels = True
    uses_checked = True  # whether checked normal rows differ from unlabelled ones
    _renamed: ClassVar[dict[str, str]] = {}
    _model: Any

    def fit(self, X: Rows, y: Labels) -> Self:
        """Fit to all rows; y = 1 for anomalies, -1 for checked normal rows, 0 for the others."""
        self._model.fit(X, y)
        return self

    def anomaly_score(self, X: Rows) -> Scores:
        """Return the scores, high for anomalies."""
        scores: Scores = self._model.anomaly_score(X)
        return scores


def _from_extra(module: str, name: str) -> Any:
    """Import a class that the extra installs."""
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise ModuleNotFoundError(
            f"{package} is not installed; run  pip install 'dplan-ad[experiments]'"
        ) from error


class _Classifier(Rival):
    """A classifier of labelled anomalies against all other rows; its score is the probability of an anomaly.

    Without a labelled anomaly, it is an isolation forest.
    """

    uses_checked = False
    _seed = 0
    _forest: Any = None

    def fit(self, X: Rows, y: Labels) -> Self:
        if (y > 0).any():
            self._model.fit(X, (y > 0).astype(np.int64))
        else:
            self._forest = create("IForest", random_state=self._seed).fit(X)
        return self

    def anomaly_score(self, X: Rows) -> Scores:
        if self._forest is not None:
            return np.asarray(self._forest.anomaly_score(X), dtype=np.float64)
        probabilities: Scores = self._model.predict_proba(X)[:, 1]
        return probabilities


class CatBoost(_Classifier):
    """CatBoost with its default parameters."""

    def __init__(self, random_state: int = 0, callback: Any = None, **parameters: Any) -> None:
        self._seed = random_state
        self._model = _from_extra("catboost", "CatBoostClassifier")(
            random_state=random_state, thread_count=1, verbose=False, allow_writing_files=False, **parameters
        )


class GaussianNB(_Classifier):
    """Gaussian naive Bayes; it draws no random numbers."""

    def __init__(self, random_state: int = 0, callback: Any = None) -> None:
        from sklearn.naive_bayes import GaussianNB as Model

        self._seed = random_state
        self._model = Model()


class Explorers(Rival):
    """The explorers of `DPLANEnsemble` that are part of its score, alone: the nearest neighbours, who use no labels."""

    version = DPLANEnsemble.version
    uses_labels = False

    def __init__(self, random_state: int = 0, callback: Any = None) -> None:
        # Agents that learn nothing.
        nothing: dict[str, Any] = {
            "n_agents": 1,
            "n_steps": 1,
            "warmup_steps": 0,
            "n_rounds": 1,
            "hidden_units": 1,
        }
        self._model = DPLANEnsemble(**nothing, random_state=random_state)

    def anomaly_score(self, X: Rows) -> Scores:
        """Return how far rows are from their nearest neighbours."""
        neighbours = -len(EXPLORERS)
        scores: Scores = self._model._scored(X, lambda rows: self._model._member_scores(rows)[:, neighbours])
        return scores


class Updated(Rival):
    """`DPLANEnsemble` that continues training when it is fitted again, as ``dplan update`` does."""

    version = DPLANEnsemble.version

    def __init__(self, random_state: int = 0, callback: Any = None, **parameters: Any) -> None:
        self._model = DPLANEnsemble(random_state=random_state, **parameters)

    def fit(self, X: Rows, y: Labels) -> Self:
        self._model.partial_fit(X, y)
        return self

    def suspicion(self, X: Rows) -> Scores:
        """Return how much it is worth to ask about rows."""
        scores: Scores = self._model.suspicion(X)
        return scores


class AADForest(Rival):
    """Active anomaly discovery in an isolation forest that learns from verdicts (Das et al. 2017), by coniferest."""

    def __init__(self, random_state: int = 0, callback: Any = None, **parameters: Any) -> None:
        name = type(self).__name__
        forest = _from_extra(f"coniferest.{name.lower()}", name)
        self._model = forest(random_seed=random_state, n_jobs=1, **parameters)

    def fit(self, X: Rows, y: Labels) -> Self:
        judged = np.flatnonzero(y)
        if len(judged) == 0:
            self._model.fit(X)
        else:
            self._model.fit_known(X, X[judged], -y[judged])  # coniferest's anomalies are -1
        return self

    def anomaly_score(self, X: Rows) -> Scores:
        scores: Scores = -self._model.score_samples(X)  # in which low means anomalous
        return scores


class PineForest(AADForest):
    """A filtered isolation forest, by coniferest."""


RIVALS: dict[str, Any] = {
    rival.__name__: rival for rival in (CatBoost, GaussianNB, Explorers, Updated, AADForest, PineForest)
}
