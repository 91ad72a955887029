"""The base class of all detectors: the scikit-learn interface around `_fit` and `_score`.

``docs/adding-a-detector.md`` shows how to write a detector.
"""

import logging
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dplan._kernels.perceptron import Floats
from dplan._kernels.scaling import arrange, column_scale, no_scale, score_in_blocks
from dplan._kernels.threads import single_threaded_blas
from dplan.detectors._checks import (
    advise_on_text_columns,
    as_generator,
    check_flag,
    check_not_diverged,
    check_number,
)
from dplan.detectors._docstrings import with_common_parameters
from dplan.detectors._fields import COLUMNS, Array, Field, Number
from dplan.detectors._rows import SHARES, Indices, Labelling, percentiles, read_labelling, reference_rows
from dplan.detectors._saving import save
from dplan.detectors._terms import MemberKind as MemberKind
from dplan.detectors._terms import ScoreTerm, Term
from dplan.exceptions import NonFiniteScoreError

Callback = Callable[[Any, Mapping[str, float]], bool | None]
Training = Callable[[NDArray[np.floating], Labelling, np.random.Generator], Indices | None]

logger = logging.getLogger("dplan")


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False, repr=False)
class Detector(OutlierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A scikit-learn outlier detector that may learn from labelled anomalies.

    Subclasses declare their own parameters like the fields of a dataclass, list their fitted attributes in `_saved`,
    and implement `_check_parameters`, `_fit` and `_score`. Everything else has a default that they may override. The
    following parameters are added to the docstrings of those that do not describe them.

    Parameters
    ----------
    scale : bool, default=True
        Scale every column to [0, 1] using the training rows.
    contamination : float, default=0.02
        Fraction of rows like the unlabelled ones that `predict` reports as anomalies. Only affects the threshold.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The same seed gives bit-identical results.
    callback : callable or None, default=None
        Called after each {round_name} as ``callback(detector, metrics)``. The detector can already score rows;
        `metrics` is the latest entry of `history_`. If it returns True, training stops.
    verbose : int, default=0
        If non-zero, print one line per {round_name}, or log it if the logger "dplan" is set up.
    """

    uses_labels = True
    is_random = True  # whether the seed makes a difference
    version = 1  # increased by hand when the same seed gives different scores
    round_name = "round"  # what an entry of `history_` describes

    _saved: ClassVar[dict[str, Field]] = {
        "offset_": Number(),
        "column_low_": Array(np.float64, (COLUMNS,), largest=sys.float_info.max),
        "column_inverse_": Array(np.float64, (COLUMNS,), lowest=0.0, largest=sys.float_info.max),
        "score_quantiles_": Array(np.float64, (len(SHARES),)),
    }
    # Old name: new name, of parameters and fitted attributes in older files.
    _renamed: ClassVar[Mapping[str, str]] = {}
    # Parameters that were removed, which model files may have, with the only value that they had there.
    _removed: ClassVar[Mapping[str, Any]] = {}

    scale: bool = True
    contamination: float = 0.02
    random_state: Any = None
    callback: Callback | None = None
    verbose: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the constructor from the annotated fields, and document the parameters that all detectors have."""
        super().__init_subclass__(**options)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        cls.__doc__ = with_common_parameters(cls.__doc__, Detector.__doc__, cls.round_name)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter of the subclass is invalid."""

    @abstractmethod
    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> Indices | None:
        """Fit; call `self._arrange` for scaled float32 rows and `self._record` after each round.

        There is at least one unlabelled row.

        If the detector stores rows and measures distances to them, return their indices: a stored row has a distance
        of zero to itself, so threshold and percentiles must not come from these rows.
        """

    @abstractmethod
    def _score(self, rows: Floats) -> NDArray[np.floating]:
        """Return the anomaly score of each scaled row."""

    def _terms(self) -> Sequence[Term]:
        """Return the terms that the score is a sum of, for explanations and export."""
        return [ScoreTerm(self._score)]

    def _embed(self, rows: Floats) -> Floats:
        """Return the representation of scaled rows that the report's map shows."""
        return rows

    def _member_kinds(self) -> list[MemberKind]:
        """Return the kinds of members of an ensemble."""
        return []

    def _expected_rounds(self) -> int:
        """Return how often `_record` will be called, for progress bars."""
        return 1

    def _row_steps(self) -> int:
        """Return about how many steps scoring a row takes at most: once past every fitted number.

        It bounds the memory of scoring as well, where a step leaves no more than a few bytes behind.
        """
        return sum(
            kind.size(getattr(self, name)) for name, kind in self._saved.items() if hasattr(self, name)
        )

    def _check_saved(self) -> None:
        """Raise ValueError if attributes loaded from a file are inconsistent."""
        if (np.diff(self.score_quantiles_) < 0).any():
            raise ValueError("score_quantiles_ are not sorted")

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the detector.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Labelled and unlabelled rows; all values must be numeric.
        y : array-like of shape (n_rows,), default=None
            0 for an unlabelled row, k ≥ 1 for a labelled anomaly of class k, -1 for a row that was checked and is
            normal. If no row or every row is an anomaly, warn and fall back to an unsupervised ranking.
        sample_weight : array-like of shape (n_rows,), default=None
            Confidence in the verdict of each row, relative to the other verdicts; 0 makes a row unlabelled. Weights of
            unlabelled rows are ignored.

        Returns
        -------
        self
        """
        rng = self._checked_rng()
        table = self._validated(X, ensure_min_samples=2)
        labelling = read_labelling(y, sample_weight, len(table), type(self).__name__, self.uses_labels)
        self.column_low_, self.column_inverse_ = (
            column_scale(table) if self.scale else no_scale(table.shape[1])
        )
        self.history_: dict[str, list[float]] = {}
        self._started = time.perf_counter()
        self._run(self._fit, table, labelling, rng)
        return self

    def fit_predict(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Fit the detector, and predict which of the same rows are anomalies.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows,)
            -1 for an anomaly, 1 for a normal row.
        """
        return self.fit(X, y, sample_weight).predict(X)

    def anomaly_score(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score rows; higher is more anomalous.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            The score of a row does not depend on the other rows.
        """
        return self._scored(X, self._score)

    def percentile(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the percentage of unlabelled and checked normal training rows with a lower score.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            From 0 to 100. Of new rows like the unlabelled ones, about 1 % are above 99.
        """
        return self._percentile_of(self.anomaly_score(X))

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score rows as scikit-learn does; lower is more anomalous.

        For cross-validation, use the scorers of `dplan.metrics`: those of scikit-learn expect the opposite sign.

        Parameters
        ----------
        X
            As in `anomaly_score`.

        Returns
        -------
        ndarray of shape (n_rows,)
            The negated `anomaly_score`.
        """
        return -self.anomaly_score(X)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``score_samples(X) - offset_``; negative values are anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Predict which rows are anomalies.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            -1 for an anomaly, 1 for a normal row.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def save(self, path: str | Path) -> None:
        """Write the fitted detector to one file, without pickle; `dplan.load` reads it.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced atomically.
        """
        save(path, self)

    def _scored(self, X: ArrayLike, score: Callable[[Floats], NDArray[np.floating]]) -> NDArray[np.float64]:
        """Validate rows and score them block by block."""
        check_is_fitted(self, "history_")
        # NaN and infinity are found in the pass that scales the values.
        table = self._validated(X, ensure_all_finite=False, reset=False)
        scores = self._in_blocks(table, score)
        finite = np.isfinite(scores)
        if not finite.all():
            row = int(np.argmin(finite))
            raise NonFiniteScoreError(row, float(scores[row]))
        return scores

    def _in_blocks(
        self,
        X: NDArray[np.floating],
        score: Callable[[Floats], NDArray[np.floating]],
        rows: Indices | None = None,
    ) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):  # callers check for non-finite scores
            return score_in_blocks(X, self.column_low_, self.column_inverse_, score, rows, self._row_steps())

    def _checked_rng(self) -> np.random.Generator:
        """Check all parameters; return a generator made from `random_state`."""
        check_flag("scale", self.scale)
        check_number("contamination", self.contamination, "(0, 0.5]")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be None or a function, got {self.callback!r}.")
        self._check_parameters()
        return as_generator(self.random_state)

    def _validated(self, X: ArrayLike, **checks: Any) -> NDArray[np.floating]:
        with advise_on_text_columns(X):
            table: NDArray[np.floating] = validate_data(self, X, dtype=[np.float64, np.float32], **checks)
        return table

    def _run(
        self, train: Training, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator
    ) -> None:
        """Train, and set threshold and percentiles."""
        with single_threaded_blas():
            kept = train(X, labelling, rng)
        self._set_threshold(X, labelling.normal, kept, rng)

    def _arrange(self, X: NDArray[np.floating], order: NDArray[np.int64] | None = None) -> Floats:
        return arrange(X, order, self.column_low_, self.column_inverse_)

    def _record(self, **metrics: float) -> bool:
        """Add a round to the history, call the callback, and return whether to stop."""
        metrics["seconds"] = time.perf_counter() - self._started
        for name, value in metrics.items():
            self.history_.setdefault(name, []).append(float(value))
        if self.verbose:
            listed = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
            n_rounds = len(self.history_["seconds"])
            _report(f"{type(self).__name__}: {self.round_name} {n_rounds}: {listed}")
        return self.callback is not None and bool(self.callback(self, metrics))

    def _set_threshold(
        self, X: NDArray[np.floating], normal: Indices, kept: Indices | None, rng: np.random.Generator
    ) -> None:
        """Set threshold and percentiles from rows that are not known anomalies and that the detector does not store."""
        rows = reference_rows(normal, kept, rng)
        scores = np.sort(self._reference_scores(X, rows))  # once, and not for each quantile
        check_not_diverged(scores, type(self).__name__)
        self.offset_ = float(np.quantile(-scores, self.contamination))
        self.score_quantiles_ = np.quantile(scores, SHARES)

    def _reference_scores(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        """Return the scores of the training rows with these indices."""
        return self._in_blocks(X, self._score, rows)

    def _percentile_of(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the percentiles of anomaly scores."""
        check_is_fitted(self, "offset_")
        return percentiles(scores, self.score_quantiles_)


def _report(line: str) -> None:
    """Log a line, or print it if the logger has no handler: the user asked for output."""
    if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
        logger.info(line)
    else:
        print(line, flush=True)  # noqa: T201
