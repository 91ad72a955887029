"""Which known class a kind is like, if it is like one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from dplan.arrays import Float64s
from dplan.tables.model import TableModel

__all__ = ["likeness"]

_NEAR = 0.9  # of the known rows of a class are as near as that to another one
_MOST_KNOWN = 200  # rows of a class that are compared


def likeness(model: TableModel, effects: Float64s) -> dict[str, NDArray[np.bool_]]:
    """Return, for each known class, which alerts are like it.

    A row is like a class if the detector reacts to it as to a known anomaly of the class: the distance of their effects
    is at most that of nine in ten known anomalies of the class to the nearest other one.

    Parameters
    ----------
    model : TableModel
        The model, with its known anomalies.
    effects : ndarray of shape (n_alerts, n_columns)
        The effects of the alerts.
    """
    found: dict[str, NDArray[np.bool_]] = {}
    own = np.maximum(effects, 0.0)
    for number, name in enumerate(model.summary.classes, start=1):
        known = model.known_anomalies[model.known_classes == number][:_MOST_KNOWN]
        if len(known) < 2:
            continue
        theirs = np.maximum(model.explain(None, known, model.scores_of(known)).effects, 0.0)
        among = cdist(theirs, theirs)
        np.fill_diagonal(among, np.inf)
        near = np.quantile(among.min(axis=1), _NEAR)
        # Copies of a known row are not less like it because of rounding.
        found[name] = cdist(own, theirs).min(axis=1) <= near + 1e-9 * np.abs(theirs).max()
    return found
