"""Anomaly detection from a few known anomalies and many unlabelled rows.

The public names are loaded when they are first used, so that ``import dplan`` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dplan._version import __version__

if TYPE_CHECKING:
    from dplan import data, environment, variants
    from dplan.catalogue import list_detectors
    from dplan.detectors.baselines import BoostedBaseline, LogisticBaseline
    from dplan.detectors.deep_sad import DeepSAD
    from dplan.detectors.devnet import DevNet
    from dplan.detectors.dplan import DPLAN
    from dplan.detectors.dua import DUA
    from dplan.detectors.iforest import IForest
    from dplan.detectors.prenet import PReNet
    from dplan.detectors.repen import REPEN
    from dplan.exceptions import NoLabelsWarning

__all__ = [
    "DPLAN",
    "DUA",
    "REPEN",
    "BoostedBaseline",
    "DeepSAD",
    "DevNet",
    "IForest",
    "LogisticBaseline",
    "NoLabelsWarning",
    "PReNet",
    "__version__",
    "data",
    "environment",
    "list_detectors",
    "variants",
]

_HOMES = {
    "BoostedBaseline": "dplan.detectors.baselines",
    "DPLAN": "dplan.detectors.dplan",
    "DUA": "dplan.detectors.dua",
    "DeepSAD": "dplan.detectors.deep_sad",
    "DevNet": "dplan.detectors.devnet",
    "IForest": "dplan.detectors.iforest",
    "LogisticBaseline": "dplan.detectors.baselines",
    "NoLabelsWarning": "dplan.exceptions",
    "PReNet": "dplan.detectors.prenet",
    "REPEN": "dplan.detectors.repen",
    "list_detectors": "dplan.catalogue",
}
_MODULES = {"data", "environment", "variants"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"dplan.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
