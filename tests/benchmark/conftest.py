"""Small cells that take a few hundredths of a second."""

import pytest

from dplan.benchmark.suites import Plan


def make_small_plan():
    return Plan(
        suites=("table2",),
        methods=("LogisticBaseline", "DevNet", "IForest"),
        runs=3,
        datasets=("covertype-mini",),
        parameters={
            "LogisticBaseline": {"n_iterations": 20},
            "DevNet": {"n_epochs": 1},
            "IForest": {"n_trees": 10},
        },
    )


@pytest.fixture
def small_plan():
    return make_small_plan()
