"""From a table to a model and back to a table: reading, fitting, scoring, reasons, learning from verdicts.

A `TableModel` is a fitted detector together with the preparation of its table. The public names are listed in
``__init__.pyi`` and loaded on first use.
"""

import importlib
from typing import Any

import lazy_loader

from dplan.estimators import as_estimator

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Public here, because users meet columns in tables alone; lazy_loader knows the modules of one package.
_COLUMNS = {"TablePreparer": "dplan.columns.preparer", "TransformReport": "dplan.columns.differences"}
__all__ += list(_COLUMNS)


def __getattr__(name: str) -> Any:
    found = getattr(importlib.import_module(_COLUMNS[name]), name) if name in _COLUMNS else _own(name)
    return as_estimator(found)
