"""Distances to nearest neighbours: the nearest one, exactly, whatever stands beside a row."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dplan._kernels.neighbours import mean_nearest_distance

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
