import os
from pathlib import Path

import pytest

import dplan.datasets
from tests.experiments.small_cells import make_small_plan
from tests.tables.payments import payments, payments_model

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of the four real data sets: `$DPLAN_DATA_HOME`, else `../shared/data` beside the project."""
    chosen = os.environ.get("DPLAN_DATA_HOME")
    folder = Path(chosen) if chosen else PROJECT.parent / "shared" / "data"
    missing = [
        name
        for name in ("unsw_nb15", "annthyroid", "har", "covertype")
        if not (folder / f"{name}.parquet").is_file()
    ]
    if missing:
        pytest.skip(
            f"{', '.join(missing)} not in {folder}: set DPLAN_DATA_HOME to the folder that holds them"
        )
    return folder


@pytest.fixture(scope="session")
def dataset(request):
    """Load a data set; a test that asks for one that is not there is skipped."""

    def load(name: str) -> dplan.datasets.Dataset:
        embedded = name == "covertype-mini"
        return dplan.datasets.load(name, home=None if embedded else request.getfixturevalue("data_home"))

    return load


@pytest.fixture(scope="session")
def table():
    return payments()


@pytest.fixture(scope="session")
def model():
    return payments_model()


@pytest.fixture(scope="session")
def model_path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "payments.dplan"
    model.save(path)
    return path


@pytest.fixture
def small_plan():
    return make_small_plan()
