"""The list of all detectors, read by the command line, model files, the experiments and the docs."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A detector: its name, and the module of its class, which is imported when it is needed.

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

    @property
    def detector(self) -> Any:
        """The class."""
        return getattr(import_module(self.module), self.name)

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return str(self.detector.title)

    @property
    def paper(self) -> str:
        """Where it is from."""
        return str(self.detector.paper)

    @property
    def uses_labels(self) -> bool:
        """Whether it learns from labels."""
        return bool(self.detector.uses_labels)

    def create(self, **parameters: Any) -> Any:
        """Return an unfitted detector."""
        return self.detector(**parameters)


_ENTRIES = [
    Entry(name, f"dplan.detectors.{module}")
    for name, module in {
        "DPLAN": "dplan",
        "DPLANEnsemble": "ensemble",
        "DevNet": "devnet",
        "DeepSAD": "deep_sad",
        "REPEN": "repen",
        "IForest": "iforest",
        "DUA": "dua",
        "PReNet": "prenet",
        "LogisticBaseline": "baselines",
        "BoostedBaseline": "baselines",
    }.items()
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
