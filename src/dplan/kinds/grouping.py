"""Groups of alerts that the detector reacts to for the same reasons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from dplan.arrays import Float64s

__all__ = ["FEWEST_ALERTS", "MOST_KINDS", "groups"]

FEWEST_ALERTS = 30  # of fewer, no kinds are made
FEWEST_KINDS, MOST_KINDS, _ALERTS_PER_KIND = 3, 8, 15


def groups(effects: Float64s, n_kinds: int | None = None) -> NDArray[np.int64]:
    """Return the group of each alert, the largest group first.

    Effects that lower the score do not count, and those that raise it are not scaled, so that alerts with much higher
    scores are a group of their own. Ward's linkage joins groups; it stops where the next step would be much longer than
    the last.

    Parameters
    ----------
    effects : ndarray of shape (n_alerts, n_columns)
        The effect of each column on the score of each alert.
    n_kinds : int, optional
        The number of groups; by default between 3 and 8, at most one for 15 alerts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> centres = np.repeat([[9.0, 0, 0], [0, 9, 0], [0, 0, 9], [9, 9, 0]], [40, 30, 20, 10], axis=0)
    >>> np.bincount(groups(centres + rng.random((100, 3)))).tolist()
    [40, 30, 20, 10]
    """
    found = linkage(np.maximum(effects, 0.0), "ward")
    n_alerts = len(effects)
    if n_kinds is None:
        heights = found[:, 2]
        most = max(FEWEST_KINDS, min(MOST_KINDS, n_alerts // _ALERTS_PER_KIND))
        choices = np.arange(FEWEST_KINDS, most + 1)
        steps = heights[n_alerts - choices] / np.maximum(heights[n_alerts - choices - 1], 1e-300)
        n_kinds = int(choices[steps.argmax()])
    labels = fcluster(found, n_kinds, "maxclust")
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    sizes = np.bincount(labels)
    order = np.lexsort((first, -sizes))  # of equal ones, that of the first row
    return order.argsort()[labels].astype(np.int64)
