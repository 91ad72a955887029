"""The Q-network: action values, and one step of Q-learning on a minibatch (Eq. 2)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron
from dplan._kernels.compile import compiled, compiled_into_caller
from dplan._kernels.perceptron import Sizes
from dplan.arrays import Float32s

N_ACTIONS = 2
RMSPROP, DQN = 0, 1
OPTIMIZERS = {
    "rmsprop": RMSPROP,  # the paper's settings in the authors' framework, Keras 2.3.1
    "dqn": DQN,  # the original DQN's centred form
}


class Agent(NamedTuple):
    """The Q-network, its target network, and the state of the optimiser."""

    sizes: Sizes
    theta: Float32s  # θ
    target: Float32s  # θ⁻
    gradient: Float32s
    mean_gradient: Float32s
    squared_gradient: Float32s
    velocity: Float32s


class Learning(NamedTuple):
    """The settings of Q-learning and of the optimiser."""

    discount: float
    learning_rate: float
    gradient_decay: float
    min_squared_gradient: float
    momentum: float
    l2: float
    dropout: float
    optimizer: int
    batch_size: int


class Minibatch(NamedTuple):
    """Transitions to learn from; y is the target of Q(s, a; θ)."""

    rows: Float32s  # s
    actions: NDArray[np.int64]  # a
    targets: Float32s  # y


def new_agent(n_columns: int, hidden_units: tuple[int, ...], rng: np.random.Generator) -> Agent:
    """Return an agent with random θ and with θ⁻ = 0 (Algorithm 1, lines 1 and 2)."""
    sizes = perceptron.layer_sizes(n_columns, hidden_units, N_ACTIONS)
    theta = perceptron.glorot_uniform(sizes, rng)
    zeros = [np.zeros_like(theta) for _ in range(5)]
    return Agent(sizes, theta, *zeros)


@compiled_into_caller
def target_value(agent: Agent, rows: Float32s, row: int, cached: Float32s) -> float:
    """Return max_a Q̂(s, a; θ⁻) of a row, and cache it; values are NaN for rows not needed yet."""
    if np.isnan(cached[row]):
        values = perceptron.outputs(agent.target, agent.sizes, rows[row : row + 1])
        cached[row] = max(values[0, 0], values[0, 1])
    return float(cached[row])


@compiled_into_caller
def learn(agent: Agent, batch: Minibatch, learning: Learning, rng: np.random.Generator) -> float:
    """Take one gradient step on the mean of ½ (y - Q(s, a; θ))², and return that mean."""
    rows, actions, targets = batch.rows, batch.actions, batch.targets
    passed = perceptron.forward(agent.theta, agent.sizes, rows, learning.dropout, rng)
    values = perceptron.passed_on(passed, agent.sizes, len(agent.sizes) - 2, len(rows))
    slopes = np.zeros(values.shape, dtype=np.float32)
    loss = 0.0
    for i in range(len(rows)):
        error = values[i, actions[i]] - targets[i]
        slopes[i, actions[i]] = error / np.float32(len(rows))
        loss += 0.5 * error * error
    perceptron.backward(agent.theta, agent.sizes, rows, passed, slopes, learning.dropout, agent.gradient)
    take_step(agent, learning)
    return loss / len(rows)


@compiled
def take_step(agent: Agent, learning: Learning) -> None:
    """Change θ by the gradient, with weight decay."""
    if learning.l2 > 0:
        perceptron.add_weight_decay(agent.theta, agent.sizes, learning.l2, agent.gradient)
    if learning.optimizer == DQN:
        perceptron.centred_rmsprop(
            agent.theta,
            agent.gradient,
            agent.mean_gradient,
            agent.squared_gradient,
            learning.learning_rate,
            learning.gradient_decay,
            learning.min_squared_gradient,
        )
    elif learning.momentum > 0:
        perceptron.rmsprop_with_momentum(
            agent.theta,
            agent.gradient,
            agent.squared_gradient,
            agent.velocity,
            learning.learning_rate,
            learning.gradient_decay,
            learning.min_squared_gradient,
            learning.momentum,
        )
    else:
        perceptron.rmsprop(
            agent.theta,
            agent.gradient,
            agent.squared_gradient,
            learning.learning_rate,
            learning.gradient_decay,
            learning.min_squared_gradient,
        )
