"""How good DPLAN is on the embedded data, and that the studies run."""

import numpy as np

from dplan.data import scenario
from dplan.demo import TASK, areas, groups


def test_dplan_finds_known_and_unknown_anomalies_of_the_embedded_data():
    from studies.embedded import measure

    measured = measure(10)
    every, known, unknown = (pairs[:, 1] for pairs in measured.values())  # AUC-ROC
    # Ten seeds give the mean up to its standard error; another processor rounds otherwise and trains other agents.
    standard_error = every.std(ddof=1) / np.sqrt(10)
    assert every.mean() + standard_error >= 0.88
    assert known.mean() > 0.99
    assert unknown.mean() > 0.75


def test_areas_leave_other_anomalies_out():
    task = scenario(TASK)
    scores = np.where(task.known_mask, 2.0, np.where(task.unknown_mask, 0.0, 1.0))
    names = groups(task)
    everything, known, unknown = (areas(task, counted, scores)[1] for counted in names.values())
    assert (known, unknown) == (1.0, 0.0)
    assert 0 < everything < 1
