"""Which rows of a table are alerts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AlertPolicy", "among"]


class AlertPolicy(NamedTuple):
    """What decides which rows are alerts.

    Attributes
    ----------
    threshold : float, optional
        Rows with at least this score; by default the model's threshold.
    budget : int, optional
        Instead, this many rows with the highest scores.
    top : int, optional
        Show this many rows with the highest scores, alerts or not.
    explore : int, optional
        So many of the budget are the most novel of the rows that do not become alerts by their score.

    Examples
    --------
    >>> AlertPolicy(budget=50, explore=10).check()
    >>> AlertPolicy(explore=10).check()
    Traceback (most recent call last):
        ...
    ValueError: explore reserves 10 alerts of the budget; set a budget of at least as many
    """

    threshold: float | None = None
    budget: int | None = None
    top: int | None = None
    explore: int | None = None

    def check(self) -> None:
        """Raise ValueError if they contradict each other."""
        if self.budget is not None and self.threshold is not None:
            raise ValueError("budget and threshold cannot be combined, because both define the alerts")
        if self.explore and (self.budget or 0) < self.explore:
            raise ValueError(
                f"explore reserves {self.explore:,} alerts of the budget; set a budget of at least as many"
            )
        if self.explore and self.top:
            raise ValueError(
                "explore and top cannot be combined, because top writes the highest scores alone"
            )


def among(rows: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    """Return which of n rows are listed."""
    found = np.zeros(n, dtype=np.bool_)
    found[rows] = True
    return found
