"""Detectors whose training can continue when new labels have arrived."""

import time
from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.blas import single_threaded_blas
from dplan.detectors._base import Detector, Indices
from dplan.detectors._checks import check_labels, usable_labels


class ContinuingDetector(Detector):
    """A detector with `partial_fit`; subclasses write `_resume`."""

    @abstractmethod
    def _resume(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> Indices | None:
        """Do what `_fit` does, from where training ended."""

    @abstractmethod
    def _check_can_continue(self) -> None:
        """Raise ValueError if parameters were changed that a fitted detector cannot change."""

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Continue training, for instance when new labels have arrived.

        Networks continue from their current weights; what cannot continue, such as trees, begins anew. All of it sees
        only the rows that are passed here, scaled as in `fit`: pass earlier known anomalies and some earlier unlabelled
        rows again, or they are forgotten.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.
        y : array-like of shape (n_rows,), default=None
            As in `fit`.

        Returns
        -------
        self
            `history_` is continued, `offset_` is set anew. Before the first `fit`, this is `fit`.
        """
        if not hasattr(self, "history_"):
            return self.fit(X, y)
        rng = self._checked_rng()
        self._check_can_continue()
        table = self._validated(X, ensure_min_samples=2, reset=False)
        labels = usable_labels(check_labels(y, len(table)), type(self).__name__, needed=True)
        self._started = time.perf_counter() - (self.history_.get("seconds") or [0.0])[-1]
        with single_threaded_blas():
            kept = self._resume(table, labels, rng)
        self._set_threshold(table, np.flatnonzero(labels == 0), kept, rng)
        return self
