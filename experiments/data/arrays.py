"""Tasks made from plain arrays, for data that is not the paper's."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrayTask", "fingerprint"]

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ArrayTask:
    """One experiment: training rows and test rows, with the attributes of `dplan.datasets.Task` that a cell needs.

    Attributes
    ----------
    X, X_test : ndarray of float
        Training and test rows, not scaled.
    y : ndarray of int
        Training labels: 0 for unlabelled, k for a labelled anomaly of class k.
    y_test : ndarray of int
        Class numbers of the test rows; 0 is normal.
    known : tuple of int
        Class numbers with labelled rows.
    classes : tuple of str
        Names by class number.
    notes : tuple of str
        Whatever differs from what was requested, one sentence each.
    """

    X: Floats = field(repr=False)
    y: Classes = field(repr=False)
    X_test: Floats = field(repr=False)
    y_test: Classes = field(repr=False)
    known: tuple[int, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()

    n_synthetic = 0

    @property
    def known_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of a known class."""
        return np.isin(self.y_test, self.known)

    @property
    def unknown_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of an unknown class."""
        return (self.y_test > 0) & ~self.known_mask


def fingerprint(*arrays: NDArray[np.generic]) -> str:
    """Return a fingerprint of the contents of arrays.

    Examples
    --------
    >>> len(fingerprint(np.arange(3))), fingerprint(np.arange(3)) == fingerprint(np.arange(4))
    (12, False)
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]
