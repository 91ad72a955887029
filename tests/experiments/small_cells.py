"""Small cells that take a few hundredths of a second, and reading their figures back."""

import os
from pathlib import Path

from experiments.cells import identity
from experiments.journal import read_journal
from experiments.suites import Plan

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}  # of a process in another folder
TIMES = {"fit_seconds", "score_seconds", "seconds"}


def make_small_plan(runs=3):
    return Plan(
        suites=("table2",),
        methods=("LogisticBaseline", "DevNet", "IForest"),
        runs=runs,
        datasets=("covertype-mini",),
        parameters={
            "LogisticBaseline": {"max_iter": 20},
            "DevNet": {"n_epochs": 1},
            "IForest": {"n_estimators": 10},
        },
    )


def figures(folder):
    """All cells by identity, without what the clock says; no cell may be there twice."""
    cells = [record for record in read_journal(folder) if record["kind"] == "cell"]
    assert len(set(map(identity, cells))) == len(cells), "a cell was run twice"
    return {
        identity(cell): {name: value for name, value in cell.items() if name not in TIMES} for cell in cells
    }
