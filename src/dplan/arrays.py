"""Names for the arrays that are passed around, and the one order of rows: the highest first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Float32s", "Float64s", "highest_first"]

Float32s = NDArray[np.float32]  # prepared rows, weights of networks, scores of members
Float64s = NDArray[np.float64]  # scores, metrics, values of columns


def highest_first(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the values along the last axis, the highest first; of equal values, the first one first.

    Examples
    --------
    >>> highest_first(np.array([1.0, 3.0, 2.0, 3.0])).tolist()
    [1, 3, 2, 0]
    """
    order: NDArray[np.int64] = np.argsort(-values, axis=-1, kind="stable")
    return order
