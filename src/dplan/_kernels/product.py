"""Forward passes for scoring, with the sums of `dplan._kernels.tile`, whose order is fixed.

Training uses `dplan._kernels.perceptron`, which multiplies with BLAS and may round differently.
"""

import numpy as np

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.perceptron import Floats, Sizes, biases, kernel
from dplan._kernels.tile import LANES, tile

_ROWS = 6  # with LANES sums each, these fill the registers of AVX2 and those of NEON

_many_rows, _one_row = tile(_ROWS), tile(1)


def outputs(theta: Floats, sizes: Sizes, rows: Floats) -> Floats:
    """Return a network's outputs, like `perceptron.outputs` except for rounding.

    Examples
    --------
    >>> from dplan._kernels import perceptron
    >>> sizes, rng = perceptron.layer_sizes(3, (2,), 1), np.random.default_rng(0)
    >>> theta, rows = perceptron.glorot_uniform(sizes, rng), rng.random((100, 3), dtype=np.float32)
    >>> bool((outputs(theta, sizes, rows)[7] == outputs(theta, sizes, rows[7:8])[0]).all())
    True
    """
    return propagate(theta, sizes, np.ascontiguousarray(rows), len(sizes) - 2)


def represent(theta: Floats, sizes: Sizes, rows: Floats) -> Floats:
    """Return the outputs after ReLU, for networks whose last layer is the learned representation."""
    return propagate(theta, sizes, np.ascontiguousarray(rows), len(sizes) - 1)


def affine(rows: Floats, weights: Floats, shift: Floats) -> Floats:
    """Return ``rows @ weights + shift``.

    Examples
    --------
    >>> rows, weights = np.eye(2, dtype=np.float32), np.array([[1], [2]], dtype=np.float32)
    >>> affine(rows, weights, np.array([10], dtype=np.float32)).tolist()
    [[11.0], [12.0]]
    """
    theta = np.concatenate([weights.ravel(), shift])
    return propagate(theta, np.array(weights.shape), np.ascontiguousarray(rows), 0)


@compiled_exactly
def propagate(theta: Floats, sizes: Sizes, rows: Floats, n_rectified: int) -> Floats:
    """Return the output of the last layer; the first `n_rectified` layers use ReLU. Rows must be contiguous."""
    n_rows = len(rows)
    for layer in range(len(sizes) - 1):
        weights, shift = kernel(theta, sizes, layer), biases(theta, sizes, layer)
        length, (n_inputs, n_units) = rows.shape[1], weights.shape  # rows are padded after the first layer
        if length < n_inputs:
            raise ValueError("rows have fewer columns than the network has inputs")
        # The weights of LANES units at a time, and then their biases, each padded with zeros.
        n_panels = (n_units + LANES - 1) // LANES
        panels = np.zeros((n_panels * (n_inputs + 1), LANES), dtype=np.float32)
        for unit in range(n_units):
            first, lane = unit // LANES * (n_inputs + 1), unit % LANES
            for i in range(n_inputs):
                panels[first + i, lane] = weights[i, unit]
            panels[first + n_inputs, lane] = shift[unit]
        out = np.empty((n_rows, n_panels * LANES), dtype=np.float32)
        floor = np.float32(0 if layer < n_rectified else -np.inf)
        start = 0
        while start < n_rows:
            left, many = rows.ctypes.data + 4 * start * length, start + _ROWS <= n_rows
            for panel in range(n_panels):
                right = panels.ctypes.data + 4 * LANES * panel * (n_inputs + 1)
                own_shift = right + 4 * LANES * n_inputs
                place = out.ctypes.data + 4 * LANES * (start * n_panels + panel)
                if many:
                    _many_rows(left, length, right, n_inputs, own_shift, floor, place, n_panels * LANES)
                else:
                    _one_row(left, length, right, n_inputs, own_shift, floor, place, n_panels * LANES)
            start += _ROWS if many else 1
        rows = out
    return rows[:, : sizes[-1]]
