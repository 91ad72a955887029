"""Algorithm 1 of the paper in plain NumPy, in the order of the paper: the file to read first.

`Algorithm1` has everything that DPLAN's training does, step by step, without compilation, caches or a clever layout of
memory. `dplan.agent.training` is the same algorithm, compiled and much faster; tests train both with the same random
numbers and compare every decision and all weights. `dplan.DPLAN` uses the compiled one. Only the isolation forest is
shared, as the paper takes one from a library.

To try another method, derive a class and override one of the methods: a different reward, another way to choose the
next row, another loss.

Names follow the paper: D^a is `labelled`, D^u `unlabelled`, Q `q_values`, ψ `embed`, g `next_observation`, h
`external_reward` and f `intrinsic_reward`. An observation s is the number of a row. Choices that the paper leaves open
are explained in docs/readings.md.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.forest import grow, isolation_scores, new_forest

__all__ = ["Algorithm1", "Settings", "Transition", "embed", "q_values"]

Rows = NDArray[np.float64]
Layers = list[
    tuple[Rows, Rows]
]  # weights (inputs, units) and biases (units,) of each layer, from the inputs up

_NORMAL, _ANOMALOUS = 0, 1  # the actions a⁰ and a¹
_RESCALING_ROWS = 5_000  # of D^u: enough to find the lowest and the highest isolation score


@dataclass(frozen=True)
class Settings:
    """The parameters of `dplan.DPLAN` that the algorithm needs, with the same names and defaults, explained there."""

    hidden_units: tuple[int, ...] = (20,)
    dropout: float = 0.0
    n_steps: int = 20_000
    episode_steps: int = 2_000
    warmup_steps: int = 10_000
    target_update_steps: int = 10_000  # K
    novelty_update_steps: int = 2_000  # N
    epsilon_start: float = 1.0
    epsilon_end: float = 0.1
    epsilon_steps: int = 10_000
    labelled_probability: float = 0.5  # p
    subsample_size: int = 1_000  # |S|
    replay_size: int = 100_000
    batch_size: int = 32
    discount: float = 0.99  # γ
    learning_rate: float = 0.00025
    gradient_decay: float = 0.95
    min_squared_gradient: float = 0.01
    momentum: float = 0.0
    optimizer: str = "rmsprop"
    l2: float = 0.01
    n_trees: int = 100
    tree_size: int = 256


class Transition(NamedTuple):
    """What the experience set ℰ remembers of a step."""

    row: int  # s_t
    action: int  # a_t
    reward: float  # r_t
    next_row: int  # s_{t+1}
    terminal: bool  # whether the episode ended here


class Algorithm1:
    """Train DPLAN's agent.

    Parameters
    ----------
    labelled : array-like, shape (n_labelled, n_columns)
        D^a: known anomalies. Columns should be scaled to [0, 1], as `dplan.DPLAN` does.
    unlabelled : array-like, shape (n_unlabelled, n_columns)
        D^u: all other rows.
    settings : Settings
        Sizes, steps and rates.
    random_state : int, optional
        Seed of the random numbers. `dplan.DPLAN` draws the same ones.
    checked : array-like, shape (n_checked, n_columns), optional
        Rows that are known to be normal, which the paper does not have.
    checked_probability : float, default=0.0
        Probability that the next observation is one of them.

    Attributes
    ----------
    rows : ndarray
        D^a, then D^u in random order, then the checked rows.
    layers, target : list of (weights, biases)
        θ of Q and θ⁻ of Q̂.
    memory : dict of int to Transition
        The experience set ℰ; when it is full, new transitions take the places of the oldest.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> anomalies, unlabelled = rng.random((20, 3)) / 2 + 0.5, rng.random((500, 3)) / 2
    >>> settings = Settings(n_steps=600, warmup_steps=200, epsilon_steps=200, subsample_size=50, n_trees=10)
    >>> agent = Algorithm1(anomalies, unlabelled, settings, random_state=0).train()
    >>> bool(agent.anomaly_score(anomalies).min() > np.median(agent.anomaly_score(unlabelled)))
    True

    A change of the method, here without the intrinsic reward:

    >>> class OnlyLabels(Algorithm1):
    ...     def intrinsic_reward(self, row):
    ...         return 0.0
    >>> len(OnlyLabels(anomalies, unlabelled, settings, random_state=0).train().memory)
    600
    """

    def __init__(
        self,
        labelled: ArrayLike,
        unlabelled: ArrayLike,
        settings: Settings = Settings(),  # noqa: B008  # immutable
        random_state: int | None = None,
        checked: ArrayLike | None = None,
        checked_probability: float = 0.0,
    ) -> None:
        self.settings, self.rng = settings, np.random.default_rng(random_state)
        known, others = np.asarray(labelled, dtype=float), np.asarray(unlabelled, dtype=float)
        normal = others[:0] if checked is None else np.asarray(checked, dtype=float)
        # In random order, consecutive rows are a random subsample.
        others = others[self.rng.permutation(len(others))]
        self.rows = np.concatenate([known, others, normal])
        self.n_labelled, self.n_unlabelled, self.n_checked = len(known), len(others), len(normal)
        self.checked_probability = checked_probability
        self.layers = self._random_layers()  # line 1: Q with random weights θ
        self.target = _zeros_like(self.layers)  # line 2: Q̂ with θ⁻ = 0
        self.memory: dict[int, Transition] = {}  # line 3: ℰ
        self._mean, self._square, self._velocity = (_zeros_like(self.layers) for _ in range(3))

    def train(self) -> Self:
        """Run the algorithm."""
        settings, step = self.settings, 0  # steps are counted over all episodes
        self.refresh_novelty()
        while step < settings.n_steps:  # line 4: for each episode
            row = self.first_observation()  # line 5
            n_steps = min(settings.episode_steps, settings.n_steps - step)
            for t in range(n_steps):  # line 6
                action = self.select_action(row, step)  # lines 7 and 8
                next_row = self.next_observation(row, action)  # lines 9 and 10
                reward = self.external_reward(row, action) + self.intrinsic_reward(row)  # lines 11 and 12
                terminal = t == n_steps - 1
                self.memory[step % settings.replay_size] = Transition(
                    row, action, reward, next_row, terminal
                )  # line 13
                if step >= settings.warmup_steps:
                    batch = self.draw_batch()  # line 14
                    self.learn(batch, self.targets(batch))  # lines 15 and 16
                    if (step + 1) % settings.novelty_update_steps == 0:
                        self.refresh_novelty()  # line 17
                if (step + 1) % settings.target_update_steps == 0:
                    self.target = [
                        (weights.copy(), biases.copy()) for weights, biases in self.layers
                    ]  # line 18
                row, step = next_row, step + 1
        return self

    def anomaly_score(self, rows: ArrayLike) -> Rows:
        """Return Q(s, a¹; θ): the value of calling a row anomalous."""
        return q_values(self.layers, np.asarray(rows, dtype=float))[:, _ANOMALOUS]

    def first_observation(self) -> int:
        """Return s_1 ~ U(D^u)."""
        return self.n_labelled + self._below(self.n_unlabelled)

    def select_action(self, row: int, step: int) -> int:
        """Return a random action with probability ε, otherwise argmax_a Q(s, a; θ). ε decreases linearly."""
        settings = self.settings
        progress = min(1.0, step / settings.epsilon_steps)
        epsilon = settings.epsilon_start * (1 - progress) + settings.epsilon_end * progress
        if self.rng.random() < epsilon:
            return self._below(2)
        return int(np.argmax(q_values(self.layers, self.rows[[row]])[0]))

    def next_observation(self, row: int, action: int) -> int:
        """Return s' ~ g (Eq. 3): with probability p a row of D^a, otherwise the nearest or farthest row of S ⊂ D^u."""
        chance, p = self.rng.random(), self.settings.labelled_probability
        if chance < p:
            return self._below(self.n_labelled)  # g_a
        if chance < p + self.checked_probability:
            return self.n_labelled + self.n_unlabelled + self._below(self.n_checked)
        subsample = self.n_labelled + self._consecutive(self.settings.subsample_size)  # S
        subsample = subsample[subsample != row]
        gaps = embed(self.layers, self.rows[subsample]) - embed(self.layers, self.rows[[row]])
        distances = np.linalg.norm(gaps, axis=1)  # d(s, s'; θ^e)
        found = np.argmin(distances) if action == _ANOMALOUS else np.argmax(distances)
        return int(subsample[found])  # g_u

    def external_reward(self, row: int, action: int) -> float:
        """Return r^e = h(s, a) (Eq. 4)."""
        if row < self.n_labelled:
            return 1.0 if action == _ANOMALOUS else -1.0
        return 0.0 if action == _NORMAL else -1.0

    def intrinsic_reward(self, row: int) -> float:
        """Return r^i = f(s; θ̂^e) (Eq. 5): how easily the isolation forest isolates ψ(s; θ̂^e), from 0 to 1."""
        if row >= self.n_labelled + self.n_unlabelled:
            return 0.0  # checked rows are not novel
        lowest, highest = self._score_range
        if not highest > lowest:
            return 0.0
        embedded = embed(self._frozen, self.rows[[row]]).astype(np.float32)
        (score,) = isolation_scores(self._forest, embedded)
        return float(np.clip((score - lowest) / (highest - lowest), 0, 1))

    def refresh_novelty(self) -> None:
        """Set θ̂^e = θ^e, and grow a new isolation forest on ψ(D^u; θ̂^e)."""
        self._frozen = [(weights.copy(), biases.copy()) for weights, biases in self.layers]
        unlabelled = self.rows[self.n_labelled : self.n_labelled + self.n_unlabelled]
        embedded = embed(self._frozen, unlabelled).astype(np.float32)
        self._forest = new_forest(self.settings.n_trees, min(self.settings.tree_size, self.n_unlabelled))
        for tree in range(self.settings.n_trees):
            grow(self._forest, tree, embedded[self._consecutive(self.settings.tree_size)], self.rng)
        scores = isolation_scores(self._forest, embedded[:_RESCALING_ROWS])
        self._score_range = float(scores.min()), float(scores.max())

    def draw_batch(self) -> list[Transition]:
        """Draw a minibatch of ℰ."""
        return [self.memory[self._below(len(self.memory))] for _ in range(self.settings.batch_size)]

    def targets(self, batch: list[Transition]) -> Rows:
        """Return y = r + γ max_a' Q̂(s', a'; θ⁻), or y = r at the end of an episode."""
        values = q_values(self.target, self.rows[[transition.next_row for transition in batch]]).max(axis=1)
        rewards = np.array([transition.reward for transition in batch])
        terminal = np.array([transition.terminal for transition in batch])
        return np.where(terminal, rewards, rewards + self.settings.discount * values)

    def learn(self, batch: list[Transition], targets: Rows) -> None:
        """Take a gradient step on the mean of ½ (y - Q(s, a; θ))² (Eq. 2), plus weight decay."""
        rate, layers = self.settings.dropout, self.layers
        passed, slopes = [self.rows[[transition.row for transition in batch]]], []  # of each hidden layer
        for index, (weights, biases) in enumerate(layers[:-1]):
            out = np.maximum(passed[-1] @ weights + biases, 0)
            kept = np.ones_like(out)
            if rate > 0 and index < len(layers) - 2:  # after every hidden layer but the last
                kept = (self.rng.random(out.shape) >= rate) / (1 - rate)
            passed.append(out * kept)
            slopes.append((out > 0) * kept)
        weights, biases = layers[-1]
        values = passed[-1] @ weights + biases  # Q(s, ·; θ)
        delta = np.zeros_like(values)
        chosen = np.arange(len(batch)), np.array([transition.action for transition in batch])
        delta[chosen] = (values[chosen] - targets) / len(batch)
        for index in reversed(range(len(layers))):  # back-propagation
            weights, _ = layers[index]
            gradient, bias_gradient = passed[index].T @ delta, delta.sum(axis=0)
            if index > 0:
                delta = (delta @ weights.T) * slopes[index - 1]
            if index < len(layers) - 1:
                gradient += 2 * self.settings.l2 * weights
            self._update(index, (gradient, bias_gradient))

    def _update(self, index: int, gradients: tuple[Rows, Rows]) -> None:
        """Change the weights and biases of a layer by RMSprop, as Keras or as the original DQN has it."""
        settings = self.settings
        decay, floor = settings.gradient_decay, settings.min_squared_gradient
        for part, gradient in enumerate(gradients):
            mean, square, velocity, parameters = (
                state[index][part] for state in (self._mean, self._square, self._velocity, self.layers)
            )
            mean[...] = decay * mean + (1 - decay) * gradient
            square[...] = decay * square + (1 - decay) * gradient**2
            if settings.optimizer == "dqn":
                parameters -= settings.learning_rate * gradient / np.sqrt(square - mean**2 + floor)
            else:
                velocity *= settings.momentum
                velocity += settings.learning_rate * gradient / (np.sqrt(square) + floor)
                parameters -= velocity

    def _random_layers(self) -> Layers:
        """Draw weights from Glorot's uniform distribution; biases are zero."""
        layers = []
        for n_inputs, n_units in pairwise([self.rows.shape[1], *self.settings.hidden_units, 2]):
            limit = np.sqrt(6 / (n_inputs + n_units))
            layers.append((self.rng.uniform(-limit, limit, (n_inputs, n_units)), np.zeros(n_units)))
        return layers

    def _consecutive(self, n_rows: int) -> NDArray[np.int64]:
        """Return the places of consecutive rows of D^u that begin anywhere; the first row follows the last."""
        n_rows = min(n_rows, self.n_unlabelled)
        return (self._below(self.n_unlabelled) + np.arange(n_rows)) % self.n_unlabelled

    def _below(self, n: int) -> int:
        return int(self.rng.random() * n)


def embed(layers: Layers, rows: Rows) -> Rows:
    """Return ψ(s; θ^e): the output of the last hidden layer."""
    for weights, biases in layers[:-1]:
        rows = np.maximum(rows @ weights + biases, 0)
    return rows


def q_values(layers: Layers, rows: Rows) -> Rows:
    """Return Q(s, a⁰; θ) and Q(s, a¹; θ) of each row."""
    weights, biases = layers[-1]
    return embed(layers, rows) @ weights + biases


def _zeros_like(layers: Layers) -> Layers:
    return [(np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in layers]
