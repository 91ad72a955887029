"""The list of all detectors, read by the command line, the benchmark and the docs."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A detector: its name, what it is, its paper, and whether it learns from labels.

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
        """The class, imported when it is asked for."""
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
        "agents of several kinds and explorers of the raw features",
        "our own, beyond the paper",
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
        "DevNet with pseudo anomalies from an isolation forest",
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
        "class-balanced logistic regression, unlabelled taken for normal",
        "scikit-learn: LogisticRegression",
        uses_labels=True,
        module="dplan.detectors.baselines",
    ),
    Entry(
        "BoostedBaseline",
        "gradient-boosted trees, unlabelled taken for normal",
        "scikit-learn: HistGradientBoostingClassifier; CatBoost with the extra [boost]",
        uses_labels=True,
        module="dplan.detectors.baselines",
    ),
]


def register(entry: Entry) -> None:
    """Add a detector to the list, for this process: one that lives outside of the package, or is being tried.

    Its module must be importable, because the command line, the benchmark and model files find the class through it.
    """
    if entry_of(entry.name) is not None:
        raise ValueError(f"there is a detector {entry.name!r} already")
    _ENTRIES.append(entry)


def entry_of(name: Any) -> Entry | None:
    """Return the entry of a detector, or None if there is no detector of that name."""
    return next((entry for entry in _ENTRIES if entry.name == name), None)


def list_detectors() -> list[Entry]:
    """Return every detector of this package, without importing any of them.

    Examples
    --------
    >>> [entry.name for entry in list_detectors() if not entry.uses_labels]
    ['REPEN', 'IForest']
    """
    return list(_ENTRIES)
