"""A plain NumPy twin of Algorithm 1, in float64 and without any of the kernel's shortcuts.

It draws from its generator in the kernel's order, so both see the same random numbers. It gathers S row by row,
embeds it anew at every step, and asks the target network about every drawn transition. Only the isolation forest is
the library's own; it has its own tests against scikit-learn.
"""

from dataclasses import dataclass, field

import numpy as np

from dplan.agent.intrinsic import intrinsic_reward, refresh


def relu_layers(layers, rows):
    """Return the last hidden layer's output."""
    for weights, biases in layers[:-1]:
        rows = np.maximum(rows @ weights + biases, 0)
    return rows


def q_values(layers, rows):
    weights, biases = layers[-1]
    return relu_layers(layers, rows) @ weights + biases


@dataclass
class Twin:
    world: object
    layers: list  # of (kernel, biases), float64
    novelty: object
    schedule: object
    learning: object
    batch_size: int
    replay_size: int
    sizes: np.ndarray
    rng: np.random.Generator
    memory: list = field(default_factory=list)  # (row, action, reward, next_row, terminal)

    def __post_init__(self):
        self.target = [(np.zeros_like(w), np.zeros_like(b)) for w, b in self.layers]
        self.square = [(np.zeros_like(w), np.zeros_like(b)) for w, b in self.layers]
        self.velocity = [(np.zeros_like(w), np.zeros_like(b)) for w, b in self.layers]
        self.mean = [(np.zeros_like(w), np.zeros_like(b)) for w, b in self.layers]
        self.rows = self.world.rows.astype(np.float64)

    def theta(self):
        parts = [part.ravel() for layer in self.layers for part in layer]
        return np.concatenate(parts).astype(np.float32)

    def train(self):
        step = 0
        if self.schedule.intrinsic_reward:
            self.refresh()
        while step < self.schedule.n_steps:
            row = self.world.n_labelled + int(self.rng.random() * self.world.n_unlabelled)
            length = min(self.schedule.episode_steps, self.schedule.n_steps - step)
            for t in range(length):
                row = self.one_step(step, row, terminal=t == length - 1)
                step += 1

    def refresh(self):
        refresh(self.novelty, self.world, self.theta(), self.sizes, self.rng)

    def one_step(self, step, row, terminal):
        schedule = self.schedule
        share = min(1, step / schedule.epsilon_steps)
        epsilon = schedule.epsilon_start + share * (schedule.epsilon_end - schedule.epsilon_start)
        if self.rng.random() < epsilon:
            action = int(self.rng.random() * 2)
        else:
            action = int(np.argmax(q_values(self.layers, self.rows[[row]])[0]))
        next_row = self.next_row(row, action)
        labelled = row < self.world.n_labelled
        reward = {(True, 1): 1, (False, 0): 0, (True, 0): -1, (False, 1): -1}[labelled, action]
        if schedule.intrinsic_reward and not self.is_checked(row):
            reward += intrinsic_reward(self.novelty, self.world, self.sizes, row)
        self.memory.append((row, action, reward, next_row, terminal))
        self.memory = self.memory[-self.replay_size :]
        if step >= schedule.warmup_steps:
            self.learn(step)
            if schedule.intrinsic_reward and (step + 1) % schedule.novelty_update_steps == 0:
                self.refresh()
        if (step + 1) % schedule.target_update_steps == 0:
            self.target = [(w.copy(), b.copy()) for w, b in self.layers]
        return next_row

    def is_checked(self, row):
        return row in range(len(self.world.rows) - self.world.n_checked, len(self.world.rows))

    def next_row(self, row, action):
        world = self.world
        chance = self.rng.random()
        if chance < world.labelled_probability:
            return int(self.rng.random() * world.n_labelled)
        if chance < world.labelled_probability + world.checked_probability:
            return len(world.rows) - world.n_checked + int(self.rng.random() * world.n_checked)
        start = int(self.rng.random() * world.n_unlabelled)
        subsample = world.n_labelled + (start + np.arange(world.window)) % world.n_unlabelled
        subsample = subsample[subsample != row]
        gaps = relu_layers(self.layers, self.rows[subsample]) - relu_layers(self.layers, self.rows[[row]])
        distances = np.linalg.norm(gaps, axis=1)
        return int(subsample[np.argmin(distances) if action == 1 else np.argmax(distances)])

    def learn(self, step):
        size = min(step + 1, self.replay_size)
        # The kernel's memory is a ring; ours is a list from old to new.
        oldest = (step + 1) % self.replay_size if step + 1 > self.replay_size else 0
        slots = [int(self.rng.random() * size) for _ in range(self.batch_size)]
        batch = [self.memory[(slot - oldest) % size] for slot in slots]
        rows = self.rows[[transition[0] for transition in batch]]
        future = q_values(self.target, self.rows[[transition[3] for transition in batch]]).max(axis=1)
        targets = np.array(
            [
                r + (0 if end else self.learning.discount * v)
                for (_, _, r, _, end), v in zip(batch, future, strict=True)
            ]
        )
        actions = np.array([transition[1] for transition in batch])

        keep = 1 - self.learning.dropout
        passed, masks = [rows], []
        for index, (weights, biases) in enumerate(self.layers[:-1]):
            out = np.maximum(passed[-1] @ weights + biases, 0)
            mask = np.ones_like(out)
            if self.learning.dropout > 0 and index < len(self.layers) - 2:
                mask = (self.rng.random(out.shape) >= self.learning.dropout) / keep
            masks.append(mask * (out > 0))
            passed.append(out * mask)
        values = passed[-1] @ self.layers[-1][0] + self.layers[-1][1]
        delta = np.zeros_like(values)
        chosen = np.arange(self.batch_size), actions
        delta[chosen] = (values[chosen] - targets) / self.batch_size
        for index in range(len(self.layers) - 1, -1, -1):
            weights, _ = self.layers[index]
            hidden = index < len(self.layers) - 1
            decay = 2 * self.learning.l2 * weights if hidden else 0
            gradients = passed[index].T @ delta + decay, delta.sum(axis=0)
            if index > 0:
                delta = (delta @ weights.T) * masks[index - 1]
            self.update(index, gradients)

    def update(self, index, gradients):
        decay, floor = self.learning.gradient_decay, self.learning.min_squared_gradient
        for part, gradient in enumerate(gradients):
            mean, square, weights = self.mean[index][part], self.square[index][part], self.layers[index][part]
            mean[:] = decay * mean + (1 - decay) * gradient
            square[:] = decay * square + (1 - decay) * gradient**2
            if self.learning.optimizer == 0:
                velocity = self.velocity[index][part]
                velocity *= self.learning.momentum
                velocity += self.learning.learning_rate * gradient / (np.sqrt(square) + floor)
                weights -= velocity
            else:
                weights -= self.learning.learning_rate * gradient / np.sqrt(square - mean**2 + floor)
