"""REPEN: representation learning for distance-based outlier detection (Pang et al., KDD 2018)."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import product
from dplan._kernels.compile import compiled
from dplan._kernels.neighbours import mean_nearest_distance
from dplan.arrays import Float32s
from dplan.detectors._checks import check_hidden_units, check_integer, check_number
from dplan.detectors._deep import DeepDetector, Step, WeightedChoice, buffered_draws, gather, new_network
from dplan.detectors._fields import COLUMNS, Array, same
from dplan.detectors._rows import Indices, Labelling

# Adadelta as in Keras: decay rate and epsilon.
_DECAY, _EPSILON = 0.95, 1e-7

# By Cantelli's inequality, at most a quarter of all scores are above mean + √3 · standard deviation.
CANTELLI = 1.7321
_FEWEST_CANDIDATES = 10

_MOST_BATCHES = 50


class REPEN(DeepDetector):
    """Representations for nearest-neighbour distances in random samples. Unsupervised: it ignores labels.

    Initial scores come from LeSiNN: the mean distance to the nearest row of small random samples. Rows with very high
    scores are outlier candidates, and the network learns a representation in which they are farther from the inliers
    than the inliers are from each other. The score is LeSiNN in that representation. Labelled anomalies are left out,
    because they are known not to be normal, and checked normal rows (-1 in y) are never outlier candidates; labels are
    not used in any other way.

    Parameters
    ----------
    n_samples, sample_size : int, default=50, 8
        Number of LeSiNN's random samples, and rows per sample. From the paper.
    margin : float, default=1000.0
        Margin by which the squared distance between a candidate and an inlier should exceed that between two inliers.
        From the paper.
    hidden_units : int or tuple of int, default=(20,)
        ReLU units per layer; the last layer is the representation. From the paper.
    n_epochs, batch_size : int, default=30, 256
        Epochs, triplets per minibatch. From the paper.
    epoch_batches : int or None, default=None
        Minibatches per epoch. If None, one pass over the rows, but at most 50 (our choice: more do not help on large
        tables).
    learning_rate : float, default=1.0
        Learning rate of Adadelta. From the paper's code, with Keras's other settings.
    l2 : float, default=0.0
        Weight decay of all kernels. The paper uses none.

    Attributes
    ----------
    reference_rows_ : ndarray of float32
        The scaled training rows to which distances are measured, sample by sample.
    reference_embeddings_ : ndarray of float32
        The representations of these rows, with shape (units, rows per sample, samples).
    weights_, layer_sizes_ : ndarray
        The network of the epoch with the lowest loss, in the layout described in `dplan._kernels.perceptron`.
    history_ : dict of list
        Per epoch: loss (mean over its minibatches) and seconds (since fit started).

    References
    ----------
    G. Pang, L. Cao, L. Chen, H. Liu: Learning Representations of Ultrahigh-dimensional Data for Random Distance-based
    Outlier Detection. KDD 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import REPEN
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> X[7] = 9
    >>> int(REPEN(n_epochs=5, random_state=0).fit(X).anomaly_score(X).argmax())
    7
    """

    n_samples: int = 50
    sample_size: int = 8
    margin: float = 1000.0
    n_epochs: int = 30
    epoch_batches: int | None = None  # type: ignore[assignment]  # None is allowed here
    batch_size: int = 256
    learning_rate: float = 1.0
    l2: float = 0.0

    uses_labels = False
    _saved = DeepDetector._saved | {
        "reference_rows_": Array(shape=(None, COLUMNS)),
        "reference_embeddings_": Array(shape=(None, None, None)),
    }

    def _check_parameters(self) -> None:
        check_hidden_units(self.hidden_units)
        for name in ("n_samples", "sample_size", "n_epochs", "batch_size"):
            check_integer(name, getattr(self, name), minimum=1)
        if self.epoch_batches is not None:
            check_integer("epoch_batches", self.epoch_batches, minimum=1)
        check_number("margin", self.margin, "(0, inf)")
        check_number("learning_rate", self.learning_rate, "(0, inf)")
        check_number("l2", self.l2, "[0, inf)")

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        normal = labelling.normal
        rows = self._arrange(X, normal)
        # LeSiNN's score: the distance to the nearest row of a random sample, averaged over the samples.
        samples = self._random_samples(rows, rng).reshape(int(self.n_samples), -1, rows.shape[1])
        scores = mean_nearest_distance(samples, rows)
        triplets = Triplets(rows, scores, int(self.batch_size), rng, labelling.labels[normal] < 0)
        # Threshold and percentiles may include these rows: each is in one of 50 samples, so its score is off by at most
        # a fiftieth.
        self.reference_rows_ = self._random_samples(rows, rng)
        margin = float(self.margin)

        def loss(outputs: Float32s) -> tuple[float, Float32s]:
            losses, slopes = triplet_loss(outputs, margin)
            return float(losses.sum()) / len(losses), slopes

        sizes = np.array([X.shape[1], *check_hidden_units(self.hidden_units)], dtype=np.int64)
        network = new_network(sizes, float(self.l2), len(sizes) - 1, rng)
        step = adadelta(len(network.theta), float(self.learning_rate))
        n_batches = self.epoch_batches or min(max(1, len(rows) // int(self.batch_size)), _MOST_BATCHES)
        self._learn(network, triplets, loss, step, int(n_batches))

    def _random_samples(self, rows: Float32s, rng: np.random.Generator) -> Float32s:
        size = min(int(self.sample_size), len(rows))
        chosen = [rng.choice(len(rows), size, replace=False) for _ in range(int(self.n_samples))]
        return rows[np.concatenate(chosen)]

    def _keep(self, theta: Float32s) -> None:
        super()._keep(theta)
        represented = product.represent(theta, self.layer_sizes_, self.reference_rows_)
        samples = represented.reshape(int(self.n_samples), -1, represented.shape[1])
        self.reference_embeddings_ = np.ascontiguousarray(samples.transpose(2, 1, 0))

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        return mean_nearest_distance(self.reference_embeddings_.transpose(2, 1, 0), self._embed(rows))

    def _embed(self, rows: Float32s) -> Float32s:
        return product.represent(self.weights_, self.layer_sizes_, rows)

    def _check_saved(self) -> None:
        super()._check_saved()
        same(len(self.reference_embeddings_), int(self.layer_sizes_[-1]), "reference_embeddings_")
        same(len(self.reference_rows_), self.reference_embeddings_[0].size, "reference_rows_")


def outlier_candidates(
    scores: NDArray[np.float64], checked: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Return which rows are above mean + √3 · standard deviation; the ten highest if there are none.

    Rows that were checked and are normal are no candidates.

    Examples
    --------
    >>> np.flatnonzero(outlier_candidates(np.array([1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 9.0])))
    array([6])
    """
    candidates: NDArray[np.bool_] = scores > scores.mean() + CANTELLI * scores.std()
    if checked is not None:
        candidates &= ~checked
        scores = np.where(checked, -np.inf, scores)
    if not candidates.any():
        n_possible = int(np.isfinite(scores).sum())
        n_highest = min(_FEWEST_CANDIDATES, max(1, n_possible // 2))
        candidates[np.argsort(-scores, kind="stable")[:n_highest]] = True
    return candidates


class Triplets:
    """Minibatches of triplets in three equal parts: anchors, positives (both inliers) and negatives (candidates).

    Anchors are drawn with probabilities proportional to Σs - s, where s is the score, positives uniformly, and
    negatives with probabilities proportional to s.
    """

    def __init__(
        self,
        rows: Float32s,
        scores: NDArray[np.float64],
        size: int,
        rng: np.random.Generator,
        checked: NDArray[np.bool_] | None = None,
    ) -> None:
        candidates = outlier_candidates(scores, checked)
        self.inliers, self.outliers = np.flatnonzero(~candidates), np.flatnonzero(candidates)
        if len(self.inliers) == 0:
            self.inliers = self.outliers  # a single row
        inlier_scores = scores[self.inliers]
        self.choose_anchors = WeightedChoice(inlier_scores.sum() - inlier_scores)
        self.choose_negatives = WeightedChoice(scores[self.outliers])
        self.size, self.rng = size, rng
        self.rows, self.draws = rows, buffered_draws(self.draw)
        self.batch = np.empty((3 * size, rows.shape[1]), dtype=np.float32)

    def __call__(self) -> Float32s:
        """Draw the next minibatch, overwriting the previous one."""
        gather(self.rows, next(self.draws), self.batch)
        return self.batch

    def draw(self, times: int) -> Indices:
        """Return the indices of the rows of some minibatches, with shape (minibatches, 3 · size)."""
        shape = (times, self.size)
        anchors = self.inliers[self.choose_anchors(shape, self.rng)]
        positives = self.rng.choice(self.inliers, shape)
        negatives = self.outliers[self.choose_negatives(shape, self.rng)]
        return np.concatenate([anchors, positives, negatives], axis=1)


@compiled
def triplet_loss(outputs: Float32s, margin: float) -> tuple[Float32s, Float32s]:
    """Return the hinge loss of each triplet, given the outputs before ReLU, and the gradient of the mean.

    With e, p and n for the representations of anchor, positive and negative, it is max(0, M - (‖e-n‖² - ‖e-p‖²)).
    """
    n_triplets, n_units = len(outputs) // 3, outputs.shape[1]
    losses, slopes = np.empty(n_triplets, dtype=outputs.dtype), np.zeros_like(outputs)
    factor = np.float32(2 / n_triplets)
    for anchor in range(n_triplets):
        positive, negative = anchor + n_triplets, anchor + 2 * n_triplets
        advantage = np.float32(0)
        for unit in range(n_units):
            e = max(outputs[anchor, unit], np.float32(0))
            p = max(outputs[positive, unit], np.float32(0))
            n = max(outputs[negative, unit], np.float32(0))
            advantage += (e - n) * (e - n) - (e - p) * (e - p)
        losses[anchor] = margin - advantage
        if advantage >= margin:
            losses[anchor] = 0
            continue
        for unit in range(n_units):
            e = max(outputs[anchor, unit], np.float32(0))
            p = max(outputs[positive, unit], np.float32(0))
            n = max(outputs[negative, unit], np.float32(0))
            slopes[anchor, unit] = factor * (n - p) if e > 0 else 0
            slopes[positive, unit] = factor * (p - e) if p > 0 else 0
            slopes[negative, unit] = factor * (e - n) if n > 0 else 0
    return losses, slopes


def adadelta(n_weights: int, learning_rate: float) -> Step:
    """Return REPEN's optimiser."""
    square, squared_step = np.zeros((2, n_weights), dtype=np.float32)

    def step(theta: Float32s, gradient: Float32s) -> None:
        _adadelta(theta, gradient, square, squared_step, learning_rate, _DECAY, _EPSILON)

    return step


@compiled
def _adadelta(
    theta: Float32s,
    gradient: Float32s,
    square: Float32s,
    squared_step: Float32s,
    learning_rate: float,
    decay: float,
    epsilon: float,
) -> None:
    """Take one step of Adadelta; the step size is the ratio of the running RMS of past steps and past gradients."""
    rate, keep, floor = np.float32(learning_rate), np.float32(decay), np.float32(epsilon)
    for i in range(len(theta)):
        slope = gradient[i]
        square[i] = keep * square[i] + (np.float32(1) - keep) * slope * slope
        step = slope * np.sqrt(squared_step[i] + floor) / np.sqrt(square[i] + floor)
        theta[i] -= rate * step
        squared_step[i] = keep * squared_step[i] + (np.float32(1) - keep) * step * step
