"""Training of the deep detectors: minibatches, DevNet's optimiser, epochs of which the best is kept.

A detector of this family is a subclass of `DeepDetector` that defines three things:

- a sampler, which returns the rows of the next minibatch each time it is called,
- a loss, which takes the network's outputs for these rows and returns the mean loss over the minibatch and its gradient
  with respect to the outputs,
- a score, computed from the network's outputs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron
from dplan._kernels.compile import compiled
from dplan._kernels.perceptron import Sizes
from dplan.arrays import Float32s
from dplan.detectors._base import Detector
from dplan.detectors._checks import check_hidden_units, check_integer, check_number
from dplan.detectors._fields import NETWORK, check_network
from dplan.detectors._rows import Indices, Labelling, labelled_or_pseudo_anomalies, normal_rows, repeated
from dplan.detectors._terms import NetworkTerm, Term

Sampler = Callable[[], Float32s]
Loss = Callable[[Float32s], tuple[float, Float32s]]
Step = Callable[[Float32s, Float32s], None]

# Keras's RMSprop as DevNet uses it: decay rate of the running mean, epsilon, and the maximum norm of the gradient.
_DECAY, _EPSILON, _MAX_NORM = 0.9, 1e-7, 1.0

_DRAWN_AT_ONCE = 64  # minibatches


class Network(NamedTuple):
    """A network to train, its weight decay and its frozen weights."""

    sizes: Sizes
    theta: Float32s
    l2: float  # strength of weight decay
    n_decayed: int  # number of kernels with weight decay, from the input layer
    frozen: Indices  # weights that are not trained


def new_network(sizes: Sizes, l2: float, n_decayed: int, rng: np.random.Generator) -> Network:
    """Return a network with initial weights, all trainable."""
    return Network(sizes, perceptron.glorot_uniform(sizes, rng), l2, n_decayed, np.empty(0, dtype=np.int64))


def clipped_rmsprop(n_weights: int, learning_rate: float) -> Step:
    """Return DevNet's optimiser."""
    square = np.zeros(n_weights, dtype=np.float32)

    def step(theta: Float32s, gradient: Float32s) -> None:
        clip_by_norm(gradient, _MAX_NORM)
        perceptron.rmsprop(theta, gradient, square, learning_rate, _DECAY, _EPSILON)

    return step


def train(
    network: Network, sampler: Sampler, loss: Loss, step: Step, n_epochs: int, epoch_batches: int
) -> Iterator[float]:
    """Train the network in place and yield the mean loss of each epoch, including weight decay."""
    sizes, theta, l2, n_decayed, frozen = network
    gradient = np.zeros_like(theta)
    rng = np.random.default_rng(0)  # never used, because there is no dropout
    for _ in range(n_epochs):
        total = 0.0
        for _ in range(epoch_batches):
            rows = sampler()
            passed = perceptron.forward(theta, sizes, rows, 0.0, rng)
            mean_loss, slopes = loss(perceptron.passed_on(passed, sizes, len(sizes) - 2, len(rows)))
            penalty = backward_with_decay(theta, sizes, rows, passed, slopes, n_decayed, l2, gradient)
            gradient[frozen] = 0
            step(theta, gradient)
            total += mean_loss + penalty
        yield total / epoch_batches


@compiled
def backward_with_decay(
    theta: Float32s,
    sizes: Sizes,
    rows: Float32s,
    passed: Float32s,
    output_gradient: Float32s,
    n_decayed: int,
    l2: float,
    gradient: Float32s,
) -> float:
    """Like `perceptron.backward`, for the loss plus ``l2 · Σ w²`` over the first kernels; return this penalty."""
    perceptron.backward(theta, sizes, rows, passed, output_gradient, 0.0, gradient)
    penalty = 0.0
    for layer in range(n_decayed):
        weights, slope = perceptron.kernel(theta, sizes, layer), perceptron.kernel(gradient, sizes, layer)
        for row in range(weights.shape[0]):
            for unit in range(weights.shape[1]):
                penalty += l2 * weights[row, unit] * weights[row, unit]
                slope[row, unit] += np.float32(2 * l2) * weights[row, unit]
    return penalty


@compiled
def clip_by_norm(gradient: Float32s, max_norm: float) -> None:
    """Scale the gradient down to a Euclidean norm of at most `max_norm`."""
    total = 0.0
    for i in range(len(gradient)):
        total += gradient[i] * gradient[i]
    norm = np.sqrt(total)
    if norm > max_norm:
        factor = np.float32(max_norm / norm)
        for i in range(len(gradient)):
            gradient[i] *= factor


class DeepDetector(Detector):
    """A detector that trains a small network on minibatches; the defaults are DevNet's."""

    hidden_units: int | tuple[int, ...] = (20,)
    n_epochs: int = 50
    epoch_batches: int = 20
    batch_size: int = 512
    learning_rate: float = 0.001
    l2: float = 0.01

    round_name = "epoch"
    _saved = Detector._saved | NETWORK
    _output_weights: ClassVar[tuple[float, ...]] = ()  # set if the score is a weighted sum of the outputs

    def _check_parameters(self) -> None:
        check_hidden_units(self.hidden_units)
        for name in ("n_epochs", "epoch_batches"):
            check_integer(name, getattr(self, name), minimum=1)
        check_integer("batch_size", self.batch_size, minimum=4)
        check_number("learning_rate", self.learning_rate, "(0, inf)")
        check_number("l2", self.l2, "[0, inf)")

    def _terms(self) -> Sequence[Term]:
        if not self._output_weights:
            return super()._terms()
        return [NetworkTerm(self.weights_, self.layer_sizes_, np.array(self._output_weights))]

    def _embed(self, rows: Float32s) -> Float32s:
        embedded: Float32s = perceptron.embed(self.weights_, self.layer_sizes_, rows)
        return embedded

    def _expected_rounds(self) -> int:
        return int(self.n_epochs)

    def _check_saved(self) -> None:
        super()._check_saved()
        check_network(self, len(self._output_weights) or None)

    def _parts(
        self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator
    ) -> tuple[Float32s, Indices, Indices]:
        """Return all rows, scaled, and the indices to draw anomalies and normal rows from.

        A row with a verdict stands in its list as often as the verdict counts; see `dplan.detectors._rows`.
        """
        rows = self._arrange(X)
        anomalies, unlabelled = self._split(rows, labelling, rng)
        checked, share = labelling.checked, labelling.checked_share(anomalies)
        normal = normal_rows(unlabelled, checked, labelling.confidence_in(checked), share)
        return rows, repeated(anomalies, labelling.confidence_in(anomalies)), normal

    def _split(
        self, rows: Float32s, labelling: Labelling, rng: np.random.Generator
    ) -> tuple[Indices, Indices]:
        """Return the indices of the anomalies and of the unlabelled rows."""
        return labelled_or_pseudo_anomalies(rows, labelling, rng)

    def _learn(
        self, network: Network, sampler: Sampler, loss: Loss, step: Step | None = None, epoch_batches: int = 0
    ) -> None:
        """Train, by default like DevNet, and keep the weights of the epoch with the lowest loss."""
        step = step or clipped_rmsprop(len(network.theta), float(self.learning_rate))
        epoch_batches = epoch_batches or int(self.epoch_batches)
        # If no epoch has a finite loss, keep the current weights; the base class then reports that they diverged.
        self.layer_sizes_, lowest = network.sizes, np.inf
        self._keep(network.theta)
        for mean_loss in train(network, sampler, loss, step, int(self.n_epochs), epoch_batches):
            if mean_loss < lowest:
                lowest = mean_loss
                self._keep(network.theta.copy())
            if self._record(loss=mean_loss):
                break

    def _keep(self, theta: Float32s) -> None:
        """Use these weights for scoring; subclasses derive from them what their score needs."""
        self.weights_ = theta


def gather(rows: Float32s, indices: Indices, out: Float32s) -> None:
    """Copy the rows with these indices into a preallocated array."""
    np.take(rows, indices, axis=0, out=out, mode="clip")  # "clip" copies directly, "raise" would buffer


def buffered_draws(draw: Callable[[int], Indices]) -> Iterator[Indices]:
    """Draw indices for many minibatches at once, which is much faster, and yield them one by one."""
    while True:
        yield from draw(_DRAWN_AT_ONCE)


class Draws:
    """Minibatches of anomalies, which come first, and unlabelled rows, both drawn with replacement.

    If there are fewer anomalies than draws, each is in the minibatch once, however often it was drawn, and passes
    through the network once.
    """

    def __init__(
        self,
        rows: Float32s,
        anomalies: Indices,
        unlabelled: Indices,
        n_drawn: tuple[int, int],
        rng: np.random.Generator,
    ) -> None:
        n_anomalies, n_unlabelled = n_drawn
        self.rows, self.anomalies = rows, anomalies
        self.n_standing = n = min(n_anomalies, len(anomalies))
        self.drawn_once = n == n_anomalies
        self.batch = np.empty((n + n_unlabelled, rows.shape[1]), dtype=np.float32)
        gather(rows, anomalies[:n], self.batch[:n])
        self.places = buffered_draws(
            lambda times: rng.integers(max(len(anomalies), 1), size=(times, n_anomalies))
        )
        self.draws = buffered_draws(lambda times: rng.choice(unlabelled, (times, n_unlabelled)))

    def draw(self) -> Indices:
        """Draw the next minibatch, overwriting the previous one; return where in it the drawn anomalies are."""
        n, places = self.n_standing, next(self.places)
        if self.drawn_once:
            gather(self.rows, self.anomalies[places], self.batch[:n])
            places = np.arange(n)
        gather(self.rows, next(self.draws), self.batch[n:])
        return places


class HalfAndHalf(Draws):
    """Minibatches of half labelled anomalies and half unlabelled rows.

    The anomalies come first (see `anomalous`), and a row's weight says how often it was drawn: the same mean loss with
    fewer rows to multiply. If there are no anomalies, all rows of a minibatch are unlabelled.

    Examples
    --------
    >>> rows = np.arange(10, dtype=np.float32)[:, None]
    >>> sampler = HalfAndHalf(rows, np.array([8, 9]), np.arange(8), 6, np.random.default_rng(0))
    >>> sampler().ravel()[:2]  # the two anomalies
    array([8., 9.], dtype=float32)
    >>> sampler.weights * 6  # the second anomaly was drawn three times; then come three unlabelled rows
    array([0., 3., 1., 1., 1.], dtype=float32)
    """

    def __init__(
        self, rows: Float32s, anomalies: Indices, unlabelled: Indices, size: int, rng: np.random.Generator
    ) -> None:
        n_drawn = size // 2 if len(anomalies) else 0
        super().__init__(rows, anomalies, unlabelled, (n_drawn, size - n_drawn), rng)
        self.anomalous = np.arange(len(self.batch)) < self.n_standing
        self.weights = np.full(len(self.batch), 1 / size, dtype=np.float32)

    def __call__(self) -> Float32s:
        """Draw the next minibatch, overwriting the previous one."""
        places = self.draw()
        if not self.drawn_once:
            n = self.n_standing
            self.weights[:n] = np.bincount(places, minlength=n) * self.weights[-1]
        return self.batch


class WeightedChoice:
    """Draw indices with probabilities proportional to weights, each in constant time (Walker's alias method).

    Every index has a bin of equal size; the part that its weight does not fill belongs to one other index.

    Examples
    --------
    >>> choice = WeightedChoice(np.array([1.0, 3.0, 0.0]))
    >>> np.bincount(choice(1000, np.random.default_rng(0)), minlength=3)
    array([231, 769,   0])
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        total = weights.sum()
        if not total > 0:
            weights = np.ones(len(weights))
            total = float(len(weights))
        self.filled, self.other = _alias_table(weights * (len(weights) / total))

    def __call__(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Indices:
        """Draw an array of indices."""
        place = rng.random(size) * len(self.filled)
        number = place.astype(np.int64)
        return np.where(place - number < self.filled[number], number, self.other[number])


@compiled
def _alias_table(levels: NDArray[np.float64]) -> tuple[NDArray[np.float64], Indices]:
    """Fill bins of size 1 from levels with mean 1; return how full each bin is, and the index that owns the rest."""
    n = len(levels)
    other = np.arange(n)
    low, high = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_low = n_high = 0
    for i in range(n):
        if levels[i] < 1:
            low[n_low] = i
            n_low += 1
        else:
            high[n_high] = i
            n_high += 1
    filled = levels.copy()
    while n_low > 0 and n_high > 0:
        n_low -= 1
        i, donor = low[n_low], high[n_high - 1]
        other[i] = donor
        filled[donor] -= 1 - filled[i]
        if filled[donor] < 1:
            n_high -= 1
            low[n_low] = donor
            n_low += 1
    for left in high[:n_high]:
        filled[left] = 1
    for left in low[:n_low]:  # short of 1 by rounding only
        filled[left] = 1
    return filled, other


@compiled
def weighted_mean(losses: Float32s, slopes: Float32s, weights: Float32s) -> float:
    """Return Σ weight · loss, and multiply each row's gradient by its weight in place."""
    mean = 0.0
    for row in range(slopes.shape[0]):
        mean += weights[row] * losses[row]
        for unit in range(slopes.shape[1]):
            slopes[row, unit] *= weights[row]
    return mean
