"""Anomaly detection from a few known anomalies and many unlabelled rows.

The public names are listed in ``__init__.pyi`` and loaded on first use, to keep ``import dplan`` fast.
"""

from typing import Any

import lazy_loader

from dplan._version import __version__ as __version__
from dplan.estimators import as_estimator

_find, _, _names = lazy_loader.attach_stub(__name__, __file__)

# `dplan.gym` needs Gymnasium, which `from dplan import *` and `help(dplan)` do without.
__all__ = [name for name in _names if name != "gym"]


def __getattr__(name: str) -> Any:
    return as_estimator(_find(name))


def __dir__() -> list[str]:
    return __all__
