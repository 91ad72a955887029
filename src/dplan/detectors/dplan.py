"""DPLAN: deep Q-learning with partially labelled anomalies (Pang et al., KDD 2021)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron, product
from dplan._kernels.compiling import compiling
from dplan._kernels.scaling import no_scale
from dplan.agent.environment import ANOMALOUS, SAMPLERS, STRETCH_ROWS, UNIFORM_ROWS, World, ring_order
from dplan.agent.intrinsic import FEATURES, SCALINGS, new_novelty
from dplan.agent.network import N_ACTIONS, OPTIMIZERS, Learning, new_agent
from dplan.agent.training import Schedule, Training, new_memory, train
from dplan.arrays import Float32s
from dplan.detectors._checks import (
    check_choice,
    check_flag,
    check_hidden_units,
    check_integer,
    check_number,
)
from dplan.detectors._continuing import ContinuingDetector
from dplan.detectors._fields import NETWORK, check_network
from dplan.detectors._rows import Labelling, repeated
from dplan.detectors._terms import NetworkTerm, Term

_COUNTS = {
    "n_steps": 1,
    "episode_steps": 1,
    "warmup_steps": 0,
    "target_update_steps": 1,
    "novelty_update_steps": 1,
    "epsilon_steps": 1,
    "subsample_size": 1,
    "replay_size": 1,
    "batch_size": 1,
    "n_trees": 1,
    "tree_size": 2,
}
_NUMBERS = {
    "epsilon_start": "[0, 1]",
    "epsilon_end": "[0, 1]",
    "labelled_probability": "[0, 1]",
    "discount": "[0, 1)",
    "learning_rate": "(0, inf)",
    "gradient_decay": "[0, 1)",
    "min_squared_gradient": "(0, inf)",
    "momentum": "[0, 1)",
    "l2": "[0, inf)",
    "dropout": "[0, 1)",
}


class DPLAN(ContinuingDetector):
    """Deep Q-learning with partially labelled anomalies.

    An agent moves through the rows of a table and calls each one normal or anomalous. An external reward teaches it
    the labelled anomalies. An intrinsic reward, from an isolation forest in the agent's embedding, is higher for rows
    that are easy to isolate, and makes it explore anomalies that nobody has labelled. After training, Q(s, anomalous)
    is the anomaly score.

    Each parameter says where its default comes from: the paper, the original DQN (Mnih et al. 2015), which the paper
    refers to, or our choice.

    Parameters
    ----------
    hidden_units : int or tuple of int, default=(20,)
        ReLU units per hidden layer. The last hidden layer is the embedding ψ. From the paper.
    dropout : float, default=0.0
        Fraction of units dropped after every hidden layer except the last, during training only. From the paper, whose
        deeper variant DQN⁺ uses 0.9.
    n_steps : int, default=20000
        Total number of training steps, including the warm-up. From the paper.
    episode_steps : int, default=2000
        Steps per episode; the last transition of an episode is terminal. From the paper.
    warmup_steps : int, default=10000
        Steps that only fill the replay memory, before the first gradient step. From the paper.
    target_update_steps : int, default=10000
        The target network, initially zero, becomes a copy of the Q-network every K steps, counting the warm-up. From
        the paper.
    novelty_update_steps : int, default=2000
        The forest of the intrinsic reward is refitted in the current embedding every N steps. From the paper.
    epsilon_start, epsilon_end : float, default=1.0, 0.1
        Probability of a random action at the start and after `epsilon_steps`. From the paper.
    epsilon_steps : int, default=10000
        Steps over which ε decreases linearly, including the warm-up. From the paper.
    labelled_probability : float, default=0.5
        Probability p that the next row is a labelled anomaly. From the paper.
    subsample_size : int, default=1000
        Size of the random subsample S of unlabelled rows from which the next row is selected. From the paper.
    replay_size : int, default=100000
        Capacity of the replay memory in transitions; minibatches are drawn from it with replacement. From the paper.
    batch_size : int, default=32
        Transitions per gradient step. From the original DQN.
    discount : float, default=0.99
        Discount factor γ. From the original DQN.
    learning_rate : float, default=0.00025
        From the original DQN.
    gradient_decay : float, default=0.95
        Decay rate of the running means of the gradient; the original DQN's "gradient momentum".
    min_squared_gradient : float, default=0.01
        Added to the optimiser's denominator. From the original DQN.
    momentum : float, default=0.0
        Momentum of "rmsprop". Our addition; the paper uses none.
    optimizer : {"rmsprop", "dqn"}, default="rmsprop"
        "rmsprop" divides the gradient by √v + `min_squared_gradient`, like the authors' framework (Keras 2.3.1) with
        the paper's settings; "dqn" is the original DQN's centred form, √(v - m² + `min_squared_gradient`). Our choice:
        the paper does not say.
    l2 : float, default=0.01
        Weight decay of the hidden kernels. Our choice: the paper does not say; the same authors' DevNet has it.
    sampler : {"proximity", "uniform", "random"}, default="proximity"
        How unlabelled rows are sampled. "proximity" is the paper's: of the subsample, the row nearest to the current
        one if the agent called it anomalous, else the farthest. "uniform" draws any unlabelled row and keeps p.
        "random" draws uniformly from all rows, as in the paper's ablation REnv.
    intrinsic_reward : bool, default=True
        Whether the isolation forest adds to the reward. From the paper; its ablation ERew switches it off.
    novelty_features : {"embedding", "raw"}, default="embedding"
        What the forest is grown on: the agent's embedding, as in the paper, or the columns themselves. "raw" is our
        addition.
    novelty_scaling : {"minmax", "rank", "none"}, default="minmax"
        How its scores become rewards: by minimum and maximum over the unlabelled rows, by the fraction of unlabelled
        rows with a lower score, or unchanged. Our choice: the paper asks for [0, 1] and does not say how.
    n_trees : int, default=100
        Trees of the forest of the intrinsic reward. iForest's recommendation, as in the paper.
    tree_size : int, default=256
        Rows per tree. iForest's recommendation, as in the paper.
    scale : {"minmax", "rank", "both"} or bool, default=True
        How columns are scaled, using the training rows. True, or "minmax", is the paper's: to [0, 1] by minimum and
        maximum; new rows are not clipped. "rank" replaces a value by its rank in the column, from 0 to 1, and "both" is
        the mean of the two: they spread out columns with a long tail. False leaves values unchanged.
    contamination : float, default=0.02
        Fraction of rows like the unlabelled ones that `predict` reports as anomalies. Only affects the threshold. Our
        choice, equal to the paper's contamination rate.

    Attributes
    ----------
    weights_ : ndarray of float32
        All weights of the Q-network in one vector, in the layout described in `dplan._kernels.perceptron`.
    layer_sizes_ : ndarray of int64
        Units per layer, from the inputs to the two actions.
    column_low_, column_inverse_ : ndarray of float64
        Half the minimum and the inverse of half the range of each column.
    history_ : dict of list
        Per episode: reward (sum over its steps), loss (mean over its gradient steps, NaN in the warm-up), epsilon (at
        its end), anomalous_actions and labelled_rows (fractions of its steps), seconds (since fit started).
    offset_ : float
        Threshold of `decision_function`.
    n_features_in_, feature_names_in_
        As in all scikit-learn estimators.

    Notes
    -----
    Where the paper leaves a choice open, we chose:

    - The reward of a step is h(s_t, a_t) + f(s_t), both for the row that was acted on (Algorithm 1, lines 11 and 12).
    - The loss is the mean of ½ (TD error)² over the minibatch, unclipped.
    - The isolation score is rescaled by its minimum and maximum over (a sample of 5,000 of) the unlabelled rows at each
      refit, and clipped to [0, 1].
    - S is drawn uniformly at every step, without the current row. The unlabelled rows are shuffled once, and S is a
      window at a random position; with more than 100,000 unlabelled rows, the windows of an episode start in a stretch
      of 100,000 rows that is drawn for each episode after the warm-up. With the "uniform" sampler, the
      agent sees a random sample of at most 20,000 unlabelled rows, or `n_steps` if that is more.
    - Algorithm 2 scores by argmax, a misprint for Q(s, a¹), which the text uses.

    If no row is labelled, p is 0.

    Checked normal rows (-1 in y) are our extension; without them, the algorithm is the published one. They are drawn
    too, each as often as a labelled anomaly, but at most half as often as all unlabelled rows were before. Calling one
    anomalous costs a reward of -1, as for an unlabelled row, and it never earns an intrinsic reward: there is nothing
    left to explore. `sample_weight` changes how often a verdict is drawn.

    References
    ----------
    G. Pang, A. van den Hengel, C. Shen, L. Cao: Toward Deep Supervised Anomaly Detection: Reinforcement Learning from
    Partially Labeled Anomaly Data. KDD 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from dplan import DPLAN
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> X[:50] += 4  # anomalies, of which ten are known
    >>> y = np.zeros(1000, dtype=int)
    >>> y[:10] = 1
    >>> detector = DPLAN(random_state=0).fit(X, y)
    >>> scores = detector.anomaly_score(X)
    >>> bool(scores[:50].mean() > scores[50:].mean())
    True
    """

    hidden_units: int | tuple[int, ...] = (20,)
    dropout: float = 0.0
    n_steps: int = 20_000
    episode_steps: int = 2_000
    warmup_steps: int = 10_000
    target_update_steps: int = 10_000
    novelty_update_steps: int = 2_000
    epsilon_start: float = 1.0
    epsilon_end: float = 0.1
    epsilon_steps: int = 10_000
    labelled_probability: float = 0.5
    subsample_size: int = 1_000
    replay_size: int = 100_000
    batch_size: int = 32
    discount: float = 0.99
    learning_rate: float = 0.00025
    gradient_decay: float = 0.95
    min_squared_gradient: float = 0.01
    momentum: float = 0.0
    optimizer: str = "rmsprop"
    l2: float = 0.01
    sampler: str = "proximity"
    intrinsic_reward: bool = True
    novelty_features: str = "embedding"
    novelty_scaling: str = "minmax"
    n_trees: int = 100
    tree_size: int = 256

    round_name = "episode"
    _saved = ContinuingDetector._saved | NETWORK

    def _check_parameters(self) -> None:
        check_hidden_units(self.hidden_units)
        for name, minimum in _COUNTS.items():
            check_integer(name, getattr(self, name), minimum)
        for name, interval in _NUMBERS.items():
            check_number(name, getattr(self, name), interval)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        if self.momentum and self.optimizer != "rmsprop":
            raise ValueError(
                f'momentum requires optimizer="rmsprop", got {self.optimizer!r}; set momentum=0.'
            )
        check_choice("sampler", self.sampler, SAMPLERS)
        check_flag("intrinsic_reward", self.intrinsic_reward)
        check_choice("novelty_features", self.novelty_features, FEATURES)
        check_choice("novelty_scaling", self.novelty_scaling, SCALINGS)

    def _fit(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        self._train(X, labelling, rng)

    def _resume(self, X: NDArray[np.floating], labelling: Labelling, rng: np.random.Generator) -> None:
        self._train(X, labelling, rng, self.weights_)

    def _train_on_scaled(
        self,
        rows: Float32s,
        labelling: Labelling,
        rng: np.random.Generator,
        weights: Float32s | None = None,
    ) -> None:
        """Train as a member of an ensemble, on rows that are already checked and scaled; set no threshold."""
        self.n_features_in_ = rows.shape[1]
        self._keep_scaling(no_scale(rows.shape[1]))
        self.history_ = {}
        self._started = compiling.clock()
        self._train(rows, labelling, rng, weights)

    def _train(
        self,
        X: NDArray[np.floating],
        labelling: Labelling,
        rng: np.random.Generator,
        weights: Float32s | None = None,
    ) -> None:
        """Train a new agent, or continue from the given weights."""
        labelled, unlabelled, checked = labelling.anomalies, labelling.unlabelled, labelling.checked
        p = float(self.labelled_probability) if len(labelled) else 0.0
        checked_probability = (1 - p) * labelling.checked_share(labelled)
        labelled, checked = (repeated(rows, labelling.confidence_in(rows)) for rows in (labelled, checked))
        n_unlabelled = len(unlabelled)
        if self.sampler == "uniform":
            n_unlabelled = int(min(n_unlabelled, max(UNIFORM_ROWS, self.n_steps)))
        repeated_rows = max(self.subsample_size, self.tree_size)
        order = ring_order(labelled, unlabelled, repeated_rows, rng, checked, n_unlabelled)
        world = World(
            rows=self._arrange(X, order),
            n_labelled=len(labelled),
            n_unlabelled=n_unlabelled,
            window=int(min(self.subsample_size, n_unlabelled)),
            stretch=min(STRETCH_ROWS, n_unlabelled),
            labelled_probability=p,
            sampler=SAMPLERS[self.sampler],
            n_checked=len(checked),
            checked_probability=checked_probability,
        )
        agent = new_agent(X.shape[1], check_hidden_units(self.hidden_units), rng)
        schedule = Schedule(**self._as(Schedule))
        if weights is not None:
            agent.theta[:] = agent.target[:] = weights
            warmup_steps = min(schedule.warmup_steps, schedule.episode_steps)
            schedule = schedule._replace(
                warmup_steps=warmup_steps,
                n_steps=max(schedule.n_steps - schedule.warmup_steps, 0) + warmup_steps,
                epsilon_start=schedule.epsilon_end,
            )
        novelty = new_novelty(
            world,
            agent.theta,
            int(self.n_trees),
            int(self.tree_size),
            SCALINGS[self.novelty_scaling],
            FEATURES[self.novelty_features],
        )
        memory = new_memory(int(min(self.replay_size, schedule.n_steps)))
        self.weights_, self.layer_sizes_ = agent.theta, agent.sizes
        training = Training(agent, world, novelty, memory, schedule, Learning(**self._as(Learning)))
        for episode in train(training, rng):
            if self._record(**episode._asdict()):
                break

    def _score(self, rows: Float32s) -> NDArray[np.floating]:
        values = product.outputs(self.weights_, self.layer_sizes_, rows)
        return values[:, ANOMALOUS]

    def _terms(self) -> Sequence[Term]:
        weights = np.zeros(N_ACTIONS)
        weights[ANOMALOUS] = 1.0
        return [NetworkTerm(self.weights_, self.layer_sizes_, weights)]

    def _embed(self, rows: Float32s) -> Float32s:
        embedded: Float32s = perceptron.embed(self.weights_, self.layer_sizes_, rows)
        return embedded

    def _expected_rounds(self) -> int:
        return -(-int(self.n_steps) // int(self.episode_steps))

    def _check_saved(self) -> None:
        super()._check_saved()
        check_network(self, N_ACTIONS)

    def _check_can_continue(self) -> None:
        layers = tuple(self.layer_sizes_[1:-1].tolist())
        if check_hidden_units(self.hidden_units) != layers:
            raise ValueError(
                f"the agent has hidden layers of {layers} units and cannot continue with hidden_units="
                f"{self.hidden_units!r}; keep the original value, or call fit."
            )

    def _as(self, settings: type[Schedule] | type[Learning]) -> dict[str, Any]:
        """Return the parameters that are fields of a settings tuple, converted to the declared types."""
        values = {name: getattr(self, name) for name in settings._fields}
        values = {name: OPTIMIZERS[value] if name == "optimizer" else value for name, value in values.items()}
        return {name: settings.__annotations__[name](value) for name, value in values.items()}
