"""Real data for tests, where it is there, and scikit-learn's checks that do not apply."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

_BESIDE_THE_PROJECT = Path(__file__).parents[3] / "shared" / "data"


def pytest_collection_modifyitems(config, items):
    """Deselect a check that scikit-learn skips unless SciPy was imported in its experimental array API mode.

    With ``SCIPY_ARRAY_API=1`` all detectors pass it.
    """
    if os.environ.get("SCIPY_ARRAY_API") == "1":
        return
    not_checked = [item for item in items if "-check_array_api_input(" in item.name]
    items[:] = [item for item in items if item not in not_checked]
    config.hook.pytest_deselected(items=not_checked)


@pytest.fixture(scope="session")
def backdoor():
    """Return a function that draws DevNet's UNSW task: Normal against Backdoor, 30 labelled, 2 % contamination."""
    path = Path(os.environ.get("DPLAN_DATA_HOME", _BESIDE_THE_PROJECT)) / "unsw_nb15.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there; set DPLAN_DATA_HOME to the folder that holds the data sets")
    table = pl.read_parquet(path).filter(pl.col("attack_cat").is_in(["Normal", "Backdoor"]))
    anomalous = (table["attack_cat"] == "Backdoor").to_numpy()
    features = table.drop("attack_cat", "label", "partition").to_dummies(["proto", "service", "state"])
    X = features.cast(pl.Float32).to_numpy()

    def draw(seed):
        rng = np.random.default_rng(seed)
        normal, attacks = (rng.permutation(np.flatnonzero(anomalous == kind)) for kind in (False, True))
        n_normal, n_attacks = int(0.8 * len(normal)), int(0.8 * len(attacks))
        n_hidden = round(0.02 / 0.98 * n_normal)
        train = np.concatenate([attacks[: 30 + n_hidden], normal[:n_normal]])
        assert 30 + n_hidden <= n_attacks
        test = np.concatenate([attacks[n_attacks:], normal[n_normal:]])
        return X[train], (np.arange(len(train)) < 30).astype(int), X[test], anomalous[test]

    return draw
