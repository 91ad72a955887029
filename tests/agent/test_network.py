"""The perceptron and the Q-network."""

import numba
import numpy as np
import pytest

from dplan._kernels import perceptron
from dplan.agent.network import Minibatch, learn, target_value
from dplan.agent.training import select_action
from tests.agent.worlds import LEARNING, make_agent, make_world


def unequal(sizes, seed=0):
    """Return weights in float64 whose biases are not zero, for exact checks."""
    return np.random.default_rng(seed).normal(size=perceptron.n_parameters(sizes)) * 0.5


@numba.njit
def loss_and_gradient(theta, sizes, rows, wanted, dropout, rng):
    passed = perceptron.forward(theta, sizes, rows, dropout, rng)
    errors = perceptron.passed_on(passed, sizes, len(sizes) - 2, len(rows)) - wanted
    gradient = np.empty_like(theta)
    perceptron.backward(theta, sizes, rows, passed, errors, dropout, gradient)
    return 0.5 * np.sum(errors**2), gradient


@pytest.mark.parametrize("hidden", [(5,), (7, 5, 4)])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradients_equal_finite_differences(hidden, dropout):
    sizes = perceptron.layer_sizes(3, hidden, 2)
    theta = unequal(sizes)
    rng = np.random.default_rng(1)
    rows, wanted = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))

    def loss(weights):
        return loss_and_gradient(weights, sizes, rows, wanted, dropout, np.random.default_rng(2))[0]

    gradient = loss_and_gradient(theta, sizes, rows, wanted, dropout, np.random.default_rng(2))[1]
    shift = 1e-6
    numeric = np.array(
        [(loss(theta + e) - loss(theta - e)) / (2 * shift) for e in np.eye(len(theta)) * shift]
    )
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)


def test_the_learning_gradient_is_that_of_the_documented_loss():
    world = make_world()
    agent, _, _ = make_agent(world, hidden=(5,))
    rng = np.random.default_rng(0)
    rows, actions = world.rows[:8].copy(), rng.integers(2, size=8)
    targets = rng.random(8, dtype=np.float32)
    before = agent.theta.astype(np.float64)

    def loss(weights):
        q = perceptron.outputs(weights, agent.sizes, rows.astype(np.float64))[np.arange(8), actions]
        decay = 0.01 * np.sum(perceptron.kernel(weights, agent.sizes, 0) ** 2)  # the hidden kernel alone
        return np.mean(0.5 * (targets - q) ** 2) + decay

    returned = learn(agent, Minibatch(rows, actions, targets), LEARNING, rng)
    shift = 1e-6
    numeric = np.array(
        [(loss(before + e) - loss(before - e)) / (2 * shift) for e in np.eye(len(before)) * shift]
    )
    np.testing.assert_allclose(agent.gradient, numeric, atol=1e-5)
    decay = 0.01 * np.sum(perceptron.kernel(before, agent.sizes, 0) ** 2)
    assert returned == pytest.approx(loss(before) - decay, rel=1e-5)


def test_rmsprop_is_that_of_keras():
    theta, square = np.zeros(1, np.float32), np.full(1, 0.2, np.float32)
    perceptron.rmsprop(theta, np.full(1, 3, np.float32), square, 0.1, 0.95, 0.01)
    assert square[0] == pytest.approx(0.95 * 0.2 + 0.05 * 9)
    assert theta[0] == pytest.approx(-0.1 * 3 / (np.sqrt(0.95 * 0.2 + 0.05 * 9) + 0.01))


def test_momentum_adds_a_fraction_of_the_previous_step():
    theta, square, velocity = (np.full(1, value, np.float32) for value in (0, 0.2, 0.5))
    perceptron.rmsprop_with_momentum(theta, np.full(1, 3, np.float32), square, velocity, 0.1, 0.95, 0.01, 0.9)
    step = 0.9 * 0.5 + 0.1 * 3 / (np.sqrt(0.95 * 0.2 + 0.05 * 9) + 0.01)
    assert velocity[0] == pytest.approx(step)
    assert theta[0] == pytest.approx(-step)


def test_centred_rmsprop_is_that_of_the_original_dqn():
    theta, mean, square = (np.full(1, value, np.float32) for value in (0, 0.1, 0.2))
    perceptron.centred_rmsprop(theta, np.full(1, 3, np.float32), mean, square, 0.1, 0.95, 0.01)
    m, v = 0.95 * 0.1 + 0.05 * 3, 0.95 * 0.2 + 0.05 * 9
    assert theta[0] == pytest.approx(-0.1 * 3 / np.sqrt(v - m**2 + 0.01))


def test_initial_weights_are_glorot_uniform():
    sizes = perceptron.layer_sizes(200, (100,), 2)
    (kernel, biases), _ = perceptron.unflatten(
        perceptron.glorot_uniform(sizes, np.random.default_rng(0)), sizes
    )
    limit = np.sqrt(6 / 300)
    assert 0.99 * limit < abs(kernel).max() <= limit
    assert kernel.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert not biases.any()


def test_the_embedding_is_the_last_hidden_layer_after_relu():
    sizes = perceptron.layer_sizes(3, (4, 5), 2)
    theta, rows = unequal(sizes), np.random.default_rng(3).normal(size=(9, 3))
    layers = perceptron.unflatten(theta, sizes)
    hidden = np.maximum(rows @ layers[0][0] + layers[0][1], 0)
    hidden = np.maximum(hidden @ layers[1][0] + layers[1][1], 0)
    np.testing.assert_allclose(perceptron.embed(theta, sizes, rows), hidden)
    np.testing.assert_allclose(perceptron.outputs(theta, sizes, rows), hidden @ layers[2][0] + layers[2][1])


def test_dropout_drops_its_fraction_and_preserves_the_expected_sum():
    sizes = perceptron.layer_sizes(3, (2_000, 4), 2)
    theta, rows = abs(unequal(sizes)), np.ones((20, 3))
    rng = np.random.default_rng(0)
    passed = perceptron.forward(theta, sizes, rows, 0.9, rng)
    hidden, embedded = (perceptron.passed_on(passed, sizes, layer, len(rows)) for layer in (0, 1))
    full = perceptron.passed_on(perceptron.forward(theta, sizes, rows, 0.0, rng), sizes, 0, len(rows))
    assert (hidden == 0).mean() == pytest.approx(0.9, abs=0.01)
    assert hidden.mean() == pytest.approx(full.mean(), rel=0.05)
    assert (embedded > 0).all()  # none after the last hidden layer


def test_a_diverged_network_stays_visible():
    sizes = perceptron.layer_sizes(2, (3,), 2)
    theta = np.full(perceptron.n_parameters(sizes), np.nan, dtype=np.float32)
    assert np.isnan(perceptron.outputs(theta, sizes, np.ones((1, 2), dtype=np.float32))).all()


def test_greedy_action_and_target_value_follow_the_larger_output():
    world = make_world()
    agent, _, _ = make_agent(world)
    rng = np.random.default_rng(0)
    values = perceptron.outputs(agent.theta, agent.sizes, world.rows[:30])
    actions = [select_action(agent, world, row, 0.0, rng) for row in range(30)]
    assert actions == values.argmax(axis=1).tolist()
    assert {0, 1} == set(actions)

    def targets():
        known = np.full(len(world.rows), np.nan, dtype=np.float32)
        return [target_value(agent, world.rows, row, known) for row in (*range(30), 0)][:30]

    assert not any(targets())  # θ⁻ = 0 at first
    agent.target[:] = agent.theta
    np.testing.assert_allclose(targets(), values.max(axis=1), rtol=1e-5)
