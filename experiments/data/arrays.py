"""Tasks made from plain arrays, for data that is not the paper's."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dplan.datasets import Task
from dplan.datasets.splits import Stream

__all__ = ["ArrayTask", "fingerprint", "thinned"]

# One stream per kind of draw.
_UNLABELLED, _TESTED = range(50, 52)

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
    true_classes : ndarray of int
        Class numbers of the training rows, labelled or not.
    """

    X: NDArray[np.floating] = field(repr=False)
    y: Classes = field(repr=False)
    X_test: NDArray[np.floating] = field(repr=False)
    y_test: Classes = field(repr=False)
    known: tuple[int, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    true_classes: Classes = field(repr=False, kw_only=True)

    n_synthetic = 0

    @property
    def known_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of a known class."""
        return np.isin(self.y_test, self.known)

    @property
    def unknown_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of an unknown class."""
        return (self.y_test > 0) & ~self.known_mask


def thinned(task: Task | ArrayTask, seed: int, n_unlabelled: int, n_test: int) -> ArrayTask:
    """Keep all labelled rows of a task, and at most some of its unlabelled rows and of its test rows.

    Both are drawn at random, so that their shares of anomalies stay about the same.

    Examples
    --------
    >>> from dplan.datasets import scenario
    >>> small = thinned(scenario("covertype-mini/cottonwood-v1"), 0, 3_000, 4_000)
    >>> small.X.shape, (small.y > 0).sum(), small.X_test.shape, (small.true_classes > 0).sum() > 60
    ((3060, 54), np.int64(60), (4000, 54), np.True_)
    """
    labelled, unlabelled = np.flatnonzero(task.y), np.flatnonzero(task.y == 0)
    kept = np.concatenate([labelled, _some(unlabelled, n_unlabelled, Stream(seed, _UNLABELLED))])
    tested = _some(np.arange(len(task.y_test)), n_test, Stream(seed, _TESTED))
    return ArrayTask(
        task.X[kept],
        task.y[kept],
        task.X_test[tested],
        task.y_test[tested],
        task.known,
        task.classes,
        task.notes,
        true_classes=task.true_classes[kept],
    )


def _some(rows: Classes, n: int, stream: Stream) -> Classes:
    return np.sort(stream.shuffled(rows)[:n])


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
