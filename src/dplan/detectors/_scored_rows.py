"""The part of a detector that turns rows into scores, block by block."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.scaling import score_in_blocks
from dplan.arrays import Float32s
from dplan.detectors._checks import advise_on_tables
from dplan.detectors._fields import Field
from dplan.detectors._rows import Indices
from dplan.detectors._scaling import ScaledRows
from dplan.detectors._terms import ScoreTerm, Term
from dplan.detectors._verifying import is_asked_for, plain_scores, verify
from dplan.estimators import check_fitted
from dplan.exceptions import NonFiniteScoreError


class ScoredRows(ScaledRows):
    """The part of a detector that validates, scales and scores rows; subclasses implement `_score`."""

    _saved: ClassVar[dict[str, Field]]
    n_features_in_: int

    @abstractmethod
    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        """Return the anomaly score of each scaled row."""

    def _terms(self) -> Sequence[Term]:
        """Return the terms that the score is a sum of, for explanations and export."""
        return [ScoreTerm(self._score)]

    def _row_steps(self) -> int:
        """Return about how many steps scoring a row takes at most: once past every fitted number.

        It bounds the memory of scoring as well, where a step leaves no more than a few bytes behind.
        """
        return sum(
            kind.size(getattr(self, name)) for name, kind in self._saved.items() if hasattr(self, name)
        )

    def _scored(self, X: ArrayLike, score: Callable[[Float32s], NDArray[np.floating]]) -> NDArray[np.float64]:
        """Validate rows and score them block by block."""
        check_fitted(self, "history_")
        # NaN and infinity are found in the pass that scales the values.
        table = X if self._is_ready(X) else self._validated(X, ensure_all_finite=False, reset=False)
        with advise_on_tables(table):
            scores = self._in_blocks(table, score)
        finite = np.isfinite(scores)
        if not finite.all():
            row = int(np.argmin(finite))
            raise NonFiniteScoreError(row, float(scores[row]))
        if is_asked_for():
            plainly = plain_scores(self._terms()) if score == self._score else None
            verify(
                table,
                scores,
                lambda rows: self._in_blocks(rows, score),
                None if plainly is None else lambda rows: self._in_blocks(rows, plainly),
            )
        return scores

    def _in_blocks(
        self,
        X: NDArray[np.floating],
        score: Callable[[Float32s], NDArray[np.floating]],
        rows: Indices | None = None,
    ) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):  # callers check for non-finite scores
            return score_in_blocks(X, self._scaling, score, rows, self._row_steps())

    def _validated(self, X: ArrayLike, **checks: Any) -> NDArray[np.floating]:
        from sklearn.utils.validation import validate_data

        with advise_on_tables(X):
            table: NDArray[np.floating] = validate_data(self, X, dtype=[np.float64, np.float32], **checks)
        return table

    def _is_ready(self, X: ArrayLike) -> TypeGuard[NDArray[np.floating]]:
        """Tell whether these are prepared rows, which need no conversion."""
        return (
            type(X) is np.ndarray
            and X.dtype in (np.float32, np.float64)
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )
