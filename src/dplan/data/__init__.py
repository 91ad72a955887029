"""The paper's data sets and scenarios, and preparing anyone's own table.

Names are loaded when they are first used, so that the command line can list data sets without scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dplan.data.datasets import Dataset, load
    from dplan.data.fetching import fetch, prepare
    from dplan.data.home import data_home
    from dplan.data.own_table import LabelledTable, from_table
    from dplan.data.preparing import TablePreparer, TransformReport
    from dplan.data.reading import read_table
    from dplan.data.scenario_ids import ScenarioId, scenario_id, scenarios
    from dplan.data.tasks import Task, scenario

__all__ = [
    "Dataset",
    "LabelledTable",
    "ScenarioId",
    "TablePreparer",
    "Task",
    "TransformReport",
    "data_home",
    "fetch",
    "from_table",
    "load",
    "prepare",
    "read_table",
    "scenario",
    "scenario_id",
    "scenarios",
]

_HOMES = {
    "Dataset": "datasets",
    "LabelledTable": "own_table",
    "ScenarioId": "scenario_ids",
    "TablePreparer": "preparing",
    "Task": "tasks",
    "TransformReport": "preparing",
    "data_home": "home",
    "fetch": "fetching",
    "from_table": "own_table",
    "load": "datasets",
    "prepare": "fetching",
    "read_table": "reading",
    "scenario": "tasks",
    "scenario_id": "scenario_ids",
    "scenarios": "scenario_ids",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"dplan.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dplan.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
