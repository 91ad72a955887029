"""The small multilayer perceptron under every deep detector: layout, passes, gradients, optimisers.

A network is two arrays: `sizes`, the number of units per layer from the inputs to the outputs, and `theta`, all
weights in one flat float32 vector, layer by layer, each as its kernel (inputs × units) and then its biases. One
flat vector makes an optimiser step one loop, a copy of a network one assignment, and a saved model one tensor.

Hidden layers are ReLU, the output layer is linear. The output of the last hidden layer is called the embedding.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly, compiled_into_caller, compiled_into_fast_caller
from dplan._kernels.views import matrix
from dplan.arrays import Float32s

Sizes = NDArray[np.int64]

# OpenBLAS multiplies small matrices (up to a million multiplications) without packing. These networks are so narrow
# that packing costs as much as multiplying, so larger products are split into blocks of that size, unless a block would
# have too few rows.
_UNPACKED_PRODUCT = 1_000_000
_FEWEST_BLOCK_ROWS = 64

# Weights whose inputs are always zero decay towards denormal numbers, and so do their running means.
_DENORMAL = np.float32(1e-30)


def layer_sizes(n_inputs: int, hidden_units: tuple[int, ...], n_outputs: int) -> Sizes:
    """Return the `sizes` of a network.

    Examples
    --------
    >>> layer_sizes(196, (20,), 2)
    array([196,  20,   2])
    """
    return np.array([n_inputs, *hidden_units, n_outputs], dtype=np.int64)


def n_parameters(sizes: Sizes) -> int:
    """Return the length of `theta`.

    Examples
    --------
    >>> n_parameters(layer_sizes(196, (20,), 2))  # 196·20 + 20 + 20·2 + 2
    3982
    """
    return int(np.sum(sizes[:-1] * sizes[1:] + sizes[1:]))


def glorot_uniform(sizes: Sizes, rng: np.random.Generator) -> Float32s:
    """Draw initial weights: kernels from U(±√(6 / (inputs + units))), biases zero.

    Examples
    --------
    >>> theta = glorot_uniform(layer_sizes(3, (2,), 1), np.random.default_rng(0))
    >>> theta.shape, bool(abs(theta).max() < (6 / 3) ** 0.5)
    ((11,), True)
    """
    theta = np.zeros(n_parameters(sizes), dtype=np.float32)
    layers = unflatten(theta, sizes)
    for layer in range(len(sizes) - 1):
        limit = np.sqrt(6.0 / (sizes[layer] + sizes[layer + 1]))
        weights = layers[layer][0]
        weights[:] = rng.uniform(-limit, limit, size=weights.shape)
    return theta


@compiled_exactly
def kernel(theta: Float32s, sizes: Sizes, layer: int) -> Float32s:
    """Return the kernel of a layer as a view of shape (inputs, units)."""
    start = 0
    for below in range(layer):
        start += (sizes[below] + 1) * sizes[below + 1]
    n_inputs, n_units = sizes[layer], sizes[layer + 1]
    return matrix(theta, start, n_inputs, n_units)


@compiled_exactly
def biases(theta: Float32s, sizes: Sizes, layer: int) -> Float32s:
    """Return the biases of a layer as a view of shape (units,)."""
    end = 0
    for below in range(layer + 1):
        end += (sizes[below] + 1) * sizes[below + 1]
    return theta[end - sizes[layer + 1] : end]


@compiled_exactly
def rows_per_block(n_rows: int, n_inputs: int, n_units: int) -> int:
    """Return the number of rows to multiply at once.

    Examples
    --------
    >>> rows_per_block(1000, 196, 20), rows_per_block(1000, 21, 20), rows_per_block(1000, 196, 500)
    (250, 1000, 1000)
    """
    fitting = _UNPACKED_PRODUCT // max(n_inputs * n_units, 1)
    if n_rows <= fitting or fitting < _FEWEST_BLOCK_ROWS:
        return max(n_rows, 1)
    n_blocks = -(-n_rows // fitting)
    return -(-n_rows // n_blocks)  # equal blocks, so that no small remainder is left


@compiled_into_caller
def _layer(theta: Float32s, sizes: Sizes, layer: int, below: Float32s) -> Float32s:
    """Return the output of a layer: affine, and ReLU unless it is the last layer."""
    out = np.empty((below.shape[0], sizes[layer + 1]), dtype=below.dtype)
    _fill_layer(theta, sizes, layer, below, out)
    return out


@compiled_exactly
def _fill_layer(theta: Float32s, sizes: Sizes, layer: int, below: Float32s, out: Float32s) -> None:
    """Write the output of a layer into `out`."""
    weights = kernel(theta, sizes, layer)
    size = rows_per_block(below.shape[0], weights.shape[0], weights.shape[1])
    for start in range(0, below.shape[0], size):
        n_rows = min(size, below.shape[0] - start)
        some = matrix(below, start * below.shape[1], n_rows, below.shape[1])
        np.dot(some, weights, matrix(out, start * out.shape[1], n_rows, out.shape[1]))
    shift = biases(theta, sizes, layer)
    floor = below.dtype.type(0 if layer < len(sizes) - 2 else -np.inf)
    for row in range(out.shape[0]):
        for unit in range(out.shape[1]):
            value = out[row, unit] + shift[unit]
            # Written so that NaN stays NaN: a diverged network must not look like a dead one.
            out[row, unit] = floor if value < floor else value


@compiled_exactly
def embed(theta: Float32s, sizes: Sizes, rows: Float32s) -> Float32s:
    """Return the output of the last hidden layer, without dropout."""
    out = rows
    for layer in range(len(sizes) - 2):
        out = _layer(theta, sizes, layer, out)
    return out


@compiled_into_caller
def outputs(theta: Float32s, sizes: Sizes, rows: Float32s) -> Float32s:
    """Return the network's outputs, without dropout."""
    return _layer(theta, sizes, len(sizes) - 2, embed(theta, sizes, rows))


@compiled_exactly
def forward(
    theta: Float32s, sizes: Sizes, rows: Float32s, dropout: float, rng: np.random.Generator
) -> Float32s:
    """Return the outputs of all layers in a training pass, in one flat array that `passed_on` reads.

    Dropout follows every hidden layer except the last: a unit is dropped with probability `dropout`, and the others are
    scaled up to preserve the expected sum. Without dropout, no random numbers are drawn.
    """
    n_units = 0
    for layer in range(1, len(sizes)):
        n_units += sizes[layer]
    passed = np.empty(len(rows) * n_units, dtype=rows.dtype)
    last = len(sizes) - 2
    below = rows
    for layer in range(last + 1):
        out = passed_on(passed, sizes, layer, len(rows))
        _fill_layer(theta, sizes, layer, below, out)
        if dropout > 0 and layer < last - 1:
            scale = np.float32(1 / (1 - dropout))
            for row in range(out.shape[0]):
                for unit in range(out.shape[1]):
                    if rng.random() < dropout:
                        out[row, unit] = 0
                    else:
                        out[row, unit] *= scale
        below = out
    return passed


@compiled_exactly
def passed_on(passed: Float32s, sizes: Sizes, layer: int, n_rows: int) -> Float32s:
    """Return the output of a layer in `forward`, as a view of shape (rows, units)."""
    start = 0
    for below in range(layer):
        start += n_rows * sizes[below + 1]
    return matrix(passed, start, n_rows, sizes[layer + 1])


@compiled_exactly
def backward(
    theta: Float32s,
    sizes: Sizes,
    rows: Float32s,
    passed: Float32s,
    output_gradient: Float32s,
    dropout: float,
    gradient: Float32s,
) -> None:
    """Write the gradient of the loss into `gradient`, given its gradient with respect to the outputs."""
    last = len(sizes) - 2
    delta = output_gradient
    sums = biases(gradient, sizes, last)
    sums[:] = 0
    for row in range(delta.shape[0]):
        for unit in range(delta.shape[1]):
            sums[unit] += delta[row, unit]
    for layer in range(last, 0, -1):
        below = passed_on(passed, sizes, layer - 1, len(rows))
        _kernel_gradient(below, delta, kernel(gradient, sizes, layer))
        weights = kernel(theta, sizes, layer)
        above, delta = delta, np.empty((len(rows), weights.shape[0]), dtype=rows.dtype)
        np.dot(above, weights.T, delta)
        # A positive output passed ReLU and was not dropped, and was scaled up if there is dropout.
        scale = np.float32(1 / (1 - dropout)) if layer < last else np.float32(1)
        sums = biases(gradient, sizes, layer - 1)
        sums[:] = 0
        for row in range(delta.shape[0]):
            for unit in range(delta.shape[1]):
                slope = delta[row, unit] * scale if below[row, unit] > 0 else np.float32(0)
                delta[row, unit] = slope
                sums[unit] += slope
    _kernel_gradient(rows, delta, kernel(gradient, sizes, 0))


@compiled_into_caller
def _kernel_gradient(below: Float32s, delta: Float32s, out: Float32s) -> None:
    """Write below.T · delta into `out`."""
    n_inputs, n_units = out.shape
    size = rows_per_block(below.shape[0], n_inputs, n_units)
    for start in range(0, below.shape[0], size):
        n_rows = min(size, below.shape[0] - start)
        piece = out if start == 0 else np.empty((n_inputs, n_units), dtype=out.dtype)
        some = matrix(below, start * n_inputs, n_rows, n_inputs)
        np.dot(some.T, matrix(delta, start * n_units, n_rows, n_units), piece)
        if start > 0:
            for row in range(n_inputs):
                for unit in range(n_units):
                    out[row, unit] += piece[row, unit]


@compiled_into_fast_caller
def add_weight_decay(theta: Float32s, sizes: Sizes, l2: float, gradient: Float32s) -> None:
    """Add the gradient of ``l2 · Σ w²`` over the hidden kernels: neither biases nor the output layer decay."""
    factor = np.float32(2 * l2)
    start = 0
    for layer in range(len(sizes) - 2):
        end = start + sizes[layer] * sizes[layer + 1]
        weights, slope = theta[start:end], gradient[start:end]
        for i in range(len(slope)):
            slope[i] += factor * weights[i]
        start = end + sizes[layer + 1]


@compiled_into_fast_caller
def _no_denormal(value: np.float32) -> np.float32:
    """Flush denormal numbers, which are about 100 times slower, to zero."""
    return value if abs(value) > _DENORMAL else np.float32(0)


@compiled_into_fast_caller
def rmsprop(
    theta: Float32s, gradient: Float32s, square: Float32s, learning_rate: float, decay: float, epsilon: float
) -> None:
    """Take one step of RMSprop as in Keras 2.3, not centred and without momentum."""
    rate, keep, floor = np.float32(learning_rate), np.float32(decay), np.float32(epsilon)
    for i in range(len(theta)):
        slope = gradient[i]
        square[i] = _no_denormal(keep * square[i] + (np.float32(1) - keep) * slope * slope)
        theta[i] -= rate * slope / (np.sqrt(square[i]) + floor)


@compiled_into_fast_caller
def rmsprop_with_momentum(
    theta: Float32s,
    gradient: Float32s,
    square: Float32s,
    velocity: Float32s,
    learning_rate: float,
    decay: float,
    epsilon: float,
    momentum: float,
) -> None:
    """Take one step of RMSprop with heavy-ball momentum: a fraction of the previous step is added."""
    rate, keep, floor = np.float32(learning_rate), np.float32(decay), np.float32(epsilon)
    fraction = np.float32(momentum)
    for i in range(len(theta)):
        slope = gradient[i]
        square[i] = _no_denormal(keep * square[i] + (np.float32(1) - keep) * slope * slope)
        velocity[i] = _no_denormal(fraction * velocity[i] + rate * slope / (np.sqrt(square[i]) + floor))
        theta[i] = _no_denormal(theta[i] - velocity[i])


@compiled_into_fast_caller
def centred_rmsprop(
    theta: Float32s,
    gradient: Float32s,
    mean: Float32s,
    square: Float32s,
    learning_rate: float,
    decay: float,
    min_squared_gradient: float,
) -> None:
    """Take one step of the original DQN's RMSProp, which divides by the gradient's running standard deviation."""
    rate, keep, floor = np.float32(learning_rate), np.float32(decay), np.float32(min_squared_gradient)
    for i in range(len(theta)):
        slope = gradient[i]
        mean[i] = keep * mean[i] + (np.float32(1) - keep) * slope
        square[i] = keep * square[i] + (np.float32(1) - keep) * slope * slope
        theta[i] -= rate * slope / np.sqrt(square[i] - mean[i] * mean[i] + floor)


def unflatten(theta: Float32s, sizes: Sizes) -> list[tuple[Float32s, Float32s]]:
    """Return (kernel, biases) of every layer, as views.

    Examples
    --------
    >>> sizes = layer_sizes(3, (2,), 1)
    >>> [(k.shape, b.shape) for k, b in unflatten(np.zeros(11, dtype=np.float32), sizes)]
    [((3, 2), (2,)), ((2, 1), (1,))]
    """
    layers, start = [], 0
    for n_inputs, n_units in pairwise(sizes.tolist()):
        end = start + n_inputs * n_units
        layers.append((theta[start:end].reshape(n_inputs, n_units), theta[end : end + n_units]))
        start = end + n_units
    return layers


@compiled_exactly
def represent(theta: Float32s, sizes: Sizes, rows: Float32s) -> Float32s:
    """Return the outputs after ReLU, for networks whose last layer is the learned representation."""
    with_no_outputs = np.zeros(len(sizes) + 1, dtype=np.int64)
    with_no_outputs[:-1] = sizes
    return embed(theta, with_no_outputs, rows)
