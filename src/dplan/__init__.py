"""Anomaly detection from a few known anomalies and many unlabelled rows.

The public names are loaded when they are first used, so that ``import dplan`` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dplan._version import __version__

if TYPE_CHECKING:
    from dplan import data, environment, variants
    from dplan.detectors.dplan import DPLAN
    from dplan.exceptions import NoLabelsWarning

__all__ = ["DPLAN", "NoLabelsWarning", "__version__", "data", "environment", "variants"]

_HOMES = {
    "DPLAN": "dplan.detectors.dplan",
    "NoLabelsWarning": "dplan.exceptions",
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
