"""What all detectors share: the scikit-learn shell around `_fit` and `_score`, and what other rooms may ask of one.

``docs/adding-a-detector.md`` shows how to write one.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dplan._kernels.blas import single_threaded_blas
from dplan._kernels.perceptron import Floats
from dplan._kernels.scaling import arrange, column_scale, no_scale, score_in_blocks
from dplan.detectors._checks import (
    as_generator,
    check_flag,
    check_labels,
    check_number,
    explain_texts,
    usable_labels,
)
from dplan.detectors._saving import COLUMNS, Array, Field, Number, save
from dplan.detectors._terms import ScoreTerm, Term

logger = logging.getLogger("dplan")

Callback = Callable[[Any, Mapping[str, float]], bool | None]
Indices = NDArray[np.int64]

# Threshold and percentiles are quantiles of the scores of unlabelled rows; that many rows fix them well enough.
_REFERENCE_ROWS = 50_000
_SHARES = np.linspace(0, 1, 1001)


class MemberKind(NamedTuple):
    """The members of one kind in a detector that has several."""

    name: str
    n_members: int
    weight: float  # in the score, all members of the kind together


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False, repr=False)
class Detector(OutlierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A scikit-learn outlier detector that may learn from labelled anomalies.

    Subclasses declare their own parameters as a dataclass does, say in `_saved` what their fit leaves behind, and write
    `_check_parameters`, `_fit` and `_score`. Everything else has a default that they may replace.
    """

    uses_labels = True
    is_random = True  # whether the seed makes a difference
    version = 1  # of the scores: raised by hand when the same seed gives other ones
    round_name = "round"  # what an entry of `history_` stands for

    _saved: ClassVar[dict[str, Field]] = {
        "offset_": Number(),
        "column_low_": Array(np.float64, (COLUMNS,)),
        "column_inverse_": Array(np.float64, (COLUMNS,)),
        "score_quantiles_": Array(np.float64, (len(_SHARES),), optional=True),
    }
    _renamed: ClassVar[Mapping[str, str]] = {}  # parameters that older files know by another name

    scale: bool = True
    contamination: float = 0.02
    random_state: Any = None
    callback: Callback | None = None
    verbose: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the constructor from the annotated fields of the class, each a parameter."""
        super().__init_subclass__(**options)
        dataclass(kw_only=True, eq=False, repr=False)(cls)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter of the subclass makes no sense."""

    @abstractmethod
    def _fit(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> Indices | None:
        """Learn; call `self._arrange` for scaled float32 rows and `self._record` after each round.

        If rows are kept that others are compared with, return their numbers: they are at no distance from themselves,
        so threshold and percentiles must not come from them.
        """

    @abstractmethod
    def _score(self, rows: Floats) -> NDArray[np.floating]:
        """Return the anomaly score of each scaled row."""

    def _terms(self) -> Sequence[Term]:
        """Return the terms that the score is a sum of, for explanations and export."""
        return [ScoreTerm(self._score)]

    def _embed(self, rows: Floats) -> Floats:
        """Return the representation of scaled rows in which the report maps them."""
        return rows

    def _member_kinds(self) -> list[MemberKind]:
        """Return the kinds of members that the score is made of, if there are several."""
        return []

    def _expected_rounds(self) -> int:
        """Return how often `_record` will be called, for progress bars."""
        return 1

    def _check_can_be_saved(self) -> None:
        """Raise TypeError if a fitted detector cannot be saved."""

    def _check_saved(self) -> None:
        """Raise ValueError if attributes loaded from a file do not fit each other."""
        if (np.diff(getattr(self, "score_quantiles_", _SHARES)) < 0).any():
            raise ValueError("score_quantiles_ are not in order")

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from a table.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            The rows, labelled and unlabelled, all numbers.
        y : array-like of shape (n_rows,), default=None
            0 for an unlabelled row, k ≥ 1 for a labelled anomaly of class k. With no row labelled, or every row,
            there is a warning and an unsupervised ranking.

        Returns
        -------
        self
        """
        rng = self._checked_rng()
        table = self._validated(X, ensure_min_samples=2)
        labels = usable_labels(check_labels(y, len(table)), type(self).__name__, needed=self.uses_labels)
        self.column_low_, self.column_inverse_ = (
            column_scale(table) if self.scale else no_scale(table.shape[1])
        )
        self.history_: dict[str, list[float]] = {}
        self._started = time.perf_counter()
        with single_threaded_blas():
            kept = self._fit(table, labels, rng)
        self._set_threshold(table, np.flatnonzero(labels == 0), kept, rng)
        return self

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.int64]:
        """Learn from a table and tell its anomalies from its normal rows.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            The rows, labelled and unlabelled, all numbers.
        y : array-like of shape (n_rows,), default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows,)
            -1 for an anomaly, 1 for a normal row.
        """
        return self.fit(X, y).predict(X)

    def anomaly_score(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score rows; higher is more anomalous.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            The score of a row does not depend on the rows beside it.
        """
        return self._scored(X, self._score)

    def percentile(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share of unlabelled training rows that score lower, in per cent.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            From 0 to 100. Of new rows like the unlabelled ones, 1 % come to lie above 99.
        """
        return self._percentile_of(self.anomaly_score(X))

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score rows the way scikit-learn does: lower is more anomalous.

        To cross-validate, use the scorers of `dplan.metrics`: scikit-learn's own take higher for more anomalous.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            The negated `anomaly_score`.
        """
        return -self.anomaly_score(X)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score rows against the threshold: below zero is an anomaly.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Rows with the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            ``score_samples(X) - offset_``.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Tell anomalies from normal rows.

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
            The file; an existing one is replaced, by the whole new one or not at all.
        """
        save(path, self)

    def _scored(self, X: ArrayLike, score: Callable[[Floats], NDArray[np.floating]]) -> NDArray[np.float64]:
        """Check rows and give each of them a score, block by block."""
        check_is_fitted(self, "history_")
        # Values are checked in the same pass that scales them.
        table = self._validated(X, ensure_all_finite=False, reset=False)
        return score_in_blocks(table, self.column_low_, self.column_inverse_, score)

    def _checked_rng(self) -> np.random.Generator:
        """Check all parameters; return the generator that `random_state` stands for."""
        check_flag("scale", self.scale)
        check_number("contamination", self.contamination, "(0, 0.5]")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be None or a function, got {self.callback!r}.")
        self._check_parameters()
        return as_generator(self.random_state)

    def _validated(self, X: ArrayLike, **checks: Any) -> NDArray[np.floating]:
        with explain_texts(X):
            table: NDArray[np.floating] = validate_data(self, X, dtype=[np.float64, np.float32], **checks)
        return table

    def _arrange(self, X: NDArray[np.floating], order: NDArray[np.int64] | None = None) -> Floats:
        return arrange(X, order, self.column_low_, self.column_inverse_)

    def _record(self, **figures: float) -> bool:
        """Add a round to the history, tell the callback, and return whether it asks to stop."""
        figures["seconds"] = time.perf_counter() - self._started
        for name, value in figures.items():
            self.history_.setdefault(name, []).append(float(value))
        if self.verbose:
            listed = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
            n_rounds = len(self.history_["seconds"])
            line = f"{type(self).__name__}: {self.round_name} {n_rounds}: {listed}"
            if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
                logger.info(line)
            else:  # nobody listens to the logger, and someone asked for output
                print(line, flush=True)  # noqa: T201
        return self.callback is not None and bool(self.callback(self, figures))

    def _set_threshold(
        self, X: NDArray[np.floating], unlabelled: Indices, kept: Indices | None, rng: np.random.Generator
    ) -> None:
        """Set threshold and percentiles by the unlabelled rows that the detector does not keep."""
        others = unlabelled if kept is None else np.setdiff1d(unlabelled, kept)
        rows = others if len(others) else unlabelled
        if len(rows) > _REFERENCE_ROWS:
            # In the order of the table, in which they are read fastest.
            rows = np.sort(rng.choice(rows, _REFERENCE_ROWS, replace=False))
        scores = self._reference_scores(X, rows)
        if not np.isfinite(scores).all():
            raise ValueError(
                f"{type(self).__name__}'s weights grew beyond all bounds in training. "
                "Leave scale=True, or lower the learning rate."
            )
        self.offset_ = float(np.quantile(-scores, self.contamination))
        self.score_quantiles_ = np.quantile(scores, _SHARES)

    def _reference_scores(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        """Return the scores of some training rows by number."""
        return score_in_blocks(X, self.column_low_, self.column_inverse_, self._score, rows)

    def _percentile_of(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the percentiles of anomaly scores."""
        check_is_fitted(self, "offset_")
        quantiles = getattr(self, "score_quantiles_", None)
        if quantiles is None:
            raise ValueError(
                "this detector was saved by an older version, without what percentiles need: fit it again"
            )
        found = np.interp(scores, quantiles, 100 * _SHARES)
        # Where training rows have equal scores, a row that scores the same is above none of them.
        first = np.minimum(np.searchsorted(quantiles, scores), len(quantiles) - 1)
        lower: NDArray[np.float64] = np.where(quantiles[first] == scores, 100 * _SHARES[first], found)
        return lower
