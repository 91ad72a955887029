"""Deep SAD (Ruff et al., ICLR 2020), as the DPLAN paper adapts it to labelled anomalies only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compile import compiled
from dplan._kernels.neighbours import mean_nearest_distance
from dplan._kernels.perceptron import Sizes
from dplan.arrays import Float32s
from dplan.detectors._checks import check_choice, check_hidden_units, check_number
from dplan.detectors._deep import DeepDetector, HalfAndHalf, Network, new_network, weighted_mean
from dplan.detectors._fields import Array, same
from dplan.detectors._rows import Indices, Labelling
from dplan.detectors._terms import ScoreTerm, Term

LOSSES = {
    "margin": False,  # keep labelled anomalies at least a margin away from the centre: the DPLAN paper's loss
    "inverse": True,  # the inverse of their squared distance: the loss of Deep SAD's paper
}

_NEAREST_CENTRE = 0.1  # a dead unit would satisfy a centre near zero
_LEAST_DISTANCE = 1e-6  # keeps the inverse finite


class DeepSAD(DeepDetector):
    """Deep semi-supervised anomaly detection.

    A network learns a representation that pulls unlabelled rows towards a fixed centre and keeps labelled anomalies
    away from it. The squared distance to the centre is the anomaly score.

    Parameters
    ----------
    loss : {"margin", "inverse"}, default="margin"
        Loss of labelled anomalies: "margin" is max(0, M - distance²), the DPLAN paper's adaptation; "inverse" is
        1 / distance², the loss of Deep SAD's own paper with η = 1, a different method.
    margin : float, default=5.0
        M. Our choice: DevNet's margin, because the DPLAN paper does not give one.
    hidden_units : int or tuple of int, default=(20,)
        ReLU units per layer, without biases; the last layer is the representation. From the DPLAN paper.
    n_epochs, epoch_batches, batch_size : int, default=50, 20, 512
        Epochs, minibatches per epoch, rows per minibatch (half of them labelled). As in DevNet, like the DPLAN paper.
    learning_rate : float, default=0.001
        Learning rate of RMSprop, with the gradient's norm clipped to 1. As in DevNet, like the DPLAN paper.
    l2 : float, default=0.01
        Weight decay of all kernels. As in DevNet.

    Attributes
    ----------
    centre_ : ndarray of float32
        The mean representation of the unlabelled rows before training; entries below 0.1 are set to 0.1.
    weights_, layer_sizes_ : ndarray
        The network of the epoch with the lowest loss, in the layout described in `dplan._kernels.perceptron`.
    history_ : dict of list
        Per epoch: loss (mean over its minibatches, including weight decay) and seconds (since fit started).

    Notes
    -----
    Checked normal rows (-1 in y) are pulled towards the centre, as labelled normal rows are in Deep SAD's own paper.
    Each is drawn as often as a labelled anomaly, but together they make up at most half of the normal rows of a
    minibatch. `sample_weight` changes how often a verdict is drawn.

    If no row is labelled, minibatches contain only unlabelled rows, and the method is the one-class Deep SVDD.

    References
    ----------
    L. Ruff, R. Vandermeulen, N. Görnitz, A. Binder, E. Müller, K.-R. Müller, M. Kloft: Deep Semi-Supervised Anomaly
    Detection. ICLR 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import DeepSAD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:50] += 4  # anomalies, of which ten are known
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> scores = DeepSAD(random_state=0).fit(X, y).anomaly_score(X)
    >>> bool(scores[:50].mean() > scores[50:].mean())
    True
    """

    loss: str = "margin"
    margin: float = 5.0

    _saved = DeepDetector._saved | {"centre_": Array()}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("loss", self.loss, LOSSES)
        check_number("margin", self.margin, "(0, inf)")

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        rows, labelled, normal = self._parts(X, labelling, rng)
        sampler = HalfAndHalf(rows, labelled, normal, int(self.batch_size), rng)
        network = without_biases(X.shape[1], check_hidden_units(self.hidden_units), float(self.l2), rng)
        self.centre_ = centre = first_centre(network, rows, labelling.unlabelled)
        margin, inverse = float(self.margin), LOSSES[self.loss]
        # The margin loss is the mean over D^u plus the mean over D^a, and each is half of a minibatch.
        factor = np.float32(2 if len(labelled) and not inverse else 1)

        def loss(outputs: Float32s) -> tuple[float, Float32s]:
            losses, slopes = sphere_loss(outputs, sampler.anomalous, centre, margin, inverse)
            return weighted_mean(losses, slopes, factor * sampler.weights), slopes

        self._learn(network, sampler, loss)

    def _split(
        self, rows: Float32s, labelling: Labelling, rng: np.random.Generator
    ) -> tuple[Indices, Indices]:
        return labelling.anomalies, labelling.unlabelled  # it needs no pseudo-anomalies

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        represented = product.represent(self.weights_, self.layer_sizes_, rows)
        return np.square(mean_nearest_distance(self.centre_[None, None], represented))

    def _terms(self) -> Sequence[Term]:
        return [SphereTerm(self._score, self.weights_, self.layer_sizes_, self.centre_)]

    def _embed(self, rows: Float32s) -> Float32s:
        return product.represent(self.weights_, self.layer_sizes_, rows)

    def _check_saved(self) -> None:
        super()._check_saved()
        same(self.centre_.shape, (int(self.layer_sizes_[-1]),), "centre_")


@dataclass(frozen=True, eq=False)
class SphereTerm(ScoreTerm):
    """The squared distance of a row's representation from the centre."""

    theta: Float32s
    sizes: Sizes
    centre: Float32s

    def to_onnx(self, graph: Any, rows: str) -> str:
        """See `Term`."""
        represented = graph.wide(graph.add("Relu", graph.network(self.theta, self.sizes, rows)))
        gaps = graph.add("Sub", represented, graph.constant(self.centre.astype(np.float64)))
        return str(graph.add("ReduceSum", graph.add("Mul", gaps, gaps), graph.second_axis(), keepdims=0))


def without_biases(
    n_columns: int, hidden_units: tuple[int, ...], l2: float, rng: np.random.Generator
) -> Network:
    """Return a network of ReLU layers. Biases stay zero, because they could map every row to the centre."""
    sizes: Sizes = np.array([n_columns, *hidden_units], dtype=np.int64)
    network = new_network(sizes, l2, len(hidden_units), rng)
    is_bias = np.zeros_like(network.theta)
    for _, biases in perceptron.unflatten(is_bias, sizes):
        biases[:] = 1
    return network._replace(frozen=np.flatnonzero(is_bias))


def first_centre(network: Network, rows: Float32s, unlabelled: Indices) -> Float32s:
    """Return the mean representation of the unlabelled rows, with entries of at least 0.1."""
    total, counts = np.zeros(network.sizes[-1]), np.zeros(len(rows), dtype=np.float32)
    counts[unlabelled] = 1
    for start in range(0, len(rows), 512):
        piece = slice(start, start + 512)
        total += counts[piece] @ perceptron.represent(network.theta, network.sizes, rows[piece])
    return np.maximum(total / len(unlabelled), _NEAREST_CENTRE).astype(np.float32)


@compiled
def squared_distances(outputs: Float32s, centre: Float32s) -> Float32s:
    """Return ‖φ - c‖² of each row, where φ is the output after ReLU."""
    distances = np.empty(len(outputs), dtype=outputs.dtype)
    for row in range(len(outputs)):
        distance = np.float32(0)
        for unit in range(len(centre)):
            gap = max(outputs[row, unit], np.float32(0)) - centre[unit]
            distance += gap * gap
        distances[row] = distance
    return distances


@compiled
def sphere_loss(
    outputs: Float32s, anomalous: NDArray[np.bool_], centre: Float32s, margin: float, inverse: bool
) -> tuple[Float32s, Float32s]:
    """Return the loss of each row, given its outputs before ReLU, and its gradient with respect to them."""
    losses, slopes = squared_distances(outputs, centre), np.empty_like(outputs)
    for row in range(len(outputs)):
        distance, by_distance = losses[row], 1.0
        if anomalous[row] and inverse:
            losses[row] = 1 / (distance + _LEAST_DISTANCE)
            by_distance = -losses[row] * losses[row]
        elif anomalous[row]:
            losses[row] = max(0.0, margin - distance)
            by_distance = -1.0 if distance < margin else 0.0
        for unit in range(len(centre)):
            value = outputs[row, unit]
            slopes[row, unit] = 2 * by_distance * (value - centre[unit]) if value > 0 else 0
    return losses, slopes
