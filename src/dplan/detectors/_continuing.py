"""Detectors that can continue training when new labels arrive."""

import math
from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.compiling import compiling
from dplan.detectors._base import Detector
from dplan.detectors._rows import Indices, Labelling, read_labelling


class ContinuingDetector(Detector):
    """A detector with `partial_fit`; subclasses implement `_resume`."""

    @abstractmethod
    def _resume(
        self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator
    ) -> Indices | None:
        """Like `_fit`, but continue from the fitted state."""

    @abstractmethod
    def _check_can_continue(self) -> None:
        """Raise ValueError if a parameter was changed that is fixed once the detector is fitted."""

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Continue training, for example with new labels.

        Networks continue from their current weights; trees and other parts that cannot continue are refitted. Only the
        rows passed here are used, scaled as in `fit`: pass earlier verdicts and some earlier unlabelled rows
        again, or the detector forgets them.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.
        y, sample_weight : array-like of shape (n_rows,), default=None
            As in `fit`.

        Returns
        -------
        self
            Rounds are added to `history_`, and `offset_` is updated. Calls `fit` if the detector is not fitted yet.

        Examples
        --------
        >>> from dplan import DPLAN
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(300, 2)), np.repeat([1, 0], [10, 290])
        >>> X[:20] += 5
        >>> detector = DPLAN(n_steps=500, warmup_steps=100, subsample_size=50, random_state=0).fit(X, y)
        >>> y[10:20] = 1  # ten more are known
        >>> bool(detector.partial_fit(X, y).percentile(X[:20]).min() > 90)
        True
        """
        if not hasattr(self, "history_"):
            return self.fit(X, y, sample_weight)
        rng = self._checked_rng()
        self._check_can_continue()
        table = self._validated(X, ensure_min_samples=2, reset=False)
        labelling = read_labelling(
            y, sample_weight, len(table), type(self).__name__, self.uses_labels, more=True
        )
        before = (self.history_.get("seconds") or [0.0])[-1]
        self._started = compiling.clock() - (
            before if math.isfinite(before) else 0.0
        )  # a file has no durations
        self._run(self._resume, table, labelling, rng)
        return self
