"""How good a rule is: lower and upper bounds of shares, and the objective that rules are searched by."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["LEVEL", "OTHERS_COUNT", "objective", "wilson"]

LEVEL = 0.95  # of one-sided bounds
_Z = 1.6448536269514722  # the normal quantile of that level
# A matched alert of another kind counts as so much of an ordinary row: with 0, rules match more alerts, but barely half
# of them are of their kind.
OTHERS_COUNT = 0.25


def wilson(hits: Any, n: Any, *, upper: bool = False) -> Any:
    """Return the lower bound of a share, or its upper bound: Wilson's, one-sided, at the level of 95 %.

    Examples
    --------
    >>> round(wilson(80, 80), 3), round(wilson(8, 10), 3), round(wilson(8, 10, upper=True), 3), wilson(0, 0)
    (0.967, 0.541, 0.931, 0.0)
    """
    n = np.asarray(n, dtype=np.float64)
    share = np.asarray(hits, dtype=np.float64) / np.maximum(n, 1e-12)
    own = np.maximum(n, 1e-12)
    half = _Z * np.sqrt(np.maximum(share * (1 - share), 0) / own + _Z**2 / (4 * own**2))
    bound = (share + _Z**2 / (2 * own) + (half if upper else -half)) / (1 + _Z**2 / own)
    bound = np.where(n > 0, np.clip(bound, 0.0, 1.0), 1.0 if upper else 0.0)
    return float(bound) if bound.ndim == 0 else bound


def objective(kind: Any, ordinary: Any, others: Any, n_kind: float) -> Any:
    """Return how well a rule describes a kind: a lower bound of its precision, times the share of the kind it covers.

    Parameters
    ----------
    kind, ordinary, others : float or ndarray
        Numbers of rows that the rule matches: alerts of the kind, rows that are not alerts, and alerts of other kinds.
    n_kind : float
        The number of alerts of the kind.
    """
    return wilson(kind, kind + ordinary + OTHERS_COUNT * others) * (kind / n_kind)
