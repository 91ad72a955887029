"""PReNet: pairwise relation prediction (Pang et al., KDD 2023)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compile import compiled
from dplan.arrays import Float32s
from dplan.detectors._checks import check_hidden_units
from dplan.detectors._deep import DeepDetector, Draws, new_network
from dplan.detectors._fields import COLUMNS, Array, Number
from dplan.detectors._rows import Indices, Labelling
from dplan.detectors._terms import ConstantTerm, Term

# Target of a pair: anomaly–anomaly, anomaly–unlabelled, unlabelled–unlabelled.
BOTH, ONE, NEITHER = 8.0, 4.0, 0.0

_N_REFERENCES = 30


class PReNet(DeepDetector):
    """Pairwise relation networks.

    A network learns to predict how many of two rows are anomalies: both rows pass through the same hidden layers, and a
    linear output combines the two representations. A row's score is its mean prediction in pairs with 30 labelled
    anomalies and 30 unlabelled rows.

    Parameters
    ----------
    hidden_units : int or tuple of int, default=(20,)
        ReLU units per hidden layer. From the paper.
    n_epochs, epoch_batches, batch_size : int, default=50, 20, 512
        Epochs, minibatches per epoch, pairs per minibatch: a quarter have two anomalies, a quarter one, half none.
        From the paper.
    learning_rate : float, default=0.001
        Learning rate of RMSprop, with the gradient's norm clipped to 1. As in DevNet.
    l2 : float, default=0.01
        Weight decay of the hidden kernels. From the paper.

    Attributes
    ----------
    weights_, layer_sizes_ : ndarray
        The network of the epoch with the lowest loss, in the layout described in `dplan._kernels.perceptron`. Its two
        outputs are a row's contribution to a pair as the left and as the right row.
    reference_rows_ : ndarray of float32
        The scaled rows that are paired with the rows to score: first the anomalies, then the unlabelled rows.
    reference_score_ : float
        Contribution of the reference rows to every score.
    history_ : dict of list
        Per epoch: loss (mean over its minibatches, including weight decay) and seconds (since fit started).

    Notes
    -----
    Checked normal rows (-1 in y) take the place of unlabelled rows in pairs. Each is drawn as often as a labelled
    anomaly, but together they make up at most half of these rows. `sample_weight` changes how often a verdict is drawn.

    If no row is labelled, the 1 % of rows (at least 10) with the highest isolation scores are used instead.

    The output is linear in the two representations, so the reference rows add the same constant to all scores, and one
    pass through the network gives the exact mean over all 60 pairs.

    References
    ----------
    G. Pang, C. Shen, H. Jin, A. van den Hengel: Deep Weakly-supervised Anomaly Detection. KDD 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import PReNet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:50] += 4  # anomalies, of which ten are known
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> scores = PReNet(random_state=0).fit(X, y).anomaly_score(X)
    >>> bool(scores[:50].mean() > scores[50:].mean() + 1)
    True
    """

    _saved = DeepDetector._saved | {
        "reference_rows_": Array(shape=(None, COLUMNS)),
        "reference_score_": Number(),
    }
    _output_weights = (0.5, 0.5)

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        rows, anomalies, normal = self._parts(X, labelling, rng)
        sampler = Pairs(rows, anomalies, normal, int(self.batch_size), rng)
        references = [rng.choice(pool, _N_REFERENCES) for pool in (anomalies, normal)]
        self.reference_rows_ = rows[np.concatenate(references)]

        def loss(outputs: Float32s) -> tuple[float, Float32s]:
            losses, slopes = relation_loss(outputs, sampler.left, sampler.right, sampler.targets)
            return float(losses.sum()) / len(losses), slopes

        hidden_units = check_hidden_units(self.hidden_units)
        sizes = perceptron.layer_sizes(X.shape[1], hidden_units, n_outputs=2)
        network = new_network(sizes, float(self.l2), len(hidden_units), rng)
        # A pair has one bias, so the bias of the right side stays zero.
        self._learn(network._replace(frozen=np.array([len(network.theta) - 1])), sampler, loss)

    def _keep(self, theta: Float32s) -> None:
        super()._keep(theta)
        shares = product.outputs(theta, self.layer_sizes_, self.reference_rows_)
        self.reference_score_ = float(shares[:_N_REFERENCES, 0].mean() + shares[_N_REFERENCES:, 1].mean())

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        # The mean of φ(anomaly, x) and φ(x, unlabelled) over the references.
        left, right = product.outputs(self.weights_, self.layer_sizes_, rows).T
        relation: Float32s = np.float32(0.5) * (left + right + np.float32(self.reference_score_))
        return relation

    def _terms(self) -> Sequence[Term]:
        return [*super()._terms(), ConstantTerm(0.5 * self.reference_score_)]


class Pairs(Draws):
    """Minibatches of pairs: `left` and `right` are the positions of their rows in the block that a call returns.

    Examples
    --------
    >>> rows = np.arange(10, dtype=np.float32)[:, None]
    >>> pairs = Pairs(rows, np.array([8, 9]), np.arange(8), 4, np.random.default_rng(0))
    >>> block = pairs().ravel()
    >>> block[pairs.left] >= 8, block[pairs.right] >= 8  # which rows are anomalies
    (array([ True,  True, False, False]), array([ True, False, False, False]))
    >>> pairs.targets
    array([8., 4., 0., 0.], dtype=float32)
    """

    def __init__(
        self, rows: Float32s, anomalies: Indices, unlabelled: Indices, size: int, rng: np.random.Generator
    ) -> None:
        quarter, half = size // 4, size - 2 * (size // 4)
        self.targets = np.repeat(np.array([BOTH, ONE, NEITHER], dtype=np.float32), [quarter, quarter, half])
        n_unlabelled = quarter + 2 * half
        super().__init__(rows, anomalies, unlabelled, (3 * quarter, n_unlabelled), rng)
        # Each call draws which anomaly is in which pair; unlabelled rows are in the order of the pairs.
        self.n_left = 2 * quarter
        nobody, places = np.zeros(self.n_left, dtype=np.int64), self.n_standing + np.arange(n_unlabelled)
        self.left = np.concatenate([nobody, places[quarter + half :]])
        self.right = np.concatenate([nobody[:quarter], places[: quarter + half]])

    def __call__(self) -> Float32s:
        """Draw the next minibatch, overwriting the previous one."""
        places = self.draw()
        self.left[: self.n_left] = places[: self.n_left]
        self.right[: self.n_left // 2] = places[self.n_left :]
        return self.batch


@compiled
def relation_loss(
    outputs: Float32s, left: Indices, right: Indices, targets: Float32s
) -> tuple[Float32s, Float32s]:
    """Return |target - φ(left, right)| of each pair, and the gradient of the mean."""
    losses, slopes = np.empty(len(targets), dtype=outputs.dtype), np.zeros_like(outputs)
    for pair in range(len(targets)):
        error = outputs[left[pair], 0] + outputs[right[pair], 1] - targets[pair]
        slope = np.sign(error) / np.float32(len(targets))
        losses[pair] = abs(error)
        slopes[left[pair], 0] += slope
        slopes[right[pair], 1] += slope
    return losses, slopes
