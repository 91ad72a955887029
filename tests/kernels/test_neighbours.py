"""Distances to nearest neighbours: the nearest one, exactly, whatever stands beside a row."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dplan._kernels.neighbours import mean_nearest_distance, spread_out
from dplan._kernels.scaling import column_quantiles

pytestmark = pytest.mark.any_processor


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 40, 5), (2, 7, 60), (50, 8, 20), (4, 25, 196)], ids=str)
def test_the_nearest_of_every_sample_is_found(shape):
    rng = np.random.default_rng(0)
    neighbours = rng.random(shape, dtype=np.float32)
    rows = rng.random((150, shape[-1]), dtype=np.float32)
    rows[: shape[1]] = neighbours[-1][:150]  # distances of zero, which differences of products would miss
    found = mean_nearest_distance(neighbours, rows)
    exact = np.mean([cdist(rows, sample).min(axis=1) for sample in neighbours], axis=0)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    alone = [mean_nearest_distance(neighbours, rows[i : i + 1])[0] for i in range(150)]
    np.testing.assert_array_equal(alone, found)


def test_small_distances_between_large_rows_are_seen():
    neighbours = np.full((1, 2, 3), 1e6, dtype=np.float32)
    neighbours[0, 1] = -1e6
    rows = neighbours[0, :1] + np.float32(0.25)
    np.testing.assert_allclose(mean_nearest_distance(neighbours, rows), [0.25 * np.sqrt(3)], rtol=1e-6)


def test_rows_need_not_be_contiguous():
    rng = np.random.default_rng(0)
    neighbours, rows = (
        rng.random((6, 5, 3), dtype=np.float32).transpose(2, 1, 0),
        rng.random((40, 12), dtype=np.float32),
    )
    expected = mean_nearest_distance(neighbours.copy(), rows[:, ::2].copy())
    np.testing.assert_array_equal(mean_nearest_distance(neighbours, rows[:, ::2]), expected)


def test_half_its_rank_is_added_to_a_value():
    rng = np.random.default_rng(0)
    rows = rng.random((640, 3), dtype=np.float32)
    rows[:, 1] = rng.integers(0, 2, 640)
    rows[:, 2] **= 9  # most values are close together
    quantiles = column_quantiles(rows)
    assert quantiles.shape == (32, 3)
    expected = rows + 0.25 * (
        (quantiles[:, None] < rows).mean(axis=0) + (quantiles[:, None] <= rows).mean(axis=0)
    )
    spread = spread_out(quantiles, rows)
    np.testing.assert_array_equal(spread, expected.astype(np.float32))
    np.testing.assert_array_equal(
        spread_out(quantiles, rows[:, ::-1])[0], spread_out(quantiles, rows[:1, ::-1])[0]
    )
    assert (
        np.diff(np.quantile(spread[:, 2], [0.1, 0.5])) > 0.15 > np.diff(np.quantile(rows[:, 2], [0.1, 0.5]))
    )


@pytest.mark.parametrize("n_rows", [1, 2, 5, 31, 33])
def test_quantiles_of_few_rows_are_values_of_theirs(n_rows):
    rows = np.random.default_rng(0).random((n_rows, 2), dtype=np.float32)
    quantiles = column_quantiles(rows)
    assert np.isin(quantiles[:, 0], rows[:, 0]).all()
    assert (np.diff(quantiles, axis=0) >= 0).all()
