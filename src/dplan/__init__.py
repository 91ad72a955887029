"""Anomaly detection from a few known anomalies and many unlabelled rows.

The public names are loaded when they are first used, so that ``import dplan`` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dplan._version import __version__

if TYPE_CHECKING:
    from dplan import data, environment, explain, tables, variants
    from dplan.catalogue import list_detectors
    from dplan.detectors.baselines import BoostedBaseline, LogisticBaseline
    from dplan.detectors.deep_sad import DeepSAD
    from dplan.detectors.devnet import DevNet
    from dplan.detectors.dplan import DPLAN
    from dplan.detectors.dua import DUA
    from dplan.detectors.ensemble import DPLANEnsemble
    from dplan.detectors.iforest import IForest
    from dplan.detectors.prenet import PReNet
    from dplan.detectors.repen import REPEN
    from dplan.exceptions import ModelFileError, NoLabelsWarning
    from dplan.model_file import load

__all__ = [
    "DPLAN",
    "DUA",
    "REPEN",
    "BoostedBaseline",
    "DPLANEnsemble",
    "DeepSAD",
    "DevNet",
    "IForest",
    "LogisticBaseline",
    "ModelFileError",
    "NoLabelsWarning",
    "PReNet",
    "__version__",
    "data",
    "environment",
    "explain",
    "list_detectors",
    "load",
    "tables",
    "variants",
]

_HOMES = {
    "BoostedBaseline": "dplan.detectors.baselines",
    "DPLAN": "dplan.detectors.dplan",
    "DPLANEnsemble": "dplan.detectors.ensemble",
    "DUA": "dplan.detectors.dua",
    "DeepSAD": "dplan.detectors.deep_sad",
    "DevNet": "dplan.detectors.devnet",
    "IForest": "dplan.detectors.iforest",
    "LogisticBaseline": "dplan.detectors.baselines",
    "ModelFileError": "dplan.exceptions",
    "NoLabelsWarning": "dplan.exceptions",
    "PReNet": "dplan.detectors.prenet",
    "REPEN": "dplan.detectors.repen",
    "list_detectors": "dplan.catalogue",
    "load": "dplan.model_file",
}
_MODULES = {"data", "environment", "explain", "tables", "variants"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"dplan.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
