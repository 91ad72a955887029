"""From a table to a model and back to a table: fitting, scoring in chunks, reasons in words, the report.

`TableModel` is the heart: a detector together with the preparation of its table.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dplan.tables.fitting import fit_table
    from dplan.tables.model import TableModel
    from dplan.tables.updating import update_table

__all__ = ["TableModel", "fit_table", "update_table"]

_HOMES = {"TableModel": "model", "fit_table": "fitting", "update_table": "updating"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"dplan.tables.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dplan.tables' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
