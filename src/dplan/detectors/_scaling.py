"""The parameter `scale` of all detectors, and the fitted attributes that it leads to."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.scaling import RANK_SHARES, Scaling, arrange, column_scale, no_scale, rank_scale
from dplan.arrays import Float32s
from dplan.detectors._fields import COLUMNS, Array, Field, Number, Optional

SCALED: dict[str, Field] = {
    "column_low_": Array(np.float64, (COLUMNS,), largest=sys.float_info.max),
    "column_inverse_": Array(np.float64, (COLUMNS,), lowest=0.0, largest=sys.float_info.max),
    "rank_quantiles_": Optional(Array(shape=(None, COLUMNS))),
    "rank_share_": Optional(Number(lowest=0), default=0.0),
}


class ScaledRows:
    """The part of a detector that scales rows."""

    column_low_: NDArray[np.float64]
    column_inverse_: NDArray[np.float64]
    rank_quantiles_: Float32s | None
    rank_share_: float

    @property
    def _scaling(self) -> Scaling:
        return Scaling(self.column_low_, self.column_inverse_, self.rank_quantiles_, self.rank_share_)

    def _keep_scaling(self, scaling: Scaling) -> None:
        self.column_low_, self.column_inverse_, self.rank_quantiles_, self.rank_share_ = scaling

    def _arrange(self, X: NDArray[np.floating], order: NDArray[np.int64] | None = None) -> Float32s:
        """Return scaled rows, all or those with the given indices."""
        return arrange(X, order, self._scaling)


def check_scale(scale: Any) -> None:
    """Raise unless `scale` names a scaling.

    Examples
    --------
    >>> check_scale("yes")
    Traceback (most recent call last):
    ValueError: scale must be True, False, 'minmax', 'rank' or 'both', got 'yes'.
    """
    if not isinstance(scale, bool | np.bool_) and not (isinstance(scale, str) and scale in RANK_SHARES):
        raise ValueError(f"scale must be True, False, 'minmax', 'rank' or 'both', got {scale!r}.")


def new_scaling(X: NDArray[np.floating], scale: bool | str, rng: np.random.Generator) -> Scaling:
    """Return how to scale rows like those of X; the generator is only used if there are ranks."""
    if not scale:
        return no_scale(X.shape[1])
    share = RANK_SHARES[scale] if isinstance(scale, str) else 0.0
    return rank_scale(X, share, rng) if share else column_scale(X)


def check_scaling(scaling: Scaling) -> None:
    """Raise ValueError if a scaling that was loaded from a file is inconsistent."""
    _, _, quantiles, share = scaling
    if share not in RANK_SHARES.values() or (quantiles is None) != (share == 0):
        raise ValueError(f"rank_share_ is {share:g}, which does not match rank_quantiles_")
    if quantiles is not None and (np.diff(quantiles, axis=0) < 0).any():
        raise ValueError("rank_quantiles_ are not sorted")
