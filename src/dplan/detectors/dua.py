"""DUA: DevNet with pseudo-anomalies from an unsupervised detector (Pang et al., KDD 2021, Section 5.2)."""

import numpy as np

from dplan.arrays import Float32s
from dplan.detectors._checks import check_number
from dplan.detectors._fields import Array
from dplan.detectors._rows import Indices, Labelling, split_most_isolated
from dplan.detectors.devnet import DevNet

# The shares that the paper tried. It reports results for the best one, the second.
PAPER_SHARES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.04)


class DUA(DevNet):
    """DevNet with an additional detector of unlabelled anomalies.

    An isolation forest on the raw features ranks the unlabelled rows. Those at the top become pseudo-anomalies: they
    are moved from the unlabelled to the labelled rows. Then `DevNet` is trained on both. Checked normal rows never
    become pseudo-anomalies, and are learned as in `DevNet`.

    Parameters
    ----------
    pseudo_share : float, default=0.0005
        Fraction of the unlabelled rows that become pseudo-anomalies, at least one row. The paper tried 0.0001, 0.0005,
        0.001, 0.005, 0.01, 0.02 and 0.04 (`dplan.detectors.dua.PAPER_SHARES`) and reports 0.0005.
    margin : float, default=5.0
        Minimum distance of anomalies from the prior mean, in standard deviations. As in DevNet.
    hidden_units : int or tuple of int, default=(20,)
        ReLU units per hidden layer. As in DevNet.
    n_epochs, epoch_batches, batch_size : int, default=50, 20, 512
        Epochs, minibatches per epoch, rows per minibatch (half of them anomalies or pseudo-anomalies). As in DevNet.
    learning_rate : float, default=0.001
        Learning rate of RMSprop. As in DevNet.
    l2 : float, default=0.01
        Weight decay of the hidden kernels. As in DevNet.

    Attributes
    ----------
    pseudo_anomalies_ : ndarray of int64
        Indices of the training rows that became pseudo-anomalies.
    weights_, layer_sizes_ : ndarray
        The network of the epoch with the lowest loss, in the layout described in `dplan._kernels.perceptron`.
    history_ : dict of list
        Per epoch: loss (mean over its minibatches, including weight decay) and seconds (since fit started).

    Notes
    -----
    If no row is labelled, 1 % of the rows (at least 10) become pseudo-anomalies, because `pseudo_share` would give too
    few anomalies to learn from.

    References
    ----------
    G. Pang, A. van den Hengel, C. Shen, L. Cao: Toward Deep Supervised Anomaly Detection: Reinforcement Learning from
    Partially Labeled Anomaly Data. KDD 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import DUA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:50] += 4  # anomalies, of which ten are known
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> detector = DUA(pseudo_share=0.01, random_state=0).fit(X, y)
    >>> len(detector.pseudo_anomalies_)
    10
    """

    pseudo_share: float = 0.0005

    _saved = DevNet._saved | {"pseudo_anomalies_": Array(np.int64, may_be_empty=True, lowest=0)}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("pseudo_share", self.pseudo_share, "(0, 1)")

    def _split(
        self, rows: Float32s, labelling: Labelling, rng: np.random.Generator
    ) -> tuple[Indices, Indices]:
        labelled, unlabelled = super()._split(rows, labelling, rng)
        if len(labelling.anomalies) == 0:
            self.pseudo_anomalies_ = labelled
            return labelled, unlabelled
        count = max(1, round(self.pseudo_share * len(unlabelled)))
        self.pseudo_anomalies_, unlabelled = split_most_isolated(rows, unlabelled, count, rng)
        return np.concatenate([labelled, self.pseudo_anomalies_]), unlabelled
