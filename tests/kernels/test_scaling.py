import numpy as np
import pytest

from dplan._kernels.scaling import column_scale


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 5_000), (409, 5), (410, 5), (70_001, 3), (4_000, 196)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scale_is_that_of_the_extremes(shape: tuple[int, int], order: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    X = np.array(rng.normal(size=shape), dtype=dtype, order=order)
    # The extremes stand anywhere, also in the last rows.
    X[rng.integers(shape[0]), 0], X[-1, -1] = -50, 70
    low, inverse = column_scale(X)[:2]
    half = 0.5 * X.max(axis=0).astype(np.float64) - 0.5 * X.min(axis=0).astype(np.float64)
    np.testing.assert_array_equal(low, 0.5 * X.min(axis=0).astype(np.float64))
    np.testing.assert_array_equal(inverse[half > 0], 1 / half[half > 0])
    assert (inverse[half == 0] == 0).all()
