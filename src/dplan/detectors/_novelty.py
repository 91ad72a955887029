"""How novel a row is: how unlike the training rows it looks to the explorers of a detector, which use no labels."""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan.arrays import Float32s
from dplan.detectors._fields import Array, Field, Optional
from dplan.detectors._rows import SHARES, Indices, percentiles
from dplan.detectors._terms import Term
from dplan.estimators import check_fitted

Score = Callable[[Float32s], NDArray[np.floating]]

NOVELTY: dict[str, Field] = {"novelty_quantiles_": Optional(Array(np.float64, (len(SHARES),)))}

_REFERENCE_ROWS = 10_000  # enough for the quantiles


class Exploring:
    """The part of a detector that tells how novel rows are, if it has explorers."""

    novelty_quantiles_: NDArray[np.float64] | None

    @abstractmethod
    def _scored(self, X: ArrayLike, score: Score) -> NDArray[np.float64]:
        """Validate rows and score them block by block."""

    @abstractmethod
    def _in_blocks(
        self, X: NDArray[np.floating], score: Score, rows: Indices | None = None
    ) -> NDArray[np.float64]:
        """Score rows block by block."""

    def _explorer_terms(self) -> Sequence[Term]:
        """Return the terms of the explorers; their sum is how novel a row is."""
        return []

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how unlike the training rows each row is, whatever the labels say.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            From 0 to 100: the percentage of unlabelled and checked normal training rows that the explorers of the
            detector, which use no labels, find less unusual.

        Raises
        ------
        ValueError
            If the detector has no explorers.

        Examples
        --------
        >>> from dplan import IForest
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> IForest(random_state=0).fit(X).novelty([[0, 0], [9, 9]]).round().tolist()
        [17.0, 100.0]
        """
        scores = self._novelty_scores(X)
        quantiles = self._novelty_quantiles()
        if quantiles is None:
            raise ValueError(
                "this model file is from a version that did not know novelty; fit the detector again"
            )
        return percentiles(scores, quantiles)

    def _check_explorers(self) -> None:
        """Raise ValueError if there are no explorers."""
        if not self._explorer_terms():
            raise ValueError(
                f"{type(self).__name__} has no explorers, so it cannot tell how novel a row is; use DPLANEnsemble or "
                "IForest"
            )

    def _novelty_scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the sums of the explorers' terms."""
        check_fitted(self, "history_")
        self._check_explorers()
        return self._scored(X, self._sum_of_explorers)

    def _sum_of_explorers(self, rows: Float32s) -> NDArray[np.float64]:
        total = np.zeros(len(rows))
        for term in self._explorer_terms():
            total += term.values(rows)
        return total

    def _novelty_quantiles(self) -> NDArray[np.float64] | None:
        """Return the novelty of reference rows at `SHARES`; None if an older file does not have it."""
        return self.novelty_quantiles_

    def _keep_novelty(self, X: NDArray[np.floating], rows: Indices) -> None:
        """Take quantiles over reference rows."""
        self.novelty_quantiles_ = None
        if self._explorer_terms():
            some = rows[:: -(-len(rows) // _REFERENCE_ROWS)]
            self.novelty_quantiles_ = np.quantile(self._reference_novelty(X, some), SHARES)

    def _reference_novelty(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        """Return how novel the training rows with these indices are."""
        return self._in_blocks(X, self._sum_of_explorers, rows)

    def _check_novelty(self) -> None:
        """Raise ValueError if quantiles that were loaded from a file are inconsistent."""
        if self.novelty_quantiles_ is not None and (np.diff(self.novelty_quantiles_) < 0).any():
            raise ValueError("novelty_quantiles_ are not sorted")
