"""Several networks as one: their units and outputs stand side by side, and one product serves them all."""

from collections.abc import Iterator, Sequence

import numpy as np

from dplan._kernels import perceptron
from dplan._kernels.perceptron import Floats


def side_by_side(thetas: Sequence[Floats], sizes: perceptron.Sizes) -> tuple[perceptron.Sizes, Floats]:
    """Make one network of some with one hidden layer: their units and outputs stand one after the other.

    Examples
    --------
    >>> sizes = perceptron.layer_sizes(3, (2,), 2)
    >>> rng = np.random.default_rng(0)
    >>> thetas = [perceptron.glorot_uniform(sizes, rng) for _ in range(2)]
    >>> wide_sizes, wide = side_by_side(thetas, sizes)
    >>> row = np.ones((1, 3), dtype=np.float32)
    >>> alone = np.concatenate([perceptron.outputs(theta, sizes, row) for theta in thetas], axis=1)
    >>> wide_sizes, bool(np.allclose(perceptron.outputs(wide, wide_sizes, row), alone))
    (array([3, 4, 4]), True)
    """
    n_inputs, n_units, n_outputs = (int(size) for size in sizes)
    wide_sizes = perceptron.layer_sizes(n_inputs, (len(thetas) * n_units,), len(thetas) * n_outputs)
    wide = np.zeros(perceptron.n_parameters(wide_sizes), dtype=np.float32)
    for own, place in zip(thetas, _places(len(thetas), sizes), strict=True):
        for (kernel, biases), (rows, units), target in zip(
            perceptron.unflatten(own, sizes), place, perceptron.unflatten(wide, wide_sizes), strict=True
        ):
            target[0][rows, units], target[1][units] = kernel, biases
    return wide_sizes, wide


def apart(wide_sizes: perceptron.Sizes, wide: Floats, sizes: perceptron.Sizes) -> list[Floats]:
    """Undo `side_by_side`."""
    layers = perceptron.unflatten(wide, wide_sizes)
    return [
        np.concatenate(
            [
                part.ravel()
                for (kernel, biases), (rows, units) in zip(layers, place, strict=True)
                for part in (kernel[rows, units], biases[units])
            ]
        )
        for place in _places(int(wide_sizes[-1] // sizes[-1]), sizes)
    ]


def _places(count: int, sizes: perceptron.Sizes) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Yield, per network, where its hidden and its output kernel stand in those of the wide one."""
    _, n_units, n_outputs = (int(size) for size in sizes)
    for i in range(count):
        hidden = slice(i * n_units, (i + 1) * n_units)
        yield (slice(None), hidden), (hidden, slice(i * n_outputs, (i + 1) * n_outputs))
