import os
from pathlib import Path

import pytest

import dplan.data

PROJECT = Path(__file__).parents[2]


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
def dataset(data_home: Path):
    """Load a real data set, once per session."""
    loaded: dict[str, dplan.data.Dataset] = {}

    def load(name: str) -> dplan.data.Dataset:
        if name not in loaded:
            loaded[name] = dplan.data.load(name, home=data_home)
        return loaded[name]

    return load
