"""The list of all detectors, read by the command line, the benchmark and the docs."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A detector: its name, title and paper, and whether it learns from labels.

    Examples
    --------
    >>> entry = list_detectors()[0]
    >>> entry.name, entry.uses_labels
    ('DPLAN', True)
    >>> entry.create(random_state=0)
    DPLAN(random_state=0)
    """

    name: str
    title: str
    paper: str
    uses_labels: bool
    module: str

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
        "deep Q-learning with partially labelled anomalies",
        "Pang, van den Hengel, Shen, Cao. Toward Deep Supervised Anomaly Detection. KDD 2021",
        uses_labels=True,
        module="dplan.detectors.dplan",
    ),
    Entry(
        "DPLANEnsemble",
        "ensemble of agents and unsupervised explorers",
        "dplan; see docs/ensemble.md",
        uses_labels=True,
        module="dplan.detectors.ensemble",
    ),
    Entry(
        "DevNet",
        "deviation networks",
        "Pang, Shen, van den Hengel. Deep Anomaly Detection with Deviation Networks. KDD 2019",
        uses_labels=True,
        module="dplan.detectors.devnet",
    ),
    Entry(
        "DeepSAD",
        "deep semi-supervised anomaly detection",
        "Ruff et al. Deep Semi-Supervised Anomaly Detection. ICLR 2020",
        uses_labels=True,
        module="dplan.detectors.deep_sad",
    ),
    Entry(
        "REPEN",
        "representations for random nearest-neighbour distances",
        "Pang, Cao, Chen, Liu. Learning Representations of Ultrahigh-dimensional Data for Random Distance-based "
        "Outlier Detection. KDD 2018",
        uses_labels=False,
        module="dplan.detectors.repen",
    ),
    Entry(
        "IForest",
        "isolation forest",
        "Liu, Ting, Zhou. Isolation Forest. ICDM 2008",
        uses_labels=False,
        module="dplan.detectors.iforest",
    ),
    Entry(
        "DUA",
        "DevNet with pseudo-anomalies from an isolation forest",
        "Pang, van den Hengel, Shen, Cao. Toward Deep Supervised Anomaly Detection. KDD 2021",
        uses_labels=True,
        module="dplan.detectors.dua",
    ),
    Entry(
        "PReNet",
        "pairwise relation networks",
        "Pang, Shen, Jin, van den Hengel. Deep Weakly-supervised Anomaly Detection. KDD 2023",
        uses_labels=True,
        module="dplan.detectors.prenet",
    ),
    Entry(
        "LogisticBaseline",
        "class-balanced logistic regression; treats unlabelled rows as normal",
        "scikit-learn: LogisticRegression",
        uses_labels=True,
        module="dplan.detectors.baselines",
    ),
    Entry(
        "BoostedBaseline",
        "gradient-boosted trees; treats unlabelled rows as normal",
        "scikit-learn: HistGradientBoostingClassifier; CatBoost with the extra [boost]",
        uses_labels=True,
        module="dplan.detectors.baselines",
    ),
]


def register(entry: Entry) -> None:
    """Add a detector from outside the package to the list, for this process only.

    Its module must be importable: the command line, the benchmark and model files look the class up in it.
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
