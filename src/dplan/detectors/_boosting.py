"""scikit-learn's boosted trees, with the bins of all columns found at once.

Where a table has many columns, scikit-learn spends half of a short training on their bins: it calls NumPy a dozen times
per column, through joblib. Here some columns are sorted together. Bins, and so trees, are the same to the last bit.

Importing this module imports much of scikit-learn, so it is imported where trees are trained.
"""

from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from packaging.version import Version
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

_COLUMNS_TOGETHER = 64  # so that little memory is needed

# Earlier versions cut elsewhere, and find their bins by themselves.
KNOWN_BINS = Version(sklearn.__version__) >= Version("1.9")


class BoostedClassifier(HistGradientBoostingClassifier):  # type: ignore[misc]  # scikit-learn is not typed
    """HistGradientBoostingClassifier for tables of finite numbers, without categories or weights."""

    _bin_mapper: Any

    def _bin_data(self, *args: Any, **options: Any) -> Any:
        # Should a later scikit-learn not call this method, it finds the bins by itself.
        if KNOWN_BINS:
            self._bin_mapper = _Bins(**self._bin_mapper.get_params())
        return super()._bin_data(*args, **options)


class _Bins(_BinMapper):  # type: ignore[misc]
    def fit(self, X: NDArray[np.float64], *args: Any, **options: Any) -> "_Bins":
        if self.subsample is not None and len(X) > self.subsample:
            super().fit(X, *args, **options)
            return self
        starts = range(0, X.shape[1], _COLUMNS_TOGETHER)
        self.bin_thresholds_ = [
            found
            for start in starts
            for found in bin_thresholds(X[:, start : start + _COLUMNS_TOGETHER], self.n_bins - 1)
        ]
        self.n_bins_non_missing_ = np.array([len(own) + 1 for own in self.bin_thresholds_], dtype=np.uint32)
        self.missing_values_bin_idx_ = self.n_bins - 1
        self.is_categorical_ = np.zeros(X.shape[1], dtype=np.uint8)
        return self


def bin_thresholds(X: NDArray[np.float64], max_bins: int) -> list[NDArray[np.float64]]:
    """Return where the values of each column are cut: between all of them or, if they are many, at quantiles.

    Examples
    --------
    >>> bin_thresholds(np.array([[1.0, 7.0, 5.0], [3.0, 7.0, 6.0], [5.0, 7.0, 6.0], [7.0, 7.0, 8.0]]), 3)
    [array([3., 5.]), array([], dtype=float64), array([5.5, 7. ])]
    """
    n_rows = len(X)
    ordered = np.sort(np.ascontiguousarray(X.T), axis=1)
    is_new = np.ones(ordered.shape, dtype=bool)
    np.greater(ordered[:, 1:], ordered[:, :-1], out=is_new[:, 1:])
    few = is_new.sum(axis=1) <= max_bins
    # The quantile of whole numbers from 0 on is the place at which a quantile stands, or between which two.
    shares = np.linspace(0, 100, num=max_bins + 1)[1:-1]
    places = np.percentile(np.arange(n_rows, dtype=np.float64), shares, method="averaged_inverted_cdf")
    lower, upper = ordered[:, np.floor(places).astype(int)], ordered[:, np.ceil(places).astype(int)]
    quantiles = upper - 0.5 * (upper - lower)
    thresholds = []
    for column in range(X.shape[1]):
        if few[column]:
            distinct = ordered[column, is_new[column]]
            thresholds.append((distinct[:-1] + distinct[1:]) / 2)
        else:
            own = quantiles[column]
            thresholds.append(own[np.append(True, own[1:] > own[:-1])])
    return thresholds
