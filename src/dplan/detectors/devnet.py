"""DevNet: deviation networks (Pang et al., KDD 2019)."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compile import compiled
from dplan.arrays import Float32s
from dplan.detectors._checks import check_hidden_units, check_number
from dplan.detectors._deep import DeepDetector, HalfAndHalf, new_network, weighted_mean
from dplan.detectors._rows import Labelling

_PRIOR_DRAWS = 5_000  # number of reference scores drawn from N(0, 1)


class DevNet(DeepDetector):
    """Deviation networks.

    A network learns the score directly: unlabelled rows are pulled towards the mean of a Gaussian prior, and labelled
    anomalies are pushed at least `margin` standard deviations above it.

    Parameters
    ----------
    margin : float, default=5.0
        Minimum distance of anomalies from the prior mean, in standard deviations. From the paper.
    hidden_units : int or tuple of int, default=(20,)
        ReLU units per hidden layer. From the paper.
    n_epochs, epoch_batches, batch_size : int, default=50, 20, 512
        Epochs, minibatches per epoch, rows per minibatch (half of them labelled). From the paper.
    learning_rate : float, default=0.001
        Learning rate of RMSprop. From the paper's code, with Keras's other settings; the gradient's norm is clipped to
        1.
    l2 : float, default=0.01
        Weight decay of the hidden kernels. From the paper.

    Attributes
    ----------
    weights_, layer_sizes_ : ndarray
        The network of the epoch with the lowest loss, in the layout described in `dplan._kernels.perceptron`.
    history_ : dict of list
        Per epoch: loss (mean over its minibatches, including weight decay) and seconds (since fit started).

    Notes
    -----
    Checked normal rows (-1 in y) are pulled towards the mean of the prior like unlabelled rows. Each is drawn as often
    as a labelled anomaly, but together they make up at most half of the normal rows of a minibatch. `sample_weight`
    changes how often a verdict is drawn.

    If no row is labelled, the 1 % of rows (at least 10) with the highest isolation scores are used instead.

    References
    ----------
    G. Pang, C. Shen, A. van den Hengel: Deep Anomaly Detection with Deviation Networks. KDD 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import DevNet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:50] += 4  # anomalies, of which ten are known
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> scores = DevNet(random_state=0).fit(X, y).anomaly_score(X)
    >>> bool(scores[:50].mean() > scores[50:].mean() + 1)
    True
    """

    margin: float = 5.0

    _output_weights = (1.0,)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("margin", self.margin, "(0, inf)")

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        sampler = HalfAndHalf(*self._parts(X, labelling, rng), int(self.batch_size), rng)
        prior = rng.standard_normal(_PRIOR_DRAWS)
        mean, deviation, margin = prior.mean(), prior.std(), float(self.margin)

        def loss(outputs: Float32s) -> tuple[float, Float32s]:
            losses, slopes = deviation_loss(outputs, sampler.anomalous, mean, deviation, margin)
            return weighted_mean(losses, slopes, sampler.weights), slopes

        hidden_units = check_hidden_units(self.hidden_units)
        sizes = perceptron.layer_sizes(X.shape[1], hidden_units, n_outputs=1)
        self._learn(new_network(sizes, float(self.l2), len(hidden_units), rng), sampler, loss)

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        return product.outputs(self.weights_, self.layer_sizes_, rows)[:, 0]


@compiled
def deviation_loss(
    scores: Float32s, anomalous: NDArray[np.bool_], mean: float, deviation: float, margin: float
) -> tuple[Float32s, Float32s]:
    """Return the deviation loss (Eqs. 6 and 7) of each row, given its score, and the gradient."""
    losses, slopes = np.empty(len(scores), dtype=scores.dtype), np.empty_like(scores)
    for row in range(len(scores)):
        deviations = (scores[row, 0] - mean) / deviation
        if not anomalous[row]:
            losses[row] = abs(deviations)
            slopes[row, 0] = np.sign(deviations) / deviation
        elif deviations < margin:
            losses[row] = margin - deviations
            slopes[row, 0] = -1 / deviation
        else:
            losses[row] = slopes[row, 0] = 0
    return losses, slopes
