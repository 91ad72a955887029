"""What all detectors share: the scikit-learn shell around `_fit` and `_score`.

A new detector is a subclass with keyword-only parameters in `__init__`, `_check_parameters`, `_fit` and `_score`.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dplan._kernels.blas import single_threaded_blas
from dplan._kernels.perceptron import Floats
from dplan._kernels.scaling import arrange, column_scale, no_scale, score_in_blocks
from dplan.detectors._checks import as_generator, check_flag, check_labels, check_number, usable_labels

logger = logging.getLogger("dplan")

Callback = Callable[[Any, Mapping[str, float]], bool | None]
Learn = Callable[[NDArray[np.floating], NDArray[np.int64], np.random.Generator], None]

# The threshold is a quantile of the scores of unlabelled rows; that many of them fix it well enough.
_THRESHOLD_ROWS = 50_000


class Detector(OutlierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A scikit-learn outlier detector that may learn from labelled anomalies.

    Subclasses set `uses_labels`, take at least the parameters `scale`, `contamination`, `random_state`, `callback`
    and `verbose`, and write `_check_parameters`, `_fit` and `_score`.
    """

    uses_labels = True
    is_random = True  # whether the seed makes a difference

    scale: bool
    contamination: float
    random_state: Any
    callback: Callback | None
    verbose: int

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter of the subclass makes no sense."""

    @abstractmethod
    def _fit(self, X: NDArray[np.floating], labels: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Learn; call `self._arrange` for scaled float32 rows and `self._record` after each round."""

    @abstractmethod
    def _score(self, rows: Floats) -> NDArray[np.floating]:
        """Return the anomaly score of each scaled row."""

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
        check_flag("scale", self.scale)
        check_number("contamination", self.contamination, "(0, 0.5]")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be None or a function, got {self.callback!r}.")
        self._check_parameters()
        rng = as_generator(self.random_state)
        table: NDArray[np.floating] = validate_data(
            self, X, dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        labels = usable_labels(check_labels(y, len(table)), type(self).__name__, needed=self.uses_labels)
        self.column_low_, self.column_inverse_ = (
            column_scale(table) if self.scale else no_scale(table.shape[1])
        )
        self.history_: dict[str, list[float]] = {}
        self._started = time.perf_counter()
        with single_threaded_blas():
            self._fit(table, labels, rng)
        self._set_offset(table, np.flatnonzero(labels == 0), rng)
        return self

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

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score rows the way scikit-learn does: lower is more anomalous.

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
        from dplan.persistence.model_file import save  # which knows all detectors, and they know this class

        save(path, self)

    def _scored(self, X: ArrayLike, score: Callable[[Floats], NDArray[np.floating]]) -> NDArray[np.float64]:
        """Check rows and give each of them a score, block by block."""
        check_is_fitted(self, "history_")
        # Values are checked in the same pass that scales them.
        table: NDArray[np.floating] = validate_data(
            self, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False
        )
        return score_in_blocks(table, self.column_low_, self.column_inverse_, score)

    def _continue(self, X: ArrayLike, y: ArrayLike | None, go_on: Learn) -> Self:
        """Do `partial_fit` for detectors that can: the first time fit, later go on from where training ended."""
        if not hasattr(self, "history_"):
            return self.fit(X, y)
        self._check_parameters()
        rng = as_generator(self.random_state)
        table = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2, reset=False)
        labels = usable_labels(check_labels(y, len(table)), type(self).__name__, needed=True)
        self._started = time.perf_counter() - (self.history_.get("seconds") or [0.0])[-1]
        with single_threaded_blas():
            go_on(table, labels, rng)
        self._set_offset(table, np.flatnonzero(labels == 0), rng)
        return self

    def _arrange(self, X: NDArray[np.floating], order: NDArray[np.int64] | None = None) -> Floats:
        return arrange(X, order, self.column_low_, self.column_inverse_)

    def _record(self, **figures: float) -> bool:
        """Add a round to the history, tell the callback, and return whether it asks to stop."""
        figures["seconds"] = time.perf_counter() - self._started
        for name, value in figures.items():
            self.history_.setdefault(name, []).append(float(value))
        if self.verbose:
            listed = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
            logger.info("%s: round %d: %s", type(self).__name__, len(self.history_["seconds"]), listed)
        return self.callback is not None and bool(self.callback(self, figures))

    def _set_offset(
        self, X: NDArray[np.floating], unlabelled: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        if len(unlabelled) > _THRESHOLD_ROWS:
            unlabelled = rng.choice(unlabelled, _THRESHOLD_ROWS)
        scores = score_in_blocks(X, self.column_low_, self.column_inverse_, self._score, unlabelled)
        if not np.isfinite(scores).all():
            raise ValueError(
                f"{type(self).__name__}'s weights grew beyond all bounds in training. "
                "Leave scale=True, or lower the learning rate."
            )
        self.offset_ = float(np.quantile(-scores, self.contamination))
