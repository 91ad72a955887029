"""DevNet: deviation networks (Pang et al., KDD 2019)."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compile import compiled
from dplan._kernels.perceptron import Floats
from dplan.detectors._checks import check_hidden_units, check_number
from dplan.detectors._deep import DeepDetector, new_network
from dplan.detectors._minibatches import HalfAndHalf, Indices, weighted_mean

_PRIOR_DRAWS = 5_000  # of N(0, 1), the reference scores


class DevNet(DeepDetector):
    """Deviation networks.

    A network learns a score directly: unlabelled rows are pulled to the mean of a Gaussian prior, labelled anomalies
    are pushed at least `margin` of its standard deviations above it.

    Parameters
    ----------
    margin : float, default=5.0
        Standard deviations that part anomalies from the prior's mean. From the paper.
    hidden_units : int or tuple of int, default=(20,)
        ReLU units per hidden layer. From the paper.
    n_epochs, epoch_batches, batch_size : int, default=50, 20, 512
        Epochs, minibatches of an epoch, rows of a minibatch, half of them labelled. From the paper.
    learning_rate : float, default=0.001
        Of RMSprop. From the paper's code, with Keras's other settings; the gradient's norm is clipped to 1.
    l2 : float, default=0.01
        Weight decay on the hidden kernels. From the paper.
    scale : bool, default=True
        Scale every column to [0, 1] by the training rows.
    contamination : float, default=0.02
        Share of rows like the unlabelled ones that `predict` calls anomalous. It sets the threshold and nothing else.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The same seed gives the same bytes.
    callback : callable or None, default=None
        Called after each epoch as ``callback(detector, figures)``; training stops if it returns True. The detector
        scores as it would if training stopped there.
    verbose : int, default=0
        If not 0, one line per epoch is printed, or logged if the logger "dplan" is set up.

    Attributes
    ----------
    weights_, layer_sizes_ : ndarray
        The network of the epoch with the lowest loss, laid out as `dplan._kernels.perceptron` says.
    history_ : dict of list
        Per epoch: loss (mean over its minibatches, weight decay included) and seconds (since the start).

    Notes
    -----
    Without any labelled row, the 1 % of rows (at least 10) that an isolation forest isolates most easily stand in.

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

    def _fit(self, X: NDArray[np.floating], labels: Indices, rng: np.random.Generator) -> None:
        sampler = HalfAndHalf(*self._parts(X, labels, rng), int(self.batch_size), rng)
        prior = rng.standard_normal(_PRIOR_DRAWS)
        mean, deviation, margin = prior.mean(), prior.std(), float(self.margin)

        def loss(outputs: Floats) -> tuple[float, Floats]:
            losses, slopes = deviation_loss(outputs, sampler.anomalous, mean, deviation, margin)
            return weighted_mean(losses, slopes, sampler.weights), slopes

        hidden_units = check_hidden_units(self.hidden_units)
        sizes = perceptron.layer_sizes(X.shape[1], hidden_units, n_outputs=1)
        self._learn(new_network(sizes, float(self.l2), len(hidden_units), rng), sampler, loss)

    def _score(self, rows: Floats) -> NDArray[np.floating]:
        return product.outputs(self.weights_, self.layer_sizes_, rows)[:, 0]


@compiled
def deviation_loss(
    scores: Floats, anomalous: NDArray[np.bool_], mean: float, deviation: float, margin: float
) -> tuple[Floats, Floats]:
    """Return the deviation loss (Eqs. 6 and 7) of each row of rows × 1 scores, and its gradient by the score."""
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
