"""The product that scores: a fixed order of summation, for every row and on every processor."""

import numpy as np
import pytest

from dplan._kernels import perceptron, product
from dplan._kernels.product import rounds_once
from dplan._kernels.trees import exp2

pytestmark = pytest.mark.any_processor

SHAPES = [(1, (1,), 1), (6, (20,), 2), (54, (16,), 1), (196, (160,), 16), (30, (17, 33), 3), (9, (), 5)]


def network(n_inputs, hidden_units, n_outputs, seed=0):
    rng = np.random.default_rng(seed)
    sizes = perceptron.layer_sizes(n_inputs, hidden_units, n_outputs)
    theta = rng.normal(size=perceptron.n_parameters(sizes)).astype(np.float32)
    return theta, sizes, rng.normal(size=(131, n_inputs)).astype(np.float32)


def twin(theta, sizes, rows, *, fused=True):
    """Sum over the inputs from first to last; float64 holds a product of float32 exactly, so only sums are rounded."""
    layers = perceptron.unflatten(theta, sizes)
    for number, (weights, biases) in enumerate(layers):
        total = np.tile(biases, (len(rows), 1))
        for i in range(len(weights)):
            terms = rows[:, i, None].astype(np.float64) * weights[i].astype(np.float64)
            if fused:
                total = (total.astype(np.float64) + terms).astype(np.float32)
            else:
                total = total + terms.astype(np.float32)
        rows = total if number == len(layers) - 1 else np.maximum(total, 0)
    return rows


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_equal_a_plain_twin_to_the_last_bit(shape):
    theta, sizes, rows = network(*shape)
    np.testing.assert_array_equal(
        product.outputs(theta, sizes, rows), twin(theta, sizes, rows, fused=rounds_once())
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_equal_those_of_the_training_pass_except_for_rounding(shape):
    theta, sizes, rows = network(*shape)
    np.testing.assert_allclose(
        product.outputs(theta, sizes, rows), perceptron.outputs(theta, sizes, rows), rtol=1e-4, atol=1e-3
    )
    np.testing.assert_allclose(
        product.represent(theta, sizes, rows), perceptron.represent(theta, sizes, rows), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_has_the_same_outputs_among_any_rows(shape):
    theta, sizes, rows = network(*shape)
    together = product.outputs(theta, sizes, rows)
    order = np.random.default_rng(1).permutation(len(rows))
    np.testing.assert_array_equal(product.outputs(theta, sizes, rows[order]), together[order])
    for n_rows in (1, 2, 5, 6, 7, 13):
        pieces = [
            product.outputs(theta, sizes, rows[start : start + n_rows])
            for start in range(0, len(rows), n_rows)
        ]
        np.testing.assert_array_equal(np.concatenate(pieces), together)
    same = product.outputs(theta, sizes, np.repeat(rows[:1], 1024, axis=0))
    assert (same == same[0]).all()


def test_a_network_without_units_returns_its_biases():
    sizes = np.array([3, 0, 2])
    rows = np.ones((5, 3), dtype=np.float32)
    np.testing.assert_array_equal(
        product.outputs(np.array([1, 2], dtype=np.float32), sizes, rows), [[1, 2]] * 5
    )


def test_nan_stays_visible():
    theta, sizes, rows = network(6, (20,), 2)
    rows[3, 4] = np.nan
    assert np.isnan(product.outputs(theta, sizes, rows)).any(axis=1).tolist() == [i == 3 for i in range(131)]


def test_rows_that_are_too_short_raise():
    theta, sizes, rows = network(6, (20,), 2)
    with pytest.raises(ValueError, match="fewer columns"):
        product.outputs(theta, sizes, rows[:, :5])


def test_powers_of_two():
    exponents = np.concatenate([-np.random.default_rng(0).random(10_000) * 30, [-np.inf, -2000, -1074, 0]])
    np.testing.assert_allclose(exp2(exponents), np.exp2(exponents), rtol=1e-15)
    alone = [exp2(exponents[i : i + 1])[0] for i in range(500)]
    np.testing.assert_array_equal(alone, exp2(exponents)[:500])
