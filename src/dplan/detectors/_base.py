"""The base class of all detectors: the scikit-learn interface around `_fit` and `_score`.

``docs/adding-a-detector.md`` shows how to write a detector.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.compiling import compiling
from dplan._kernels.threads import single_threaded_blas
from dplan.arrays import Float32s
from dplan.detectors._checks import as_generator, check_not_diverged, check_number
from dplan.detectors._docstrings import with_common_parameters
from dplan.detectors._fields import Array, Field, Number
from dplan.detectors._novelty import NOVELTY, Exploring
from dplan.detectors._rounds import Callback, Rounds, compilation_reported
from dplan.detectors._rows import SHARES, Indices, Labelling, percentiles, read_labelling, reference_rows
from dplan.detectors._saving import save
from dplan.detectors._scaling import SCALED, check_scale, check_scaling, new_scaling
from dplan.detectors._scored_rows import ScoredRows
from dplan.detectors._terms import MemberKind as MemberKind
from dplan.estimators import OutlierEstimator, check_fitted

Training = Callable[[NDArray[np.floating], Labelling, np.random.Generator], Indices | None]


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False, repr=False)
class Detector(ScoredRows, Rounds, Exploring, OutlierEstimator):
    """A scikit-learn outlier detector that may learn from labelled anomalies.

    Subclasses declare their own parameters like the fields of a dataclass, list their fitted attributes in `_saved`,
    and implement `_check_parameters`, `_fit` and `_score`. Everything else has a default that they may override. The
    following parameters are added to the docstrings of those that do not describe them.

    Parameters
    ----------
    scale : {"minmax", "rank", "both"} or bool, default=True
        How columns are scaled, using the training rows. "minmax", or True, scales them to [0, 1] by minimum and
        maximum. "rank" replaces a value by its rank in the column, from 0 to 1, and "both" is the mean of the two: they
        spread out columns with a long tail. False leaves values unchanged.
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
        **SCALED,
        "score_quantiles_": Array(np.float64, (len(SHARES),)),
        **NOVELTY,
    }
    # Old name: new name, of parameters and fitted attributes in older files.
    _renamed: ClassVar[Mapping[str, str]] = {}
    # Parameters that were removed, which model files may have, with the only value that they had there.
    _removed: ClassVar[Mapping[str, Any]] = {}

    scale: bool | str = True
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

    def _embed(self, rows: Float32s) -> Float32s:
        """Return the representation of scaled rows that the report's map shows."""
        return rows

    def _member_kinds(self) -> list[MemberKind]:
        """Return the kinds of members of an ensemble."""
        return []

    def _expected_rounds(self) -> int:
        """Return how often `_record` will be called, for progress bars."""
        return 1

    def _check_saved(self) -> None:
        """Raise ValueError if attributes loaded from a file are inconsistent."""
        if (np.diff(self.score_quantiles_) < 0).any():
            raise ValueError("score_quantiles_ are not sorted")
        check_scaling(self._scaling)
        self._check_novelty()

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

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> LogisticBaseline().fit(X, y).anomaly_score([[1], [9]]).argmax().item()
        1
        """
        rng = self._checked_rng()
        table = self._validated(X, ensure_min_samples=2)
        labelling = read_labelling(y, sample_weight, len(table), type(self).__name__, self.uses_labels)
        self._keep_scaling(new_scaling(table, self.scale, rng))
        self.history_: dict[str, list[float]] = {}
        self._started = compiling.clock()
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

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> LogisticBaseline().fit_predict(X, y).tolist()
        [1, 1, 1, -1, -1]
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

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> LogisticBaseline().fit(X, y).anomaly_score([[1], [9]]).round(2).tolist()
        [-0.4, 0.35]
        """
        return self._scored(X, self._score)

    def _scores_and_suspicion(self, X: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return `anomaly_score`, and how much it is worth to ask about rows; detectors may tell the two apart."""
        scores = self.anomaly_score(X)
        return scores, scores

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

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> LogisticBaseline().fit(X, y).percentile([[0], [9]]).tolist()
        [0.0, 100.0]
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

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> LogisticBaseline().fit(X, y).score_samples([[1], [9]]).round(2).tolist()
        [0.4, -0.35]
        """
        return -self.anomaly_score(X)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``score_samples(X) - offset_``; negative values are anomalies.

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> (LogisticBaseline().fit(X, y).decision_function([[1], [9]]) < 0).tolist()
        [False, True]
        """
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

        Examples
        --------
        >>> from dplan import LogisticBaseline
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> LogisticBaseline().fit(X, y).predict([[1], [9]]).tolist()
        [1, -1]
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def save(self, path: str | Path) -> None:
        """Write the fitted detector to one file, without pickle; `dplan.load` reads it.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced atomically.

        Examples
        --------
        >>> import dplan, tempfile
        >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dplan.LogisticBaseline().fit(X, y).save(f"{folder}/model.dplan")
        ...     dplan.load(f"{folder}/model.dplan").predict([[1], [9]]).tolist()
        [1, -1]
        """
        save(path, self)

    def _checked_rng(self) -> np.random.Generator:
        """Check all parameters; return a generator made from `random_state`."""
        check_scale(self.scale)
        check_number("contamination", self.contamination, "(0, 0.5]")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be None or a function, got {self.callback!r}.")
        self._check_parameters()
        return as_generator(self.random_state)

    def _run(
        self, train: Training, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator
    ) -> None:
        """Train, and set threshold and percentiles."""
        with compilation_reported(self.verbose):
            with single_threaded_blas():
                kept = train(X, labelling, rng)
            self._set_threshold(X, labelling.normal, kept, rng)

    def _set_threshold(
        self, X: NDArray[np.floating], normal: Indices, kept: Indices | None, rng: np.random.Generator
    ) -> None:
        """Set threshold and percentiles from rows that are not known anomalies and that the detector does not store."""
        rows = reference_rows(normal, kept, rng)
        scores = np.sort(self._reference_scores(X, rows))  # once, and not for each quantile
        check_not_diverged(scores, type(self).__name__)
        self.offset_ = float(np.quantile(-scores, self.contamination))
        self.score_quantiles_ = np.quantile(scores, SHARES)
        self._keep_novelty(X, rows)

    def _reference_scores(self, X: NDArray[np.floating], rows: Indices) -> NDArray[np.float64]:
        """Return the scores of the training rows with these indices."""
        return self._in_blocks(X, self._score, rows)

    def _percentile_of(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the percentiles of anomaly scores."""
        check_fitted(self, "offset_")
        return percentiles(scores, self.score_quantiles_)
