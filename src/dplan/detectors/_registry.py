"""The list of all detectors, read by the command line, model files, the experiments and the docs."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A detector: its name, the module of its class, and what a list says about it without importing the class.

    Examples
    --------
    >>> entry = list_detectors()[0]
    >>> entry.name, entry.title, entry.uses_labels
    ('DPLAN', 'deep Q-learning with partially labelled anomalies', True)
    >>> entry.create(random_state=0)
    DPLAN(random_state=0)
    """

    name: str
    module: str
    title: str  # what it is, in a few words
    paper: str  # where it is from
    uses_labels: bool = True

    @property
    def detector(self) -> Any:
        """The class, imported on first access."""
        return getattr(import_module(self.module), self.name)

    def create(self, **parameters: Any) -> Any:
        """Return an unfitted detector."""
        return self.detector(**parameters)


_ENTRIES = [
    Entry(
        "DPLAN",
        "dplan.detectors.dplan",
        "deep Q-learning with partially labelled anomalies",
        "Pang, van den Hengel, Shen, Cao. Toward Deep Supervised Anomaly Detection. KDD 2021",
    ),
    Entry(
        "DPLANEnsemble",
        "dplan.detectors.ensemble",
        "ensemble of agents and unsupervised explorers",
        "dplan; see docs/ensemble.md",
    ),
    Entry(
        "DevNet",
        "dplan.detectors.devnet",
        "deviation networks",
        "Pang, Shen, van den Hengel. Deep Anomaly Detection with Deviation Networks. KDD 2019",
    ),
    Entry(
        "DeepSAD",
        "dplan.detectors.deep_sad",
        "deep semi-supervised anomaly detection",
        "Ruff et al. Deep Semi-Supervised Anomaly Detection. ICLR 2020",
    ),
    Entry(
        "REPEN",
        "dplan.detectors.repen",
        "representations for random nearest-neighbour distances",
        "Pang, Cao, Chen, Liu. Learning Representations of Ultrahigh-dimensional Data for Random Distance-based "
        "Outlier Detection. KDD 2018",
        uses_labels=False,
    ),
    Entry(
        "IForest",
        "dplan.detectors.iforest",
        "isolation forest",
        "Liu, Ting, Zhou. Isolation Forest. ICDM 2008",
        uses_labels=False,
    ),
    Entry(
        "DUA",
        "dplan.detectors.dua",
        "DevNet with pseudo-anomalies from an isolation forest",
        "Pang, van den Hengel, Shen, Cao. Toward Deep Supervised Anomaly Detection. KDD 2021",
    ),
    Entry(
        "PReNet",
        "dplan.detectors.prenet",
        "pairwise relation networks",
        "Pang, Shen, Jin, van den Hengel. Deep Weakly-supervised Anomaly Detection. KDD 2023",
    ),
    Entry(
        "LogisticBaseline",
        "dplan.detectors.baselines",
        "class-balanced logistic regression; treats unlabelled rows as normal",
        "scikit-learn: LogisticRegression",
    ),
    Entry(
        "BoostedBaseline",
        "dplan.detectors.baselines",
        "gradient-boosted trees; treats unlabelled rows as normal",
        "scikit-learn: HistGradientBoostingClassifier",
    ),
]


def register(entry: Entry) -> None:
    """Add a detector from outside the package to the list, for this process only.

    Its module must be importable: the command line, the experiments and model files look the class up in it.
    """
    if entry_of(entry.name) is not None:
        raise ValueError(f"a detector named {entry.name!r} already exists")
    _ENTRIES.append(entry)


def entry_of(name: Any) -> Entry | None:
    """Return the entry of a detector, or None if the name is unknown."""
    return next((entry for entry in _ENTRIES if entry.name == name), None)


def list_detectors() -> list[Entry]:
    """Return all detectors, without importing them.

    Examples
    --------
    >>> [entry.name for entry in list_detectors() if not entry.uses_labels]
    ['REPEN', 'IForest']
    """
    return list(_ENTRIES)
